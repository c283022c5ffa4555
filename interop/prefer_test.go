//go:build unix

package interop

import (
	"slices"
	"testing"
	"time"

	"holdfast"
)

// Candidates of other libraries have no preference, and ours never disturb them: a preferred candidate waits for those
// ahead, and for a leader. Ours pass each other only.
func TestPreferredCandidatesBesideOthers(t *testing.T) {
	s := newStage(t)
	for recipe, library := range map[string]struct {
		layout string
		peers  *lockProgram
	}{"latch": {"leaderlatch", s.java}, "election": {"kazoo", s.python}} {
		t.Run(library.layout, func(t *testing.T) {
			preferredBeside(t, s.in(t), library.peers, recipe, library.layout)
		})
	}
}

// failback is that of the candidates of preferredBeside.
const failback = 100 * time.Millisecond

func preferredBeside(t *testing.T, s *stage, peers *lockProgram, recipe, layout string) {
	in, err := holdfast.ParseLayout(layout)
	must(t, err)
	dir := s.directory("preferred-" + layout)
	got := make(chan string, 4)
	release := map[string]chan struct{}{"1": make(chan struct{}), "2": make(chan struct{})}
	ours := func(value string, n int) {
		e := holdfast.NewElection(dialURL(t, "zk://"+s.addr), dir, holdfast.WithLayout(in), holdfast.WithPreference(n, failback))
		go func() {
			h, err := e.Campaign(s.ctx, []byte(value))
			if err != nil {
				t.Error(err)
				return
			}
			got <- value
			select {
			case <-release[value]:
			case <-s.ctx.Done():
			}
			if err := h.Unlock(); err != nil {
				t.Error(err)
			}
		}()
	}
	leads := func(want string) {
		t.Helper()
		select {
		case value := <-got:
			if value != want {
				t.Fatalf("%s leads; want %s", value, want)
			}
		case <-time.After(stepTime):
			t.Fatalf("%s does not lead", want)
		}
	}
	undisturbed := func(nodes ...string) {
		t.Helper()
		select {
		case value := <-got:
			t.Fatalf("%s leads beside a candidate of another library", value)
		case <-time.After(10 * failback):
		}
		now, _, err := s.admin.Children(s.ctx, dir)
		must(t, err)
		for _, node := range nodes {
			if !slices.Contains(now, node) {
				t.Fatalf("the node %s of another library has gone: %v", node, now)
			}
		}
	}

	first, second := peers.actor(), peers.actor()
	peers.do(t, first+" acquire "+recipe+" "+dir)
	leader := s.children(dir, 1)[0]
	ours("1", 1)
	s.children(dir, 2)
	peers.tell(t, second+" acquire "+recipe+" "+dir)
	waiter := s.children(dir, 3)[2]
	ours("2", 2)
	undisturbed(leader, waiter)

	// Ours are all behind the other library's waiter now: 1 has stepped behind 2.
	s.await(func() string {
		if line := s.children(dir, 4); line[0] != leader || line[1] != waiter {
			return "1 does not step behind 2"
		}
		return ""
	})
	peers.do(t, first+" release "+recipe+" "+dir)
	if answer := peers.answer(t, second+" acquire "+recipe+" "+dir); answer != "done" {
		t.Fatal(answer)
	}
	undisturbed(waiter)
	peers.do(t, second+" release "+recipe+" "+dir)
	leads("2")

	// It does not hand over to others, and they wait for it.
	peers.tell(t, first+" acquire "+recipe+" "+dir)
	waiter = s.children(dir, 3)[2]
	undisturbed(waiter)
	close(release["2"])
	leads("1")
	undisturbed(waiter)
	close(release["1"])
	if answer := peers.answer(t, first+" acquire "+recipe+" "+dir); answer != "done" {
		t.Fatal(answer)
	}
	peers.do(t, first+" release "+recipe+" "+dir)
	s.children(dir, 0)
}
