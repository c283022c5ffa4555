package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/once"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// A throttle is an overloaded server, for as long as it is on. It counts the requests that it
// refuses.
type throttle struct {
	on      atomic.Bool
	refused atomic.Int64
}

// enough bounds how many requests a throttle refuses. Fake time stands still for a caller
// that sends without a pause, so the test would never end otherwise.
const enough = 20_000

// newThrottle returns a throttle for requests of the given kinds, or of all kinds. It starts off.
func newThrottle(srv *zktest.Server, ops ...zkproto.Op) *throttle {
	if len(ops) == 0 {
		ops = []zkproto.Op{
			zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpDelete, zkproto.OpExists, zkproto.OpGetData,
			zkproto.OpSetData, zkproto.OpGetChildren, zkproto.OpGetChildren2, zkproto.OpMulti, zkproto.OpMultiRead, zkproto.OpSync,
		}
	}
	th := &throttle{}
	for _, op := range ops {
		srv.Intercept(op, func(string) zktest.Action {
			if th.on.Load() && th.refused.Add(1) < enough {
				return zktest.Throttle
			}
			return zktest.Pass
		})
	}
	return th
}

// A throttling server delays everything, and makes neither waits nor removals fail. No client
// gives up, and none retries without a pause.
func TestThrottledServerMakesNothingFail(t *testing.T) {
	ctx := context.Background()
	type setup struct {
		srv *zktest.Server
		c   *zk.Client
	}
	mutex := func(s setup) *holdfast.Mutex { return holdfast.NewMutex(s.c, lockPath) }
	// Each case prepares something without faults, and returns the operation to run under them.
	cases := map[string]func(t *testing.T, s setup) func() error{
		"lock": func(t *testing.T, s setup) func() error {
			return func() error { return locked(mutex(s).Lock(ctx)) }
		},
		"try lock": func(t *testing.T, s setup) func() error {
			return func() error { return locked(mutex(s).TryLock(ctx)) }
		},
		"lock where the directory is there": func(t *testing.T, s setup) func() error {
			unlock(t, lock(t, mutex(s)))
			return func() error { return locked(mutex(s).Lock(ctx)) }
		},
		"unlock": func(t *testing.T, s setup) func() error { return lock(t, mutex(s)).Unlock },
		"commit": func(t *testing.T, s setup) func() error {
			h := lock(t, mutex(s))
			return func() error {
				_, err := h.Commit(ctx, zk.CreateOp("/done", nil, zk.Persistent))
				return errors.Join(err, h.Unlock())
			}
		},
		"do": func(t *testing.T, s setup) func() error {
			return func() error { return holdfast.Do(ctx, mutex(s), func(context.Context) error { return nil }) }
		},
		"local handoff": func(t *testing.T, s setup) func() error {
			return func() error { return locked(inMemory(s.c, 3).Lock(ctx)) }
		},
		"downgrade": func(t *testing.T, s setup) func() error {
			m := holdfast.NewRWMutex(s.c, lockPath)
			h := lock(t, m)
			return func() error { return errors.Join(locked(m.RLock(h.Context())), h.Unlock()) }
		},
		"semaphore": func(t *testing.T, s setup) func() error {
			return func() error { return locked(holdfast.NewSemaphore(s.c, lockPath, 3).Acquire(ctx, 2)) }
		},
		"semaphore of kazoo": func(t *testing.T, s setup) func() error {
			return func() error {
				return locked(holdfast.NewSemaphore(s.c, lockPath, 3, holdfast.WithLayout(layout.Kazoo)).TryAcquire(ctx, 1))
			}
		},
		"limit": func(t *testing.T, s setup) func() error {
			return func() error {
				sem := holdfast.NewSemaphore(s.c, lockPath, 0)
				err := sem.SetLimit(ctx, 4)
				free, limit, e := sem.Available(ctx)
				if e == nil && (free != 4 || limit != 4) {
					e = errors.New("another limit")
				}
				return errors.Join(err, e)
			}
		},
		"node lock": func(t *testing.T, s setup) func() error {
			return func() error { return locked(holdfast.NewNodeLock(s.c, lockPath+"/node").Lock(ctx)) }
		},
		"several": func(t *testing.T, s setup) func() error {
			return func() error { return locked(holdfast.NewMultiLock(mutexes(s.c, "a", "b")...).Lock(ctx)) }
		},
		"campaign": func(t *testing.T, s setup) func() error {
			e := holdfast.NewElection(s.c, lockPath)
			return func() error {
				h, err := e.Campaign(ctx, []byte("a"))
				if err != nil {
					return err
				}
				return errors.Join(e.Proclaim(ctx, h, []byte("b")), h.Unlock())
			}
		},
		"leader": func(t *testing.T, s setup) func() error {
			e := holdfast.NewElection(s.c, lockPath)
			h := lock(t, candidate{e, "a"})
			return func() error {
				_, err := e.Leader(ctx)
				return errors.Join(err, h.Unlock())
			}
		},
		"no leader": func(t *testing.T, s setup) func() error {
			return func() error {
				if _, err := holdfast.NewElection(s.c, lockPath).Leader(ctx); !errors.Is(err, holdfast.ErrNoLeader) {
					return err
				}
				return nil
			}
		},
		"list": func(t *testing.T, s setup) func() error {
			h := lock(t, mutex(s))
			return func() error {
				_, err := holdfast.List(ctx, s.c, lockPath)
				return errors.Join(err, h.Unlock())
			}
		},
		"revoke": func(t *testing.T, s setup) func() error {
			h := lock(t, holdfast.NewMutex(client(t, s.srv), lockPath))
			return func() error {
				defer h.Unlock()
				return holdfast.Revoke(ctx, s.c, lockPath, h.Token())
			}
		},
		"break": func(t *testing.T, s setup) func() error {
			h := lock(t, holdfast.NewMutex(client(t, s.srv), lockPath))
			return func() error {
				defer h.Unlock()
				return holdfast.Break(ctx, s.c, lockPath, h.Token())
			}
		},
	}
	for name, prepare := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				th := newThrottle(srv)
				do := prepare(t, setup{srv, client(t, srv)})
				th.on.Store(true)
				done := make(chan error, 1)
				began := time.Now()
				go func() { done <- do() }()
				time.Sleep(20 * time.Second)
				if n := th.refused.Load(); n == 0 || n > 300 { // the most is two at a time: 160 to 205 in 600 runs
					t.Errorf("%d requests in 20 s; want 1 to 300", n)
				}
				select {
				case err := <-done:
					t.Fatalf("the operation returned while the server throttled: %v", err)
				default:
				}
				th.on.Store(false)
				if err := <-done; err != nil {
					t.Error(err)
				}
				// Each of its requests may have backed off a second more.
				if late := time.Since(began) - 20*time.Second; late > 2*time.Second {
					t.Errorf("the operation took %v", late)
				}
			})
		})
	}
}

// locked unlocks the Hold that it got.
func locked(h *holdfast.Hold, err error) error {
	if err != nil {
		return err
	}
	return h.Unlock()
}

// A server throttles while waiters wake up or set watches. They get their turn all the same:
// in a queue, in a group that shares its lists, before a semaphore, an election and a node.
func TestWaitersOutlastAThrottledServer(t *testing.T) {
	for name, kind := range map[string]func(c *zk.Client) holdfast.Locker{
		"mutex":    func(c *zk.Client) holdfast.Locker { return holdfast.NewMutex(c, lockPath) },
		"reader":   func(c *zk.Client) holdfast.Locker { return holdfast.NewRWMutex(c, lockPath).RLocker() },
		"permit":   func(c *zk.Client) holdfast.Locker { return holdfast.NewSemaphore(c, lockPath, 1).Locker(1) },
		"node":     func(c *zk.Client) holdfast.Locker { return holdfast.NewNodeLock(c, lockPath) },
		"line":     func(c *zk.Client) holdfast.Locker { return inMemory(c, 3) },
		"election": func(c *zk.Client) holdfast.Locker { return candidate{holdfast.NewElection(c, lockPath), "a"} },
		"crowd":    func(c *zk.Client) holdfast.Locker { return holdfast.NewMutex(c, lockPath) },
	} {
		t.Run(name, func(t *testing.T) {
			if name == "crowd" {
				defer holdfast.SetShareFrom(0)()
			}
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := client(t, srv)
				th := newThrottle(srv)
				of := func(c *zk.Client) holdfast.Locker {
					if name == "reader" {
						return holdfast.NewRWMutex(c, lockPath)
					}
					return kind(c)
				}
				first := lock(t, of(client(t, srv)))
				waiters := []*waiter{wait(t.Context(), kind(c))}
				th.on.Store(true)
				for range 4 {
					waiters = append(waiters, wait(t.Context(), kind(c)))
				}
				go first.Unlock()
				time.Sleep(10 * time.Second)
				th.on.Store(false)
				time.Sleep(2 * time.Second)
				th.on.Store(true)
				time.Sleep(10 * time.Second)
				if n := th.refused.Load(); n == 0 || n > 1000 {
					t.Errorf("%d requests in 20 s from five waiters", n)
				}
				th.on.Store(false)
				deadline := time.After(time.Minute)
				for len(waiters) > 0 {
					progress := false
					for i, w := range waiters {
						if !w.waiting() {
							unlock(t, w.got(t))
							waiters = append(waiters[:i], waiters[i+1:]...)
							progress = true
							break
						}
					}
					if progress {
						continue
					}
					select {
					case <-deadline:
						t.Fatalf("%d waiters wait for ever", len(waiters))
					case <-time.After(time.Second):
					}
				}
			})
		})
	}
}

// A Hold is told that its node was removed, even if the server throttled when the Hold set
// its watch, or set it again.
func TestHoldIsToldThoughTheServerWasThrottling(t *testing.T) {
	for name, watched := range map[string]bool{"young": false, "watched": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				admin := client(t, srv)
				th := newThrottle(srv, zkproto.OpGetData)
				h := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
				if watched {
					time.Sleep(time.Second)
				}
				th.on.Store(true)
				if _, err := admin.Set(t.Context(), h.Path(), []byte("something"), zk.AnyVersion); err != nil { // the change wakes it
					t.Fatal(err)
				}
				time.Sleep(8 * time.Second)
				if n := th.refused.Load(); n == 0 || n > 40 {
					t.Errorf("%d requests in 8 s", n)
				}
				th.on.Store(false)
				time.Sleep(2 * time.Second)
				if h.Context().Err() != nil {
					t.Fatal(context.Cause(h.Context()))
				}
				if err := admin.Delete(t.Context(), h.Path(), zk.AnyVersion); err != nil {
					t.Fatal(err)
				}
				select {
				case <-h.Lost():
				case <-time.After(20 * time.Second): // before it looks again by itself
					t.Error("the holder was not told for 20 seconds")
				}
				h.Unlock()
			})
		})
	}
}

// An early Unlock also ends the tenure's watch while that backs off.
func TestUnlockEndsWatchingThatBacksOff(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		th := newThrottle(srv, zkproto.OpGetData)
		h := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		th.on.Store(true)
		time.Sleep(5 * time.Second)
		unlock(t, h)
		synctest.Wait()
		n := th.refused.Load()
		time.Sleep(10 * time.Second)
		if th.refused.Load() != n {
			t.Error("a Hold that is over still reads its node")
		}
	})
}

// Observers keep following an election while the server throttles.
func TestObserverOutlastsAThrottledServer(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		e := holdfast.NewElection(client(t, srv), lockPath)
		th := newThrottle(srv, zkproto.OpGetData, zkproto.OpGetChildren2, zkproto.OpExists, zkproto.OpSync)
		first := lock(t, candidate{e, "first"})
		second := wait(t.Context(), candidate{e, "second"})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		seen := make(chan string, 10)
		go func() {
			for l, err := range holdfast.NewElection(client(t, srv), lockPath).Leaders(ctx) {
				if err != nil {
					seen <- err.Error()
					return
				}
				seen <- string(l.Value)
			}
		}()
		if got := <-seen; got != "first" {
			t.Fatal(got)
		}
		th.on.Store(true)
		unlock(t, first) // the observer has to read the next leader
		time.Sleep(20 * time.Second)
		if n := th.refused.Load(); n == 0 || n > 80 {
			t.Errorf("%d requests in 20 s from an observer and a candidate", n)
		}
		th.on.Store(false)
		if got := <-seen; got != "second" {
			t.Error(got)
		}
		cancel()
		unlock(t, second.got(t))
	})
}

// A wait that backs off ends with its client. If only its session ends, it continues in the
// next one.
func TestEndOfTheSessionIsSeenWhileBackingOff(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		th := newThrottle(srv)
		th.on.Store(true)
		w := wait(t.Context(), mutexAt(c))
		closing := client(t, srv)
		last := wait(t.Context(), mutexAt(closing))
		time.Sleep(5 * time.Second)
		before, err := c.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		srv.Expire(before.ID())
		closing.Close()
		time.Sleep(2 * time.Second)
		if last.waiting() {
			t.Error("a Lock outlives its client")
		} else {
			wantErr(t, last.err, zk.ErrClosed)
		}
		if !w.waiting() {
			t.Fatal(w.err)
		}
		th.on.Store(false)
		h := w.got(t)
		if h.SessionID() == before.ID() {
			t.Error("the lock is held in a session that is over")
		}
		unlock(t, h)
	})
}

// Somebody takes each term away as soon as it begins. The candidate does not answer with hundreds of terms a second, and
// does not give up.
func TestLeadPausesBetweenTermsThatAreTakenAway(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, admin := client(t, srv), client(t, srv)
		var terms, calm int
		var lost time.Time
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		err := holdfast.NewElection(c, lockPath).Lead(ctx, nil, func(ctx context.Context) error {
			h, _ := holdfast.FromContext(ctx)
			switch terms++; {
			case time.Since(began) > time.Minute && calm == 2:
				cancel()
				return nil
			case time.Since(began) > time.Minute:
				if calm++; calm == 2 && time.Since(lost) > 50*time.Millisecond {
					t.Errorf("%v after a term of a minute", time.Since(lost))
				}
				time.Sleep(time.Minute) // nobody takes it away
			}
			lost = time.Now()
			if err := holdfast.Break(context.Background(), admin, lockPath, h.Token()); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if terms < 60 || terms > 140 {
			t.Errorf("%d terms in a minute", terms)
		}
	})
}

// Somebody removes the node of each attempt. A wait goes on, and a try tries again, but not without a pause. When nobody
// removes them any more, the caller has the lock soon.
func TestAttemptsPauseWhenTheirNodesAreRemoved(t *testing.T) {
	locker := func(f func(ctx context.Context, c *zk.Client) error) func(context.Context, *zk.Client) error {
		return f
	}
	of := func(l func(c *zk.Client) holdfast.Locker, try bool) func(context.Context, *zk.Client) error {
		return locker(func(ctx context.Context, c *zk.Client) error {
			acquire := l(c).Lock
			if try {
				acquire = l(c).TryLock
			}
			h, err := acquire(ctx)
			if err == nil {
				err = h.Unlock()
			}
			return err
		})
	}
	mutex := func(opts ...holdfast.Option) func(c *zk.Client) holdfast.Locker {
		return func(c *zk.Client) holdfast.Locker { return holdfast.NewMutex(c, lockPath, opts...) }
	}
	for name, call := range map[string]func(ctx context.Context, c *zk.Client) error{
		"mutex":       of(mutex(), false),
		"try":         of(mutex(), true),
		"observed":    of(mutex(holdfast.WithObserver(&holdfast.Observer{Queued: func(ctx context.Context, _ holdfast.Event) context.Context { return ctx }})), false),
		"reader":      of(readAt, false),
		"line":        of(mutex(holdfast.WithLocalHandoff(3)), false),
		"kept":        of(mutex(holdfast.WithKeep(time.Second)), false),
		"semaphore":   of(func(c *zk.Client) holdfast.Locker { return holdfast.NewSemaphore(c, lockPath, 1).Locker(1) }, false),
		"slots":       of(func(c *zk.Client) holdfast.Locker { return holdfast.NewSlots(c, lockPath, 1).Locker(1) }, false),
		"several":     of(func(c *zk.Client) holdfast.Locker { return holdfast.NewMultiLock(mutex()(c)) }, false),
		"try several": of(func(c *zk.Client) holdfast.Locker { return holdfast.NewMultiLock(mutex()(c)) }, true),
		"candidate":   of(func(c *zk.Client) holdfast.Locker { return candidate{holdfast.NewElection(c, lockPath), "a"} }, false),
		"detached": func(ctx context.Context, c *zk.Client) error {
			_, err := detached(c, 0).Lock(ctx)
			return err
		},
		"once": func(ctx context.Context, c *zk.Client) error {
			_, err := once.New(c, lockPath).Key("k").Do(ctx, func(context.Context) ([]byte, error) { return nil, nil })
			return err
		},
		"forget": func(ctx context.Context, c *zk.Client) error {
			return once.New(c, lockPath).Key("k").Forget(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c, janitor := client(t, srv), client(t, srv)
				until := time.Now().Add(time.Minute)
				var attempts atomic.Int32
				var busy atomic.Bool
				srv.Intercept(zkproto.OpGetChildren2, func(path string) zktest.Action { // of a queue, behind the create
					if time.Now().After(until) || !busy.CompareAndSwap(false, true) { // or it is of the janitor
						return zktest.Pass
					}
					defer busy.Store(false)
					for range 5 { // until the create is executed
						names, _, _ := janitor.Children(context.Background(), path)
						for _, name := range names {
							if strings.Contains(name, "_c_") && janitor.Delete(context.Background(), path+"/"+name, zk.AnyVersion) == nil {
								attempts.Add(1)
								return zktest.Pass
							}
						}
						time.Sleep(time.Millisecond)
					}
					return zktest.Pass
				})
				if err := call(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				if late := time.Since(until); late < 0 || late > 2*time.Second {
					t.Errorf("it has the lock %v after the last removal", late)
				}
				if n := attempts.Load(); n < 40 || n > 140 {
					t.Errorf("%d attempts in a minute", n)
				}
			})
		})
	}
}
