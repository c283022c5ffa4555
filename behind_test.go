package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/once"
	"holdfast/reserve"
	"holdfast/shards"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// Apache's leader answers a sync at once, although it may have applied less than other servers. Only a write makes
// it catch up. So every function that promises the state at some moment after its call reads behind a write. Here the
// server has caught up when it answers a write, and not before.
func TestReadsAreBehindAWrite(t *testing.T) {
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	// hide removes the node at path with its data, and returns the function that makes it again.
	hide := func(t *testing.T, admin *zk.Client, path string) func() {
		data, stat, err := admin.Get(t.Context(), path)
		must(t, err)
		must(t, admin.Delete(t.Context(), path, zk.AnyVersion))
		mode := zk.Persistent
		if stat.EphemeralOwner != 0 {
			mode = zk.Ephemeral
		}
		return func() {
			_, _, err := admin.Create(context.Background(), path, data, mode)
			must(t, err)
		}
	}
	for name, tt := range map[string]struct {
		// behind makes what the server does not show yet.
		behind func(t *testing.T, c, admin *zk.Client) (catchUp func())
		// read returns what the function says.
		read func(ctx context.Context, c *zk.Client) (any, error)
		want string
	}{
		"List": {
			func(t *testing.T, _, admin *zk.Client) func() {
				return hide(t, admin, lock(t, holdfast.NewMutex(admin, lockPath)).Path())
			},
			func(ctx context.Context, c *zk.Client) (any, error) {
				entries, err := holdfast.List(ctx, c, lockPath)
				return len(entries), err
			}, "1",
		},
		"List of a node": {
			func(t *testing.T, _, admin *zk.Client) func() {
				return hide(t, admin, lock(t, holdfast.NewNodeLock(admin, lockPath)).Path())
			},
			func(ctx context.Context, c *zk.Client) (any, error) {
				entries, err := holdfast.List(ctx, c, lockPath)
				return len(entries), err
			}, "1",
		},
		"Leader": {
			func(t *testing.T, _, admin *zk.Client) func() {
				return hide(t, admin, lock(t, candidate{holdfast.NewElection(admin, lockPath), "a"}).Path())
			},
			func(ctx context.Context, c *zk.Client) (any, error) {
				l, err := holdfast.NewElection(c, lockPath).Leader(ctx)
				return string(l.Value), err
			}, "a",
		},
		"Recorded": {
			func(t *testing.T, c, admin *zk.Client) func() {
				_, err := once.New(c, lockPath).Key("k").Do(t.Context(), func(context.Context) ([]byte, error) { return []byte("x"), nil })
				must(t, err)
				return hide(t, admin, lockPath+"/once-8/k/done")
			},
			func(ctx context.Context, c *zk.Client) (any, error) {
				r, err := once.New(c, lockPath).Key("k").Recorded(ctx)
				return r != nil && string(r.Value) == "x", err
			}, "true",
		},
		"Reserved": {
			func(t *testing.T, c, admin *zk.Client) func() {
				h := lock(t, holdfast.NewMutex(c, lockPath))
				must(t, reserve.For(t.Context(), h, time.Hour))
				unlock(t, h)
				return hide(t, admin, lockPath+"/.holdfast/reserved")
			},
			func(ctx context.Context, c *zk.Client) (any, error) {
				r, err := reserve.Of(ctx, c, lockPath)
				return r != nil, err
			}, "true",
		},
		"Available": {
			func(t *testing.T, c, admin *zk.Client) func() {
				return hide(t, admin, lock(t, holdfast.NewSemaphore(c, lockPath, 3).Locker(1)).Path())
			},
			func(ctx context.Context, c *zk.Client) (any, error) {
				free, _, err := holdfast.NewSemaphore(c, lockPath, 3).Available(ctx)
				return free, err
			}, "2",
		},
		"Assignment": {
			func(t *testing.T, c, admin *zk.Client) func() {
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					shards.New(c, lockPath, 2).Run(ctx, func(ctx context.Context, _ shards.Shard) error {
						<-ctx.Done()
						return nil
					})
				}()
				time.Sleep(time.Minute)
				names, _, err := admin.Children(t.Context(), lockPath+"/workers")
				must(t, err)
				node := lockPath + "/workers/" + names[0]
				data, _, err := admin.Get(t.Context(), node)
				must(t, err)
				cancel()
				<-done
				return func() {
					_, _, err := admin.Create(context.Background(), node, data, zk.Ephemeral)
					must(t, err)
				}
			},
			func(ctx context.Context, c *zk.Client) (any, error) {
				all, err := shards.New(c, lockPath, 2).Assignment(ctx)
				present := 0
				for _, w := range all {
					if w.Session != 0 {
						present++
					}
				}
				return present, err
			}, "1",
		},
		"Unlock of a Detached": {
			func(t *testing.T, c, admin *zk.Client) func() {
				return hide(t, admin, claim(t, detached(c, 0, holdfast.WithOwner("ada"))).Path)
			},
			func(ctx context.Context, c *zk.Client) (any, error) {
				return nil, detached(c, 0).Unlock(ctx, "another id")
			}, "<nil> holdfast: unlock /holdfast/locks/db: locked by another: not held: nobody has the id \"another id\"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c, admin := client(t, srv), client(t, srv)
				catchUp := tt.behind(t, c, admin)
				reader := client(t, srv)
				id := mustSession(t, reader)
				var once atomic.Bool
				srv.Intercept(zkproto.OpMulti, func(path string) zktest.Action {
					if !strings.Contains(path, "/_c_") && once.CompareAndSwap(false, true) { // else it is of a holder
						catchUp()
					}
					return zktest.Pass
				})
				got, err := tt.read(t.Context(), reader)
				said := fmt.Sprint(got)
				if err != nil {
					said += " " + err.Error()
				}
				if said != tt.want {
					t.Errorf("%s; want %s", said, tt.want)
				}
				if id != mustSession(t, reader) {
					t.Error("the session has ended: the test shows nothing")
				}
			})
		})
	}
}

// An observer whose session has ended reaches a server that is behind, and shows the leader before. Terms do not go back.
func TestTermsNeverGoBack(t *testing.T) {
	inBubble(t, func(t *testing.T, behind *zktest.Server) {
		old := lock(t, candidate{holdfast.NewElection(client(t, behind), lockPath), "old"})
		time.Sleep(time.Minute) // tokens of a later server are larger
		srv := zktest.NewServer()
		defer srv.Close()
		var moved atomic.Bool
		cfg, other := srv.Config(), behind.Config()
		dial := cfg.Dial
		cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if moved.Load() {
				return other.Dial(ctx, network, address)
			}
			return dial(ctx, network, address)
		}
		c, err := zk.Dial(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		now := lock(t, candidate{holdfast.NewElection(client(t, srv), lockPath), "new"})
		if old.Token() >= now.Token() {
			t.Fatalf("tokens %d, %d: the test shows nothing", old.Token(), now.Token())
		}
		behind.Intercept(zkproto.OpMulti, func(path string) zktest.Action { // it has caught up: nobody leads any more
			if path == lockPath {
				old.Unlock()
			}
			return zktest.Pass
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		time.AfterFunc(time.Second, func() {
			moved.Store(true)
			srv.Expire(mustSession(t, c))
		})
		var last int64
		for l, err := range holdfast.NewElection(c, lockPath).Leaders(ctx) {
			switch {
			case errors.Is(err, context.DeadlineExceeded):
			case err != nil:
				t.Fatal(err)
			case l.Term != 0 && l.Term < last:
				t.Errorf("term %d (%s) after term %d", l.Term, l.Value, last)
			}
			last = max(last, l.Term)
		}
		if last != now.Token() {
			t.Errorf("the last term is %d; want %d", last, now.Token())
		}
		synctest.Wait()
	})
}
