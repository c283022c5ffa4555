//go:build unix

package interop

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"holdfast"
	"holdfast/internal/locks"
	"holdfast/internal/waitgraph"
	"holdfast/layout"
)

// A process of a library that takes part in a deadlock.
type deadlocked interface {
	hold(dir string)
	await(dir string)
}

// theirs is an actor of Curator or kazoo.
type theirs struct {
	*stage
	program *lockProgram
	name    string
	recipes [2]string // to hold the lock, and to wait for the next one
}

func (p theirs) hold(dir string) {
	p.program.do(p.t, fmt.Sprintf("%s acquire %s %s", p.name, p.recipes[0], dir))
}

func (p theirs) await(dir string) {
	p.program.tell(p.t, fmt.Sprintf("%s acquire %s %s", p.name, p.recipes[1], dir))
}

// ourOwn is a session of ours.
type ourOwn struct {
	*stage
	ctx    context.Context
	locker [2]func(dir string) holdfast.Locker
}

func (p ourOwn) hold(dir string) {
	_, err := p.locker[0](dir).Lock(p.ctx)
	must(p.t, err)
}

func (p ourOwn) await(dir string) { go p.locker[1](dir).Lock(p.ctx) }

// Deadlocks between processes of several libraries are found, and not before the last wait. Each process holds
// the lock of its place in the circle and waits for the next one.
func TestDeadlocksBetweenLibrariesAreFound(t *testing.T) {
	s := newStage(t)
	java := func(hold, await string) func(*stage) deadlocked {
		return func(s *stage) deadlocked { return theirs{s, s.java, s.java.actor(), [2]string{hold, await}} }
	}
	python := func(hold, await string) func(*stage) deadlocked {
		return func(s *stage) deadlocked { return theirs{s, s.python, s.python.actor(), [2]string{hold, await}} }
	}
	// Curator's mutex does not respect writers.
	our := func(hold, await holdfast.Layout, writer bool) func(*stage) deadlocked {
		return func(s *stage) deadlocked {
			ctx, cancel := context.WithCancel(s.ctx)
			c := dialURL(s.t, "zk://"+s.addr)
			s.t.Cleanup(cancel)
			in := func(l holdfast.Layout) func(string) holdfast.Locker {
				return func(dir string) holdfast.Locker {
					if writer {
						return holdfast.NewRWMutex(c, dir, holdfast.WithLayout(l))
					}
					return holdfast.NewMutex(c, dir, holdfast.WithLayout(l))
				}
			}
			return ourOwn{s, ctx, [2]func(string) holdfast.Locker{in(hold), in(await)}}
		}
	}
	pool := func(s *stage) deadlocked { // kazoo's semaphore with one permit
		ctx, cancel := context.WithCancel(s.ctx)
		c := dialURL(s.t, "zk://"+s.addr)
		s.t.Cleanup(cancel)
		of := func(dir string) holdfast.Locker {
			return holdfast.NewSemaphore(c, dir, 1, holdfast.WithLayout(layout.Kazoo)).Locker(1)
		}
		return ourOwn{s, ctx, [2]func(string) holdfast.Locker{of, of}}
	}
	curator, kazoo := layout.Curator, layout.Kazoo
	for i, tt := range []struct {
		name   string
		circle []func(*stage) deadlocked
	}{
		{"two of Curator", []func(*stage) deadlocked{java("mutex", "mutex"), java("mutex", "mutex")}},
		{"two of kazoo", []func(*stage) deadlocked{python("lock", "lock"), python("lock", "lock")}},
		{"Curator and we", []func(*stage) deadlocked{java("mutex", "mutex"), our(curator, curator, false), java("mutex", "mutex")}},
		{"Curator's readers and writers", []func(*stage) deadlocked{java("read", "write"), java("read", "write"), our(curator, curator, true)}},
		{"kazoo's readers and writers, and we", []func(*stage) deadlocked{python("read", "write"), our(kazoo, kazoo, false), python("write", "write")}},
		{"kazoo's semaphore", []func(*stage) deadlocked{python("semaphore", "semaphore"), pool, python("semaphore", "semaphore")}},
		{"five, over both", []func(*stage) deadlocked{
			java("mutex", "mutex"), java("mutex", "mutex"), our(curator, kazoo, false), python("lock", "lock"), our(kazoo, curator, false),
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := s.in(t)
			root := s.directory(fmt.Sprintf("deadlock%d", i))
			dir := func(i int) string { return fmt.Sprintf("%s/l%d", root, i%len(tt.circle)) }
			look := func() *waitgraph.Graph {
				found, err := locks.Read(s.ctx, s.admin, locks.Query{Prefix: root + "/"})
				must(t, err)
				return waitgraph.Analyze(found.Graph())
			}
			var all []deadlocked
			for i, begin := range tt.circle {
				p := begin(s)
				p.hold(dir(i))
				all = append(all, p)
			}
			for i, p := range all {
				if g := look(); len(g.Cycles) > 0 {
					t.Fatalf("a cycle with %d of %d waits", i, len(all))
				}
				p.await(dir(i + 1))
				s.await(func() string {
					waiting := 0
					for _, o := range look().Owners {
						waiting += len(o.Waits)
					}
					if waiting != i+1 {
						return fmt.Sprintf("%d waiters; want %d", waiting, i+1)
					}
					return ""
				})
			}
			first, err := locks.Read(s.ctx, s.admin, locks.Query{Prefix: root + "/"})
			must(t, err)
			again, err := locks.Again(s.ctx, s.admin, first.Graph(), nil)
			must(t, err)
			g := waitgraph.Analyze(waitgraph.Stable(first.Graph(), again))
			if len(g.Cycles) != 1 || len(g.Cycles[0].Owners) != len(all) {
				t.Fatalf("cycles %+v; want one of %d owners in\n%+v", g.Cycles, len(all), g.Locks)
			}
			for _, o := range g.Cycles[0].Owners {
				if len(g.Owners[o].Sessions) != 1 || slices.Contains(g.Owners[o].Sessions, 0) {
					t.Errorf("owner %+v; want one session", g.Owners[o])
				}
			}
			// The victim's session ends: nobody is stuck any more.
			s.end(g.Owners[g.Cycles[0].Victim].Sessions[0], g)
			s.await(func() string {
				if n := len(look().Cycles); n > 0 {
					return fmt.Sprintf("%d cycles after the victim's end", n)
				}
				return ""
			})
		})
	}
}

// end removes the nodes of a session, as its end would.
func (s *stage) end(session int64, g *waitgraph.Graph) {
	s.t.Helper()
	for _, l := range g.Locks {
		for _, p := range slices.Concat(l.Permits, l.Queue) {
			if p.Session == session {
				must(s.t, s.admin.Delete(s.ctx, p.Node, -1))
			}
		}
	}
}
