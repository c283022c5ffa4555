package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"holdfast"
	"holdfast/once"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// Servers of other implementations have no containers. They refuse the request in one of these ways, or never answer it.
var withoutContainers = map[string]func(srv *zktest.Server, asked *int) func(string) zktest.Action{
	"drops the connection": func(_ *zktest.Server, asked *int) func(string) zktest.Action {
		return func(string) zktest.Action { *asked++; return zktest.DropRequest }
	},
	"refuses the arguments": func(_ *zktest.Server, asked *int) func(string) zktest.Action {
		return func(string) zktest.Action { *asked++; return zktest.Action(zkproto.CodeBadArguments) }
	},
	"does not know the request": func(_ *zktest.Server, asked *int) func(string) zktest.Action {
		return func(string) zktest.Action { *asked++; return zktest.Action(zkproto.CodeUnimplemented) }
	},
}

// Every kind of lock works on a server without containers. Its directories are persistent nodes there. The client finds that
// out once.
func TestLocksOnAServerWithoutContainers(t *testing.T) {
	for how, refuse := range withoutContainers {
		for kind, lock := range map[string]func(c *zk.Client, path string) holdfast.Locker{
			"mutex":     func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewMutex(c, path) },
			"writer":    func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewRWMutex(c, path) },
			"semaphore": func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewSemaphore(c, path, 2).Locker(1) },
			"slots":     func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewSlots(c, path, 2).Locker() },
			"node":      func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewNodeLock(c, path) },
			"tree":      func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewTree(c, "/tree").Path(path[1:]) },
		} {
			t.Run(how+"/"+kind, func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					asked := 0
					srv.Intercept(zkproto.OpCreateContainer, refuse(srv, &asked))
					c := client(t, srv)
					l := lock(c, "/deep/below/lock")
					began := time.Now()
					h, err := l.TryLock(t.Context())
					if err != nil {
						t.Fatalf("try lock: %v", err)
					}
					if took := time.Since(began); took > 10*time.Second {
						t.Errorf("took %v", took)
					}
					unlock(t, h)
					first := asked
					h, err = lock(c, "/another/lock").Lock(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					unlock(t, h)
					if first > 5 || asked != first {
						t.Errorf("the server was asked for containers %d times, and %d times later", first, asked-first)
					}
				})
			})
		}
	}
}

// The same with nodes that have a time to live: a detached lock that expires has an ordinary node there.
func TestDetachedOnAServerWithoutTimesToLive(t *testing.T) {
	for how, refuse := range withoutContainers {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				asked, times := 0, 1
				if how == "drops the connection" {
					times = 3 // then the client asks for an ordinary node
				}
				refuses := refuse(srv, &asked)
				srv.Intercept(zkproto.OpMulti, func(path string) zktest.Action {
					if asked == times {
						return zktest.Pass
					}
					return refuses(path)
				})
				c := client(t, srv)
				got, err := holdfast.NewDetached(c, lockPath, time.Hour).Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if err := holdfast.NewDetached(c, lockPath, 0).Unlock(t.Context(), got.ID); err != nil || asked != times {
					t.Error(err, asked)
				}
			})
		})
	}
}

// A request that ends every connection makes a call fail with an error that names it, while the server answers others. The
// call does not try for ever.
func TestARequestThatAlwaysFailsIsNamed(t *testing.T) {
	run := func(context.Context) ([]byte, error) { return nil, nil }
	type setup struct {
		ctx     context.Context
		c       *zk.Client
		m       *holdfast.Mutex
		breakIt func()
	}
	for _, tt := range []struct {
		what string
		op   zkproto.Op
		says string
		act  func(s setup) error
	}{
		{"lock", zkproto.OpCreate2, "create /", func(s setup) error { s.breakIt(); return locked(s.m.Lock(s.ctx)) }},
		{"try lock", zkproto.OpCreate2, "create /", func(s setup) error { s.breakIt(); return locked(s.m.TryLock(s.ctx)) }},
		{"try lock", zkproto.OpGetChildren2, "children /", func(s setup) error { s.breakIt(); return locked(s.m.TryLock(s.ctx)) }},
		{"unlock", zkproto.OpDelete, "delete /", func(s setup) error {
			h, err := s.m.Lock(s.ctx)
			s.breakIt()
			return errors.Join(err, h.Unlock())
		}},
		{"wait", zkproto.OpGetData, "get /", func(s setup) error {
			h, err := s.m.Lock(s.ctx)
			s.breakIt()
			return errors.Join(err, locked(s.m.Lock(s.ctx)), h.Unlock())
		}},
		{"commit", zkproto.OpMulti, "multi", func(s setup) error {
			h, err := s.m.Lock(s.ctx)
			s.breakIt()
			for range 100 {
				if _, err = h.Commit(s.ctx, zk.CheckOp(lockPath, zk.AnyVersion)); !errors.Is(err, zk.ErrConnectionLoss) {
					break
				}
			}
			return errors.Join(err, h.Unlock())
		}},
		{"semaphore", zkproto.OpMulti, "multi", func(s setup) error {
			s.breakIt()
			return locked(holdfast.NewSemaphore(s.c, "/sem", 2).TryAcquire(s.ctx, 1))
		}},
		{"semaphore's limit", zkproto.OpSetData, "set /", func(s setup) error {
			s.breakIt()
			return holdfast.NewSemaphore(s.c, lockPath, 2).SetLimit(s.ctx, 3)
		}},
		{"slots", zkproto.OpMulti, "multi", func(s setup) error {
			s.breakIt()
			return locked(holdfast.NewSlots(s.c, "/slots", 2).Acquire(s.ctx))
		}},
		{"node", zkproto.OpCreate2, "create /", func(s setup) error {
			s.breakIt()
			return locked(holdfast.NewNodeLock(s.c, "/node").TryLock(s.ctx))
		}},
		{"detached", zkproto.OpMulti, "multi", func(s setup) error {
			s.breakIt()
			_, err := holdfast.NewDetached(s.c, "/detached", time.Hour).TryLock(s.ctx)
			return err
		}},
		{"once", zkproto.OpMulti, "multi", func(s setup) error {
			s.breakIt()
			_, err := once.New(s.c, "/once").Key("key").Do(s.ctx, run)
			return err
		}},
		{"forget", zkproto.OpMulti, "multi", func(s setup) error {
			_, err := once.New(s.c, "/once").Key("key").Do(s.ctx, run)
			s.breakIt()
			return errors.Join(err, once.New(s.c, "/once").Key("key").Forget(s.ctx))
		}},
		{"list", zkproto.OpMulti, "multi", func(s setup) error {
			s.breakIt()
			_, err := holdfast.List(s.ctx, s.c, lockPath)
			return err
		}},
	} {
		t.Run(tt.what+"/"+tt.op.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := client(t, srv)
				unlock(t, lock(t, holdfast.NewMutex(c, lockPath)))
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				err := tt.act(setup{ctx, c, holdfast.NewMutex(c, lockPath), func() {
					srv.Intercept(tt.op, func(string) zktest.Action { return zktest.DropRequest })
				}})
				srv.Intercept(tt.op, nil)
				if took := time.Since(began); err == nil || took > 2*time.Minute || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("got error %v after %v; want one that names the request %q", err, took, tt.says)
				}
			})
		})
	}
}
