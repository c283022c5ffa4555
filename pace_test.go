package holdfast_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast"
	"holdfast/once"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

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
		"slots":       of(func(c *zk.Client) holdfast.Locker { return holdfast.NewSlots(c, lockPath, 1).Locker() }, false),
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
