package holdfast_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/once"
	"holdfast/reserve"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// survive calls f in a goroutine that may end in any way, and reports whether f has returned.
func survive(f func()) (returned bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { recover() }()
		f()
		returned = true
	}()
	<-done
	return returned
}

// taken are calls that take a lock, each of one kind. They give it back.
var taken = map[string]func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error{
	"mutex": giveBack(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewMutex(c, lockPath, opts...)
	}),
	"writer": giveBack(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewRWMutex(c, lockPath, opts...)
	}),
	"reader": giveBack(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewRWMutex(c, lockPath, opts...).RLocker()
	}),
	"permits": giveBack(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewSemaphore(c, lockPath, 2, opts...).Locker(2)
	}),
	"slot": giveBack(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewSlots(c, lockPath, 2, opts...).Locker()
	}),
	"node lock": giveBack(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewNodeLock(c, lockPath, opts...)
	}),
	"tree": giveBack(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewTree(c, lockPath, opts...).Path("a/b")
	}),
	"reservable": giveBack(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
		return reserve.Locker(holdfast.NewMutex(c, lockPath, opts...))
	}),
	"handed on": giveBack(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewMutex(c, lockPath, append(opts, holdfast.WithLocalHandoff(3))...)
	}),
	"kept": giveBack(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewMutex(c, lockPath, append(opts, holdfast.WithKeep(time.Second))...)
	}),
	"several": giveBack(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewMultiLock(holdfast.NewMutex(c, lockPath, opts...), holdfast.NewMutex(c, lockPath+"2", opts...), holdfast.NewSemaphore(c, lockPath+"3", 2, opts...).Locker(1))
	}),
	"try": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
		h, err := holdfast.NewMutex(c, lockPath, opts...).TryLock(ctx)
		if err != nil {
			return err
		}
		return h.Unlock()
	},
	"writer that reads": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
		m := holdfast.NewRWMutex(c, lockPath, opts...)
		return holdfast.Do(ctx, m, func(ctx context.Context) error {
			return holdfast.Do(ctx, m.RLocker(), func(context.Context) error { return nil })
		})
	},
	"term": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
		return holdfast.NewElection(c, lockPath, opts...).Lead(ctx, nil, func(context.Context) error { return nil })
	},
	"once": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
		_, err := once.New(c, lockPath, once.WithLock(opts...)).Key("k").Do(ctx, func(context.Context) ([]byte, error) { return nil, nil })
		return err
	},
}

func giveBack(of func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker) func(context.Context, *zk.Client, ...holdfast.Option) error {
	return func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
		h, err := of(c, opts...).Lock(ctx)
		if err != nil {
			return err
		}
		return h.Unlock()
	}
}

// A hook that panics, or ends its goroutine, costs the caller its call. It does not cost the others the lock: nobody could
// unlock it, and the session lives on.
func TestHookThatPanicsLeavesNoLock(t *testing.T) {
	ends := map[string]func(){"panic": func() { panic("a hook") }, "Goexit": runtime.Goexit}
	hooks := map[string]func(end func()) *holdfast.Observer{
		"Queued": func(end func()) *holdfast.Observer {
			return &holdfast.Observer{Queued: func(context.Context, holdfast.Event) context.Context { end(); return nil }}
		},
		"Acquired": func(end func()) *holdfast.Observer {
			return &holdfast.Observer{Acquired: func(context.Context, holdfast.Event) { end() }}
		},
		"Released": func(end func()) *holdfast.Observer {
			return &holdfast.Observer{Released: func(context.Context, holdfast.Event) { end() }}
		},
	}
	for hook, of := range hooks {
		for kind, take := range taken {
			for how, end := range ends {
				for nth := range int32(3) { // of several locks, each
					t.Run(fmt.Sprintf("%s/%s/%s/%d", hook, kind, how, nth), func(t *testing.T) {
						inBubble(t, func(t *testing.T, srv *zktest.Server) {
							c, other := client(t, srv), client(t, srv)
							var calls atomic.Int32
							observer := of(func() {
								if calls.Add(1) == nth+1 {
									end()
								}
							})
							returned := survive(func() { take(t.Context(), c, holdfast.WithObserver(observer)) })
							if returned != (calls.Load() <= nth) {
								t.Errorf("the call returned: %v; the hook was called %d times", returned, calls.Load())
							}
							wantLeftAlone(t, other, take)
							wantLeftAlone(t, c, take)
						})
					})
				}
			}
		}
	}
}

// wantLeftAlone checks that a lock is free, for c, within a moment.
func wantLeftAlone(t *testing.T, c *zk.Client, take func(context.Context, *zk.Client, ...holdfast.Option) error) {
	t.Helper()
	synctest.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := take(ctx, c); err != nil {
		t.Errorf("the lock is not free: %v", err)
	}
}

// The same with the client's hook, after each request on the way to the lock and back.
func TestTraceThatPanicsLeavesNoLock(t *testing.T) {
	all := map[string]func(context.Context, *zk.Client, ...holdfast.Option) error{
		"detached": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error { // the caller has the id if Lock returns
			_, err := detached(c, 0, opts...).Lock(ctx)
			return err
		},
		"detached for some time": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
			_, err := detached(c, time.Hour, opts...).Lock(ctx)
			return err
		},
		"release": func(ctx context.Context, c *zk.Client, _ ...holdfast.Option) error {
			h, err := holdfast.NewMultiLock(holdfast.NewNodeLock(c, lockPath), holdfast.NewNodeLock(c, lockPath+"2")).Lock(ctx)
			if err != nil {
				return err
			}
			return h.Release()
		},
		"commit and unlock": func(ctx context.Context, c *zk.Client, _ ...holdfast.Option) error {
			h, err := holdfast.NewMultiLock(holdfast.NewMutex(c, lockPath), holdfast.NewMutex(c, lockPath+"2")).Lock(ctx)
			if err != nil {
				return err
			}
			_, err = h.CommitAndUnlock(ctx, zk.CheckOp("/", zk.AnyVersion))
			return err
		},
	}
	for kind, take := range taken {
		all[kind] = take
	}
	for kind, take := range all {
		t.Run(kind, func(t *testing.T) {
			for nth, over := int32(1), false; !over; nth++ {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					var calls atomic.Int32
					var armed atomic.Bool
					cfg := srv.Config()
					cfg.Trace = &zk.Trace{RequestDone: func(context.Context, string, string, time.Duration, error) {
						// Elsewhere, a panic would end the program.
						if armed.Load() && strings.Contains(callers(), "holdfast_test.survive.") && calls.Add(1) == nth {
							panic("a hook")
						}
					}}
					c, err := zk.Dial(t.Context(), cfg)
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					other := client(t, srv)
					armed.Store(true)
					over = survive(func() { take(t.Context(), c) })
					armed.Store(false)
					if over {
						return
					}
					wantLeftAlone(t, other, take)
				})
			}
		})
	}
}

// callers names the functions on the stack.
func callers() string {
	pc := make([]uintptr, 64)
	frames := runtime.CallersFrames(pc[:runtime.Callers(2, pc)])
	var names []string
	for {
		f, more := frames.Next()
		names = append(names, f.Function)
		if !more {
			return strings.Join(names, " ")
		}
	}
}

// A loop over the leaders that panics leaves no watch behind.
func TestLoopOverLeadersThatPanics(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		h := lock(t, candidate{holdfast.NewElection(client(t, srv), lockPath), "a"})
		var removed atomic.Int32
		srv.Intercept(zkproto.OpRemoveWatches, func(path string) zktest.Action {
			if path == h.Path() {
				removed.Add(1)
			}
			return zktest.Pass
		})
		survive(func() {
			for range holdfast.NewElection(c, lockPath).Leaders(t.Context()) {
				panic("in the loop")
			}
		})
		synctest.Wait()
		if n := removed.Load(); n != 1 {
			t.Errorf("%d watches of the leader's node are removed; want that of the loop", n)
		}
		unlock(t, h)
	})
}
