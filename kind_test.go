package holdfast_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// A use is one way to use a lock's name.
type use struct {
	name string
	of   func(c *zk.Client) holdfast.Locker
}

// uses lists kinds of locks and layouts, no two of which are compatible.
func uses() []use {
	all := []use{
		{"semaphore", func(c *zk.Client) holdfast.Locker { return holdfast.NewSemaphore(c, lockPath, 2).Locker(1) }},
		{"semaphore of kazoo", func(c *zk.Client) holdfast.Locker {
			return holdfast.NewSemaphore(c, lockPath, 2, holdfast.WithLayout(layout.Kazoo)).Locker(1)
		}},
		{"slots", func(c *zk.Client) holdfast.Locker { return holdfast.NewSlots(c, lockPath, 2).Locker() }},
		{"node", func(c *zk.Client) holdfast.Locker { return holdfast.NewNodeLock(c, lockPath) }},
		{"reader", func(c *zk.Client) holdfast.Locker { return holdfast.NewRWMutex(c, lockPath).RLocker() }},
	}
	for _, l := range layouts {
		all = append(all, use{l.Name, func(c *zk.Client) holdfast.Locker {
			return holdfast.NewMutex(c, lockPath, holdfast.WithLayout(l))
		}})
	}
	return all
}

// refused reports whether a lock was refused, or waits for another.
func refused(err error) bool {
	return errors.Is(err, holdfast.ErrKind) || errors.Is(err, holdfast.ErrLocked)
}

// While a lock of one kind is held under a name, a client that asks for another kind under
// that name is refused, or waits.
func TestKindsUnderOneNameExcludeOrRefuse(t *testing.T) {
	for _, first := range uses() {
		for _, second := range uses() {
			if first.name == second.name && first.name != "semaphore" || first.name == "reader" && second.name == "reader" {
				continue
			}
			t.Run(first.name+" and "+second.name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					c := client(t, srv)
					h := lock(t, first.of(client(t, srv)))
					began := time.Now()
					got, err := second.of(c).TryLock(t.Context())
					if first.name == second.name { // permits
						unlock(t, got)
						unlock(t, h)
						return
					}
					if !refused(err) {
						if err == nil {
							unlock(t, got)
						}
						t.Fatalf("%v; want a refusal or a wait", err)
					}
					if errors.Is(err, holdfast.ErrKind) {
						if _, err := second.of(c).Lock(t.Context()); !errors.Is(err, holdfast.ErrKind) { // TryLock does not wait
							t.Errorf("%v; want ErrKind", err)
						}
						synctest.Wait()
						if names, err := c.Ephemerals(t.Context(), "/"); err != nil || len(names) > 0 {
							t.Errorf("nodes left behind: %q, %v", names, err)
						}
					}
					if d := time.Since(began); d != 0 {
						t.Errorf("the refusal took %v", d)
					}
					if h.Context().Err() != nil {
						t.Error("the first holder lost its lock")
					}
					unlock(t, h)
					if first.name == "node" || second.name != "node" { // a queue leaves its directory behind
						unlock(t, lock(t, second.of(c)))
					}
				})
			})
		}
	}
}

// Two different uses of a name race: one of them runs at each request of the other's Lock.
// Both may be refused, but both must not acquire.
func TestKindsThatComeTogetherSeeEachOther(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	together := 0
	for _, first := range uses() {
		for _, second := range uses() {
			if first.name == second.name {
				continue
			}
			for at, reached := 1, true; reached; at++ {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					one, other := client(t, srv), client(t, srv)
					var on, inside atomic.Bool
					var requests atomic.Int32
					var got *holdfast.Hold
					var err error
					for _, op := range []zkproto.Op{
						zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpDelete, zkproto.OpExists, zkproto.OpGetData,
						zkproto.OpSetData, zkproto.OpGetChildren2, zkproto.OpMulti,
					} {
						srv.Intercept(op, func(string) zktest.Action {
							if on.Load() && !inside.Load() && int(requests.Add(1)) == at {
								inside.Store(true)
								got, err = second.of(other).TryLock(t.Context())
							}
							return zktest.Pass
						})
					}
					on.Store(true)
					h, firstErr := first.of(one).TryLock(t.Context())
					on.Store(false)
					if reached = inside.Load(); !reached {
						if firstErr == nil {
							unlock(t, h)
						}
						return
					}
					together++
					if h != nil && got != nil && h.Context().Err() == nil && got.Context().Err() == nil {
						t.Errorf("%s and %s, at its request %d, both have the lock", first.name, second.name, at)
					}
					for who, err := range map[string]error{first.name: firstErr, second.name: err} {
						if err != nil && !refused(err) {
							t.Errorf("%s, with %s at request %d: %v", who, second.name, at, err)
						}
					}
					for _, h := range []*holdfast.Hold{h, got} {
						if h != nil {
							unlock(t, h)
						}
					}
				})
			}
		}
	}
	t.Logf("figure: %d moments of two uses of one name", together)
}

// A semaphore's turnstile node goes when the permit is there. So a client that looks for
// both must look for the turnstile first: in the other order it can miss both.
func TestTurnIsLookedForBeforePermits(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		one, other := client(t, srv), client(t, srv)
		sem := holdfast.NewSemaphore(one, lockPath, 2)
		unlock(t, lock(t, sem.Locker(1))) // creates all directories
		var looks atomic.Int32
		var began atomic.Bool
		admitted, second := make(chan struct{}), make(chan struct{})
		var w *waiter
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action { // the permit is about to be taken
			if !began.Swap(true) {
				w = &waiter{done: make(chan struct{})}
				go func() {
					defer close(w.done)
					w.hold, w.err = mutexAt(other).TryLock(t.Context())
				}()
				select {
				case <-second:
				case <-w.done:
				}
			}
			return zktest.Pass
		})
		srv.Intercept(zkproto.OpGetChildren2, func(path string) zktest.Action {
			if began.Load() && (path == lockPath+"/locks" || path == lockPath+"/leases") && looks.Add(1) == 2 {
				close(second)
				<-admitted
			}
			return zktest.Pass
		})
		h, err := sem.TryAcquire(t.Context(), 1)
		close(admitted)
		<-w.done
		if looks.Load() == 0 {
			t.Error("no look for the turn was intercepted: the test shows nothing")
		}
		if err == nil && w.err == nil {
			t.Error("a permit and the lock are held at once")
		}
		for _, h := range []*holdfast.Hold{h, w.hold} {
			if h != nil {
				unlock(t, h)
			}
		}
	})
}

// The error names both kinds, the node, and the remedy.
func TestErrKindSaysWhatIsWrong(t *testing.T) {
	for name, tt := range map[string]struct {
		first, second func(c *zk.Client) holdfast.Locker
		says          []string
	}{
		"layouts": {
			func(c *zk.Client) holdfast.Locker {
				return holdfast.NewMutex(c, lockPath, holdfast.WithLayout(layout.Kazoo))
			},
			mutexAt, []string{"layout kazoo", "layout curator", "__lock__0000000000"},
		},
		"queue in a semaphore": {
			func(c *zk.Client) holdfast.Locker { return holdfast.NewSemaphore(c, lockPath, 2).Locker(1) },
			mutexAt, []string{"a semaphore, layout curator", "a lock with a queue, layout curator", "/leases/_c_"},
		},
		"semaphore in a queue": {
			mutexAt, func(c *zk.Client) holdfast.Locker { return holdfast.NewSemaphore(c, lockPath, 2).Locker(1) },
			[]string{"a semaphore, layout curator", "a lock with a queue, layout curator", "-lock-0000000000"},
		},
		"queue in slots": {
			func(c *zk.Client) holdfast.Locker { return holdfast.NewSlots(c, lockPath, 2).Locker() },
			mutexAt, []string{"a set of slots", "a lock with a queue, layout curator", "/slots/slot-0000000000"},
		},
		"slots in a semaphore": {
			func(c *zk.Client) holdfast.Locker { return holdfast.NewSemaphore(c, lockPath, 2).Locker(1) },
			func(c *zk.Client) holdfast.Locker { return holdfast.NewSlots(c, lockPath, 2).Locker() },
			[]string{"a semaphore, layout curator", "this is a set of slots", "/leases/_c_"},
		},
		"semaphore in slots": {
			func(c *zk.Client) holdfast.Locker { return holdfast.NewSlots(c, lockPath, 2).Locker() },
			func(c *zk.Client) holdfast.Locker { return holdfast.NewSemaphore(c, lockPath, 2).Locker(1) },
			[]string{"is of a set of slots", "this is a semaphore, layout curator", "/slots/slot-0000000000"},
		},
		"queue below a node": {
			func(c *zk.Client) holdfast.Locker { return holdfast.NewNodeLock(c, lockPath) },
			mutexAt, []string{"a NodeLock", "a lock with a queue, layout curator"},
		},
		"queue further below a node": {
			func(c *zk.Client) holdfast.Locker { return holdfast.NewNodeLock(c, lockPath) },
			func(c *zk.Client) holdfast.Locker { return holdfast.NewMutex(c, lockPath+"/a") }, []string{"a NodeLock", lockPath + " "},
		},
		"node above a queue": {
			mutexAt, func(c *zk.Client) holdfast.Locker { return holdfast.NewNodeLock(c, lockPath) },
			[]string{"a NodeLock", "a lock with a queue, layout curator", "-lock-0000000000"},
		},
		"node above a semaphore": {
			func(c *zk.Client) holdfast.Locker { return holdfast.NewSemaphore(c, lockPath, 2).Locker(1) },
			func(c *zk.Client) holdfast.Locker { return holdfast.NewNodeLock(c, lockPath) },
			[]string{"a NodeLock", "a semaphore, layout curator", "/leases/_c_"},
		},
		"named and not": {
			func(c *zk.Client) holdfast.Locker {
				return holdfast.NewMutex(c, lockPath, holdfast.WithLayout(layout.Named("db")))
			},
			mutexAt, []string{"layout named:db", "layout curator", "db_lock_0000000000"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				h := lock(t, tt.first(client(t, srv)))
				_, err := tt.second(client(t, srv)).TryLock(t.Context())
				wantErr(t, err, holdfast.ErrKind)
				for _, want := range append(tt.says, "use one kind") {
					if !strings.Contains(fmt.Sprint(err), want) {
						t.Errorf("%v; want %q in it", err, want)
					}
				}
				unlock(t, h)
			})
		})
	}
}

// Nodes that are no lock of another kind do not block: directories of an idle semaphore
// and of other locks, other named locks, and unknown nodes.
func TestWhatIsNoOtherKindIsNoObstacle(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		unlock(t, lock(t, holdfast.NewSemaphore(c, lockPath, 2).Locker(1)))
		for _, below := range []string{"a", "0123456789abcdef0123456789abcdef", "build-0000000007", "lock"} { // locks have such names
			unlock(t, lock(t, holdfast.NewMutex(c, lockPath+"/"+below)))
		}
		if _, _, err := c.Create(t.Context(), lockPath+"/n_", nil, zk.EphemeralSequential); err != nil {
			t.Fatal(err)
		}
		unlock(t, lock(t, holdfast.NewMutex(c, lockPath)))
		unlock(t, lock(t, holdfast.NewSemaphore(c, lockPath, 2).Locker(1)))

		named := func(name string) holdfast.Locker {
			return holdfast.NewMutex(c, lockPath+"2", holdfast.WithLayout(layout.Named(name)))
		}
		one, two, lockB := lock(t, named("one")), lock(t, named("two")), lock(t, named("lock-b")) // lock-* are the nodes of layout.Article
		unlock(t, one)
		unlock(t, two)
		unlock(t, lockB)
		a := lock(t, named("lock-b"))
		unlock(t, lock(t, named("one")))
		unlock(t, a)
	})
}

// A persistent node is no place in the queue, whatever its name.
func TestPersistentNodeIsNoStranger(t *testing.T) {
	for _, u := range uses() {
		if u.name == "node" || u.name == "semaphore of kazoo" { // these count every node
			continue
		}
		t.Run(u.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := client(t, srv)
				for _, path := range []string{
					"/holdfast", "/holdfast/locks", lockPath,
					lockPath + "/lock-x1700000001", lockPath + "/a__rlock__1700000001", lockPath + "/a__WRIT__1700000001", lockPath + "/b_lock_1700000001",
				} {
					if _, _, err := c.Create(t.Context(), path, nil, zk.Persistent); err != nil {
						t.Fatal(err)
					}
				}
				h, err := u.of(c).TryLock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				unlock(t, h)
			})
		})
	}
}

// While a lock looks at a writer of another layout, that writer becomes a reader: its node
// goes, and it has made another node beside it.
func TestStrangerThatStepsDownIsSeen(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		m := rw(t, srv)
		w := lock(t, m)
		var r *holdfast.Hold
		var looked atomic.Bool
		srv.Intercept(zkproto.OpExists, func(path string) zktest.Action {
			if path == w.Path() && !looked.Swap(true) {
				var err error
				if r, err = m.RLock(w.Context()); err != nil {
					t.Error(err)
				}
				unlock(t, w)
			}
			return zktest.Pass
		})
		_, err := holdfast.NewMutex(client(t, srv), lockPath, holdfast.WithLayout(layout.Kazoo)).TryLock(t.Context())
		wantErr(t, err, holdfast.ErrKind)
		if !looked.Load() {
			t.Fatal("the writer did not step down during the look: the test shows nothing")
		}
		unlock(t, r)
	})
}

// A waiter checks the kind once. A client that later tries another kind under the name is
// refused, and does not disturb the waiter.
func TestWaitersAreNotDisturbedByOtherKinds(t *testing.T) {
	for _, crowd := range []bool{false, true} {
		t.Run(fmt.Sprint("crowd ", crowd), func(t *testing.T) {
			if crowd {
				defer holdfast.SetShareFrom(0)()
			}
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := client(t, srv)
				all := []*waiter{wait(t.Context(), mutexAt(client(t, srv)))}
				for range 4 {
					all = append(all, wait(t.Context(), mutexAt(c)))
				}
				// A foreign program that does not check for other kinds.
				stranger, _, err := client(t, srv).Create(t.Context(), lockPath+"/"+strings.Repeat("a", 32)+"__lock__", nil, zk.EphemeralSequential)
				if err != nil {
					t.Fatal(err)
				}
				for i, w := range all {
					<-w.done
					if crowd && i > 0 && errors.Is(w.err, holdfast.ErrKind) {
						continue // it had postponed its first look
					}
					unlock(t, w.got(t))
				}
				late := []*waiter{wait(t.Context(), mutexAt(c)), wait(t.Context(), mutexAt(c))}
				for _, w := range late {
					<-w.done
					wantErr(t, w.err, holdfast.ErrKind)
				}
				if err := c.Delete(t.Context(), stranger, zk.AnyVersion); err != nil {
					t.Fatal(err)
				}
				unlock(t, lock(t, mutexAt(c)))
				wantQueued(t, c, 0)
			})
		})
	}
}

// The check of the kind costs the uncontended lock no request.
func TestLockAloneCostsOneRoundTrip(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		line := newLine(t, srv)
		unlock(t, lock(t, mutexAt(line.Client)))
		if _, _, err := line.Create(t.Context(), lockPath+"/note", nil, zk.Persistent); err != nil {
			t.Fatal(err)
		}
		if _, _, err := line.Create(t.Context(), lockPath+"/n_", nil, zk.EphemeralSequential); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the client asks its new server once whether it is alone
		before, flushes := line.requests.Load(), line.flushes.Load()
		unlock(t, lock(t, mutexAt(line.Client)))
		synctest.Wait()
		requests, trips := line.requests.Load()-before, line.flushes.Load()-flushes
		if requests != 5 || trips != 2 {
			t.Errorf("%d requests in %d round trips; want 5 in 2: create, list and two looks at trees above in one flush, and delete", requests, trips)
		}
	})
}

func TestForeignNodesCanBeAskedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		want := map[string]string{}
		add := func(name, kind string, mode zk.Mode) {
			path, _, err := c.Create(t.Context(), lockPath+"/"+name, nil, mode)
			if err != nil {
				t.Fatal(err)
			}
			if kind != "-" {
				want[path] = kind
			}
		}
		if found, err := holdfast.Foreign(t.Context(), c, lockPath); err != nil || len(found) != 0 {
			t.Errorf("%+v, %v; want none where there is nothing", found, err)
		}
		unlock(t, lock(t, mutexAt(c)))
		const hex = "0123456789abcdef0123456789abcdef"
		add("_c_x-lock-", "-", zk.EphemeralSequential) // the lock's own
		add("note", "-", zk.Persistent)
		add("job-0000000001", "-", zk.Persistent) // perhaps the directory of another lock
		add("n_", "", zk.EphemeralSequential)
		add(hex+"__lock__", "a lock with a queue, layout kazoo", zk.EphemeralSequential)
		add(hex, "a semaphore, layout kazoo", zk.Ephemeral)
		add("x-72-", "a lock with a queue, layout writelock", zk.EphemeralSequential)
		add("_c_x-latch-", "a lock with a queue, layout leaderlatch", zk.EphemeralSequential)
		add("lock-72", "a lock with a queue, layout article", zk.EphemeralSequential)
		add("lock-72-", "a lock with a queue, layout sessionid", zk.EphemeralSequential)
		add("web-R-", "a lock with a queue, layout hostrw", zk.EphemeralSequential)
		add("db_lock_", "a lock with a queue, layout named:db", zk.EphemeralSequential)
		found, err := holdfast.Foreign(t.Context(), c, lockPath)
		if err != nil || len(found) != len(want) {
			t.Errorf("%d found, %v; want %d", len(found), err, len(want))
		}
		for _, f := range found {
			if kind, ok := want[f.Path]; !ok || f.Kind != kind {
				t.Errorf("%+v; want %q, %v", f, kind, ok)
			}
		}

		// Locks of one directory are not foreign to each other.
		found, err = holdfast.Foreign(t.Context(), c, lockPath, layout.Named("web"))
		if err != nil || slices.ContainsFunc(found, func(f holdfast.ForeignNode) bool { return strings.Contains(f.Path, "db_lock_") }) {
			t.Errorf("%+v, %v; want no other named lock", found, err)
		}

		sem := holdfast.NewSemaphore(c, lockPath+"2", 2)
		h := lock(t, sem.Locker(1))
		if found, err := holdfast.Foreign(t.Context(), c, lockPath+"2"); err != nil || len(found) != 0 {
			t.Errorf("%+v, %v; want none of what List shows", found, err)
		}
		found, err = holdfast.Foreign(t.Context(), c, lockPath+"2", layout.Kazoo)
		if err != nil || len(found) != 1 || found[0].Path != h.Path() || found[0].Kind != "a semaphore, layout curator" {
			t.Errorf("%+v, %v; want the permit", found, err)
		}
		unlock(t, h)
	})
}
