package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/reserve"
	"holdfast/shards"
	"holdfast/zk"
	"holdfast/zktest"
)

// A making makes a lock of a kind at a path.
type making struct {
	kind, layout string // as the views have them
	path         string // of the lock
	lock         func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker
	// mutex, if not nil, is a lock that can be kept, detached and reserved.
	mutex bool
	as    holdfast.Layout
}

type campaign struct{ *holdfast.Election }

func (e campaign) Lock(ctx context.Context) (*holdfast.Hold, error) {
	return e.Campaign(ctx, []byte("http://me"))
}
func (e campaign) TryLock(ctx context.Context) (*holdfast.Hold, error) {
	return e.TryCampaign(ctx, []byte("http://me"))
}

const tablePath = "/holdfast/locks/db/x"

// makings are all kinds in all layouts.
func makings(t *testing.T) (all []making) {
	form, err := holdfast.ParseLayout("form:mine-{uuid}-")
	must(t, err)
	layouts := []holdfast.Layout{
		layout.Curator, layout.LeaderLatch, layout.Kazoo, layout.GoZookeeper, layout.WriteLock, layout.HostRW, layout.SessionID, layout.Article, layout.Named("one"), form,
	}
	for _, l := range layouts {
		m := making{kind: "lock", layout: l.Name, path: tablePath, mutex: true, as: l, lock: func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
			return holdfast.NewMutex(c, tablePath, append(opts, holdfast.WithLayout(l))...)
		}}
		switch l.Name {
		case layout.GoZookeeper.Name:
			m.layout = layout.Curator.Name // the names are of Curator's form
		case layout.LeaderLatch.Name:
			m.kind = "election"
		}
		all = append(all, m)
		if l.Read != "" {
			read := m
			read.kind, read.mutex = "rwlock", false
			read.lock = func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
				return holdfast.NewRWMutex(c, tablePath, append(opts, holdfast.WithLayout(l))...).RLocker()
			}
			all = append(all, read)
		}
		if l.Name == layout.Curator.Name || l.Name == layout.Kazoo.Name {
			all = append(all, making{kind: "semaphore", layout: l.Name, path: tablePath, lock: func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
				return holdfast.NewSemaphore(c, tablePath, 1, append(opts, holdfast.WithLayout(l))...).Locker(1)
			}}, making{kind: "tree", layout: l.Name, path: tablePath, lock: func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
				return holdfast.NewTree(c, "/holdfast/locks/db", append(opts, holdfast.WithLayout(l))...).Path("x")
			}})
		}
	}
	return append(all,
		making{kind: "slots", layout: "curator", path: tablePath, lock: func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
			return holdfast.NewSlots(c, tablePath, 1, opts...).Locker(1)
		}},
		making{kind: "node", path: tablePath, lock: func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
			return holdfast.NewNodeLock(c, tablePath, opts...)
		}},
		making{kind: "election", layout: "curator", path: tablePath, lock: func(c *zk.Client, _ ...holdfast.Option) holdfast.Locker {
			return campaign{holdfast.NewElection(c, tablePath)}
		}},
	)
}

// wantEverywhere checks that a list, a look at the path and a copy of the tree say the same of a lock.
func wantEverywhere(t *testing.T, c *zk.Client, m making, want State, waiters int) {
	t.Helper()
	say := func(l Lock) string {
		return fmt.Sprintf("%s %s %s %s, %d waiting, %d held", l.Path, l.Layout, l.Use(), l.State(time.Now()), l.Waiters(), l.Holders())
	}
	spot, err := At(t.Context(), c, m.path)
	must(t, err)
	at := spot.Lock(nil, time.Now())
	if got := at.State(time.Now()); got != want || at.Waiters() != waiters {
		t.Errorf("a look at the path: %s with %d waiters; want %s with %d", got, at.Waiters(), want, waiters)
	}
	if want != Free && want != Reserved && want != Unreadable && (at.Use() != m.kind || at.Layout != m.layout) {
		t.Errorf("a look at the path: a %s in layout %q; want %s in %q", at.Use(), at.Layout, m.kind, m.layout)
	}
	if want == Free {
		return
	}
	s, err := Read(t.Context(), c, Query{Prefix: "/holdfast/locks/", Free: func(string) bool { return true }})
	must(t, err)
	nodes := copyOf(t, c)
	var list, mirror []string
	for _, l := range s.Locks {
		if l.Path == m.path {
			list = append(list, say(l))
		}
	}
	for path := range nodes {
		for _, l := range In(func(path string) (Copy, bool) { n, ok := nodes[path]; return n, ok }, path) {
			if l.Path == m.path {
				mirror = append(mirror, say(l))
			}
		}
	}
	for name, got := range map[string][]string{"a list": list, "a copy": mirror} {
		if want == Unreadable && name == "a copy" { // it has the names, and shows the places
			if len(got) != 1 || !strings.Contains(got[0], " unreadable, ") {
				t.Errorf("%s: %q; want it unreadable", name, got)
			}
			continue
		}
		if len(got) != 1 || got[0] != say(at) {
			t.Errorf("%s: %q; want %q alone, as a look at the path", name, got, say(at))
		}
	}
}

// Every kind in every layout has the same state in a list, in a look at its path, and in a copy of the tree.
func TestEveryViewSaysTheSame(t *testing.T) {
	for _, m := range makings(t) {
		t.Run(m.kind+" "+m.layout+m.as.Name, func(t *testing.T) {
			srv := zktest.NewServer()
			t.Cleanup(srv.Close)
			admin := srv.Client()
			a, b := srv.Client(), srv.Client()
			defer a.Close()
			defer b.Close()
			wantEverywhere(t, admin, m, Free, 0)
			h, err := m.lock(a, holdfast.WithOwner("ada")).Lock(t.Context())
			must(t, err)
			wantEverywhere(t, admin, m, Held, 0)
			// A node that cannot be read hides all that is at the path, and the form of names without a layout. A tree's
			// Hold has the path of a node above.
			if m.kind != "node" && m.kind != "tree" && !strings.HasPrefix(m.layout, "form:") {
				hide(t, admin, h.Path(), func() { wantEverywhere(t, admin, m, Unreadable, 0) })
			}
			wantInTheWay(t, admin, m)
			waits := 1
			if m.kind == "election" || m.kind == "rwlock" || m.kind == "node" { // a candidate, a reader that shares, and no node
				waits = 0
			}
			if waits == 1 {
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					if h, err := m.lock(b, holdfast.WithOwner("bob")).Lock(ctx); err == nil {
						h.Unlock()
					}
				}()
				for there := 0; there == 0; time.Sleep(time.Millisecond) {
					spot, err := At(t.Context(), admin, m.path)
					must(t, err)
					l := spot.Lock(nil, time.Now())
					there = l.Waiters()
				}
				wantEverywhere(t, admin, m, Held, 1)
				cancel()
				<-done
			}
			must(t, h.Unlock())
			if !m.mutex {
				return
			}
			if h, err = m.lock(a, holdfast.WithOwner("ada"), holdfast.WithKeep(time.Hour)).Lock(t.Context()); err == nil {
				must(t, h.Unlock())
				for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
					spot, err := At(t.Context(), admin, m.path)
					must(t, err)
					if l := spot.Lock(nil, time.Now()); l.State(time.Now()) == Kept {
						break
					}
				}
				wantEverywhere(t, admin, m, Kept, 0)
			}
			d := holdfast.NewDetached(b, m.path, 0, holdfast.WithLayout(m.as))
			if claim, err := d.Lock(t.Context()); err == nil {
				wantEverywhere(t, admin, m, Detached, 0)
				must(t, d.Unlock(t.Context(), claim.ID))
			}
			h, err = m.lock(b, holdfast.WithOwner("bob")).Lock(t.Context())
			must(t, err)
			must(t, reserve.For(t.Context(), h, time.Hour))
			must(t, h.Unlock())
			wantEverywhere(t, admin, m, Reserved, 0)
			r, err := reserve.Of(t.Context(), admin, m.path, m.as)
			must(t, err)
			must(t, r.End(t.Context(), admin))
		})
	}
}

// hide calls f while nobody may read the node at a path.
func hide(t *testing.T, c *zk.Client, path string, f func()) {
	t.Helper()
	open := zk.ACL{Perms: zk.PermAll, Scheme: "world", ID: "anyone"}
	secret := open
	secret.Perms &^= zk.PermRead
	_, err := c.SetACL(t.Context(), path, []zk.ACL{secret}, zk.AnyVersion)
	must(t, err)
	f()
	_, err = c.SetACL(t.Context(), path, []zk.ACL{open}, zk.AnyVersion)
	must(t, err)
}

// wantInTheWay checks that a lock that is held is in the way of the locks of all other layouts.
func wantInTheWay(t *testing.T, c *zk.Client, m making) {
	t.Helper()
	spot, err := At(t.Context(), c, m.path)
	must(t, err)
	now := time.Now()
	for _, other := range makings(t) {
		l := spot.Lock(Compiled(other.as), now)
		alike := m.kind == "node" || m.kind == "slots" || m.layout == other.layout
		if other.as.Name == "" || other.kind == "rwlock" || alike || other.as.Name == layout.GoZookeeper.Name {
			continue
		}
		if l.State(now) != Foreign || l.Holders() != 0 || len(l.Foreign) == 0 {
			t.Errorf("in layout %s: %s with %d holders, %v in the way; want foreign", other.as.Name, l.State(now), l.Holders(), l.Foreign)
		}
	}
}

// A node of another program is in the way of every lock, in every view.
func TestEveryViewSeesAForeignNode(t *testing.T) {
	srv := zktest.NewServer()
	t.Cleanup(srv.Close)
	c := srv.Client()
	makeNodes(t, c, tablePath+"/strange0000000001")
	wantEverywhere(t, c, making{kind: "lock", path: tablePath}, Foreign, 0)
	spot, err := At(t.Context(), c, tablePath)
	must(t, err)
	for _, m := range makings(t) {
		if m.as.Name == "" {
			continue
		}
		if l := spot.Lock(Compiled(m.as), time.Now()); l.State(time.Now()) != Foreign {
			t.Errorf("%s in layout %s: %s; want foreign", m.kind, m.as.Name, l.State(time.Now()))
		}
	}
}

// A node that cannot be read may have a queue, so no view says that the lock is free.
func TestEveryViewSaysThatItCannotTell(t *testing.T) {
	srv := zktest.NewServer()
	t.Cleanup(srv.Close)
	c := srv.Client()
	makeNodes(t, c, tablePath+"/x-lock-0000000001")
	hide(t, c, tablePath, func() {
		if _, err := At(t.Context(), c, tablePath); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("a look at the path: %v; want ErrNoAuth", err)
		}
		s, err := Read(t.Context(), c, Query{Prefix: "/holdfast/locks/", Free: func(string) bool { return true }})
		must(t, err)
		i := slices.IndexFunc(s.Locks, func(l Lock) bool { return l.Path == tablePath })
		if i < 0 || s.Locks[i].State(time.Now()) != Unreadable {
			t.Errorf("a list: %+v; want an unreadable lock", s.Locks)
		}
		nodes := copyOf(t, c)
		in := In(func(path string) (Copy, bool) { n, ok := nodes[path]; return n, ok }, tablePath)
		if len(in) != 1 || in[0].State(time.Now()) != Unreadable {
			t.Errorf("a copy: %+v; want an unreadable lock", in)
		}
	})
}

// Shards are held by their workers, who do not wait, in every view.
func TestEveryViewSaysTheSameOfShards(t *testing.T) {
	srv := zktest.NewServer()
	t.Cleanup(srv.Close)
	admin := srv.Client()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	for range 2 {
		c := srv.Client()
		go func() {
			done <- shards.New(c, tablePath, 2).Run(ctx, func(ctx context.Context, _ shards.Shard) error { <-ctx.Done(); return nil })
		}()
	}
	defer func() {
		cancel()
		<-done
		<-done
	}()
	for n, end := 0, time.Now().Add(5*time.Second); n != 2; time.Sleep(time.Millisecond) {
		spot, err := At(t.Context(), admin, tablePath)
		must(t, err)
		l := spot.Lock(nil, time.Now())
		if n = len(l.Queue); time.Now().After(end) {
			t.Fatalf("%+v; want two workers", spot.Locks)
		}
	}
	wantEverywhere(t, admin, making{kind: "shards", layout: "curator", path: tablePath}, Held, 0)
}
