package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"holdfast"
	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zkproto"
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
		return s, s.Locker()
	}},
}

// eachLimit runs f for each of them. of makes a lock with a client of its own.
func eachLimit(t *testing.T, f func(t *testing.T, srv *zktest.Server, turnstile string, of func(n int, opts ...holdfast.Option) holdfast.Locker)) {
	for name, l := range limits {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				f(t, srv, l.turnstile, func(n int, opts ...holdfast.Option) holdfast.Locker {
					_, locker := l.of(client(t, srv), n, opts...)
					return locker
				})
			})
		})
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
			for _, want := range []string{"it is 2, not 3", "worker 1", fmt.Sprintf("session 0x%x", h.SessionID()), h.Path(), "claim 2", "SetLimit"} {
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
