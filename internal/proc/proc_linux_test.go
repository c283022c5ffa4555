package proc

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

func now(context.Context) (func(), error) { return func() {}, nil }

// start starts a process that ends with its input.
func start(t *testing.T) (pid int, end func()) {
	t.Helper()
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	return cmd.Process.Pid, func() { in.Close(); cmd.Wait() }
}

func groupOf(t *testing.T, pids ...int) Group {
	t.Helper()
	g, err := Self()
	if err != nil {
		t.Skip(err)
	}
	for _, pid := range pids {
		if g, err = g.With(pid); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

func (g Group) others() Group {
	g.IDs = slices.Clone(g.IDs[1:])
	return g
}

func TestWaitIsForAllProcesses(t *testing.T) {
	first, endFirst := start(t)
	second, endSecond := start(t)
	g := groupOf(t, first, second).others()
	if len(g.IDs) != 2 {
		t.Fatalf("%d processes, want 2", len(g.IDs))
	}
	ended := make(chan error, 1)
	go func() { ended <- g.Wait(t.Context(), now) }()
	endSecond()
	select {
	case err := <-ended:
		t.Fatalf("Wait returned %v while a process lives", err)
	case <-time.After(20 * time.Millisecond):
	}
	endFirst()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := g.Wait(t.Context(), nil); err != nil { // both are dead: there is no pause
		t.Error(err)
	}
}

// A process is not the one that had its id before.
func TestALaterProcessWithTheIDIsAnother(t *testing.T) {
	pid, _ := start(t)
	g := groupOf(t, pid).others()
	g.IDs[0].Start--
	if err := g.Wait(t.Context(), nil); err != nil {
		t.Error(err)
	}
	self := groupOf(t)
	self.IDs[0].Start--
	if self.ConfirmSelf() == nil {
		t.Error("this process is confirmed as an earlier one")
	}
}

// A process that cannot be examined is not taken for dead.
func TestUnknownIsAlive(t *testing.T) {
	pid, end := start(t)
	g := groupOf(t, pid).others()
	end()
	for name, change := range map[string]func(*Group){
		"another namespace": func(g *Group) { g.Namespace++ },
		"another boot":      func(g *Group) { g.Boot[3]++ },
	} {
		g := g
		change(&g)
		if err := g.Wait(t.Context(), now); err == nil {
			t.Errorf("%s: dead", name)
		}
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	g := groupOf(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	time.AfterFunc(10*time.Millisecond, func() { cancel(cause) })
	if err := g.Wait(ctx, now); err != cause {
		t.Errorf("Wait returned %v", err)
	}
	if err := g.Wait(t.Context(), func(context.Context) (func(), error) { return nil, cause }); err != cause {
		t.Errorf("Wait returned %v without a pause", err)
	}
}

func TestWithDropsTheDead(t *testing.T) {
	dead, end := start(t)
	g := groupOf(t, dead)
	end()
	living, _ := start(t)
	g, err := g.With(living)
	if err != nil || len(g.IDs) != 2 || g.IDs[0].PID != int32(os.Getpid()) || g.IDs[1].PID != int32(living) {
		t.Errorf("%v, %v", g.IDs, err)
	}
	if again, err := g.With(living); err != nil || !again.Equal(g) {
		t.Errorf("%v, %v", again.IDs, err)
	}
}

// The kernel writes the name of a process as it is.
func TestStartTimeBehindAStrangeName(t *testing.T) {
	sleep, err := exec.LookPath("cat")
	if err != nil {
		t.Skip(err)
	}
	name := t.TempDir() + "/x) S 1 2 (3"
	if err := os.Symlink(sleep, name); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	a, err := startOf(cmd.Process.Pid)
	b, err2 := startOf(os.Getpid())
	if err != nil || err2 != nil || a < b {
		t.Errorf("start times %d and %d: %v, %v", a, b, err, err2)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add((Group{Namespace: 1, IDs: []ID{{1, 2}, {3, 4}}}).Append(nil))
	f.Add([]byte(strings.Repeat("x", 36)))
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := Decode(b)
		if err == nil && string(g.Append(nil)) != string(b) {
			t.Errorf("%x", g.Append(nil))
		}
	})
}

// Gone is certain: what another boot, another namespace or a later process with the same id says does not count.
func TestGoneIsOfTheVeryProcess(t *testing.T) {
	pid, end := start(t)
	g := groupOf(t, pid).others()
	later, elsewhere, rebooted := g, g, g
	later.IDs = []ID{{g.IDs[0].PID, g.IDs[0].Start - 1}}
	elsewhere.Namespace++
	rebooted.Boot[0]++
	check := func(when string, g Group, want bool) {
		t.Helper()
		if got := g.Gone(); got != want {
			t.Errorf("%s: gone is %v", when, got)
		}
	}
	check("it lives", g, false)
	check("another process has its id", later, true)
	check("no process", Group{}, false)
	both := groupOf(t, pid)
	end()
	check("it has ended", g, true)
	check("one of two has ended", both, false)
	check("in another namespace", elsewhere, false)
	check("in another boot", rebooted, false)
}
