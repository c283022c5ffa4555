package reserve_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/reserve"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

func reservable(t *testing.T, srv *zktest.Server, opts ...holdfast.Option) holdfast.Locker {
	t.Helper()
	return reserve.Locker(holdfast.NewMutex(client(t, srv), lockPath, opts...))
}

func reserveFor(t *testing.T, h *holdfast.Hold, d time.Duration) {
	t.Helper()
	if err := reserve.For(t.Context(), h, d); err != nil {
		t.Fatal(err)
	}
}

// whenFree locks l, and returns how long that took.
func whenFree(t *testing.T, l holdfast.Locker) time.Duration {
	t.Helper()
	began := time.Now()
	unlock(t, lock(t, l))
	return time.Since(began)
}

// wantRest checks that a wait has lasted as long as a reservation, and hardly longer.
func wantRest(t *testing.T, got, want time.Duration) {
	t.Helper()
	if got < want || got > want+5*time.Millisecond {
		t.Errorf("the lock was reserved for %v; want %v", got, want)
	}
}

// A reservation goes on after Unlock, after the end of the session, and after a crash of the server. It binds
// all kinds of lock with a queue, and nobody without Reservable.
func TestReservationOutlivesItsHolder(t *testing.T) {
	ends := map[string]func(t *testing.T, srv *zktest.Server, c *zk.Client, h *holdfast.Hold){
		"unlock": func(t *testing.T, _ *zktest.Server, _ *zk.Client, h *holdfast.Hold) { unlock(t, h) },
		"close":  func(_ *testing.T, _ *zktest.Server, c *zk.Client, _ *holdfast.Hold) { c.Close() },
		"expire": func(_ *testing.T, srv *zktest.Server, _ *zk.Client, h *holdfast.Hold) { srv.Expire(h.SessionID()) },
		"restart": func(t *testing.T, srv *zktest.Server, _ *zk.Client, h *holdfast.Hold) {
			unlock(t, h)
			srv.Restart()
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := client(t, srv)
				h := lock(t, holdfast.NewMutex(c, lockPath, holdfast.WithOwner("ada")))
				began := time.Now()
				reserveFor(t, h, time.Minute)
				token := h.Token()
				end(t, srv, c, h)
				other := client(t, srv)
				rw := holdfast.NewRWMutex(other, lockPath)
				for kind, l := range map[string]holdfast.Locker{
					"Mutex": reservable(t, srv), "writer": reserve.Locker(rw), "reader": reserve.Locker(rw.RLocker()),
					"MultiLock": reserve.Locker(holdfast.NewMultiLock(holdfast.NewMutex(other, lockPath), holdfast.NewMutex(other, "/holdfast/locks/x"))),
				} {
					h, err := l.TryLock(t.Context())
					wantErr(t, err, holdfast.ErrLocked)
					if h != nil {
						unlock(t, h)
					}
					r, ok := errors.AsType[*reserve.Reservation](err)
					if !ok || r.Path != lockPath || r.Owner != "ada" || r.Token != token || r.Until.Sub(r.From) != time.Minute || r.From.Before(began.Truncate(time.Millisecond)) {
						t.Errorf("%s: %v, %+v", kind, err, r)
					}
				}
				unlock(t, lock(t, holdfast.NewMutex(other, lockPath))) // as any other library
				unlock(t, lock(t, reservable(t, srv)))
				wantRest(t, time.Since(began), time.Minute)
				if d := whenFree(t, reservable(t, srv)); d > time.Millisecond { // the unit of the server's times
					t.Errorf("after the reservation, the lock took %v", d)
				}
			})
		})
	}
}

// A waiter that was in the queue before the reservation was made sees it. It keeps its place: those behind it wait,
// too, without Reservable, and then get the lock in their order.
func TestReservationHoldsUpTheQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		began := time.Now()
		h := lock(t, reservable(t, srv))
		var mu sync.Mutex
		var order []string
		var wg sync.WaitGroup
		for i, l := range []holdfast.Locker{
			reservable(t, srv), holdfast.NewMutex(client(t, srv), lockPath), reservable(t, srv), holdfast.NewMutex(client(t, srv), lockPath),
		} {
			wg.Go(func() {
				next := lock(t, l)
				mu.Lock()
				order = append(order, fmt.Sprint(i, time.Since(began).Round(time.Second)))
				mu.Unlock()
				unlock(t, next)
			})
			synctest.Wait()
		}
		time.Sleep(time.Second)
		reserveFor(t, h, 10*time.Second)
		unlock(t, h)
		wg.Wait()
		if got := fmt.Sprint(order); got != "[0 11s 1 11s 2 11s 3 11s]" {
			t.Error(got)
		}
	})
}

// Each holder's reservation replaces that of the one before, and Unreserve ends it: a waiter sees that soon.
func TestReservationIsReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := lock(t, reservable(t, srv))
		reserveFor(t, h, time.Hour)
		reserveFor(t, h, 10*time.Second)
		unlock(t, h)
		wantRest(t, whenFree(t, reservable(t, srv)), 10*time.Second)
		plain := holdfast.NewMutex(client(t, srv), lockPath)
		h = lock(t, plain)
		reserveFor(t, h, time.Hour)
		c := client(t, srv)
		if r, err := reserve.Of(t.Context(), c, lockPath); err != nil || r == nil || r.Token != h.Token() || r.Until.Sub(r.From) != time.Hour {
			t.Errorf("%+v, %v", r, err)
		}
		for range 2 {
			if err := reserve.Cancel(t.Context(), h); err != nil {
				t.Error(err)
			}
		}
		unlock(t, h)
		if r, err := reserve.Of(t.Context(), c, lockPath); err != nil || r != nil {
			t.Errorf("%+v, %v", r, err)
		}
		if d := whenFree(t, reservable(t, srv)); d != 0 {
			t.Errorf("the lock took %v", d)
		}
		h = lock(t, plain)
		reserveFor(t, h, time.Hour)
		unlock(t, h)
		waits := make(chan time.Duration, 1)
		l := reservable(t, srv)
		go func() { waits <- whenFree(t, l) }()
		time.Sleep(7 * time.Second)
		if err := c.Delete(t.Context(), lockPath+"/.holdfast/reserved", zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		if d := <-waits; d < 7*time.Second || d > 9*time.Second {
			t.Errorf("the waiter saw the end of the reservation after %v", d)
		}
	})
}

// If the wait ends first, the error tells both, and the place in the queue is gone.
func TestReservedLockThatIsNotAwaited(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := lock(t, reservable(t, srv, holdfast.WithOwner("ada")))
		reserveFor(t, h, time.Hour)
		unlock(t, h)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := reservable(t, srv).Lock(ctx)
		wantErr(t, err, context.DeadlineExceeded)
		wantErr(t, err, holdfast.ErrLocked)
		if !strings.Contains(err.Error(), "reserved by ada until ") || time.Since(began) != time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		synctest.Wait()
		if left := queued(t, client(t, srv)); fmt.Sprint(left) != "[.holdfast]" {
			t.Errorf("left behind: %q", left)
		}
		_, err = reservable(t, srv).TryLock(t.Context())
		wantErr(t, err, holdfast.ErrLocked)
		synctest.Wait()
		if left := queued(t, client(t, srv)); fmt.Sprint(left) != "[.holdfast]" {
			t.Errorf("left behind: %q", left)
		}
	})
}

// A waiter at the head whose session ends, or whose node is removed, waits on in a new place.
func TestReservationOutlivesItsWaiter(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := lock(t, reservable(t, srv))
		began := time.Now()
		reserveFor(t, h, time.Minute)
		unlock(t, h)
		c := client(t, srv)
		l := reserve.Locker(holdfast.NewMutex(c, lockPath))
		waits := make(chan struct{})
		go func() {
			defer close(waits)
			unlock(t, lock(t, l))
		}()
		time.Sleep(5 * time.Second)
		session, err := c.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		srv.Expire(session.ID())
		time.Sleep(20 * time.Second)
		for _, name := range queued(t, c) {
			if name != ".holdfast" {
				if err := c.Delete(t.Context(), lockPath+"/"+name, zk.AnyVersion); err != nil {
					t.Fatal(err)
				}
			}
		}
		<-waits
		wantRest(t, time.Since(began), time.Minute)
	})
}

// Who has lost the lock reserves nothing.
func TestReserveAfterTheLoss(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		h := lock(t, holdfast.NewMutex(c, lockPath))
		if err := client(t, srv).Delete(t.Context(), h.Path(), zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		wantErr(t, reserve.For(t.Context(), h, time.Minute), holdfast.ErrLost)
		h.Unlock()
		wantErr(t, reserve.For(t.Context(), h, time.Minute), holdfast.ErrNotHeld)
		if r, err := reserve.Of(t.Context(), c, lockPath); err != nil || r != nil {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// A connection that is lost at any point changes nothing: Reserve returns when the reservation is recorded.
func TestReserveUnderLostConnections(t *testing.T) {
	for _, fault := range faults {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			points := 0
			for at, reached := 1, true; reached; at++ {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					cut := newCut(srv, at, fault)
					l := reservable(t, srv)
					cut.on.Store(true)
					h := lock(t, l)
					reserveFor(t, h, time.Minute)
					began := time.Now()
					unlock(t, h)
					cut.on.Store(false)
					next := reservable(t, srv)
					_, err := next.TryLock(t.Context())
					wantErr(t, err, holdfast.ErrLocked)
					unlock(t, lock(t, next))
					if d := time.Since(began); d > time.Minute+5*time.Millisecond || d < time.Minute-sessionTimeout {
						t.Errorf("request %d: reserved for %v", at, d)
					}
					reached = cut.reached.Load()
				})
				points = at
			}
			if points < 6 {
				t.Errorf("%d points; want more", points)
			}
		})
	}
}

func TestReserveIsForOneHolderOfAQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		for name, l := range map[string]holdfast.Locker{
			"reader":    holdfast.NewRWMutex(c, "/holdfast/locks/rw").RLocker(),
			"semaphore": holdfast.NewSemaphore(c, "/holdfast/locks/s", 2).Locker(1),
			"slots":     holdfast.NewSlots(c, "/holdfast/locks/slots", 2).Locker(1),
			"node":      holdfast.NewNodeLock(c, "/holdfast/locks/n"),
			"tree":      holdfast.NewTree(c, "/holdfast/locks/t").Path("a"),
			"keep":      holdfast.NewMutex(c, "/holdfast/locks/k", holdfast.WithKeep(time.Second)),
			"handoff":   holdfast.NewMutex(c, "/holdfast/locks/h", holdfast.WithLocalHandoff(3)),
		} {
			h := lock(t, reserve.Locker(l))
			if err := reserve.For(t.Context(), h, time.Minute); !errors.Is(err, zk.ErrBadArguments) {
				t.Errorf("%s: %v", name, err)
			}
			unlock(t, h)
		}
		h := lock(t, holdfast.NewMutex(c, lockPath))
		for _, d := range []time.Duration{0, -time.Second, time.Microsecond, 367 * 24 * time.Hour} {
			wantErr(t, reserve.For(t.Context(), h, d), zk.ErrBadArguments)
		}
		// What somebody else has written there is not guessed at.
		reserveFor(t, h, time.Minute)
		if _, err := c.Set(t.Context(), lockPath+"/.holdfast/reserved", []byte("x"), zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		unlock(t, h)
		_, err := reservable(t, srv).Lock(t.Context())
		wantErr(t, err, holdfast.ErrKind)
		// A reservation is no obstacle to its own holder.
		again := reserve.Locker(holdfast.NewMutex(c, "/holdfast/locks/r", holdfast.Reentrant()))
		h = lock(t, again)
		reserveFor(t, h, time.Hour)
		inner, err := again.Lock(h.Context())
		if err != nil {
			t.Fatal(err)
		}
		unlock(t, inner)
		unlock(t, h)
	})
}

// Many hosts take the lock at random moments, and some crash. The reservations of no two of them overlap.
func TestReservationsDoNotOverlap(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		const d = 10 * time.Second
		rng := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		var began []time.Time
		var wg sync.WaitGroup
		for range 12 {
			pause := rng.Int64N(int64(20 * time.Second))
			seed := rng.Uint64()
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(seed, 3))
				time.Sleep(time.Duration(pause))
				for range 10 {
					c := client(t, srv)
					l := reserve.Locker(holdfast.NewMutex(c, lockPath))
					var h *holdfast.Hold
					var err error
					if rng.IntN(2) == 0 {
						h, err = l.TryLock(t.Context())
					} else {
						h, err = l.Lock(t.Context())
					}
					if err == nil {
						if err := reserve.For(t.Context(), h, d); err != nil {
							t.Error(err)
						}
						mu.Lock()
						began = append(began, time.Now())
						mu.Unlock()
						time.Sleep(time.Duration(rng.Int64N(int64(time.Second))))
						if rng.IntN(3) == 0 {
							srv.Expire(h.SessionID())
						}
						h.Unlock()
					} else {
						wantErr(t, err, holdfast.ErrLocked)
					}
					c.Close()
					time.Sleep(time.Duration(rng.Int64N(int64(20 * time.Second))))
				}
			})
		}
		wg.Wait()
		if len(began) < 20 {
			t.Errorf("%d holders; want more", len(began))
		}
		for i := range began[1:] {
			if apart := began[i+1].Sub(began[i]); apart < d {
				t.Errorf("two holders began %v apart", apart)
			}
		}
	})
}

// Locks of layout.Named share a path, and nothing else: each has its own reservation.
func TestNamedLocksAreReservedEachByItself(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := holdfast.WithLayout(layout.Named("a")), holdfast.WithLayout(layout.Named("b"))
		c := client(t, srv)
		h := lock(t, reservable(t, srv, a))
		reserveFor(t, h, time.Hour)
		unlock(t, h)
		_, err := reservable(t, srv, a).TryLock(t.Context())
		wantErr(t, err, holdfast.ErrLocked)
		h = lock(t, reservable(t, srv, b))
		reserveFor(t, h, time.Minute)
		unlock(t, h)
		for name, tt := range map[string]struct {
			layouts []holdfast.Layout
			want    time.Duration
		}{
			"a": {[]holdfast.Layout{layout.Named("a")}, time.Hour}, "b": {[]holdfast.Layout{layout.Named("b")}, time.Minute}, "": {nil, 0},
		} {
			r, err := reserve.Of(t.Context(), c, lockPath, tt.layouts...)
			if err != nil || (r == nil) != (tt.want == 0) || r != nil && r.Until.Sub(r.From) != tt.want {
				t.Errorf("%q: %+v, %v; want %v", name, r, err, tt.want)
			}
		}
	})
}

// End ends a reservation whoever holds the lock, and never the one that has replaced it.
func TestReservationIsEnded(t *testing.T) {
	for _, fault := range append(faults, zktest.Pass) {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := client(t, srv)
				h := lock(t, reservable(t, srv))
				reserveFor(t, h, time.Hour)
				unlock(t, h)
				r, err := reserve.Of(t.Context(), c, lockPath)
				if err != nil || r == nil {
					t.Fatal(r, err)
				}
				waiter := make(chan time.Duration)
				go func() { waiter <- whenFree(t, reservable(t, srv)) }()
				time.Sleep(time.Minute)
				var hit atomic.Bool
				srv.Intercept(zkproto.OpDelete, func(path string) zktest.Action {
					if strings.HasSuffix(path, "/reserved") && hit.CompareAndSwap(false, true) {
						return fault
					}
					return zktest.Pass
				})
				if err := r.End(t.Context(), c); err != nil || !hit.Load() {
					t.Error(err, hit.Load())
				}
				if d := <-waiter; d > time.Minute+3*time.Second {
					t.Errorf("the waiter waited for %v", d)
				}
				wantErr(t, r.End(t.Context(), c), holdfast.ErrNotHeld)
				h = lock(t, reservable(t, srv))
				reserveFor(t, h, time.Hour)
				wantErr(t, r.End(t.Context(), c), holdfast.ErrNotHeld)
				if now, err := reserve.Of(t.Context(), c, lockPath); err != nil || now == nil || now.Token != h.Token() {
					t.Errorf("%+v, %v; want that of %d", now, err, h.Token())
				}
			})
		})
	}
}

// The server that the caller reads from is behind: it does not show the reservation yet. End reads again behind a write.
func TestEndAtAServerThatIsBehind(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		admin, c := client(t, srv), client(t, srv)
		h := lock(t, holdfast.NewMutex(c, lockPath))
		reserveFor(t, h, time.Hour)
		unlock(t, h)
		r, err := reserve.Of(t.Context(), c, lockPath)
		if err != nil || r == nil {
			t.Fatal(r, err)
		}
		const node = lockPath + "/.holdfast/reserved"
		data, _, err := admin.Get(t.Context(), node)
		if err != nil {
			t.Fatal(err)
		}
		if err := admin.Delete(t.Context(), node, zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action { // the server has caught up when it answers a write
			if _, _, err := admin.Create(t.Context(), node, data, zk.Persistent); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				t.Error(err)
			}
			return zktest.Pass
		})
		if err := r.End(t.Context(), c); err != nil {
			t.Error(err)
		}
	})
}

// A caller that has given up hears the cause of its context, also if the lock was lost before or at that moment.
func TestReservedLockThatIsLostAndNotAwaited(t *testing.T) {
	for _, reserves := range []bool{true, false} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			h := lock(t, reservable(t, srv))
			if reserves {
				reserveFor(t, h, time.Hour)
			}
			unlock(t, h)
			c := client(t, srv)
			ctx := &spentContext{Context: t.Context()}
			waits := reserves
			srv.Intercept(zkproto.OpGetData, func(path string) zktest.Action {
				switch {
				case !strings.HasSuffix(path, "/reserved"):
				case waits:
					waits = false
				default: // the caller gives up, and its session ends
					ctx.spent.Store(true)
					srv.Intercept(zkproto.OpGetData, nil)
					srv.Expire(mustSession(t, c))
					return zktest.DropRequest
				}
				return zktest.Pass
			})
			_, err := reserve.Locker(holdfast.NewMutex(c, lockPath)).Lock(ctx)
			wantErr(t, err, context.Canceled)
			if errors.Is(err, holdfast.ErrLost) {
				t.Errorf("reserved %v: %v", reserves, err)
			}
			if r, _ := errors.AsType[*reserve.Reservation](err); (r != nil) != reserves {
				t.Errorf("reserved %v: %v", reserves, err)
			}
		})
	}
}
