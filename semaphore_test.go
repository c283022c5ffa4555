package holdfast_test

import (
	"context"
	"errors"
	"fmt"
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

func semaphore(t *testing.T, srv *zktest.Server, limit int, opts ...holdfast.Option) *holdfast.Semaphore {
	return holdfast.NewSemaphore(client(t, srv), lockPath, limit, opts...)
}

func wantFree(t *testing.T, s *holdfast.Semaphore, free, limit int) {
	t.Helper()
	f, l, err := s.Available(t.Context())
	if err != nil || f != free || l != limit {
		t.Errorf("%d of %d free (%v); want %d of %d", f, l, err, free, limit)
	}
}

var semaphoreLayouts = []holdfast.Layout{layout.Curator, layout.Kazoo}

func TestSemaphoreLetsInAsManyAsItsLimit(t *testing.T) {
	for _, layout := range semaphoreLayouts {
		t.Run(layout.Name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				use := holdfast.WithLayout(layout)
				s := semaphore(t, srv, 3, use)
				wantFree(t, s, 3, 3)
				a, b := lock(t, s.Locker(1)), lock(t, s.Locker(2))
				wantFree(t, s, 0, 3)
				if b.Token() <= a.Token() {
					t.Errorf("token %d after %d; want it to grow", b.Token(), a.Token())
				}
				_, err := s.TryAcquire(t.Context(), 1)
				wantErr(t, err, holdfast.ErrLocked)
				w := wait(t.Context(), semaphore(t, srv, 3, use).Locker(1))
				if !w.waiting() {
					t.Fatal("four permits of three are out")
				}
				unlock(t, a)
				c := w.got(t)
				unlock(t, b)
				wantFree(t, s, 2, 3)
				unlock(t, c)
				wantFree(t, s, 3, 3)
			})
		})
	}
}

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
		wantFree(t, s, 2, 3) // a waiter does not hoard
		unlock(t, b)
		h := three.got(t)
		wantFree(t, s, 0, 3)
		unlock(t, h)
		unlock(t, one.got(t))
		wantFree(t, s, 3, 3)
	})
}

func TestSemaphoreLimitIsStoredAndVerified(t *testing.T) {
	for _, layout := range semaphoreLayouts {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			use := holdfast.WithLayout(layout)
			_, err := semaphore(t, srv, 0, use).Acquire(t.Context(), 1)
			wantErr(t, err, holdfast.ErrLimit) // no limit is set
			h := lock(t, semaphore(t, srv, 2, use).Locker(1))
			_, err = semaphore(t, srv, 3, use).Acquire(t.Context(), 1)
			wantErr(t, err, holdfast.ErrLimit)
			if err == nil || !strings.Contains(err.Error(), "it is 2, not 3") {
				t.Error(err)
			}
			follower := semaphore(t, srv, 0, use)
			_, err = follower.Acquire(t.Context(), 3)
			wantErr(t, err, holdfast.ErrLimit)
			_, err = follower.Acquire(t.Context(), 0)
			wantErr(t, err, holdfast.ErrLimit)
			unlock(t, lock(t, follower.Locker(1)))
			if data, _, err := client(t, srv).Get(t.Context(), lockPath); err != nil || string(data) != "2" {
				t.Errorf("stored %q, %v; kazoo looks for 2", data, err)
			}
			unlock(t, h)
		})
	}
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
		wantErr(t, s.SetLimit(t.Context(), 0), holdfast.ErrLimit)
	})
}

// The limit is lowered while a waiter is about to be admitted under the old one. The
// transaction fails.
func TestAdmissionOnAnOldLimitFails(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		s, admin := semaphore(t, srv, 0), semaphore(t, srv, 0)
		if err := admin.SetLimit(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		a := lock(t, admin.Locker(1))
		var cut atomic.Bool
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			if cut.CompareAndSwap(false, true) {
				if err := admin.SetLimit(t.Context(), 1); err != nil {
					t.Error(err)
				}
			}
			return zktest.Pass
		})
		_, err := s.TryAcquire(t.Context(), 1)
		wantErr(t, err, holdfast.ErrLocked)
		unlock(t, a)
		wantFree(t, s, 1, 1)
	})
}

// A holder of the turnstile sleeps and is thrown out, and another client is admitted
// meanwhile. The sleeper must not take permits on top of that.
func TestSleeperAtTheTurnstileTakesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		s, other := semaphore(t, srv, 1), semaphore(t, srv, 1)
		unlock(t, lock(t, s.Locker(1)))
		synctest.Wait()
		var slept atomic.Bool
		taken := make(chan *holdfast.Hold, 1)
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			if slept.CompareAndSwap(false, true) {
				turn, err := holdfast.List(t.Context(), c, lockPath+"/locks")
				if err != nil || len(turn) != 1 {
					t.Error(turn, err)
				}
				if err := holdfast.Break(t.Context(), c, lockPath+"/locks", turn[0].Token); err != nil {
					t.Error(err)
				}
				h, err := other.TryAcquire(t.Context(), 1)
				if err != nil {
					t.Error(err)
				}
				taken <- h
			}
			return zktest.Pass
		})
		w := wait(t.Context(), s.Locker(1))
		h := <-taken
		if !w.waiting() {
			t.Fatalf("two permits of one are out (%v)", w.err)
		}
		unlock(t, h)
		unlock(t, w.got(t))
		wantFree(t, s, 1, 1)
	})
}

// Every request is lost once, in either direction. Permits are acquired all the same, no more
// than asked for, and none is missing afterwards (CURATOR-462, CURATOR-335).
func TestSemaphoreLosesNoPermitToLostConnections(t *testing.T) {
	ops := []zkproto.Op{zkproto.OpCreate2, zkproto.OpMulti, zkproto.OpGetChildren2, zkproto.OpGetData, zkproto.OpExists, zkproto.OpDelete, zkproto.OpSetData}
	for _, layout := range semaphoreLayouts {
		for _, op := range ops {
			for _, fault := range faults {
				t.Run(fmt.Sprintf("%s/%v/%v", layout.Name, op, fault), func(t *testing.T) {
					inBubble(t, func(t *testing.T, srv *zktest.Server) {
						s, observer := semaphore(t, srv, 3, holdfast.WithLayout(layout)), semaphore(t, srv, 3, holdfast.WithLayout(layout))
						var hit atomic.Bool
						srv.Intercept(op, func(path string) zktest.Action {
							if strings.HasPrefix(path, lockPath) && hit.CompareAndSwap(false, true) {
								return fault
							}
							return zktest.Pass
						})
						h := lock(t, s.Locker(2))
						wantFree(t, observer, 1, 3)
						unlock(t, h)
						wantFree(t, observer, 3, 3)
						if !hit.Load() {
							t.Error("the fault never struck")
						}
						unlock(t, lock(t, s.Locker(3)))
					})
				})
			}
		}
	}
}

// The wait, or the taking itself, is cancelled at its worst moment.
func TestCancelledAcquireLeavesNothing(t *testing.T) {
	for _, op := range []zkproto.Op{zkproto.OpCreate2, zkproto.OpMulti, zkproto.OpGetData} {
		for _, fault := range append(faults, zktest.Pass) {
			t.Run(fmt.Sprintf("%v/%v", op, fault), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					s := semaphore(t, srv, 3)
					unlock(t, lock(t, s.Locker(1)))
					synctest.Wait()
					ctx, cancel := context.WithCancel(t.Context())
					srv.Intercept(op, func(string) zktest.Action {
						cancel()
						return fault
					})
					h, err := s.Acquire(ctx, 2)
					if err == nil {
						unlock(t, h) // admitted before it noticed
					} else {
						wantErr(t, err, context.Canceled)
					}
					srv.Intercept(op, nil)
					time.Sleep(time.Second) // for the reconnect
					synctest.Wait()
					wantFree(t, s, 3, 3)
					unlock(t, lock(t, semaphore(t, srv, 3).Locker(3)))
				})
			})
		}
	}
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

// Permits of a client that died come back. A waiter at the turnstile whose own session ended
// queues again (CURATOR-595).
func TestPermitsOfADeadSessionComeBack(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		dead := lock(t, semaphore(t, srv, 3).Locker(3))
		c := client(t, srv)
		w := wait(t.Context(), holdfast.NewSemaphore(c, lockPath, 3).Locker(2))
		s, err := c.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		srv.Expire(s.ID())
		<-s.Context().Done()
		if !w.waiting() {
			t.Fatal(w.err)
		}
		srv.Expire(dead.SessionID())
		<-dead.Lost()
		wantErr(t, dead.Unlock(), holdfast.ErrLost)
		unlock(t, w.got(t))
		wantFree(t, semaphore(t, srv, 3), 3, 3)
	})
}

// Losing one permit of a Hold loses them all.
func TestOnePermitRemovedIsAllLost(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, s := client(t, srv), semaphore(t, srv, 3)
		h := lock(t, s.Locker(3))
		names, _, err := c.Children(t.Context(), lockPath+"/leases")
		if err != nil || len(names) != 3 {
			t.Fatal(names, err)
		}
		if err := c.Delete(t.Context(), lockPath+"/leases/"+names[1], zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		<-h.Lost()
		wantErr(t, h.Unlock(), holdfast.ErrLost)
		wantFree(t, s, 3, 3)
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
				wantFree(t, s, 3, 3)
			})
		})
	}
}

// Revoke reaches the holder of a permit, and Break reaches a waiter, which then queues again.
func TestRevokeAndBreakReachHoldersAndWaitersOfASemaphore(t *testing.T) {
	for _, layout := range semaphoreLayouts {
		t.Run(layout.Name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				in := holdfast.WithLayout(layout)
				c, s := client(t, srv), semaphore(t, srv, 1, in)
				h := lock(t, s.Locker(1))
				w := wait(t.Context(), s.Locker(1))
				waiter := func() int64 {
					t.Helper()
					entries, err := holdfast.List(t.Context(), c, lockPath, layout)
					if err != nil || len(entries) != 2 || !entries[0].Held || entries[1].Held {
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
				unlock(t, h)
				unlock(t, w.got(t))
			})
		})
	}
}

func TestAcquireUnderOnesOwnPermitIsADeadlock(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		s := semaphore(t, srv, 2)
		h := lock(t, s.Locker(1))
		_, err := s.Acquire(h.Context(), 1)
		wantErr(t, err, holdfast.ErrDeadlock)
		second, err := s.TryAcquire(h.Context(), 1) // does not wait
		if err != nil {
			t.Fatal(err)
		}
		unlock(t, second)
		unlock(t, h)
	})
}

// Foreign children are no permits. Otherwise a stray node would cost a permit for ever.
func TestForeignChildrenAreNoPermits(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, s := client(t, srv), semaphore(t, srv, 1)
		unlock(t, lock(t, s.Locker(1)))
		for _, name := range []string{"content", "x-lease-1", "lease-0000000000x"} {
			if _, _, err := c.Create(t.Context(), lockPath+"/leases/"+name, nil, zk.Persistent); err != nil {
				t.Fatal(err)
			}
		}
		unlock(t, lock(t, s.Locker(1)))
	})
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

// Many clients try and wait over breaking connections. Never more permits than the limit are
// out, and none is missing afterwards (hazards 24 and 47).
func TestSemaphoreUnderFaults(t *testing.T) {
	for _, layout := range semaphoreLayouts {
		t.Run(layout.Name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				var n atomic.Int64
				for _, op := range []zkproto.Op{zkproto.OpCreate2, zkproto.OpMulti, zkproto.OpGetChildren2, zkproto.OpDelete, zkproto.OpExists} {
					srv.Intercept(op, func(path string) zktest.Action {
						if strings.HasPrefix(path, lockPath) && n.Add(1)%41 == 0 {
							return faults[n.Load()%2]
						}
						return zktest.Pass
					})
				}
				var wg sync.WaitGroup
				var held, most, got atomic.Int32
				for i := range 4 {
					s := semaphore(t, srv, 3, holdfast.WithLayout(layout))
					for j := range 4 {
						wg.Go(func() {
							want := 1 + (i+j)%2
							for range 5 {
								h, err := s.Locker(want).TryLock(t.Context())
								if err != nil {
									h = lock(t, s.Locker(want))
								}
								now := held.Add(int32(want))
								if now > 3 {
									t.Errorf("%d permits of 3 are out", now)
								}
								most.Store(max(most.Load(), now))
								got.Add(1)
								time.Sleep(5 * time.Millisecond)
								held.Add(-int32(want))
								unlock(t, h)
							}
						})
					}
				}
				wg.Wait()
				if got.Load() != 80 || most.Load() != 3 {
					t.Errorf("%d turns, at most %d permits out; want 80, 3", got.Load(), most.Load())
				}
				wantFree(t, semaphore(t, srv, 3, holdfast.WithLayout(layout)), 3, 3)
			})
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
				wantFree(t, semaphore(t, srv, 2, use), 0, 2)
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
