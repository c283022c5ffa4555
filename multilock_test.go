package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zktest"
)

func mutexes(c *zk.Client, names ...string) []holdfast.Locker {
	var ls []holdfast.Locker
	for _, n := range names {
		ls = append(ls, holdfast.NewMutex(c, lockPath+"/"+n))
	}
	return ls
}

// tokenOf returns the token of one of the locks that h holds, or 0.
func tokenOf(h *holdfast.Hold, path string) int64 {
	for _, t := range h.Tokens() {
		if t.Path == path {
			return t.Token
		}
	}
	return 0
}

// wantNoNodes checks that the queues of the locks below lockPath are empty.
func wantNoNodes(t *testing.T, c *zk.Client) {
	t.Helper()
	names, err := c.Ephemerals(t.Context(), lockPath)
	if err != nil || len(names) != 0 {
		t.Errorf("nodes of this session are left: %v, %v", names, err)
	}
}

// Two MultiLocks that name their locks in opposite orders would wait for each other.
func TestMultiLocksInOppositeOrdersDoNotDeadlock(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		var holders atomic.Int32
		count := 0
		for _, order := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "c", "a"}} {
			m := holdfast.NewMultiLock(mutexes(client(t, srv), order...)...)
			wg.Go(func() {
				for range 20 {
					h, err := m.Lock(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					if holders.Add(1) != 1 {
						t.Error("two MultiLocks hold all of their locks")
					}
					count++
					time.Sleep(time.Millisecond)
					holders.Add(-1)
					unlock(t, h)
				}
			})
		}
		wg.Wait()
		if count != 60 {
			t.Errorf("count is %d; want 60", count)
		}
	})
}

func TestMultiLockHasOneDeadlineAndRollsBack(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := client(t, srv), client(t, srv)
		blocks := lock(t, holdfast.NewMutex(other, lockPath+"/c"))
		m := holdfast.NewMultiLock(mutexes(c, "a", "b", "c")...)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begin := time.Now()
		_, err := m.Lock(ctx)
		wantErr(t, err, context.DeadlineExceeded)
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("gave up after %v; want 3 s for all locks together", took)
		}
		if err != nil && !strings.Contains(err.Error(), lockPath+"/c") {
			t.Errorf("%v: the error does not name the lock that is taken", err)
		}
		synctest.Wait()
		wantNoNodes(t, c)
		_, err = m.TryLock(t.Context())
		wantErr(t, err, holdfast.ErrLocked)
		wantNoNodes(t, c)
		unlock(t, blocks)
		h, err := m.TryLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		unlock(t, h)
		wantNoNodes(t, c)
	})
}

func TestMultiLockTakesDuplicatesOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		rw := holdfast.NewRWMutex(c, lockPath+"/rw")
		sem := holdfast.NewSemaphore(c, lockPath+"/sem", 1)
		m := holdfast.NewMultiLock(rw.RLocker(), holdfast.NewMutex(c, lockPath+"/a"), rw, sem.Locker(1),
			holdfast.NewMultiLock(mutexes(c, "a", "b")...), sem.Locker(1), rw.RLocker())
		h := lock(t, m)
		if got := h.Tokens(); len(got) != 4 {
			t.Errorf("tokens %v; want those of a, b, rw and sem", got)
		}
		_, err := rw.TryRLock(t.Context())
		wantErr(t, err, holdfast.ErrLocked) // the writer is left
		unlock(t, h)
		wantNoNodes(t, c)
	})
}

// A MultiLock takes the permits of one semaphore once: the largest of the numbers, in any order.
func TestMultiLockTakesTheMostPermits(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		sem := holdfast.NewSemaphore(c, lockPath+"/sem", 5)
		for _, numbers := range [][]int{{1, 3, 2}, {3, 1}, {2, 3}} {
			var ls []holdfast.Locker
			for _, n := range numbers {
				ls = append(ls, sem.Locker(n))
			}
			m := holdfast.NewMultiLock(append(ls, holdfast.NewMutex(c, lockPath+"/a"))...)
			h := lock(t, m)
			wantOf(t, sem, 2, 5)
			unlock(t, h)
			h, err := m.TryLock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			wantOf(t, sem, 2, 5)
			unlock(t, h)
			wantOf(t, sem, 5, 5)
		}
		_, err := holdfast.NewMultiLock(sem.Locker(6), sem.Locker(1)).Lock(t.Context())
		wantErr(t, err, holdfast.ErrLimit)
		wantNoNodes(t, c)
	})
}

func TestMultiLockEndsWhenAnyPartIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, d, admin := client(t, srv), client(t, srv), client(t, srv)
		m := holdfast.NewMultiLock(append(mutexes(c, "a", "b"), holdfast.NewNodeLock(d, lockPath+"/c"))...)
		h := lock(t, m)
		if h.Token() != tokenOf(h, lockPath+"/a") {
			t.Errorf("token %d; want that of a in %v", h.Token(), h.Tokens())
		}
		if err := holdfast.Break(t.Context(), admin, lockPath+"/b", tokenOf(h, lockPath+"/b")); err != nil {
			t.Fatal(err)
		}
		<-h.Lost()
		wantErr(t, context.Cause(h.Context()), holdfast.ErrLost)
		wantErr(t, h.Unlock(), holdfast.ErrLost)
		wantNoNodes(t, c)
		wantNoNodes(t, d)

		h = lock(t, m)
		if err := holdfast.Revoke(t.Context(), admin, lockPath+"/c", tokenOf(h, lockPath+"/c")); err != nil {
			t.Fatal(err)
		}
		<-h.Revoked()
		_, err := h.Commit(t.Context(), zk.CreateOp(ledger, nil, zk.Persistent))
		wantErr(t, err, zk.ErrBadArguments) // no transaction spans two sessions
		unlock(t, h)
	})
}

// The first part is lost while the MultiLock waits for the second. It starts again, and does
// not end up with one of two.
func TestMultiLockStartsAgainWhenAPartIsLostMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, admin := client(t, srv), client(t, srv)
		blocks := lock(t, holdfast.NewMutex(admin, lockPath+"/b"))
		w := wait(t.Context(), holdfast.NewMultiLock(mutexes(c, "a", "b")...))
		time.Sleep(2 * holdfast.GracePeriod) // sooner, it would acquire and lose the lock a moment later
		entries, err := holdfast.List(t.Context(), admin, lockPath+"/a")
		if err != nil || len(entries) != 1 {
			t.Fatal(entries, err)
		}
		if err := holdfast.Break(t.Context(), admin, lockPath+"/a", entries[0].Token); err != nil {
			t.Fatal(err)
		}
		if !w.waiting() {
			t.Fatal(w.err)
		}
		unlock(t, blocks)
		h := w.got(t)
		for _, name := range []string{"a", "b"} {
			_, err := holdfast.NewMutex(admin, lockPath+"/"+name).TryLock(t.Context())
			wantErr(t, err, holdfast.ErrLocked)
		}
		unlock(t, h)
		wantNoNodes(t, c)
	})
}

func TestMultiLockUnderOneOfItsHoldsIsADeadlock(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		m := holdfast.NewMultiLock(mutexes(c, "a", "b")...)
		b := lock(t, holdfast.NewMutex(c, lockPath+"/b"))
		_, err := m.Lock(b.Context())
		wantErr(t, err, holdfast.ErrDeadlock)
		unlock(t, b)
		h := lock(t, m)
		_, err = holdfast.NewMutex(c, lockPath+"/b").Lock(h.Context())
		wantErr(t, err, holdfast.ErrDeadlock)
		unlock(t, h)
		wantNoNodes(t, c)
	})
}

type foreignLock struct{ holdfast.Locker }

func TestMultiLockRefusesWhatItCannotOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		for _, m := range []*holdfast.MultiLock{holdfast.NewMultiLock(), holdfast.NewMultiLock(foreignLock{holdfast.NewMutex(c, lockPath)})} {
			_, err := m.Lock(t.Context())
			var e *holdfast.Error
			if !errors.As(err, &e) {
				t.Errorf("got %v; want an *Error", err)
			}
		}
	})
}

// Two locks differ in nothing but the client. Then the order of a MultiLock would depend on
// how it was made, and two of them would wait for each other.
func TestMultiLockRefusesEqualPathsOfTwoClients(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		other := zktest.NewServer()
		defer other.Close()
		here, there := client(t, srv), client(t, other)
		for name, m := range map[string]*holdfast.MultiLock{
			"two mutexes":         holdfast.NewMultiLock(holdfast.NewMutex(here, lockPath), holdfast.NewMutex(there, lockPath)),
			"reader and writer":   holdfast.NewMultiLock(holdfast.NewRWMutex(here, lockPath), holdfast.NewRWMutex(there, lockPath).RLocker()),
			"semaphores":          holdfast.NewMultiLock(holdfast.NewSemaphore(here, lockPath, 1).Locker(1), holdfast.NewSemaphore(there, lockPath, 1).Locker(1)),
			"one that holds them": holdfast.NewMultiLock(holdfast.NewMultiLock(holdfast.NewNodeLock(here, lockPath)), holdfast.NewNodeLock(there, lockPath)),
		} {
			for _, lock := range []func(context.Context) (*holdfast.Hold, error){m.Lock, m.TryLock} {
				h, err := lock(t.Context())
				if err == nil {
					unlock(t, h)
				}
				wantErr(t, err, zk.ErrBadArguments)
				if err != nil && !strings.Contains(err.Error(), lockPath) {
					t.Errorf("%s: %v; want it to name %s", name, err, lockPath)
				}
			}
		}
		// Equal paths are fine where the ensembles differ.
		unlock(t, lock(t, holdfast.NewMultiLock(holdfast.NewMutex(here, lockPath), holdfast.NewMutex(there, lockPath+"2"))))
	})
}

// Another caller has the first lock and waits for the second, which is ours. A MultiLock under our Hold would
// wait for that caller for ever.
func TestMultiLockWaitsForNobodyThatWaitsForItsHold(t *testing.T) {
	mutex := func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewMutex(c, path) }
	for name, of := range map[string]func(c *zk.Client, path string) holdfast.Locker{
		"Mutex":     mutex,
		"writer":    func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewRWMutex(c, path) },
		"reader":    func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewRWMutex(c, path).RLocker() },
		"Semaphore": func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewSemaphore(c, path, 1).Locker(1) },
		"Slots":     func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewSlots(c, path, 1).Locker(1) },
		"NodeLock":  func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewNodeLock(c, path) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				both := func(c *zk.Client, second holdfast.Locker) *holdfast.MultiLock {
					return holdfast.NewMultiLock(mutex(c, lockPath+"/a"), second)
				}
				c, other := client(t, srv), client(t, srv)
				h := lock(t, of(c, lockPath+"/b"))
				second := of(other, lockPath+"/b")
				if name == "reader" {
					second = holdfast.NewRWMutex(other, lockPath+"/b")
				}
				w := wait(t.Context(), both(other, second))
				synctest.Wait()
				if !w.waiting() {
					t.Fatal("the other caller does not wait")
				}
				ctx, cancel := context.WithTimeout(h.Context(), time.Minute)
				defer cancel()
				_, err := both(c, of(c, lockPath+"/b")).Lock(ctx)
				wantErr(t, err, holdfast.ErrDeadlock)
				unlock(t, h)
				unlock(t, w.got(t))
				wantNoNodes(t, c)
			})
		})
	}
}

// Clients with different chroots see one lock under different paths. A MultiLock orders by
// the server's paths.
func TestMultiLocksOfDifferentChrootsDoNotDeadlock(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		cfg := srv.Config()
		cfg.Chroot, cfg.CreateChroot = "/team", true
		inTeam, err := zk.Dial(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer inTeam.Close()
		c := client(t, srv)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()

		first := lock(t, holdfast.NewMutex(c, "/b"))
		one := wait(ctx, holdfast.NewMultiLock(holdfast.NewMutex(c, "/b"), holdfast.NewMutex(c, "/team/a")))
		two := wait(ctx, holdfast.NewMultiLock(holdfast.NewMutex(c, "/b"), holdfast.NewMutex(inTeam, "/a")))
		unlock(t, first)
		unlock(t, one.got(t))
		unlock(t, two.got(t))

		_, err = holdfast.NewMultiLock(holdfast.NewMutex(c, "/team/a"), holdfast.NewMutex(inTeam, "/a")).Lock(ctx)
		wantErr(t, err, zk.ErrBadArguments) // it is one lock, and would wait for itself
	})
}

// Two layouts on one path: one waits for the other's node.
func TestMultiLockRefusesLayoutsThatWaitForEachOther(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		in := func(l holdfast.Layout) holdfast.Locker {
			return holdfast.NewMutex(c, lockPath, holdfast.WithLayout(l))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := holdfast.NewMultiLock(in(layout.Curator), in(layout.GoZookeeper)).Lock(ctx)
		wantErr(t, err, zk.ErrBadArguments)
		// Through two clients, it would wait for itself as well.
		other := holdfast.NewMutex(client(t, srv), lockPath, holdfast.WithLayout(layout.GoZookeeper))
		_, err = holdfast.NewMultiLock(in(layout.Curator), other).Lock(ctx)
		wantErr(t, err, zk.ErrBadArguments)
		h, err := holdfast.NewMultiLock(in(layout.Named("a")), in(layout.Named("b"))).Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		unlock(t, h)
	})
}
