package zk_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/zk"
	"holdfast/zk/admin"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// An operation's results must not depend on the chroot. Each entry uses one operation, in the order
// of the names. Its result contains neither ids nor times.
var everyOperation = map[string]func(ctx context.Context, s *zk.Session) string{
	"Create": func(ctx context.Context, s *zk.Session) string {
		a, _, err := s.Create(ctx, "/n/seq-", []byte("x"), zk.EphemeralSequential)
		b, _, err2 := s.Create(ctx, "/none/x", nil, zk.Persistent)
		return fmt.Sprint(a, err, b, err2)
	},
	"CreateAll": func(ctx context.Context, s *zk.Session) string {
		return fmt.Sprint(s.CreateAll(ctx, "/all/of/it"), s.CreateAll(ctx, "/all"), s.CreateAll(ctx, "/"), s.CreateAll(ctx, "/n/all/"))
	},
	"CreateTTL": func(ctx context.Context, s *zk.Session) string {
		a, _, err := s.CreateTTL(ctx, "/n/ttl-", nil, zk.PersistentSequential, time.Hour)
		_, _, err2 := s.CreateTTL(ctx, "/none/x", nil, zk.Persistent, time.Hour)
		return fmt.Sprint(a, err, err2)
	},
	"Get": func(ctx context.Context, s *zk.Session) string {
		data, stat, err := s.Get(ctx, "/n")
		_, _, err2 := s.Get(ctx, "/none")
		_, _, err3 := s.Get(ctx, "n")
		return fmt.Sprint(string(data), stat.Version, err, err2, err3)
	},
	"GetW": func(ctx context.Context, s *zk.Session) string {
		_, _, w, err := s.GetW(ctx, "/n")
		s.Set(ctx, "/n", []byte("changed"), zk.AnyVersion)
		_, _, _, err2 := s.GetW(ctx, "/none")
		return fmt.Sprint(err, <-w.C, err2)
	},
	"Exists": func(ctx context.Context, s *zk.Session) string {
		_, ok, err := s.Exists(ctx, "/n")
		_, ok2, err2 := s.Exists(ctx, "/none")
		return fmt.Sprint(ok, err, ok2, err2)
	},
	"ExistsW": func(ctx context.Context, s *zk.Session) string {
		_, _, w, err := s.ExistsW(ctx, "/born")
		s.Create(ctx, "/born", nil, zk.Persistent)
		return fmt.Sprint(err, <-w.C)
	},
	"Children": func(ctx context.Context, s *zk.Session) string {
		names, stat, err := s.Children(ctx, "/")
		names = slices.DeleteFunc(names, func(n string) bool { return n == "zookeeper" }) // only the real root has it
		slices.Sort(names)
		_, _, err2 := s.Children(ctx, "/none")
		return fmt.Sprint(names, stat.EphemeralOwner, err, err2)
	},
	"ChildrenW": func(ctx context.Context, s *zk.Session) string {
		_, _, w, err := s.ChildrenW(ctx, "/")
		s.Create(ctx, "/child", nil, zk.Ephemeral)
		return fmt.Sprint(err, <-w.C)
	},
	"Set": func(ctx context.Context, s *zk.Session) string {
		_, err := s.Set(ctx, "/n", nil, 77)
		return fmt.Sprint(err)
	},
	"Delete": func(ctx context.Context, s *zk.Session) string {
		return fmt.Sprint(s.Delete(ctx, "/child", 0), s.Delete(ctx, "/none", 0))
	},
	"Sync": func(ctx context.Context, s *zk.Session) string { return fmt.Sprint(s.Sync(ctx, "/n")) },
	"Multi": func(ctx context.Context, s *zk.Session) string {
		r, err := s.Multi(ctx, zk.CheckOp("/n", -1), zk.CreateOp("/n/m-", nil, zk.EphemeralSequential), zk.CreateTTLOp("/n/t", nil, zk.Persistent, time.Hour))
		r2, err2 := s.Multi(ctx, zk.SetOp("/n", nil, -1), zk.DeleteOp("/none", 0))
		return fmt.Sprint(len(r), r[1].Path, r[2].Path, err, len(r2), err2)
	},
	"StartMulti": func(ctx context.Context, s *zk.Session) string {
		made, refused := s.StartMulti(zk.CreateOp("/n/m-", nil, zk.EphemeralSequential)), s.StartMulti(zk.DeleteOp("/none", 0))
		r, err := made()
		r2, err2 := refused()
		return fmt.Sprint(len(r), r[0].Path, err, len(r2), err2)
	},
	"Pipeline": func(ctx context.Context, s *zk.Session) string {
		r, err := s.Pipeline(ctx, zk.CreateOp("/n/p-", nil, zk.EphemeralSequential), zk.GetOp("/n"), zk.ExistsOp("/none"), zk.ChildrenOp("/none"))
		return fmt.Sprint(len(r), r[0].Path, string(r[1].Data), r[3].Err, err)
	},
	"MultiRead": func(ctx context.Context, s *zk.Session) string {
		r, err := s.MultiRead(ctx, zk.GetOp("/n"), zk.ChildrenOp("/n"), zk.GetOp("/none"))
		return fmt.Sprint(string(r[0].Data), len(r[1].Children), err)
	},
	"GetACL": func(ctx context.Context, s *zk.Session) string {
		acl, _, err := s.GetACL(ctx, "/n")
		_, _, err2 := s.GetACL(ctx, "/none")
		return fmt.Sprint(acl, err, err2)
	},
	"SetACL": func(ctx context.Context, s *zk.Session) string {
		_, err := s.SetACL(ctx, "/none", []zk.ACL{{Perms: zkproto.PermAll, Scheme: "world", ID: "anyone"}}, zk.AnyVersion)
		return fmt.Sprint(err)
	},
	"AddWatch": func(ctx context.Context, s *zk.Session) string {
		node, err := s.AddWatch(ctx, "/", zk.WatchPersistent)
		if err != nil {
			return err.Error()
		}
		defer node.Stop()
		tree, err := s.AddWatch(ctx, "/n", zk.WatchPersistentRecursive)
		if err != nil {
			return err.Error()
		}
		defer tree.Stop()
		s.Create(ctx, "/n/deep", nil, zk.Persistent)
		s.Create(ctx, "/n/deep/er", nil, zk.Persistent)
		s.Create(ctx, "/top", nil, zk.Persistent)
		return fmt.Sprint(<-tree.C, <-tree.C, <-node.C)
	},
	"Ephemerals": func(ctx context.Context, s *zk.Session) string {
		all, err := s.Ephemerals(ctx, "/")
		some, err2 := s.Ephemerals(ctx, "/n/s")
		slices.Sort(all)
		return fmt.Sprint(all, err, some, err2)
	},
	"Raw": func(ctx context.Context, s *zk.Session) string {
		n, err := admin.AllChildrenNumber(ctx, s, "/n")
		_, err2 := admin.AllChildrenNumber(ctx, s, "/none")
		e, _, w, err3 := admin.ConfigW(ctx, s)
		w.Stop()
		again, _, err4 := admin.Config(ctx, s)
		_, _, err5 := admin.Reconfig(ctx, s, admin.Reconfiguration{Leave: []int64{9}}, zk.AnyVersion)
		who, err6 := admin.WhoAmI(ctx, s)
		return fmt.Sprint(n, err, err2, e, err3, again, err4, err5, who, err6)
	},
	"Lease": func(ctx context.Context, s *zk.Session) string {
		l, err := s.Lease(ctx, "/n")
		l.Release()
		return fmt.Sprint(err)
	},
	// These take no path.
	"Chroot": nil, "ID": nil, "Password": nil, "Timeout": nil, "Context": nil, "Deadline": nil,
}

// kazoo #53, scion #62, zk-ruby #5 and #7: under a chroot, some operation used or showed the path
// that only the server should know.
func TestEveryOperationIsTheSameUnderAChroot(t *testing.T) {
	methods := reflect.TypeFor[*zk.Session]()
	var names []string
	for i := range methods.NumMethod() {
		name := methods.Method(i).Name
		if _, ok := everyOperation[name]; !ok {
			t.Errorf("Session.%s is not tested", name)
		}
		names = append(names, name)
	}
	run := func(chroot string) (story []string) {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			cfg := srv.Config()
			cfg.Chroot, cfg.CreateChroot = chroot, true
			c := dial(t, cfg)
			create(t, c, "/n")
			s, err := c.Session(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				if f := everyOperation[name]; f != nil {
					story = append(story, name+": "+f(t.Context(), s))
				}
			}
			if requests, watches := c.Left(); requests != 0 || watches != 0 {
				t.Errorf("under %q: %d requests and %d watches left", chroot, requests, watches)
			}
		})
		return story
	}
	bare := run("")
	for _, chroot := range []string{"/app", "/app/n/none"} {
		for i, line := range run(chroot) {
			if line != bare[i] {
				t.Errorf("under %s: %s\nwithout: %s", chroot, line, bare[i])
			}
			if strings.Contains(line, chroot) {
				t.Errorf("the chroot is visible in: %s", line)
			}
		}
	}
}

// CURATOR-58, CURATOR-715, ZOOKEEPER-2590: a client with access to the chroot alone must be able to
// create it, or to find it there. It may neither read nor change the nodes above.
func TestChrootIsMadeWithTheRightsOnItsParentAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx := t.Context()
		cfg := srv.Config()
		cfg.Auth = []zk.Auth{zk.DigestAuth("admin", "secret")}
		admin := dial(t, cfg)
		mine := zk.ACL{Perms: zkproto.PermAll, Scheme: "auth"}
		for _, n := range []struct {
			path string
			acl  []zk.ACL
		}{
			{"/top", []zk.ACL{mine}},
			{"/top/app", []zk.ACL{mine, {Perms: zkproto.PermCreate, Scheme: "world", ID: "anyone"}}},
		} {
			if _, _, err := admin.Create(ctx, n.path, nil, zk.Persistent, n.acl...); err != nil {
				t.Fatal(err)
			}
		}
		for _, chroot := range []string{
			"/top/app",     // exists, but is unreadable
			"/top/app/x",   // must be made
			"/top/app/x",   // exists
			"/top/app/y/z", // must be made with its parent
		} {
			cfg := srv.Config()
			cfg.Chroot, cfg.CreateChroot = chroot, true
			c, err := zk.Dial(ctx, cfg)
			if err != nil {
				t.Errorf("%s: %v", chroot, err)
				continue
			}
			if _, _, err := c.Create(ctx, "/mine", nil, zk.Ephemeral); err != nil {
				t.Errorf("below %s: %v", chroot, err)
			}
			c.Close()
		}
		for _, path := range []string{"/top/app/x", "/top/app/y", "/top/app/y/z"} {
			acl, stat, err := admin.GetACL(ctx, path)
			if err != nil || len(acl) != 1 || acl[0] != (zk.ACL{Perms: zkproto.PermAll, Scheme: "world", ID: "anyone"}) || stat.EphemeralOwner != 0 {
				t.Errorf("%s was made with ACL %v, %+v, %v", path, acl, stat, err)
			}
		}
		cfg = srv.Config()
		cfg.Chroot, cfg.CreateChroot = "/top/forbidden", true
		_, err := zk.Dial(ctx, cfg)
		wantErr(t, err, zk.ErrNoAuth)
	})
}

// samuel #14: some of the parents already exist, or another client creates them at the same time, and
// the answers to some creates are lost.
func TestChrootIsMadeByManyAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		create(t, dial(t, srv.Config()), "/a")
		var mu sync.Mutex
		n := 0
		srv.Intercept(zkproto.OpCreate2, func(string) zktest.Action {
			mu.Lock()
			defer mu.Unlock()
			n++
			return []zktest.Action{zktest.DropReply, zktest.Pass, zktest.DropRequest}[n%3]
		})
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				cfg := srv.Config()
				cfg.Chroot, cfg.CreateChroot = "/a/b/c/d", true
				c, err := zk.Dial(t.Context(), cfg)
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				if _, ok, err := c.Exists(t.Context(), "/"); !ok || err != nil {
					t.Errorf("the chroot does not exist: %v", err)
				}
			})
		}
		wg.Wait()
	})
}

// samuel #14, where it always happens: between the client's look at a node and its create, another
// client creates it.
func TestChrootIsMadeByAnotherAheadOfEachCreate(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		other := dial(t, srv.Config())
		var racing sync.Mutex // held during the other client's create, which is intercepted, too
		ahead := 0
		srv.Intercept(zkproto.OpCreate2, func(path string) zktest.Action {
			if racing.TryLock() {
				if _, _, err := other.Create(t.Context(), path, nil, zk.Persistent); err == nil {
					ahead++
				}
				racing.Unlock()
			}
			return zktest.Pass
		})
		cfg := srv.Config()
		cfg.Chroot, cfg.CreateChroot = "/a/b/c", true
		c := dial(t, cfg)
		if _, ok, err := c.Exists(t.Context(), "/"); !ok || err != nil || ahead != 3 {
			t.Errorf("the chroot exists: %t (%v); another client created %d of its 3 nodes", ok, err, ahead)
		}
	})
}

// A server that throttles delays CreateChroot, and does not make it fail. The client backs off.
func TestChrootIsMadeOnAServerThatThrottles(t *testing.T) {
	for _, op := range []zkproto.Op{zkproto.OpGetData, zkproto.OpCreate2} {
		t.Run(op.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				began, refused := time.Now(), 0
				srv.Intercept(op, func(string) zktest.Action {
					if time.Since(began) < 10*time.Second && refused < 1000 {
						refused++
						return zktest.Throttle
					}
					return zktest.Pass
				})
				cfg := srv.Config()
				cfg.Chroot, cfg.CreateChroot = "/a/b", true
				c, err := zk.Dial(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if _, ok, err := c.Exists(t.Context(), "/"); !ok || err != nil {
					t.Errorf("the chroot does not exist: %v", err)
				}
				if refused > 40 {
					t.Errorf("the server refused %d requests in ten seconds; want 40 at most", refused)
				}
			})
		})
	}
}

// Without CreateChroot the client creates nothing unasked.
func TestMissingChrootIsNoNode(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		cfg := srv.Config()
		cfg.Chroot = "/app"
		c, outside := dial(t, cfg), dial(t, srv.Config())
		_, _, err := c.Create(t.Context(), "/a", nil, zk.Persistent)
		wantErr(t, err, zk.ErrNoNode)
		if err == nil || strings.Contains(err.Error(), "/app") {
			t.Errorf("%v: want the path as the caller wrote it", err)
		}
		if _, ok, err := outside.Exists(t.Context(), "/app"); ok || err != nil {
			t.Errorf("/app exists: %v, %v", ok, err)
		}
	})
}

// What CreateAll makes, and what it says where it cannot.
func TestCreateAll(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		cfg := srv.Config()
		cfg.Auth = []zk.Auth{zk.DigestAuth("bob", "secret")}
		ctx, c := t.Context(), dial(t, cfg)
		mine := zk.DigestACL(zk.PermAll, "bob", "secret")
		create(t, c, "/has")
		if _, _, err := c.Create(ctx, "/ephemeral", nil, zk.Ephemeral); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Set(ctx, "/has", []byte("data"), 0); err != nil {
			t.Fatal(err)
		}
		s := currentSession(t, c)
		for _, tt := range []struct {
			path string
			acl  []zk.ACL
			want error
			made []string
		}{
			{"/", nil, nil, nil},
			{"/has", nil, nil, nil},
			{"/has/a/b", nil, nil, []string{"/has/a", "/has/a/b"}},
			{"/x/y/z", []zk.ACL{mine}, nil, []string{"/x", "/x/y", "/x/y/z"}},
			{"/ephemeral/a", nil, zk.ErrNoChildrenForEphemerals, nil},
			{"relative", nil, zk.ErrInvalidPath, nil},
			{"/bad/acl", []zk.ACL{{Perms: 1, Scheme: "nonsense"}}, zk.ErrInvalidACL, nil},
		} {
			for range 2 { // the second time, everything is there
				if err := s.CreateAll(ctx, tt.path, tt.acl...); !errors.Is(err, tt.want) {
					t.Errorf("%s: %v; want %v", tt.path, err, tt.want)
				}
			}
			for _, path := range tt.made {
				data, stat, err := c.Get(ctx, path)
				acl, _, aclErr := c.GetACL(ctx, path)
				want := zk.ACL{Perms: zk.PermAll, Scheme: "world", ID: "anyone"}
				if tt.acl != nil {
					want = tt.acl[0]
				}
				if err != nil || aclErr != nil || data != nil || stat.EphemeralOwner != 0 || len(acl) != 1 || acl[0] != want {
					t.Errorf("%s: %q, %+v, %v, %v, %v", path, data, stat, acl, err, aclErr)
				}
			}
		}
		if data, _, err := c.Get(ctx, "/has"); string(data) != "data" || err != nil {
			t.Errorf("the node that was there: %q, %v", data, err)
		}
		if names, _, err := c.Children(ctx, "/"); err != nil || slices.Contains(names, "bad") {
			t.Errorf("%q, %v", names, err)
		}

		cfg.Chroot = "/has/none" // its parent exists
		below := dial(t, cfg)
		err := below.CreateAll(ctx, "/a/b")
		if !errors.Is(err, zk.ErrNoNode) || !strings.Contains(err.Error(), "create the chroot") {
			t.Errorf("without the chroot: %v", err)
		}
		if _, ok, err := c.Exists(ctx, "/has/none"); ok || err != nil {
			t.Errorf("the chroot was made, or not: %v, %v", ok, err)
		}
	})
}

// Every answer can be lost, a server can throttle, and a session can end: a Client's CreateAll goes on, and that of a
// Session ends with the session.
func TestCreateAllOutlastsLosses(t *testing.T) {
	for _, op := range []zkproto.Op{zkproto.OpGetData, zkproto.OpCreate2} {
		for _, action := range []zktest.Action{zktest.DropReply, zktest.DropRequest, zktest.Throttle} {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := dial(t, srv.Config())
				var n atomic.Int64
				srv.Intercept(op, func(path string) zktest.Action {
					if strings.HasPrefix(path, "/a") && n.Add(1)%2 == 1 {
						return action
					}
					return zktest.Pass
				})
				if err := c.CreateAll(t.Context(), "/a/b/c"); err != nil {
					t.Errorf("%v, %v: %v", op, action, err)
				}
				srv.Intercept(op, nil)
				if _, ok, err := c.Exists(t.Context(), "/a/b/c"); !ok || err != nil {
					t.Errorf("%v, %v: %v, %v", op, action, ok, err)
				}
			})
		}
	}
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := dial(t, srv.Config())
		s := currentSession(t, c)
		var n atomic.Int64
		srv.Intercept(zkproto.OpCreate2, func(string) zktest.Action {
			if n.Add(1) == 1 {
				go srv.Expire(s.ID())
				return zktest.DropRequest
			}
			return zktest.Pass
		})
		if err := c.CreateAll(t.Context(), "/a/b"); err != nil {
			t.Error(err)
		}
		if err := s.CreateAll(t.Context(), "/x/y"); !errors.Is(err, zk.ErrSessionExpired) {
			t.Errorf("in a session that is over: %v", err)
		}
	})
}

func currentSession(t *testing.T, c *zk.Client) *zk.Session {
	t.Helper()
	s, err := c.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}
