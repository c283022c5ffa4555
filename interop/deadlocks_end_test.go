//go:build unix

package interop

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast"
	"holdfast/deadlock"
	"holdfast/internal/cyclewatch"
	"holdfast/internal/locks"
	"holdfast/internal/waitgraph"
	"holdfast/layout"
	"holdfast/zk"
)

var deadlocks = flag.Int("deadlocks", 16, "how many deadlocks TestDeadlocksBetweenLibrariesEnd plants, eight at a time; more than 16 are also timed strictly")

// A ringKind is a kind of lock, and the recipes for it in other libraries, or "".
type ringKind struct {
	java, python string
	ours         func(c *zk.Client, path string, waits bool, opts ...holdfast.Option) holdfast.Locker
}

// in returns the options for a layout.
func in(l holdfast.Layout, opts []holdfast.Option) []holdfast.Option {
	return append(slices.Clip(opts), holdfast.WithLayout(l))
}

// ringKinds are the locks in deadlocks. Curator's mutex does not respect writers, so each lock is of one kind.
var ringKinds = []ringKind{
	{java: "mutex", ours: func(c *zk.Client, path string, _ bool, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewMutex(c, path, opts...)
	}},
	{java: "write", ours: func(c *zk.Client, path string, _ bool, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewRWMutex(c, path, opts...)
	}},
	{java: "semaphore", ours: func(c *zk.Client, path string, _ bool, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewSemaphore(c, path, 1, opts...).Locker(1)
	}},
	{python: "lock", ours: func(c *zk.Client, path string, _ bool, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewMutex(c, path, in(layout.Kazoo, opts)...)
	}},
	{python: "write", ours: func(c *zk.Client, path string, _ bool, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewRWMutex(c, path, in(layout.Kazoo, opts)...)
	}},
	{python: "semaphore", ours: func(c *zk.Client, path string, _ bool, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewSemaphore(c, path, 1, in(layout.Kazoo, opts)...).Locker(1)
	}},
	{ours: func(c *zk.Client, path string, waits bool, opts ...holdfast.Option) holdfast.Locker {
		n := 1
		if waits {
			n = 3 // two are free
		}
		return holdfast.NewSemaphore(c, path, 3, opts...).Locker(n)
	}},
}

// A ringMember holds lock i of its ring, and waits for the next one.
type ringMember struct {
	program *lockProgram // of another library; nil: ours
	actor   string
	recipes [2]string

	client *zk.Client
	hold   *holdfast.Hold
	yields bool
	giveUp context.CancelFunc // ends the wait
	ended  chan ringEnd       // of the wait
	told   chan time.Time
}

// A ringEnd is how a wait has ended, and when.
type ringEnd struct {
	err error
	at  time.Time
}

// A ring is a planted deadlock.
type ring struct {
	*stage
	dir     string
	kinds   []ringKind
	members []*ringMember
	order   []int // of the waits
	closed  time.Time
}

func (r *ring) path(i int) string { return fmt.Sprintf("%s/l%d", r.dir, i%len(r.kinds)) }

// plant makes the members of a ring, and their first locks. At least one member is ours. The waits of ours yield, at least
// one of them, or they are told.
func (s *stage) plant(rng *rand.Rand, number, n int, yield bool) *ring {
	r := &ring{stage: s, dir: s.directory(fmt.Sprintf("ring%d", number)), order: rng.Perm(n)}
	first := rng.IntN(len(ringKinds))
	for range n { // neighbours are often of one library
		if rng.IntN(3) == 0 {
			first = rng.IntN(len(ringKinds))
		}
		r.kinds = append(r.kinds, ringKinds[first])
	}
	sure := rng.IntN(n)
	for i, kind := range r.kinds {
		next := r.kinds[(i+1)%n]
		m := &ringMember{ended: make(chan ringEnd, 1), told: make(chan time.Time, 1)}
		switch {
		case i != sure && kind.java != "" && next.java != "" && rng.IntN(4) > 0:
			m.program, m.actor, m.recipes = s.java, s.java.actor(), [2]string{kind.java, next.java}
		case i != sure && kind.python != "" && next.python != "" && rng.IntN(4) > 0:
			m.program, m.actor, m.recipes = s.python, s.python.actor(), [2]string{kind.python, next.python}
		}
		if m.program != nil {
			m.program.do(s.t, fmt.Sprintf("%s acquire %s %s", m.actor, m.recipes[0], r.path(i)))
		} else {
			m.client, m.yields = dialURL(s.t, "zk://"+s.addr), yield && (i == sure || rng.IntN(2) == 0)
			h, err := kind.ours(m.client, r.path(i), false).Lock(s.ctx)
			must(s.t, err)
			m.hold = h
		}
		r.members = append(r.members, m)
	}
	return r
}

// wait begins the wait of a member.
func (r *ring) wait(i int) {
	m, next := r.members[i], i+1
	if m.program != nil {
		m.program.tell(r.t, fmt.Sprintf("%s acquire %s %s", m.actor, m.recipes[1], r.path(next)))
		return
	}
	ctx, cancel := context.WithCancel(m.hold.Context())
	r.t.Cleanup(cancel)
	m.giveUp = cancel
	var opts []holdfast.Option
	if m.yields {
		opts = append(opts, deadlock.Detect())
	}
	go func() {
		h, err := r.kinds[next%len(r.kinds)].ours(m.client, r.path(next), true, opts...).Lock(ctx)
		end := ringEnd{at: time.Now()}
		if err == nil {
			err = h.Unlock()
		}
		end.err = errors.Join(err, m.hold.Unlock())
		m.ended <- end
	}()
	w := cyclewatch.Watch{Client: m.client, Prefixes: []string{r.dir + "/"}}
	go w.Run(ctx, func(*cyclewatch.Found) {
		select {
		case m.told <- time.Now():
		default:
		}
	})
}

// waits is a reading of the ring's locks, and how many wait.
func (r *ring) waits() (g *waitgraph.Graph, waits int) {
	r.t.Helper()
	found, err := locks.Read(r.ctx, r.admin, locks.Query{Prefix: r.dir + "/"})
	must(r.t, err)
	g = waitgraph.Analyze(found.Graph())
	for _, o := range g.Owners {
		waits += len(o.Waits)
	}
	return g, waits
}

// early returns a member that has ended its wait, or was told, before there is a deadlock.
func (r *ring) early() string {
	for i, m := range r.members {
		if len(m.told) > 0 || len(m.ended) > 0 {
			return fmt.Sprintf("member %d of %s was told, or gave up, before there was a deadlock", i, r.dir)
		}
	}
	return ""
}

// victim returns the member that has to give up: the youngest wait that yields. Without one, it is the first of ours.
func (r *ring) victim() int {
	for _, i := range slices.Backward(r.order) {
		if r.members[i].yields {
			return i
		}
	}
	return slices.IndexFunc(r.members, func(m *ringMember) bool { return m.program == nil })
}

// resolve waits until the ring's members are told, or the victim has given up, and for all others to get both locks. It returns
// how long that took.
func (r *ring) resolve() (told, gaveUp []time.Duration) {
	v := r.victim()
	victim := r.members[v]
	if victim.yields {
		end := r.end(v)
		gaveUp = append(gaveUp, end.at.Sub(r.closed))
		var cycle *deadlock.Error
		if !errors.As(end.err, &cycle) || len(cycle.Waits) != len(r.members) {
			r.t.Fatalf("%s: member %d of %d: %v; want a deadlock of all", r.dir, v, len(r.members), end.err)
		}
	} else {
		for i, m := range r.members {
			if m.program == nil {
				select {
				case at := <-m.told:
					told = append(told, at.Sub(r.closed))
				case <-time.After(stepTime):
					r.t.Fatalf("%s: member %d is not told", r.dir, i)
				}
			}
		}
		victim.giveUp()
		if end := r.end(v); !errors.Is(end.err, context.Canceled) {
			r.t.Fatalf("%s: member %d: %v", r.dir, v, end.err)
		}
	}
	for back := 1; back < len(r.members); back++ { // those that waited for the victim come first
		i := (v - back + len(r.members)) % len(r.members)
		m := r.members[i]
		if m.program == nil {
			if end := r.end(i); end.err != nil {
				r.t.Fatalf("%s: member %d: %v; want both locks", r.dir, i, end.err)
			}
			continue
		}
		if got := m.program.answer(r.t, fmt.Sprintf("%s acquire %s %s", m.actor, m.recipes[1], r.path(i+1))); got != "done" {
			r.t.Fatalf("%s: member %d: %s", r.dir, i, got)
		}
		if _, ok, err := r.admin.Exists(r.ctx, r.path(i)); err != nil || !ok {
			r.t.Fatalf("%s: the lock of member %d: %v, %v", r.dir, i, ok, err)
		}
		m.program.do(r.t, fmt.Sprintf("%s release %s %s", m.actor, m.recipes[1], r.path(i+1)))
		m.program.do(r.t, fmt.Sprintf("%s release %s %s", m.actor, m.recipes[0], r.path(i)))
	}
	return told, gaveUp
}

// end returns the end of a wait of ours.
func (r *ring) end(i int) ringEnd {
	select {
	case end := <-r.members[i].ended:
		return end
	case <-time.After(stepTime):
		g, _ := r.waits()
		r.t.Fatalf("%s: the wait of member %d lasts, in\n%+v", r.dir, i, g.Locks)
		return ringEnd{}
	}
}

// Deadlocks of two to five between processes of Curator and kazoo and clients of ours end: the youngest wait of ours with the
// option gives up within three seconds, and all others get both locks. Without the option, each waiter of ours is told within
// two seconds. Before the last wait, nobody is told, and nobody gives up. No node of theirs is removed: their releases succeed.
func TestDeadlocksBetweenLibrariesEnd(t *testing.T) {
	const atOnce, perStage = 8, 64
	var told, gaveUp []time.Duration
	for from := 0; from < *deadlocks; from += perStage {
		t.Run(fmt.Sprintf("from %d", from), func(t *testing.T) {
			s := newStage(t)
			for first := from; first < min(from+perStage, *deadlocks); first += atOnce {
				var rings []*ring
				for number := first; number < min(first+atOnce, *deadlocks); number++ {
					rng := rand.New(rand.NewPCG(uint64(number), 1))
					r := s.plant(rng, number, 2+number%4, number/4%2 == 0)
					for at, i := range r.order[:len(r.order)-1] {
						r.wait(i)
						s.await(func() string {
							if g, n := r.waits(); n != at+1 || len(g.Cycles) > 0 {
								return fmt.Sprintf("%d waiters, %d cycles; want %d and none", n, len(g.Cycles), at+1)
							}
							return ""
						})
					}
					rings = append(rings, r)
				}
				time.Sleep(1500 * time.Millisecond) // they have looked once
				for _, r := range rings {
					if e := r.early(); e != "" {
						t.Fatal(e)
					}
					r.closed = time.Now()
					r.wait(r.order[len(r.order)-1])
				}
				for _, r := range rings {
					a, b := r.resolve()
					told, gaveUp = append(told, a...), append(gaveUp, b...)
				}
			}
		})
	}
	if t.Failed() {
		return
	}
	slack := 3 * time.Second // this machine may do other things
	if *deadlocks > 16 {
		slack = 0
	}
	var late []string
	for _, of := range []struct {
		what  string
		took  []time.Duration
		limit time.Duration
	}{{"told", told, 2 * time.Second}, {"gave up", gaveUp, 3 * time.Second}} {
		if len(of.took) == 0 {
			t.Fatalf("nobody %s", of.what)
		}
		if worst := slices.Max(of.took); worst > of.limit+slack {
			late = append(late, fmt.Sprintf("%s after %v; want %v", of.what, worst, of.limit))
		}
	}
	if len(late) > 0 {
		t.Error(strings.Join(late, "; "))
	}
	measured(t, "%d deadlocks: told %s; gave up %s", *deadlocks, percentiles(told), percentiles(gaveUp))
}
