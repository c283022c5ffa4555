package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"holdfast"
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
			"semaphore": func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewSemaphore(c, path, 2).Locker() },
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

// A request that ends every connection makes Lock, TryLock and Unlock fail with an error that names it, while the server
// answers others. They do not try for ever.
func TestARequestThatAlwaysFailsIsNamed(t *testing.T) {
	for _, tt := range []struct {
		op   zkproto.Op
		says string
		act  func(ctx context.Context, m *holdfast.Mutex, srv *zktest.Server, breakIt func()) error
	}{
		{zkproto.OpCreate2, "create /", func(ctx context.Context, m *holdfast.Mutex, _ *zktest.Server, breakIt func()) error {
			breakIt()
			_, err := m.Lock(ctx)
			return err
		}},
		{zkproto.OpCreate2, "create /", func(ctx context.Context, m *holdfast.Mutex, _ *zktest.Server, breakIt func()) error {
			breakIt()
			_, err := m.TryLock(ctx)
			return err
		}},
		{zkproto.OpGetChildren2, "children", func(ctx context.Context, m *holdfast.Mutex, _ *zktest.Server, breakIt func()) error {
			breakIt()
			_, err := m.TryLock(ctx)
			return err
		}},
		{zkproto.OpDelete, "delete /", func(ctx context.Context, m *holdfast.Mutex, _ *zktest.Server, breakIt func()) error {
			h, err := m.Lock(ctx)
			if err != nil {
				return err
			}
			breakIt()
			return h.Unlock()
		}},
	} {
		t.Run(tt.op.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := client(t, srv)
				unlock(t, lock(t, holdfast.NewMutex(c, lockPath)))
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				err := tt.act(ctx, holdfast.NewMutex(c, lockPath), srv, func() {
					srv.Intercept(tt.op, func(string) zktest.Action { return zktest.DropRequest })
				})
				if err == nil || !errors.Is(err, zk.ErrUnimplemented) || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("got error %v after %v; want one that names the request %q", err, time.Since(began), tt.says)
				}
				if took := time.Since(began); took > time.Minute {
					t.Errorf("took %v", took)
				}
				srv.Intercept(tt.op, nil)
			})
		})
	}
}
