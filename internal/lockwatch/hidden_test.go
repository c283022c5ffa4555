package lockwatch

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// A place that the watcher may not read can be ahead of all that it sees, in every way in which that can come about. Whoever
// waits behind it has not acquired the lock.
func TestAWaiterBehindAHiddenPlaceHasNotAcquired(t *testing.T) {
	secret := zk.ACL{Perms: zk.PermAll &^ zk.PermRead, Scheme: "world", ID: "anyone"}
	open := zk.ACL{Perms: zk.PermAll, Scheme: "world", ID: "anyone"}
	type setup struct {
		c            *zk.Client
		make         func(path string, mode zk.Mode, acl zk.ACL) string
		hide, remove func(path string)
		at           func()
		multi        func(ops ...zk.Op)
		reread       func(meanwhile func()) // the watcher reads again, and meanwhile happens during that
	}
	const place = "/_c_6266cbe9-453b-4a50-8718-b39f57879b6e-lock-"
	tests := []struct {
		name   string
		before func(s setup) // the watch begins
		act    func(s setup)
	}{
		{"the directory is new", func(setup) {}, func(s setup) {
			s.make("/locks/db", zk.Persistent, open)
			s.make("/locks/db"+place, zk.EphemeralSequential, secret)
			s.make("/locks/db"+place, zk.EphemeralSequential, open)
		}},
		{"the directory is there", func(s setup) { s.make("/locks/db", zk.Persistent, open) }, func(s setup) {
			s.make("/locks/db"+place, zk.EphemeralSequential, secret)
			s.make("/locks/db"+place, zk.EphemeralSequential, open)
		}},
		{"it is there before", func(s setup) {
			s.make("/locks/db", zk.Persistent, open)
			s.make("/locks/db"+place, zk.EphemeralSequential, secret)
		}, func(s setup) { s.make("/locks/db"+place, zk.EphemeralSequential, open) }},
		{"it is hidden later", func(s setup) { s.make("/locks/db", zk.Persistent, open) }, func(s setup) {
			first := s.make("/locks/db"+place, zk.EphemeralSequential, open)
			s.make("/locks/db"+place, zk.EphemeralSequential, open)
			s.hide(first)
			s.at()
			s.remove(first)
			s.make("/locks/db"+place, zk.EphemeralSequential, open)
		}},
		{"one transaction", func(setup) {}, func(s setup) {
			s.multi(zk.CreateOp("/locks/db", nil, zk.Persistent), zk.CreateOp("/locks/db"+place, nil, zk.EphemeralSequential, secret),
				zk.CreateOp("/locks/db"+place, nil, zk.EphemeralSequential))
		}},
		{"a directory that comes back", func(s setup) { s.make("/locks/db", zk.Persistent, open) }, func(s setup) {
			s.multi(zk.DeleteOp("/locks/db", zk.AnyVersion), zk.CreateOp("/locks/db", nil, zk.Persistent), zk.CreateOp("/locks/db"+place, nil, zk.EphemeralSequential, secret),
				zk.CreateOp("/locks/db"+place, nil, zk.EphemeralSequential))
		}},
		{"after a reading with an event", func(s setup) {
			s.make("/locks/db", zk.Persistent, open)
			s.make("/locks/db/kept", zk.Persistent, open)
		}, func(s setup) {
			s.reread(func() { s.remove(s.make("/locks/db/other", zk.Persistent, open)) })
			s.make("/locks/db"+place, zk.EphemeralSequential, secret)
			s.make("/locks/db"+place, zk.EphemeralSequential, open)
		}},
		{"one ahead that is seen goes", func(s setup) { s.make("/locks/db", zk.Persistent, open) }, func(s setup) {
			first := s.make("/locks/db"+place, zk.EphemeralSequential, open)
			s.make("/locks/db"+place, zk.EphemeralSequential, secret)
			s.make("/locks/db"+place, zk.EphemeralSequential, open)
			s.at()
			s.remove(first)
		}},
		{"the deletion of one that is hidden goes unseen", func(s setup) { s.make("/locks/db", zk.Persistent, open) }, func(s setup) {
			first := s.make("/locks/db"+place, zk.EphemeralSequential, open)
			s.make("/locks/db"+place, zk.EphemeralSequential, secret)
			s.make("/locks/db"+place, zk.EphemeralSequential, open)
			s.hide(first)
			s.at()
			s.remove(first)
			s.make("/locks/db"+place, zk.EphemeralSequential, open)
		}},
	}
	for _, tt := range tests {
		for _, pause := range []time.Duration{0, time.Second} {
			t.Run(tt.name+" "+pause.String(), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					s := setup{c: srv.Client(), at: func() { time.Sleep(pause) }}
					s.make = func(path string, mode zk.Mode, acl zk.ACL) string {
						t.Helper()
						made, _, err := s.c.Create(t.Context(), path, []byte("somebody"), mode, acl)
						if err != nil {
							t.Fatal(err)
						}
						s.at()
						return made
					}
					s.hide = func(path string) {
						if _, err := s.c.SetACL(t.Context(), path, []zk.ACL{secret}, zk.AnyVersion); err != nil {
							t.Fatal(err)
						}
					}
					s.remove = func(path string) {
						if err := s.c.Delete(t.Context(), path, zk.AnyVersion); err != nil {
							t.Fatal(err)
						}
					}
					s.multi = func(ops ...zk.Op) {
						if _, err := s.c.Multi(t.Context(), ops...); err != nil {
							t.Fatal(err)
						}
					}
					s.reread = func(meanwhile func()) {
						var once sync.Once
						srv.Intercept(zkproto.OpGetChildren2, func(path string) zktest.Action {
							if path == "/locks/db" {
								once.Do(meanwhile)
							}
							return zktest.Pass
						})
						srv.CloseClientConnections()
						time.Sleep(5 * time.Second)
						srv.Intercept(zkproto.OpGetChildren2, nil)
					}
					makeAll(t, s.c, "/locks")
					tt.before(s)
					r := watch(t, srv.Client(), layout.Curator, false)
					tt.act(s)
					time.Sleep(5 * time.Second)
					synctest.Wait()
					visible := 0 // the first that is seen holds the lock, if it is before the hidden one
					if strings.HasPrefix(tt.name, "it is hidden later") || strings.Contains(tt.name, "goes") {
						visible = 1
					}
					acquired, gaps := 0, 0
					for _, e := range r.all() {
						if strings.HasPrefix(e, "acquired ") {
							acquired++
						}
						if strings.HasPrefix(e, "gap db") {
							gaps++
						}
					}
					if acquired > visible || gaps == 0 {
						t.Errorf("got\n  %s\nwant a gap, and %d acquired at most", strings.Join(r.all(), "\n  "), visible)
					}
				})
			})
		}
	}
}

// A node becomes unreadable and is removed, and no event tells of that. The copy that the page shows does not keep it.
func TestAMirrorForgetsAHiddenNode(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := srv.Client()
		makeAll(t, c, "/locks", "/locks/db", "/locks/db/open", "/locks/db/hidden")
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		m := &Mirror{Base: "/locks", Hold: func(change func()) {
			mu.Lock()
			defer mu.Unlock()
			change()
		}, Lost: func(err error) {
			if ctx.Err() == nil {
				t.Errorf("lost: %v", err)
			}
		}, Reset: func(bool) {}, Changed: func(string, time.Time) {}}
		done := make(chan error)
		defer func() { cancel(); <-done }()
		go func() { done <- m.Follow(ctx, srv.Client()) }()
		time.Sleep(5 * time.Second)
		secret := zk.ACL{Perms: zk.PermAll &^ zk.PermRead, Scheme: "world", ID: "anyone"}
		if _, err := c.SetACL(t.Context(), "/locks/db/hidden", []zk.ACL{secret}, zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		has := func(name string) bool {
			mu.Lock()
			defer mu.Unlock()
			return m.Nodes["/locks/db/"+name] != nil
		}
		time.Sleep(5 * time.Minute)
		if !has("hidden") {
			t.Error("the copy has lost a node that is there")
		}
		if err := c.Delete(t.Context(), "/locks/db/hidden", zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		time.Sleep(62 * time.Second)
		if has("hidden") || !has("open") {
			t.Errorf("hidden: %v, open: %v", has("hidden"), has("open"))
		}
		if _, _, err := c.Create(t.Context(), "/locks/db/later", nil, zk.Persistent); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if !has("later") {
			t.Error("the copy does not go on")
		}
	})
}
