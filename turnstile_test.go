package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zkserver"
	"holdfast/zktest"
)

// A limited is a semaphore or a set of slots.
type limited interface {
	SetLimit(ctx context.Context, n int) error
	Available(ctx context.Context) (free, n int, err error)
}

// limits are the kinds of lock with a stored number. of claims that the number is n.
var limits = map[string]struct {
	turnstile string
	of        func(c *zk.Client, n int, opts ...holdfast.Option) (limited, holdfast.Locker)
}{
	"semaphore": {lockPath + "/locks", func(c *zk.Client, n int, opts ...holdfast.Option) (limited, holdfast.Locker) {
		s := holdfast.NewSemaphore(c, lockPath, n, opts...)
		return s, s.Locker(1)
	}},
	"semaphore of kazoo": {lockPath + "-__lock__", func(c *zk.Client, n int, opts ...holdfast.Option) (limited, holdfast.Locker) {
		s := holdfast.NewSemaphore(c, lockPath, n, append(opts, holdfast.WithLayout(layout.Kazoo))...)
		return s, s.Locker(1)
	}},
	"slots": {lockPath + "/slot-queue", func(c *zk.Client, n int, opts ...holdfast.Option) (limited, holdfast.Locker) {
		s := holdfast.NewSlots(c, lockPath, n, opts...)
		return s, s.Locker(1)
	}},
}

// eachLimited runs f for each of them. of makes a lock with a client of its own.
func eachLimited(t *testing.T, f func(t *testing.T, srv *zktest.Server, turnstile string, of func(n int, opts ...holdfast.Option) (limited, holdfast.Locker))) {
	for name, l := range limits {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				f(t, srv, l.turnstile, func(n int, opts ...holdfast.Option) (limited, holdfast.Locker) {
					return l.of(client(t, srv), n, opts...)
				})
			})
		})
	}
}

// eachLimit is eachLimited for tests that only lock.
func eachLimit(t *testing.T, f func(t *testing.T, srv *zktest.Server, turnstile string, of func(n int, opts ...holdfast.Option) holdfast.Locker)) {
	eachLimited(t, func(t *testing.T, srv *zktest.Server, turnstile string, of func(int, ...holdfast.Option) (limited, holdfast.Locker)) {
		f(t, srv, turnstile, func(n int, opts ...holdfast.Option) holdfast.Locker {
			_, locker := of(n, opts...)
			return locker
		})
	})
}

// wantOf checks how many of the permits or slots are free.
func wantOf(t *testing.T, l limited, free, limit int) {
	t.Helper()
	f, n, err := l.Available(t.Context())
	if err != nil || f != free || n != limit {
		t.Errorf("%d of %d free (%v); want %d of %d", f, n, err, free, limit)
	}
}

// wantStored checks the stored number.
func wantStored(t *testing.T, srv *zktest.Server, want string) {
	t.Helper()
	if data, _, err := client(t, srv).Get(t.Context(), lockPath); err != nil || string(data) != want {
		t.Errorf("stored: %q, %v; want %s", data, err, want)
	}
}

// A number that nobody uses is replaced by that of the next caller. One that somebody uses stays, and the error says
// who uses it.
func TestNumberThatNobodyUsesCanBeReplaced(t *testing.T) {
	eachLimit(t, func(t *testing.T, srv *zktest.Server, turnstile string, of func(int, ...holdfast.Option) holdfast.Locker) {
		unlock(t, lock(t, of(2)))
		for _, n := range []int{3, 1, 5, 2} {
			unlock(t, lock(t, of(n)))
			wantStored(t, srv, fmt.Sprint(n))
		}
		h := lock(t, of(2, holdfast.WithOwner("worker 1")))
		for _, acquire := range []func(holdfast.Locker, context.Context) (*holdfast.Hold, error){holdfast.Locker.Lock, holdfast.Locker.TryLock} {
			_, err := acquire(of(3), t.Context())
			wantErr(t, err, holdfast.ErrLimit)
			for _, want := range []string{"it is 2, not 3", "worker 1", fmt.Sprintf("session 0x%x", h.SessionID()), h.Path(), "claim 2", "change the limit"} {
				if !strings.Contains(fmt.Sprint(err), want) {
					t.Errorf("%v; want %q in it", err, want)
				}
			}
		}
		wantStored(t, srv, "2")
		if h.Context().Err() != nil {
			t.Error("the holder has lost its permit")
		}
		srv.Expire(h.SessionID()) // it slept
		<-h.Lost()
		next := lock(t, of(3))
		wantStored(t, srv, "3")
		_, err := of(2).TryLock(t.Context())
		wantErr(t, err, holdfast.ErrLimit)
		unlock(t, next)
		wantNoNodes(t, client(t, srv))
	})
}

// A waiter uses the number, too, unless it claims the new one.
func TestNumberIsNotReplacedUnderAWaiter(t *testing.T) {
	for data, refused := range map[string]bool{`{"owner":"worker 7","of":2}`: true, `worker 7`: true, `{"owner":"worker 7","of":3}`: false} {
		eachLimit(t, func(t *testing.T, srv *zktest.Server, turnstile string, of func(int, ...holdfast.Option) holdfast.Locker) {
			unlock(t, lock(t, of(2)))
			c := client(t, srv)
			lists, waiter := 0, ""
			srv.Intercept(zkproto.OpGetChildren2, func(path string) zktest.Action {
				if path == turnstile {
					if lists++; lists == 2 { // by the caller whose turn it is
						var err error
						if waiter, _, err = c.Create(t.Context(), turnstile+"/"+strings.Repeat("a", 32)+"-lock-", []byte(data), zk.EphemeralSequential); err != nil {
							t.Error(err)
						}
						if strings.HasSuffix(turnstile, "__lock__") {
							_ = c.Delete(t.Context(), waiter, zk.AnyVersion)
							if waiter, _, err = c.Create(t.Context(), turnstile+"/"+strings.Repeat("a", 32)+"__lock__", []byte(data), zk.EphemeralSequential); err != nil {
								t.Error(err)
							}
						}
					}
				}
				return zktest.Pass
			})
			h, err := of(3).TryLock(t.Context())
			if waiter == "" {
				t.Fatal("nobody has looked for waiters")
			}
			switch {
			case refused:
				wantErr(t, err, holdfast.ErrLimit)
				if !strings.Contains(fmt.Sprint(err), "worker 7") || !strings.Contains(fmt.Sprint(err), waiter) {
					t.Errorf("%v; want the waiter's name and node in it", err)
				}
				wantStored(t, srv, "2")
			case err != nil:
				t.Error(err)
			default:
				unlock(t, h)
			}
		})
	}
}

// Two callers with different numbers come together: one of them runs at each request of the other. They are never in
// at once, and the number is that of the one that is in.
func TestDifferentNumbersAtOnce(t *testing.T) {
	for name, l := range limits {
		t.Run(name, func(t *testing.T) {
			for at, reached := 1, true; reached; at++ {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					_, before := l.of(client(t, srv), 5)
					unlock(t, lock(t, before))
					_, one := l.of(client(t, srv), 2)
					_, other := l.of(client(t, srv), 3)
					var on, inside atomic.Bool
					var requests atomic.Int32
					var got *holdfast.Hold
					var err error
					for _, op := range []zkproto.Op{
						zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpDelete, zkproto.OpExists, zkproto.OpGetData, zkproto.OpSetData, zkproto.OpGetChildren2, zkproto.OpMulti,
					} {
						srv.Intercept(op, func(path string) zktest.Action {
							if strings.HasPrefix(path, lockPath) && on.Load() && !inside.Load() && int(requests.Add(1)) == at {
								inside.Store(true)
								got, err = other.TryLock(t.Context())
							}
							return zktest.Pass
						})
					}
					on.Store(true)
					h, firstErr := one.TryLock(t.Context())
					on.Store(false)
					reached = inside.Load()
					for _, err := range []error{firstErr, err} {
						if err != nil && !errors.Is(err, holdfast.ErrLimit) && !errors.Is(err, holdfast.ErrLocked) {
							t.Errorf("at request %d: %v", at, err)
						}
					}
					switch {
					case h != nil && got != nil:
						t.Errorf("at request %d: both are in", at)
					case h != nil:
						wantStored(t, srv, "2")
						unlock(t, h)
					case got != nil:
						wantStored(t, srv, "3")
						unlock(t, got)
					}
				})
			}
		})
	}
}

// A caller at the turnstile is about to replace the number. Meanwhile somebody removes its node, and others take
// permits of the old number. The transaction fails.
func TestSleeperAtTheTurnstileReplacesNoNumber(t *testing.T) {
	eachLimit(t, func(t *testing.T, srv *zktest.Server, turnstile string, of func(int, ...holdfast.Option) holdfast.Locker) {
		unlock(t, lock(t, of(2)))
		c := client(t, srv)
		var h *holdfast.Hold
		srv.Intercept(zkproto.OpMulti, func(path string) zktest.Action {
			srv.Intercept(zkproto.OpMulti, nil)
			if err := c.Delete(t.Context(), path, zk.AnyVersion); err != nil {
				t.Error(err)
			}
			h = lock(t, of(2))
			return zktest.Pass
		})
		_, err := of(3).TryLock(t.Context())
		if h == nil {
			t.Fatal("nobody has replaced the number: the test shows nothing")
		}
		wantErr(t, err, holdfast.ErrLimit)
		wantStored(t, srv, "2")
		unlock(t, h)
	})
}

// SetLimit counts more than the claims of callers that have joined before.
func TestSetLimitIsNotUndoneByAWaiter(t *testing.T) {
	for name, l := range limits {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				number, _ := l.of(client(t, srv), 0)
				_, old := l.of(client(t, srv), 1)
				h := lock(t, old)
				_, claims := l.of(client(t, srv), 1)
				_, follows := l.of(client(t, srv), 0)
				first := wait(t.Context(), claims)
				second := wait(t.Context(), follows)
				if !first.waiting() || !second.waiting() {
					t.Fatal("two permits of one are out")
				}
				if err := number.SetLimit(t.Context(), 2); err != nil {
					t.Fatal(err)
				}
				<-first.done
				wantErr(t, first.err, holdfast.ErrLimit)
				unlock(t, second.got(t))
				unlock(t, h)
				wantStored(t, srv, "2")

				var set atomic.Bool
				srv.Intercept(zkproto.OpGetData, func(path string) zktest.Action { // of a caller that has its turn
					if path == lockPath && !set.Swap(true) {
						synctest.Wait() // its place is there
						if err := number.SetLimit(t.Context(), 5); err != nil {
							t.Error(err)
						}
					}
					return zktest.Pass
				})
				_, late := l.of(client(t, srv), 2)
				_, err := late.TryLock(t.Context())
				wantErr(t, err, holdfast.ErrLimit)
				if free, n, err := number.Available(t.Context()); free != 5 || n != 5 || err != nil {
					t.Errorf("%d of %d, %v; want 5 of 5", free, n, err)
				}
				synctest.Wait()
			})
		})
	}
}

// A caller without a number follows the stored one. A caller that claims another is refused.
func TestNumberIsStoredAndVerified(t *testing.T) {
	eachLimited(t, func(t *testing.T, srv *zktest.Server, turnstile string, of func(int, ...holdfast.Option) (limited, holdfast.Locker)) {
		follower, follows := of(0)
		_, err := follows.Lock(t.Context())
		wantErr(t, err, holdfast.ErrLimit) // no number is stored
		_, _, err = follower.Available(t.Context())
		wantErr(t, err, holdfast.ErrLimit)
		_, two := of(2)
		h := lock(t, two)
		_, three := of(3)
		for _, acquire := range []func(holdfast.Locker, context.Context) (*holdfast.Hold, error){holdfast.Locker.Lock, holdfast.Locker.TryLock} {
			_, err = acquire(three, t.Context())
			wantErr(t, err, holdfast.ErrLimit)
			if !strings.Contains(fmt.Sprint(err), "it is 2, not 3") {
				t.Error(err)
			}
		}
		unlock(t, lock(t, follows))
		wantErr(t, follower.SetLimit(t.Context(), 0), holdfast.ErrLimit)
		wantStored(t, srv, "2") // kazoo looks for it
		unlock(t, h)
	})
}

// As many hold it as the number says, and the others wait in order.
func TestAsManyHoldAsTheNumberSays(t *testing.T) {
	eachLimited(t, func(t *testing.T, srv *zktest.Server, turnstile string, of func(int, ...holdfast.Option) (limited, holdfast.Locker)) {
		l, three := of(3)
		wantOf(t, l, 3, 3)
		held := []*holdfast.Hold{lock(t, three), lock(t, three), lock(t, three)}
		wantOf(t, l, 0, 3)
		_, err := three.TryLock(t.Context())
		wantErr(t, err, holdfast.ErrLocked)
		var all []*waiter
		for range 3 {
			_, other := of(3)
			all = append(all, wait(t.Context(), other))
		}
		for i, h := range held {
			if in, _ := apart(all); len(in) != i {
				t.Fatalf("%d of the waiters are in, after %d have left", len(in), i)
			}
			unlock(t, h)
			held[i] = all[i].got(t)
		}
		for i, h := range held {
			wantOf(t, l, i, 3)
			unlock(t, h)
		}
		wantOf(t, l, 3, 3)
	})
}

// The number is lowered while a caller is about to be admitted under the old one. The transaction fails.
func TestAdmissionOnAnOldNumberFails(t *testing.T) {
	eachLimited(t, func(t *testing.T, srv *zktest.Server, turnstile string, of func(int, ...holdfast.Option) (limited, holdfast.Locker)) {
		admin, first := of(0)
		if err := admin.SetLimit(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		h := lock(t, first)
		var cut atomic.Bool
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			if cut.CompareAndSwap(false, true) {
				if err := admin.SetLimit(t.Context(), 1); err != nil {
					t.Error(err)
				}
			}
			return zktest.Pass
		})
		_, second := of(0)
		_, err := second.TryLock(t.Context())
		wantErr(t, err, holdfast.ErrLocked)
		unlock(t, h)
		wantOf(t, admin, 1, 1)
	})
}

// A holder of the turnstile sleeps and is thrown out, and another client is admitted meanwhile. The sleeper takes nothing
// on top of that.
func TestSleeperAtTheTurnstileTakesNothing(t *testing.T) {
	eachLimited(t, func(t *testing.T, srv *zktest.Server, turnstile string, of func(int, ...holdfast.Option) (limited, holdfast.Locker)) {
		admin := client(t, srv)
		l, sleeper := of(1)
		_, other := of(1)
		unlock(t, lock(t, sleeper))
		synctest.Wait()
		var slept atomic.Bool
		taken := make(chan *holdfast.Hold, 1)
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			if slept.CompareAndSwap(false, true) {
				turns, _, err := admin.Children(t.Context(), turnstile)
				if err != nil || len(turns) != 1 {
					t.Error(turns, err)
				}
				for _, turn := range turns {
					remove(t, admin, turnstile+"/"+turn)
				}
				h, err := other.TryLock(t.Context())
				if err != nil {
					t.Error(err)
				}
				taken <- h
			}
			return zktest.Pass
		})
		w := wait(t.Context(), sleeper)
		h := <-taken
		if !w.waiting() {
			t.Fatalf("two are in, and one may be (%v)", w.err)
		}
		unlock(t, h)
		unlock(t, w.got(t))
		wantOf(t, l, 1, 1)
	})
}

// Revoke reaches a holder and Break a waiter, which then queues again. Break of a holder lets the next in.
func TestRevokeAndBreakReachHoldersAndWaiters(t *testing.T) {
	eachLimited(t, func(t *testing.T, srv *zktest.Server, turnstile string, of func(int, ...holdfast.Option) (limited, holdfast.Locker)) {
		in := layout.Curator
		if strings.HasPrefix(turnstile, lockPath+"-") {
			in = layout.Kazoo
		}
		c := client(t, srv)
		l, locker := of(1)
		h, w := lock(t, locker), wait(t.Context(), locker)
		waiter := func() int64 {
			t.Helper()
			entries, err := holdfast.List(t.Context(), c, lockPath, in)
			if err != nil || len(entries) != 2 || !entries[0].Held || entries[0].Token != h.Token() || entries[1].Held {
				t.Fatal(entries, err)
			}
			return entries[1].Token
		}
		if err := holdfast.Revoke(t.Context(), c, lockPath, h.Token()); err != nil {
			t.Fatal(err)
		}
		<-h.Revoked()
		before := waiter()
		if err := holdfast.Break(t.Context(), c, lockPath, before); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if !w.waiting() {
			t.Fatal("the waiter gave up", w.err)
		}
		if after := waiter(); after <= before {
			t.Errorf("the waiter's token is %d after %d; want a greater one", after, before)
		}
		if err := holdfast.Break(t.Context(), c, lockPath, h.Token()); err != nil {
			t.Fatal(err)
		}
		wantLost(t, h)
		unlock(t, w.got(t))
		wantOf(t, l, 1, 1)
	})
}

func semaphore(t *testing.T, srv *zktest.Server, limit int, opts ...holdfast.Option) *holdfast.Semaphore {
	return holdfast.NewSemaphore(client(t, srv), lockPath, limit, opts...)
}

var semaphoreLayouts = []holdfast.Layout{layout.Curator, layout.Kazoo}

// Waiters for few permits do not overtake a waiter for many, which gets all at once.
func TestAcquireOfSeveralIsAtomicAndInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		s := semaphore(t, srv, 3)
		a, b := lock(t, s.Locker(1)), lock(t, s.Locker(1))
		three := wait(t.Context(), semaphore(t, srv, 3).Locker(3))
		one := wait(t.Context(), semaphore(t, srv, 3).Locker(1))
		unlock(t, a)
		if !three.waiting() || !one.waiting() {
			t.Fatal("a waiter was admitted out of turn, or with too few permits")
		}
		wantOf(t, s, 2, 3) // a waiter does not hoard
		unlock(t, b)
		h := three.got(t)
		wantOf(t, s, 0, 3)
		unlock(t, h)
		unlock(t, one.got(t))
		wantOf(t, s, 3, 3)
	})
}

func TestSemaphoreLimitChangesLive(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		s := semaphore(t, srv, 0)
		if err := s.SetLimit(t.Context(), 1); err != nil { // the path does not exist yet
			t.Fatal(err)
		}
		a := lock(t, s.Locker(1))
		w := wait(t.Context(), semaphore(t, srv, 0).Locker(1))
		if !w.waiting() {
			t.Fatal("two permits of one are out")
		}
		if err := s.SetLimit(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		b := w.got(t)
		if err := s.SetLimit(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if a.Context().Err() != nil || b.Context().Err() != nil {
			t.Error("lowering the limit took a permit away")
		}
		w = wait(t.Context(), semaphore(t, srv, 0).Locker(1))
		unlock(t, a)
		if !w.waiting() {
			t.Fatal("a waiter was admitted though the only permit is out")
		}
		unlock(t, b)
		unlock(t, w.got(t))
		// A request for more permits than the limit fails, even while it waits.
		if err := s.SetLimit(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		a = lock(t, s.Locker(1))
		w = wait(t.Context(), semaphore(t, srv, 0).Locker(2))
		if err := s.SetLimit(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		<-w.done
		wantErr(t, w.err, holdfast.ErrLimit)
		unlock(t, a)
		for _, n := range []int{0, 2} {
			_, err := s.Acquire(t.Context(), n)
			wantErr(t, err, holdfast.ErrLimit)
		}
	})
}

// A caller reads the permits when it joins the turnstile. If it has to wait there, it reads them again in its
// turn: others have taken permits meanwhile.
func TestPermitsAreCountedInTheTurn(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		s := semaphore(t, srv, 2)
		a := lock(t, s.Locker(1))
		two := wait(t.Context(), semaphore(t, srv, 2).Locker(2))
		one := wait(t.Context(), semaphore(t, srv, 2).Locker(1)) // one permit is free now
		unlock(t, a)
		h := two.got(t)
		if !one.waiting() {
			t.Error("three permits of two are out")
		}
		unlock(t, h)
		unlock(t, one.got(t))
	})
}

func TestBreakTakesAllPermitsOfOneToken(t *testing.T) {
	for _, layout := range semaphoreLayouts {
		t.Run(layout.Name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				in := holdfast.WithLayout(layout)
				c, s := client(t, srv), semaphore(t, srv, 3, holdfast.WithOwner("api-7"), in)
				h, one := lock(t, s.Locker(2)), lock(t, s.Locker(1))
				w := wait(t.Context(), s.Locker(1))
				entries, err := holdfast.List(t.Context(), c, lockPath, layout)
				if err != nil || len(entries) != 4 {
					t.Fatal(entries, err)
				}
				for i, e := range entries {
					if e.Held != (i < 3) || e.Owner != "api-7" || i < 2 && e.Token != h.Token() || i == 2 && e.Token != one.Token() {
						t.Errorf("%d: %+v", i, e)
					}
					if _, ok, err := c.Exists(t.Context(), e.Path); !ok || err != nil {
						t.Errorf("%s: %t, %v", e.Path, ok, err)
					}
				}
				if err := holdfast.Break(t.Context(), c, lockPath, h.Token()); err != nil {
					t.Fatal(err)
				}
				<-h.Lost()
				unlock(t, w.got(t))
				if one.Context().Err() != nil {
					t.Error("Break hit another token")
				}
				unlock(t, one)
				wantErr(t, h.Unlock(), holdfast.ErrLost)
				wantOf(t, s, 3, 3)
			})
		})
	}
}

// Curator makes the node of a permit, and then waits for it at the head of the turnstile. List returns the waiter
// only, also if another client has stored the limit.
func TestListLeavesOutPendingPermits(t *testing.T) {
	for _, tt := range []struct {
		limit string
		want  string
	}{{"", "leases/1 held, locks/2"}, {"1", "leases/1 held, locks/2"}, {"2", "leases/1 held, leases/2 held, locks/2"}} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			const form = "_c_6266cbe9-453b-4a50-8718-b39f57879b6e-"
			a, b := client(t, srv), client(t, srv)
			for _, path := range []string{"/holdfast", "/holdfast/locks", lockPath, lockPath + "/leases", lockPath + "/locks"} {
				if _, _, err := a.Create(t.Context(), path, []byte(tt.limit), zk.Persistent); err != nil && !errors.Is(err, zk.ErrNodeExists) {
					t.Fatal(err)
				}
			}
			for _, n := range []struct {
				c    *zk.Client
				name string
			}{{a, "leases/" + form + "lease-0000000001"}, {b, "locks/" + form + "lock-0000000002"}, {b, "leases/" + form + "lease-0000000002"}} {
				if _, _, err := n.c.Create(t.Context(), lockPath+"/"+n.name, nil, zk.Ephemeral); err != nil {
					t.Fatal(err)
				}
			}
			entries, err := holdfast.List(t.Context(), a, lockPath)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range entries {
				dir, name, _ := strings.Cut(e.Name, "/")
				text := dir + "/" + name[len(name)-1:]
				if e.Held {
					text += " held"
				}
				got = append(got, text)
			}
			if text := strings.Join(got, ", "); text != tt.want {
				t.Errorf("limit %q: %s; want %s", tt.limit, text, tt.want)
			}
		})
	}
}

// An event starts a waiter's turn, and its session continues at a server that has not applied
// the end of the turn before. Permits given in that turn may be missing there. Here, the node
// of that turn is made anew, so that the server shows it.
func TestPermitsAreCountedOnlyWhereTheTurnBeforeIsOver(t *testing.T) {
	for _, layout := range semaphoreLayouts {
		t.Run(layout.Name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				use := holdfast.WithLayout(layout)
				turnstile := lockPath + "/locks"
				if layout.Name == "kazoo" {
					turnstile = lockPath + "-__lock__"
				}
				admin := client(t, srv)
				both := lock(t, semaphore(t, srv, 2, use).Locker(2))
				first := wait(t.Context(), semaphore(t, srv, 2, use).Locker(1))
				turns, _, err := admin.Children(t.Context(), turnstile)
				if err != nil || len(turns) != 1 {
					t.Fatal(turns, err)
				}
				second := wait(t.Context(), semaphore(t, srv, 2, use).Locker(1))
				turn := turnstile + "/" + turns[0]
				var looks atomic.Int32
				srv.Intercept(zkproto.OpExists, func(path string) zktest.Action {
					if path == turn && looks.Add(1) == 1 {
						if _, _, err := admin.Create(t.Context(), turn, nil, zk.Persistent); err != nil {
							t.Error(err)
						}
					}
					return zktest.Pass
				})
				unlock(t, both)
				a := first.got(t)
				time.Sleep(5 * time.Second)
				if !second.waiting() {
					t.Error("permits were counted at a server that may miss some")
				}
				if n := looks.Load(); n < 2 || n > 500 {
					t.Errorf("the waiter looked %d times in 5 s; want several, with pauses", n)
				}
				admin.Delete(t.Context(), turn, zk.AnyVersion)
				b := second.got(t)
				wantOf(t, semaphore(t, srv, 2, use), 0, 2)
				unlock(t, a)
				unlock(t, b)
			})
		})
	}
}

// A waiter for permits watches the limit and the permits, and removes these watches however
// the wait ends. Otherwise they would add up over all semaphores that a program ever waited
// for, and servers limit watches. The limit here is low, so a leftover watch soon fails the
// next wait.
func TestGivenUpAcquireLeavesNoWatch(t *testing.T) {
	const limit = 8
	ends := map[string]func(t *testing.T, c *zk.Client, path string, cancel context.CancelFunc){
		"its context ends": func(_ *testing.T, _ *zk.Client, _ string, cancel context.CancelFunc) { cancel() },
		"it loses its place first": func(t *testing.T, c *zk.Client, path string, cancel context.CancelFunc) {
			turns, _, err := c.Children(t.Context(), path+"/locks")
			if err != nil || len(turns) != 1 {
				t.Fatalf("at the turnstile: %q, %v", turns, err)
			}
			if err := c.Delete(t.Context(), path+"/locks/"+turns[0], zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // it queues again
			cancel()
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.NewServer(func(c *zkserver.Config) { c.Limits.WatchesPerConnection = limit })
				defer srv.Close()
				c, other := client(t, srv), srv.Client()
				for i := range limit {
					path := fmt.Sprintf("%s-%d", lockPath, i)
					holder := srv.Client() // on another client, so that its own watches do not count
					h := lock(t, holdfast.NewSemaphore(holder, path, 1).Locker(1))
					ctx, cancel := context.WithCancel(t.Context())
					w := wait(ctx, holdfast.NewSemaphore(c, path, 1).Locker(1))
					if !w.waiting() {
						t.Fatalf("semaphore %d: %v", i, w.err)
					}
					end(t, other, path, cancel)
					if <-w.done; !errors.Is(w.err, context.Canceled) {
						t.Fatalf("semaphore %d: %v", i, w.err)
					}
					unlock(t, h)
				}
			})
		})
	}
}

func TestSemaphoreTakesAMarkForNoLimit(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		if err := holdfast.NewSemaphore(c, lockPath, 0).SetLimit(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Set(t.Context(), lockPath, []byte("holdfast: passed 17"), zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		h, err := holdfast.NewSemaphore(c, lockPath, 3).Acquire(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		unlock(t, h)
		if got := directoryData(t, c); got != "3" {
			t.Errorf("the limit is %q; want it unchanged", got)
		}
	})
}

func slots(t *testing.T, srv *zktest.Server, n int, opts ...holdfast.Option) *holdfast.Slots {
	return holdfast.NewSlots(client(t, srv), lockPath, n, opts...)
}

// slotNode is the path of the node of a slot.
func slotNode(number int) string { return fmt.Sprintf("%s/slots/slot-%010d", lockPath, number) }

// acquire takes a slot and checks which one it is.
func acquire(t *testing.T, s *holdfast.Slots, want int, wishes ...int) *holdfast.Hold {
	t.Helper()
	h, err := s.TryAcquire(t.Context(), 1, wishes...)
	if err != nil {
		t.Fatal(err)
	}
	wantSlot(t, h, want)
	return h
}

func wantSlot(t *testing.T, h *holdfast.Hold, want int) {
	t.Helper()
	if h.Slot() != want || h.Path() != slotNode(want) {
		t.Errorf("slot %d, node %s; want %d", h.Slot(), h.Path(), want)
	}
}

func TestSlotsGiveTheLowestFreeNumber(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		s := slots(t, srv, 12)
		wantOf(t, s, 12, 12)
		var held []*holdfast.Hold
		for i := range 12 { // past one digit: the order of names is that of numbers
			held = append(held, acquire(t, slots(t, srv, 12), i))
		}
		wantOf(t, s, 0, 12)
		for _, i := range []int{10, 3, 7} {
			unlock(t, held[i])
		}
		wantOf(t, s, 3, 12)
		for _, i := range []int{3, 7, 10} {
			h := acquire(t, s, i)
			if h.Token() <= held[i].Token() {
				t.Errorf("slot %d: token %d after %d; want it to grow", i, h.Token(), held[i].Token())
			}
		}
		wantOf(t, s, 0, 12)
		_, err := s.TryAcquire(t.Context(), 1)
		wantErr(t, err, holdfast.ErrLocked)
	})
}

func TestPreferredSlotIsGivenIfItIsFree(t *testing.T) {
	for _, tt := range []struct {
		name   string
		taken  []int
		wishes []int
		want   int
	}{
		{"no wish", nil, nil, 0},
		{"free", nil, []int{2}, 2},
		{"the last", nil, []int{3}, 3},
		{"zero", nil, []int{0}, 0},
		{"taken", []int{2}, []int{2}, 0},
		{"taken, and others", []int{0, 2}, []int{2}, 1},
		{"the second wish", []int{2}, []int{2, 3}, 3},
		{"the first wish counts", nil, []int{3, 1}, 3},
		{"beyond the number of slots", nil, []int{4}, 0},
		{"far beyond", nil, []int{1 << 40}, 0},
		{"negative", nil, []int{-1}, 0},
		{"the only one that is left", []int{0, 1, 2}, []int{1}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				s, other := slots(t, srv, 4), slots(t, srv, 4)
				for _, n := range tt.taken {
					acquire(t, other, n, n)
				}
				unlock(t, acquire(t, s, tt.want, tt.wishes...))
				h := lock(t, s.Locker(1, tt.wishes...))
				wantSlot(t, h, tt.want)
			})
		})
	}
}

// A process that stops and starts again gets its number. After a crash, the number is taken until the
// session of the dead process ends.
func TestRestartedProcessKeepsItsSlot(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		other := acquire(t, slots(t, srv, 4), 0)
		first := client(t, srv)
		acquire(t, holdfast.NewSlots(first, lockPath, 4), 1)
		unlock(t, other)
		first.Close()
		second := acquire(t, slots(t, srv, 4), 1, 1)

		resume := srv.Stall() // the process is gone, and its session is not over
		<-second.Lost()
		resume()
		third := acquire(t, slots(t, srv, 4), 0, 1)
		srv.Expire(second.SessionID())
		wantErr(t, second.Unlock(), holdfast.ErrLost)
		again := acquire(t, slots(t, srv, 4), 1, 1)
		if again.Token() <= second.Token() {
			t.Errorf("token %d after %d; want it to grow", again.Token(), second.Token())
		}
		unlock(t, third)
		unlock(t, again)
	})
}

func TestNumberOfSlotsChangesLive(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		s := slots(t, srv, 0)
		set := func(n int) {
			t.Helper()
			if err := s.SetLimit(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		set(1)
		held := []*holdfast.Hold{acquire(t, s, 0)}
		var waiters []*waiter
		for range 3 {
			waiters = append(waiters, wait(t.Context(), slots(t, srv, 0).Locker(1)))
		}
		set(4) // all are admitted
		for i, w := range waiters {
			held = append(held, w.got(t))
			wantSlot(t, held[i+1], i+1)
		}
		set(2)
		for i, h := range held {
			if h.Context().Err() != nil {
				t.Errorf("slot %d is lost", i)
			}
		}
		wantOf(t, s, 0, 2)
		w := wait(t.Context(), slots(t, srv, 0).Locker(1, 3))
		unlock(t, held[3])
		if !w.waiting() {
			t.Fatal("a slot beyond the limit was given again")
		}
		// Slot 2 is still out, and does not count.
		unlock(t, held[1])
		held[1] = w.got(t)
		wantSlot(t, held[1], 1)
		wantOf(t, s, 0, 2)
		unlock(t, held[0])
		wantOf(t, s, 1, 2)
		unlock(t, acquire(t, s, 0, 2, 3))
		unlock(t, held[2])
		unlock(t, held[1])
		set(4)
		unlock(t, acquire(t, s, 3, 3))
	})
}

// The server that a caller reads from does not know yet that a slot is taken, here because the node is made
// right after the look. The server refuses the second node of that name, and the caller takes another slot.
func TestSlotThatIsTakenAfterTheLookIsNotGivenTwice(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, s := client(t, srv), slots(t, srv, 2)
		unlock(t, acquire(t, s, 0))
		synctest.Wait()
		var made atomic.Bool
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			if made.CompareAndSwap(false, true) {
				if _, _, err := c.Create(t.Context(), slotNode(0), nil, zk.Ephemeral); err != nil {
					t.Error(err)
				}
			}
			return zktest.Pass
		})
		unlock(t, acquire(t, s, 1))
		if _, ok, err := c.Exists(t.Context(), slotNode(0)); !ok || err != nil {
			t.Errorf("the node of the other client exists: %v, %v", ok, err)
		}
	})
}

// The answer to the transaction is lost, and the node of that name is not of this attempt: another goroutine
// of the same session has made it meanwhile. The session alone does not tell whose it is.
func TestSlotOfTheSameSessionIsNotFoundInsteadOfOurs(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		s := holdfast.NewSlots(c, lockPath, 2)
		unlock(t, acquire(t, s, 0))
		synctest.Wait()
		var looked, hit atomic.Bool
		made := make(chan struct{})
		srv.Intercept(zkproto.OpGetChildren2, func(path string) zktest.Action {
			if path == lockPath && looked.CompareAndSwap(false, true) { // the last request of the look
				go func() {
					defer close(made)
					c.Create(t.Context(), slotNode(0), nil, zk.Ephemeral) // its answer may be lost as well
				}()
				time.Sleep(time.Millisecond) // of the bubble: until the request is on its way
			}
			return zktest.Pass
		})
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			if looked.Load() && hit.CompareAndSwap(false, true) {
				time.Sleep(time.Millisecond) // until the server has the node; the session's next connection would end its request
				return zktest.DropRequest
			}
			return zktest.Pass
		})
		h := acquire(t, s, 1)
		<-made
		if stat, ok, err := c.Exists(t.Context(), slotNode(0)); !ok || err != nil || stat.EphemeralOwner != h.SessionID() || !hit.Load() {
			t.Errorf("%+v, %v, %v, dropped: %v: the test shows nothing", stat, ok, err, hit.Load())
		}
		unlock(t, h)
	})
}

// A MultiLock takes one slot. Each token belongs to its slot, since tokens grow for each number alone.
func TestSlotInAMultiLock(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		s, m := holdfast.NewSlots(c, lockPath, 4), holdfast.NewMutex(c, lockPath+"-m")
		zero := acquire(t, s, 0)
		h := lock(t, holdfast.NewMultiLock(m, s.Locker(1, 2), s.Locker(1, 3)))
		if h.Slot() != 2 || len(h.Tokens()) != 2 || tokenOf(h, slotNode(2)) == 0 || tokenOf(h, lockPath+"-m") == 0 {
			t.Errorf("slot %d, tokens %v", h.Slot(), h.Tokens())
		}
		if got := zero.Tokens(); len(got) != 1 || got[0].Path != slotNode(0) || got[0].Token != zero.Token() {
			t.Errorf("tokens %v; want that of the slot", got)
		}
		wantOf(t, s, 2, 4)
		unlock(t, h)
		wantOf(t, s, 3, 4)
		alone := lock(t, m)
		if alone.Slot() != -1 {
			t.Errorf("a Mutex has slot %d", alone.Slot())
		}
		unlock(t, alone)
		unlock(t, zero)
	})
}

// List shows the slots by number, with their holders, and then the waiters.
func TestListShowsSlots(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		two := acquire(t, slots(t, srv, 3, holdfast.WithOwner("c")), 2, 2)
		zero := acquire(t, slots(t, srv, 3, holdfast.WithOwner("a")), 0)
		one := acquire(t, slots(t, srv, 3, holdfast.WithOwner("b")), 1)
		w := wait(t.Context(), slots(t, srv, 3, holdfast.WithOwner("d")).Locker(1))
		for _, layout := range []holdfast.Layout{layout.Curator, layout.Kazoo} {
			entries, err := holdfast.List(t.Context(), c, lockPath, layout)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range entries {
				got = append(got, fmt.Sprintf("%s %s %v %v", e.Name[:min(len(e.Name), 21)], e.Owner, e.Held, !e.HeldSince.IsZero() && e.HeldSince.Equal(e.Since)))
			}
			want := []string{"slots/slot-0000000000 a true true", "slots/slot-0000000001 b true true", "slots/slot-0000000002 c true true"}
			if len(got) != 4 || !slices.Equal(got[:3], want) || !strings.HasPrefix(got[3], "slot-queue/_c_") || !strings.HasSuffix(got[3], " d false false") {
				t.Errorf("%q; want %q and the waiter", got, want)
			}
			if found, err := holdfast.Foreign(t.Context(), c, lockPath, layout); err != nil || len(found) != 0 {
				t.Errorf("%+v, %v; want none of what List shows", found, err)
			}
		}
		unlock(t, one)
		for _, h := range []*holdfast.Hold{two, zero, w.got(t)} {
			unlock(t, h)
		}
	})
}

// A holder does not write into its node after a while: a late write could hit the node of its successor.
func TestSlotNodesAreNotRewritten(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		h := acquire(t, slots(t, srv, 2), 0)
		time.Sleep(time.Minute)
		if _, stat, err := c.Get(t.Context(), slotNode(0)); err != nil || stat.Version != 0 {
			t.Errorf("version %d, %v; want 0", stat.Version, err)
		}
		unlock(t, h)
	})
}

// A permit that is free costs few round trips and commits: each is a wait for the network or for a disk.
func TestPermitsCostFewRoundTripsAndCommits(t *testing.T) {
	for name, tt := range map[string]struct {
		of                              func(c *zk.Client) holdfast.Locker
		requests, roundTrips, committed int64 // no round trips: as many as the goroutines of an Unlock take
	}{
		"semaphore":     {func(c *zk.Client) holdfast.Locker { return holdfast.NewSemaphore(c, lockPath, 3).Locker(1) }, 8, 4, 3},
		"three permits": {func(c *zk.Client) holdfast.Locker { return holdfast.NewSemaphore(c, lockPath, 3).Locker(3) }, 10, 0, 5}, // a commit for each permit that goes
		"semaphore of kazoo": {func(c *zk.Client) holdfast.Locker {
			return holdfast.NewSemaphore(c, lockPath, 3, holdfast.WithLayout(layout.Kazoo)).Locker(1)
		}, 9, 5, 3},
		"slots": {func(c *zk.Client) holdfast.Locker { return holdfast.NewSlots(c, lockPath, 3).Locker(1) }, 9, 5, 3},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				line := newLine(t, srv)
				l := tt.of(line.Client)
				unlock(t, lock(t, l)) // makes the directories
				synctest.Wait()
				var writes atomic.Int64
				for _, op := range []zkproto.Op{zkproto.OpCreate2, zkproto.OpMulti, zkproto.OpDelete, zkproto.OpSetData} {
					srv.Intercept(op, func(path string) zktest.Action {
						if strings.HasPrefix(path, lockPath) {
							writes.Add(1)
						}
						return zktest.Pass
					})
				}
				requests, flushes := line.requests.Load(), line.flushes.Load()
				unlock(t, lock(t, l))
				synctest.Wait()
				trips := line.flushes.Load() - flushes
				if tt.roundTrips == 0 {
					trips = 0
				}
				got := fmt.Sprintf("%d requests, %d round trips, %d commits", line.requests.Load()-requests, trips, writes.Load())
				if want := fmt.Sprintf("%d requests, %d round trips, %d commits", tt.requests, tt.roundTrips, tt.committed); got != want {
					t.Errorf("%s; want %s", got, want)
				}
			})
		})
	}
}

// The transaction that takes a permit removes the place at the turnstile, and leaves the watermark of a long
// queue there. If somebody else writes into that directory, the permit is taken without a watermark.
func TestTurnstileOfALongQueueGetsAWatermark(t *testing.T) {
	for _, disturbed := range []bool{false, true} {
		t.Run(fmt.Sprint("disturbed ", disturbed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := client(t, srv)
				if disturbed {
					srv.Intercept(zkproto.OpMulti, func(path string) zktest.Action {
						if _, err := c.Set(t.Context(), lockPath+"/locks", nil, zk.AnyVersion); err != nil {
							t.Error(err)
						}
						return zktest.Pass
					})
				}
				h := lock(t, semaphore(t, srv, 1).Locker(1))
				s := semaphore(t, srv, 1)
				got := make(chan *holdfast.Hold)
				const waiters = 40
				ctx, cancel := context.WithCancel(t.Context())
				var group sync.WaitGroup
				defer group.Wait()
				defer cancel()
				for range waiters {
					group.Go(func() {
						h, err := s.Acquire(ctx, 1)
						if err != nil && ctx.Err() == nil {
							t.Error(err)
						}
						select {
						case got <- h:
						case <-ctx.Done():
						}
					})
				}
				synctest.Wait()
				for range waiters {
					unlock(t, h)
					if h = <-got; h == nil {
						return
					}
				}
				unlock(t, h)
				data, _, err := c.Get(t.Context(), lockPath+"/locks")
				if err != nil || strings.HasPrefix(string(data), "holdfast: passed ") == disturbed {
					t.Errorf("the turnstile has %q, %v; disturbed: %v", data, err, disturbed)
				}
				wantOf(t, s, 1, 1)
			})
		})
	}
}
