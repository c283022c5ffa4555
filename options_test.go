package holdfast_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

var layouts = []holdfast.Layout{
	holdfast.LayoutCurator, holdfast.LayoutLeaderLatch, holdfast.LayoutKazoo, holdfast.LayoutGoZookeeper,
	holdfast.LayoutWriteLock, holdfast.LayoutHostRW, holdfast.LayoutSessionID, holdfast.LayoutArticle, holdfast.LayoutNamed("db"),
}

// Every layout finds its own nodes again, even if its names do not tell two goroutines of one
// session apart. Answers to creates and deletes are lost all the time. Still one client
// holds the lock at a time, and nothing is left (hazards 4, 18, 19; WriteLocks of one
// session adopt each other's nodes).
func TestEveryLayoutFindsItsOwnNodeAgain(t *testing.T) {
	for _, layout := range layouts {
		t.Run(layout.Name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				use := holdfast.WithLayout(layout)
				c := client(t, srv)
				unlock(t, lock(t, holdfast.NewMutex(c, lockPath, use)))
				var n, hits atomic.Int64
				for _, op := range []zkproto.Op{zkproto.OpCreate2, zkproto.OpDelete} {
					srv.Intercept(op, func(path string) zktest.Action {
						if n.Add(1)%5 == 0 {
							return faults[hits.Add(1)%2]
						}
						return zktest.Pass
					})
				}
				var wg sync.WaitGroup
				holders, count, token := atomic.Int32{}, 0, int64(0)
				for range 2 {
					m := holdfast.NewMutex(c, lockPath, use)
					for range 3 {
						wg.Go(func() {
							for range 5 {
								h := lock(t, m)
								if holders.Add(1) != 1 {
									t.Error("two hold the lock")
								}
								if h.Token() <= token {
									t.Errorf("token %d after %d; want it to grow", h.Token(), token)
								}
								token = h.Token()
								count++
								time.Sleep(time.Millisecond)
								holders.Add(-1)
								unlock(t, h)
							}
						})
					}
				}
				wg.Wait()
				wantQueued(t, c, 0)
				if count != 30 || hits.Load() == 0 {
					t.Errorf("count is %d, %d faults; want 30 and at least one fault", count, hits.Load())
				}
			})
		})
	}
}

func TestParentsAreWhatTheLayoutSays(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		var containers atomic.Int32
		srv.Intercept(zkproto.OpCreateContainer, func(string) zktest.Action {
			containers.Add(1)
			return zktest.Pass
		})
		unlock(t, lock(t, holdfast.NewMutex(c, "/a/b", holdfast.WithLayout(holdfast.LayoutKazoo))))
		if n := containers.Load(); n != 0 {
			t.Errorf("%d containers for kazoo, which fails when its directory is gone; want none", n)
		}
		unlock(t, lock(t, holdfast.NewMutex(c, "/c/d")))
		if n := containers.Load(); n < 2 {
			t.Errorf("%d containers in Curator's layout; want 2", n)
		}
	})
}

func TestWithValueIsTheNodesData(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		h := lock(t, holdfast.NewMutex(c, lockPath, holdfast.WithValue([]byte("10.0.0.5")), holdfast.WithOwner("nobody")))
		if data, _, err := c.Get(t.Context(), h.Path()); err != nil || string(data) != "10.0.0.5" {
			t.Errorf("%q, %v", data, err)
		}
		unlock(t, h)
		_, err := holdfast.NewMutex(c, lockPath, holdfast.WithValue(nil), holdfast.WithLayout(holdfast.LayoutSessionID)).Lock(t.Context())
		wantErr(t, err, holdfast.ErrLayout)
		wantQueued(t, c, 0)
	})
}

func TestWithACLIsOnEveryNodeThatTheLockMakes(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		acl := zk.ACL{Perms: 31, Scheme: "ip", ID: "0.0.0.0/0"}
		open := holdfast.NewMutex(c, "/open/a")
		unlock(t, lock(t, open))
		m := holdfast.NewRWMutex(c, "/mine/a", holdfast.WithACL(zk.ACL{Perms: 31, Scheme: "world", ID: "anyone"}, acl))
		w := lock(t, m)
		r, err := m.RLock(w.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/mine", "/mine/a", w.Path(), r.Path()} {
			got, _, err := c.GetACL(t.Context(), path)
			if err != nil || !strings.Contains(fmt.Sprint(got), acl.ID) {
				t.Errorf("%s: %v, %v", path, got, err)
			}
		}
		unlock(t, r)
		unlock(t, w)
	})
}
