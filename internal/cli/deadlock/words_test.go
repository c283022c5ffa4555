package deadlock

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"holdfast/internal/cyclewatch"
	"holdfast/internal/waitgraph"
)

// A state is locks and queues as a reading finds them. Owner i has the sessions 10i+1 and, within it, 10i+2.
type state struct {
	rng   *rand.Rand
	locks []waitgraph.Lock
	zxid  int64
}

func newState(rng *rand.Rand, locks int) *state {
	s := &state{rng: rng}
	for i := range locks {
		l := waitgraph.Lock{Path: fmt.Sprintf("/holdfast/locks/%d", i), Layout: []string{"curator", "kazoo", "writelock"}[rng.IntN(3)], Kind: "lock"}
		if rng.IntN(4) == 0 {
			l.Kind, l.Counted, l.Limit = "semaphore", true, 1+rng.IntN(2)
		}
		s.locks = append(s.locks, l)
	}
	return s
}

// ask joins the queue of a lock, and reports whether the owner has the lock at once.
func (s *state) ask(owner, lock int) bool {
	s.zxid++
	l := &s.locks[lock]
	p := waitgraph.Place{
		Node: fmt.Sprintf("%s/%d", l.Path, s.zxid), Zxid: s.zxid, Session: int64(10*owner + 1), Since: time.Unix(s.zxid, 0),
		Shared: !l.Counted && s.rng.IntN(3) == 0,
	}
	if l.Layout == "curator" {
		p.Owner = fmt.Sprintf("owner %d", owner)
	}
	if s.rng.IntN(2) == 0 {
		p.Session, p.Within = int64(10*owner+2), int64(10*owner+1)
	}
	if l.Counted && len(l.Queue) == 0 && len(l.Permits) < l.Limit {
		l.Permits = append(l.Permits, p)
		return true
	}
	free := !l.Counted
	for _, q := range l.Queue {
		free = free && q.Shared && p.Shared
	}
	l.Queue = append(l.Queue, p)
	return free
}

// told returns what each of the owners is told.
func (s *state) told(owners int) map[int]*Deadlock {
	all := make(map[int]*Deadlock)
	g := waitgraph.Analyze(s.locks)
	for o := range owners {
		for session := range int64(2) {
			w := &Watch{LockName: func(path string) string { return path }, Called: "this command", End: "kill 42"}
			if d := w.inWords(cyclewatch.Find(g, int64(10*o+1)+session)); d != nil {
				all[o] = d
			}
		}
	}
	return all
}

// In states without a cycle, nobody is told of one: each owner acquires its locks in the order of their numbers.
func TestNobodyIsToldWithoutACycle(t *testing.T) {
	waiters := 0
	for seed := range uint64(10_000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s := newState(rng, 3+rng.IntN(6))
		owners := 2 + rng.IntN(7)
		next, waits := make([]int, owners), make([]bool, owners)
		for range 40 {
			o := rng.IntN(owners)
			if waits[o] || next[o] >= len(s.locks) {
				continue
			}
			lock := next[o] + rng.IntN(len(s.locks)-next[o])
			next[o], waits[o] = lock+1, !s.ask(o, lock)
			if waits[o] {
				waiters++
			}
		}
		if told := s.told(owners); len(told) > 0 {
			t.Fatalf("seed %d: %v in\n%+v", seed, told, s.locks)
		}
	}
	if waiters < 10_000 {
		t.Errorf("%d waiters in all states; the test needs more", waiters)
	}
}

// With a cycle among them, its owners are told, and the others are not.
func TestTheOwnersOfACycleAreTold(t *testing.T) {
	for seed := range uint64(2_000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		n := 2 + rng.IntN(4)
		s := newState(rng, n)
		for i := range s.locks {
			if s.locks[i].Counted {
				s.locks[i].Limit = 1
			}
		}
		for o := range n {
			s.ask(o, o)
		}
		for o := range n {
			s.ask(o, (o+1)%n)
		}
		s.ask(n, 0) // behind the cycle
		for i := range s.locks {
			for j := range s.locks[i].Queue {
				s.locks[i].Queue[j].Shared = false
			}
		}
		told := s.told(n + 1)
		if len(told) != n || told[n] != nil {
			t.Fatalf("seed %d: %d of %d owners are told", seed, len(told), n)
		}
		for o, d := range told {
			if strings.Count(d.Cycle, "this command") != 2 || !strings.HasPrefix(d.End, "to end it: holdfast break --token ") && !strings.HasPrefix(d.End, "to end it: holdfast sessions end 0x") && !strings.HasPrefix(d.End, "to end it: kill 42 ") {
				t.Fatalf("seed %d: owner %d is told %+v", seed, o, d)
			}
		}
	}
}

func TestShellWord(t *testing.T) {
	for name, want := range map[string]string{
		"db/migrate": "db/migrate", "a b": "'a b'", "it's": `'it'\''s'`, "$x": "'$x'", "a_1.b:c@d-e%2F": "a_1.b:c@d-e%2F", "ä": "'ä'", "a;b": "'a;b'",
	} {
		if got := shellWord(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}
