//go:build unix

package interop

import (
	"errors"
	"strings"
	"testing"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/zk"
)

// A lock of another library or kind has the name. Ours are refused, on Apache's server as on holdfast's.
func TestOthersUnderTheNameAreRefused(t *testing.T) {
	s := newStage(t)
	in := holdfast.WithLayout
	for name, tt := range map[string]struct {
		first  func(s *stage, dir string) party
		second func(s *stage, dir string) holdfast.Locker
		says   string
	}{
		"kazoo's Lock, our mutex": {
			func(s *stage, dir string) party { return s.told(s.python, "lock", dir) },
			func(s *stage, dir string) holdfast.Locker { return holdfast.NewMutex(s.admin, dir) }, "layout kazoo",
		},
		"kazoo's Lock, our semaphore": {
			func(s *stage, dir string) party { return s.told(s.python, "lock", dir) },
			func(s *stage, dir string) holdfast.Locker { return holdfast.NewSemaphore(s.admin, dir, 2).Locker(1) }, "layout kazoo",
		},
		"Curator's mutex, our lock of kazoo's layout": {
			func(s *stage, dir string) party { return s.told(s.java, "mutex", dir) },
			func(s *stage, dir string) holdfast.Locker {
				return holdfast.NewMutex(s.admin, dir, in(layout.Kazoo))
			}, "layout curator",
		},
		"Curator's reader, our semaphore": {
			func(s *stage, dir string) party { return s.told(s.java, "read", dir) },
			func(s *stage, dir string) holdfast.Locker { return holdfast.NewSemaphore(s.admin, dir, 2).Locker(1) }, "layout curator",
		},
		"ZooKeeper's WriteLock, our mutex": {
			func(s *stage, dir string) party { return s.told(s.java, "writelock", dir) },
			func(s *stage, dir string) holdfast.Locker { return holdfast.NewMutex(s.admin, dir) }, "layout writelock",
		},
		"Curator's mutex, our node": {
			func(s *stage, dir string) party { return s.told(s.java, "mutex", dir) },
			func(s *stage, dir string) holdfast.Locker { return holdfast.NewNodeLock(s.admin, dir) }, "layout curator",
		},
		"our semaphore, our mutex": {
			func(s *stage, dir string) party { return s.our(holdfast.NewSemaphore(s.admin, dir, 2).Locker(1)) },
			func(s *stage, dir string) holdfast.Locker { return holdfast.NewMutex(s.admin, dir) }, "semaphore, layout curator",
		},
		"our semaphore as kazoo's, our mutex": {
			func(s *stage, dir string) party {
				return s.our(holdfast.NewSemaphore(s.admin, dir, 2, in(layout.Kazoo)).Locker(1))
			},
			func(s *stage, dir string) holdfast.Locker { return holdfast.NewMutex(s.admin, dir) }, "semaphore, layout kazoo",
		},
		"our node, our mutex": {
			func(s *stage, dir string) party { return s.our(holdfast.NewNodeLock(s.admin, dir+"/node")) },
			func(s *stage, dir string) holdfast.Locker { return holdfast.NewMutex(s.admin, dir+"/node") }, "NodeLock",
		},
		"our tree, our mutex below": {
			func(s *stage, dir string) party { return s.our(holdfast.NewTree(s.admin, dir).Path("customers")) },
			func(s *stage, dir string) holdfast.Locker { return holdfast.NewMutex(s.admin, dir+"/orders/7") }, "the tree",
		},
		"Curator's mutex, our tree above": {
			func(s *stage, dir string) party { return s.told(s.java, "mutex", dir+"/orders/7") },
			func(s *stage, dir string) holdfast.Locker { return holdfast.NewTree(s.admin, dir).Path("customers") }, "layout curator",
		},
		"kazoo's Lock, our tree": {
			func(s *stage, dir string) party { return s.told(s.python, "lock", dir) },
			func(s *stage, dir string) holdfast.Locker { return holdfast.NewTree(s.admin, dir).Path("") }, "layout kazoo",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			dir := s.directory("kinds" + s.java.actor())
			first := tt.first(s, dir)
			first.begin()
			if got := first.result(); got != "done" {
				t.Fatal(got)
			}
			for _, lock := range []func() (*holdfast.Hold, error){
				func() (*holdfast.Hold, error) { return tt.second(s, dir).TryLock(s.ctx) },
				func() (*holdfast.Hold, error) { return tt.second(s, dir).Lock(s.ctx) },
			} {
				h, err := lock()
				if err == nil {
					must(t, h.Unlock())
				}
				if !errors.Is(err, holdfast.ErrKind) || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%v; want ErrKind, and %q in it", err, tt.says)
				}
			}
			first.end()
		})
	}
}

// A session that has seen no tree above its lock watches for one, and sees one that comes, on Apache's server as on
// holdfast's. Also a private one: its directory does not hide.
func TestTreeThatComesLaterIsSeen(t *testing.T) {
	s := newStage(t)
	for name, opts := range map[string][]holdfast.Option{
		"open":    nil,
		"private": {holdfast.WithACL(zk.ACL{Perms: zk.PermAll, Scheme: "auth"})},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			dir := s.directory("later-" + name)
			ann := dialURL(t, "zk://"+s.addr, func(cfg *zk.Config) { cfg.Auth = []zk.Auth{zk.DigestAuth("ann", "secret")} })
			m := holdfast.NewMutex(s.admin, dir+"/orders/7")
			for range 2 {
				h, err := m.Lock(s.ctx)
				must(t, err)
				must(t, h.Unlock())
			}
			h, err := holdfast.NewTree(ann, dir, opts...).Path("customers").Lock(s.ctx)
			must(t, err)
			if other, err := m.TryLock(s.ctx); err == nil {
				other.Unlock()
				t.Error("held beside a tree")
			} else if !errors.Is(err, holdfast.ErrKind) && !errors.Is(err, zk.ErrNoAuth) {
				t.Error(err)
			}
			must(t, h.Unlock())
		})
	}
}

// A node whose whole name is the number, as the nodes of Vitess, on Apache's server as on holdfast's.
func TestNumberAloneIsANameOfAPlace(t *testing.T) {
	s := newStage(t)
	dir := s.directory("numbers")
	layout, err := holdfast.ParseLayout("form:")
	must(t, err)
	m := holdfast.NewMutex(s.admin, dir, holdfast.WithLayout(layout))
	h, err := m.Lock(s.ctx)
	must(t, err)
	theirs, _, err := s.admin.Create(s.ctx, dir+"/", nil, zk.EphemeralSequential)
	must(t, err)
	if name := strings.TrimPrefix(theirs, dir+"/"); len(name) != 10 || h.Path() >= theirs {
		t.Errorf("our node is %s, and one behind it %s", h.Path(), theirs)
	}
	must(t, h.Unlock())
	if _, err := m.TryLock(s.ctx); !errors.Is(err, holdfast.ErrLocked) {
		t.Errorf("%v; want ErrLocked", err)
	}
	must(t, s.admin.Delete(s.ctx, theirs, zk.AnyVersion))
	h, err = m.TryLock(s.ctx)
	must(t, err)
	must(t, h.Unlock())
}

// Our holder writes into its node while peers wait for that node. They keep waiting, in their order.
func TestHeldSinceDisturbsNoPeer(t *testing.T) {
	s := newStage(t)
	for name, tt := range map[string]struct {
		ours   func(s *stage, dir string) holdfast.Locker
		theirs func(s *stage, dir string) party
		layout holdfast.Layout
	}{
		"Curator": {
			func(s *stage, dir string) holdfast.Locker { return holdfast.NewMutex(s.admin, dir) },
			func(s *stage, dir string) party { return s.told(s.java, "mutex", dir) }, layout.Curator,
		},
		"Curator's reader": {
			func(s *stage, dir string) holdfast.Locker { return holdfast.NewRWMutex(s.admin, dir) },
			func(s *stage, dir string) party { return s.told(s.java, "read", dir) }, layout.Curator,
		},
		"go-zookeeper": {
			func(s *stage, dir string) holdfast.Locker { return holdfast.NewMutex(s.admin, dir) },
			func(s *stage, dir string) party { return s.rivals(dir) }, layout.Curator,
		},
		"kazoo": {
			func(s *stage, dir string) holdfast.Locker {
				return holdfast.NewMutex(s.admin, dir, holdfast.WithLayout(layout.Kazoo))
			},
			func(s *stage, dir string) party { return s.told(s.python, "lock", dir) }, layout.Kazoo,
		},
		"WriteLock": {
			func(s *stage, dir string) holdfast.Locker {
				return holdfast.NewMutex(s.admin, dir, holdfast.WithLayout(layout.WriteLock))
			},
			func(s *stage, dir string) party { return s.told(s.java, "writelock", dir) }, layout.WriteLock,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			dir := s.directory("since" + s.java.actor())
			h, err := tt.ours(s, dir).Lock(s.ctx)
			must(t, err)
			began := time.Now() // the server's clock, too: it is on this machine
			theirs := tt.theirs(s, dir)
			theirs.begin()
			s.children(dir, 2)
			var queue []holdfast.Entry
			s.await(func() string {
				queue, err = holdfast.List(s.ctx, s.admin, dir, tt.layout)
				must(t, err)
				if len(queue) != 2 || queue[0].HeldSince.IsZero() {
					return "not said since when"
				}
				return ""
			})
			if d := queue[0].HeldSince.Sub(began).Abs(); d > 500*time.Millisecond {
				t.Errorf("held since %v, listed as %v", began, queue[0].HeldSince)
			}
			if !queue[0].Held || queue[1].Held || queue[0].Token != h.Token() {
				t.Errorf("%+v", queue)
			}
			s.watched(h.Path(), 2) // again
			must(t, h.Unlock())
			if got := theirs.result(); got != "done" {
				t.Error(got)
			}
			theirs.end()
		})
	}
}
