package supervise

import (
	"reflect"
	"testing"
	"time"
)

func TestOrdersPassThroughTheSharedMemory(t *testing.T) {
	m, err := newShared()
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	for _, o := range []order{
		{command: Command{Path: "/bin/true", Args: []string{"true"}}, ending: Ending{Grace: time.Second}},
		{command: Command{Path: "/bin/a b", Args: []string{"", "\xff\n", "x"}, Env: []string{"A=", "B=\xc3\x28"}}, ending: Ending{1, 2, 3, 4, 5, 6, 7, 8, 9}, lender: 4711},
	} {
		n, err := m.write(o)
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.read(n)
		if len(got.command.Env) == 0 {
			got.command.Env = nil
		}
		if err != nil || !reflect.DeepEqual(got, o) {
			t.Errorf("read %+v, %v; want %+v", got, err, o)
		}
		for cut := range n {
			if got, err := m.read(cut); err == nil && reflect.DeepEqual(got, o) {
				t.Errorf("a message of %d bytes reads the same from its first %d", n, cut)
			}
		}
	}
	if _, err := m.write(order{command: Command{Path: "/bin/true", Args: []string{"a\x00b"}}}); err != errNul {
		t.Errorf("a NUL byte: %v; want %v", err, errNul)
	}
}

func TestDeadlineIsSharedAndTellsIfItIsEarlier(t *testing.T) {
	m, err := newShared()
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	for _, step := range []struct {
		left    time.Duration
		earlier bool
	}{{time.Hour, false}, {2 * time.Hour, false}, {time.Minute, true}, {time.Minute, false}} {
		if got := m.publish(clock() + step.left); got != step.earlier {
			t.Errorf("publish %v: earlier %v; want %v", step.left, got, step.earlier)
		}
		if d := step.left - m.left(); d < 0 || d > time.Second {
			t.Errorf("%v are left; want %v", m.left(), step.left)
		}
	}
}
