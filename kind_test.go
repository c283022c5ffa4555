package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/once"
	"holdfast/reserve"
	"holdfast/shards"
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
		{"slots", func(c *zk.Client) holdfast.Locker { return holdfast.NewSlots(c, lockPath, 2).Locker(1) }},
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
		if requests != 3 || trips != 2 {
			t.Errorf("%d requests in %d round trips; want 3 in 2: create and list in one flush, and delete", requests, trips)
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

// A party is one way to use lockPath, or a path below it.
type party struct {
	name, path   string
	tree, shards bool
	use          bool // see uses: no two are compatible
	// enter acquires the lock if it is free. leave releases it.
	enter func(ctx context.Context, c *zk.Client) (leave func() error, err error)
}

// tries is enter for a Locker.
func tries(of func(c *zk.Client) holdfast.Locker) func(context.Context, *zk.Client) (func() error, error) {
	return func(ctx context.Context, c *zk.Client) (func() error, error) {
		h, err := of(c).TryLock(ctx)
		if err != nil {
			return nil, err
		}
		return h.Unlock, nil
	}
}

// inside is enter for a call that calls its function when it has the lock. A call that waits counts as refused.
func inside(call func(ctx context.Context, c *zk.Client, f func(context.Context)) error) func(context.Context, *zk.Client) (func() error, error) {
	return func(ctx context.Context, c *zk.Client) (func() error, error) {
		ctx, cancel := context.WithCancel(ctx)
		in, out, done := make(chan struct{}, 100), make(chan struct{}), make(chan error, 1)
		go func() {
			done <- call(ctx, c, func(ctx context.Context) {
				in <- struct{}{}
				select {
				case <-out:
				case <-ctx.Done():
				}
			})
		}()
		select {
		case <-in:
			return func() error { close(out); cancel(); <-done; return nil }, nil
		case err := <-done:
			cancel()
			return nil, err
		case <-time.After(3 * time.Second):
			cancel()
			return nil, errors.Join(holdfast.ErrLocked, <-done)
		}
	}
}

// plainAt lists the kinds of lock at a path, other than trees.
func plainAt(path string) []party {
	all := []party{
		{name: "mutex", enter: tries(func(c *zk.Client) holdfast.Locker { return holdfast.NewMutex(c, path) })},
		{name: "reader", enter: tries(func(c *zk.Client) holdfast.Locker { return holdfast.NewRWMutex(c, path).RLocker() })},
		{name: "writer", enter: tries(func(c *zk.Client) holdfast.Locker { return holdfast.NewRWMutex(c, path) })},
		{name: "semaphore", enter: tries(func(c *zk.Client) holdfast.Locker { return holdfast.NewSemaphore(c, path, 2).Locker(1) })},
		{name: "semaphore of kazoo", enter: tries(func(c *zk.Client) holdfast.Locker {
			return holdfast.NewSemaphore(c, path, 2, holdfast.WithLayout(layout.Kazoo)).Locker(1)
		})},
		{name: "slots", enter: tries(func(c *zk.Client) holdfast.Locker { return holdfast.NewSlots(c, path, 2).Locker(1) })},
		{name: "node", enter: tries(func(c *zk.Client) holdfast.Locker { return holdfast.NewNodeLock(c, path) })},
		{name: "own layout", enter: tries(func(c *zk.Client) holdfast.Locker {
			return holdfast.NewMutex(c, path, holdfast.WithLayout(holdfast.Layout{Name: "own", Mutex: "job.{uuid}.", Exclusive: []string{"job.*."}}))
		})},
		{name: "reservable", enter: tries(func(c *zk.Client) holdfast.Locker { return reserve.Locker(holdfast.NewMutex(c, path)) })},
		{name: "kept", enter: tries(func(c *zk.Client) holdfast.Locker {
			return holdfast.NewMutex(c, path, holdfast.WithKeep(time.Minute))
		})},
		{name: "election", enter: func(ctx context.Context, c *zk.Client) (func() error, error) {
			h, err := holdfast.NewElection(c, path).TryCampaign(ctx, []byte("me"))
			if err != nil {
				return nil, err
			}
			return h.Unlock, nil
		}},
		{name: "once", enter: inside(func(ctx context.Context, c *zk.Client, f func(context.Context)) error {
			_, err := once.New(c, path).Key("key").Do(ctx, func(ctx context.Context) ([]byte, error) { f(ctx); return nil, errors.New("again") })
			return err
		})},
		{name: "detached", enter: func(ctx context.Context, c *zk.Client) (func() error, error) {
			d := holdfast.NewDetached(c, path, 0)
			claim, err := d.TryLock(ctx)
			return func() error { return d.Unlock(ctx, claim.ID) }, err
		}},
		{name: "shards", shards: true, enter: inside(func(ctx context.Context, c *zk.Client, f func(context.Context)) error {
			return shards.New(c, path, 2, shards.WithSettle(0)).Run(ctx, func(ctx context.Context, _ shards.Shard) error { f(ctx); return nil })
		})},
	}
	for i := range all {
		all[i].name, all[i].path = all[i].name+strings.TrimPrefix(path, lockPath), path
	}
	return all
}

func treeAt(path, below string) func(context.Context, *zk.Client) (func() error, error) {
	return tries(func(c *zk.Client) holdfast.Locker { return holdfast.NewTree(c, path).Path(below) })
}

// parties are the uses of lockPath and of paths below it.
func parties() []party {
	all := plainAt(lockPath)
	all = append(append(all, plainAt(lockPath+"/orders")...), plainAt(lockPath+"/a/b/c")...)
	for _, u := range uses() {
		all = append(all, party{name: "use " + u.name, path: lockPath, use: true, enter: tries(u.of)})
	}
	return append(all,
		party{name: "tree", path: lockPath, tree: true, enter: treeAt(lockPath, "")},
		party{name: "tree orders", path: lockPath, tree: true, enter: treeAt(lockPath, "orders")},
		party{name: "tree/orders", path: lockPath + "/orders", tree: true, enter: treeAt(lockPath+"/orders", "")},
	)
}

// pairs are the pairs of parties that must not hold together: two uses of one path, a tree and what is below it, and shards
// and what is at their path.
func pairs(all []party) (pairs [][2]party) {
	for _, a := range all {
		for _, b := range all {
			covers := func(a, b party) bool { return a.tree && strings.HasPrefix(b.path+"/", a.path+"/") }
			if a.name != b.name && (covers(a, b) || covers(b, a) || (a.shards || b.shards) && a.path == b.path || a.use && b.use) {
				pairs = append(pairs, [2]party{a, b})
			}
		}
	}
	return pairs
}

// While one of a pair is held, the other is refused, or waits, and the first keeps what it has. When the first has gone, the
// second acquires the lock.
func TestKindsUnderOneNameExcludeOrRefuse(t *testing.T) {
	for _, pair := range pairs(parties()) {
		first, second := pair[0], pair[1]
		t.Run(first.name+" and "+second.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				leave, err := first.enter(t.Context(), client(t, srv))
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // shards that still take their shards would see the second, and withdraw
				c, began := client(t, srv), time.Now()
				got, err := second.enter(t.Context(), c)
				if d := time.Since(began); d > 0 && first.use && second.use {
					t.Errorf("the refusal took %v", d)
				}
				if err == nil {
					t.Error("both are in")
					got()
				} else if !refused(err) {
					t.Errorf("%v; want a refusal or a wait", err)
				}
				synctest.Wait()
				if nodes, err := c.Ephemerals(t.Context(), "/"); err != nil || len(nodes) > 0 {
					t.Errorf("nodes left behind: %q, %v", nodes, err)
				}
				if err := leave(); err != nil {
					t.Errorf("the first: %v", err)
				}
				if strings.HasPrefix(first.name, "kept") || strings.Contains(second.name, "semaphore of kazoo") {
					time.Sleep(5 * time.Minute) // to kazoo, the directories that the first has left are permits
				}
				if strings.HasPrefix(strings.TrimPrefix(second.name, "use "), "node") {
					return // the others leave directories behind
				}
				synctest.Wait()
				got, err = second.enter(t.Context(), c)
				if err != nil {
					t.Fatalf("after the first has gone: %v", err)
				}
				got()
			})
		})
	}
}

// The two come together: one of them runs at each request of the other. Both may be refused, but not both be in.
func TestKindsThatComeTogetherSeeEachOther(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	together := 0
	for _, pair := range pairs(parties()) {
		first, second := pair[0], pair[1]
		if second.shards || strings.HasPrefix(second.name, "once") { // they do not end at once; as the first they are tried
			continue
		}
		again := false // the session of the first has had the lock before, and knows what is above it
		for at, reached := 1, true; reached && at < 60; at++ {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				one, other := client(t, srv), client(t, srv)
				if again {
					leave, err := first.enter(t.Context(), one)
					if err != nil {
						t.Fatal(err)
					}
					leave()
				}
				var mu sync.Mutex // guards the next three
				on, inside, requests := false, false, 0
				entered := make(chan struct{})
				var got func() error
				var err error
				for _, op := range []zkproto.Op{
					zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpDelete, zkproto.OpExists, zkproto.OpGetData,
					zkproto.OpSetData, zkproto.OpGetChildren2, zkproto.OpMulti,
				} {
					srv.Intercept(op, func(path string) zktest.Action {
						mu.Lock()
						now := false
						if !strings.HasPrefix(path, "/zookeeper") && on && !inside {
							requests++
							inside = requests == at
							now = inside
						}
						mu.Unlock()
						if now {
							got, err = second.enter(t.Context(), other)
							close(entered)
						}
						return zktest.Pass
					})
				}
				set := func(to bool) (began bool) {
					mu.Lock()
					defer mu.Unlock()
					on = to
					return inside
				}
				set(true)
				leave, firstErr := first.enter(t.Context(), one)
				if reached = set(false); reached {
					<-entered
					together++
					for who, err := range map[string]error{first.name: firstErr, second.name: err} {
						if err != nil && !refused(err) {
							t.Errorf("%s, with %s at request %d: %v", who, second.name, at, err)
						}
					}
				}
				left := 0 // without having lost it
				if firstErr == nil && leave() == nil {
					left++
				}
				if got != nil && err == nil && got() == nil {
					left++
				}
				if left == 2 {
					t.Errorf("%s and %s, at its request %d, are both in", first.name, second.name, at)
				}
			})
			if !reached && !again && second.tree && !first.tree {
				at, reached, again = 0, true, true
			}
		}
	}
	t.Logf("figure: %d moments of two kinds", together)
}

// The error names both kinds, the node, and the remedy.
func TestErrKindSaysWhatIsWrong(t *testing.T) {
	find := func(name string) party {
		all := parties()
		return all[slices.IndexFunc(all, func(p party) bool { return p.name == name })]
	}
	for _, tt := range []struct {
		first, second string
		says          []string
	}{
		{"use kazoo", "mutex", []string{"layout kazoo", "layout curator", "__lock__0000000000"}},
		{"use named:db", "mutex", []string{"layout named:db", "layout curator", "db_lock_0000000000"}},
		{"semaphore", "mutex", []string{"a semaphore, layout curator", "a lock with a queue, layout curator", "/leases/_c_"}},
		{"mutex", "semaphore", []string{"a semaphore, layout curator", "a lock with a queue, layout curator", "-lock-0000000000"}},
		{"slots", "mutex", []string{"a set of slots", "a lock with a queue, layout curator", "/slots/slot-0000000000"}},
		{"semaphore", "slots", []string{"a semaphore, layout curator", "this is a set of slots", "/leases/_c_"}},
		{"slots", "semaphore", []string{"is of a set of slots", "this is a semaphore, layout curator", "/slots/slot-0000000000"}},
		{"node", "mutex", []string{"a NodeLock", "a lock with a queue, layout curator"}},
		{"node", "mutex/orders", []string{"a NodeLock", lockPath + " "}},
		{"mutex", "node", []string{"a NodeLock", "a lock with a queue, layout curator", "-lock-0000000000"}},
		{"semaphore", "node", []string{"a NodeLock", "a semaphore, layout curator", "/leases/_c_"}},
		{"tree", "mutex", []string{lockPath + "/%2F/_c_", "of the tree " + lockPath, "give --tree (NewTree) for " + lockPath + " and all names below it"}},
		{"tree orders", "mutex/orders", []string{lockPath + "/%2F/_c_", "of the tree " + lockPath, "give --tree"}},
		{"mutex", "tree", []string{lockPath + "/_c_", "a lock with a queue, layout curator", "this is the tree " + lockPath, "give --tree (NewTree) for " + lockPath}},
		{"mutex/a/b/c", "tree orders", []string{lockPath + "/a/b/c/_c_", "a lock with a queue, layout curator", "give --tree"}},
		{"node/orders", "tree", []string{"the node " + lockPath + "/orders is of a NodeLock"}},
		{"semaphore/orders", "tree", []string{"/orders/leases/_c_", "a semaphore, layout curator"}},
		{"semaphore of kazoo/orders", "tree", []string{"a semaphore, layout kazoo"}},
		{"slots/orders", "tree", []string{"/orders/slots/slot-0000000000", "a set of slots"}},
		{"tree/orders", "tree", []string{"of the tree " + lockPath + "/orders", "this is the tree " + lockPath + ":"}},
		{"shards", "mutex", []string{lockPath + "/workers/_c_", "a set of shards"}},
		{"mutex", "shards", []string{lockPath + "/_c_", "this is a set of shards"}},
		{"semaphore", "shards", []string{"a semaphore, layout curator", "this is a set of shards"}},
	} {
		t.Run(tt.first+" and "+tt.second, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				leave, err := find(tt.first).enter(t.Context(), client(t, srv))
				if err != nil {
					t.Fatal(err)
				}
				_, err = find(tt.second).enter(t.Context(), client(t, srv))
				wantErr(t, err, holdfast.ErrKind)
				for _, want := range append(tt.says, "use one kind") {
					if !strings.Contains(fmt.Sprint(err), want) {
						t.Errorf("%v; want %q in it", err, want)
					}
				}
				leave()
			})
		})
	}
}

// While a tree looks at what is below it, a lock there replaces its node by another one. The tree sees one of the two.
func TestTreeSeesALockThatChangesItsNode(t *testing.T) {
	const path = lockPath + "/orders"
	for name, hold := range map[string]func(ctx context.Context, c *zk.Client) (func() error, error){
		"semaphore": tries(func(c *zk.Client) holdfast.Locker { return holdfast.NewSemaphore(c, path, 2).Locker(1) }),
		"semaphore of kazoo": tries(func(c *zk.Client) holdfast.Locker {
			return holdfast.NewSemaphore(c, path, 2, holdfast.WithLayout(layout.Kazoo)).Locker(1)
		}),
		"slots": tries(func(c *zk.Client) holdfast.Locker { return holdfast.NewSlots(c, path, 2).Locker(1) }),
		"detached": func(ctx context.Context, c *zk.Client) (func() error, error) {
			d := holdfast.NewDetached(c, path, 0)
			claim, err := d.TryLock(ctx)
			return func() error { return d.Unlock(ctx, claim.ID) }, err
		},
		"writer that becomes a reader": func(ctx context.Context, c *zk.Client) (func() error, error) {
			m := holdfast.NewRWMutex(c, path)
			w, err := m.TryLock(ctx)
			if err != nil {
				return nil, err
			}
			r, err := m.RLock(w.Context())
			w.Unlock()
			if err != nil {
				return nil, err
			}
			return r.Unlock, nil
		},
	} {
		for _, fresh := range []bool{false, true} { // whether the lock has to make its directories
			t.Run(fmt.Sprint(name, ", fresh ", fresh), func(t *testing.T) {
				for at, reached := 1, true; reached; at++ {
					inBubble(t, func(t *testing.T, srv *zktest.Server) {
						one, other := client(t, srv), client(t, srv)
						var leave func() error
						if !fresh {
							var err error
							if leave, err = hold(t.Context(), one); err != nil {
								t.Fatal(err)
							}
							leave()
						}
						changing, change, changed := make(chan struct{}), make(chan struct{}), make(chan struct{})
						var looking atomic.Bool
						var looks atomic.Int32
						srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
							srv.Intercept(zkproto.OpMulti, nil)
							close(changing)
							<-change
							return zktest.Pass
						})
						var firstErr error
						go func() {
							defer close(changed)
							leave, firstErr = hold(t.Context(), one)
						}()
						<-changing
						for _, op := range []zkproto.Op{zkproto.OpExists, zkproto.OpGetData, zkproto.OpGetChildren2} {
							srv.Intercept(op, func(path string) zktest.Action {
								if looking.Load() && strings.HasPrefix(path, lockPath) && int(looks.Add(1)) == at {
									looking.Store(false)
									synctest.Wait() // the server has answered what was sent before
									close(change)
									<-changed
								}
								return zktest.Pass
							})
						}
						looking.Store(true)
						h, err := holdfast.NewTree(other, lockPath).Path("").TryLock(t.Context())
						if reached = !looking.Swap(false); !reached {
							close(change)
							<-changed
						}
						if err == nil && firstErr == nil {
							t.Errorf("both are in: the change was at look %d of the tree", at)
						}
						for _, err := range []error{err, firstErr} {
							if err != nil && !refused(err) {
								t.Errorf("at look %d: %v", at, err)
							}
						}
						if h != nil {
							unlock(t, h)
						}
						if firstErr == nil {
							leave()
						}
					})
				}
			})
		}
	}
}

// Places that share their lists look around, too: once for each list.
func TestCrowdSeesATreeAbove(t *testing.T) {
	defer holdfast.SetShareFrom(0)()
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		tree := lock(t, holdfast.NewTree(client(t, srv), lockPath).Path("customers"))
		c := client(t, srv)
		orders := holdfast.NewMutex(c, lockPath+"/orders")
		var all []*waiter
		for range 8 {
			all = append(all, wait(t.Context(), orders))
		}
		for _, w := range all {
			<-w.done
			wantErr(t, w.err, holdfast.ErrKind)
		}
		unlock(t, tree)
		h := lock(t, orders)
		w := wait(t.Context(), orders)
		if _, err := holdfast.NewTree(client(t, srv), lockPath).Path("customers").TryLock(t.Context()); !errors.Is(err, holdfast.ErrKind) {
			t.Errorf("%v; want ErrKind", err)
		}
		unlock(t, h)
		unlock(t, w.got(t))
	})
}

// A session that has seen that there is no tree above its lock watches for one, and does not look again. It sees a tree that
// is taken since, whenever that happens.
func TestTreeThatComesLaterIsSeen(t *testing.T) {
	path := lockPath + "/orders/7"
	kinds := map[string]func(c *zk.Client) holdfast.Locker{
		"mutex":     func(c *zk.Client) holdfast.Locker { return holdfast.NewMutex(c, path) },
		"node":      func(c *zk.Client) holdfast.Locker { return holdfast.NewNodeLock(c, path) },
		"semaphore": func(c *zk.Client) holdfast.Locker { return holdfast.NewSemaphore(c, path, 2).Locker(1) },
	}
	type scene struct {
		srv  *zktest.Server
		line *line
		tree func() *holdfast.Hold // takes the tree with another client
	}
	// Each takes the tree, and returns its Hold once there is one. It may do so at the client's next create.
	comes := map[string]func(t *testing.T, s scene) func() *holdfast.Hold{
		"between two calls": func(t *testing.T, s scene) func() *holdfast.Hold {
			h := s.tree()
			return func() *holdfast.Hold { return h }
		},
		"and goes, and comes again": func(t *testing.T, s scene) func() *holdfast.Hold {
			unlock(t, s.tree())
			time.Sleep(5 * time.Minute) // the server removes the empty directory
			h := s.tree()
			return func() *holdfast.Hold { return h }
		},
		"while the client is cut off": func(t *testing.T, s scene) func() *holdfast.Hold {
			s.line.cut()
			h := s.tree()
			s.line.mend()
			return func() *holdfast.Hold { return h }
		},
		"between two sessions": func(t *testing.T, s scene) func() *holdfast.Hold {
			session, err := s.line.Session(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s.line.cut()
			s.srv.Expire(session.ID())
			h := s.tree()
			s.line.mend()
			return func() *holdfast.Hold { return h }
		},
	}
	for name, action := range map[string]zktest.Action{
		"at the create": zktest.Pass, "at a create whose answer is lost": zktest.DropReply, "at a create that is lost": zktest.DropRequest,
	} {
		comes[name] = func(t *testing.T, s scene) func() *holdfast.Hold {
			var h *holdfast.Hold
			var at sync.Once
			now := func(created string) (a zktest.Action) {
				if strings.HasPrefix(created, path) {
					at.Do(func() { h, a = s.tree(), action })
				}
				return a
			}
			s.srv.Intercept(zkproto.OpCreate2, now)
			s.srv.Intercept(zkproto.OpMulti, now)
			return func() *holdfast.Hold { return h }
		}
	}
	for when, come := range comes {
		for kind, of := range kinds {
			t.Run(kind+" "+when, func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					line, other := newLine(t, srv), client(t, srv)
					l := of(line.Client)
					unlock(t, lock(t, l))
					unlock(t, lock(t, l))
					synctest.Wait()
					held := come(t, scene{srv, line, func() *holdfast.Hold {
						return lock(t, holdfast.NewTree(other, lockPath).Path("customers"))
					}})
					h, err := l.TryLock(t.Context())
					wantErr(t, err, holdfast.ErrKind)
					if h != nil {
						unlock(t, h)
					}
					unlock(t, held())
					unlock(t, lock(t, l)) // the directory of the tree is still there
					time.Sleep(5 * time.Minute)
					unlock(t, lock(t, l))
				})
			})
		}
	}
}

// Also a tree whose nodes others may not read: its directory tells that it is there.
func TestPrivateTreeThatComesLaterIsSeen(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		cfg := srv.Config()
		cfg.Auth = []zk.Auth{zk.DigestAuth("ann", "secret")}
		ann, err := zk.Dial(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer ann.Close()
		l := holdfast.NewMutex(client(t, srv), lockPath+"/orders")
		unlock(t, lock(t, l))
		unlock(t, lock(t, l))
		h := lock(t, holdfast.NewTree(ann, lockPath, holdfast.WithACL(zk.ACL{Perms: zk.PermAll, Scheme: "auth"})).Path(""))
		_, err = l.TryLock(t.Context())
		wantErr(t, err, zk.ErrNoAuth)
		unlock(t, h)
		unlock(t, lock(t, l))
	})
}

// Of what is below a tree, only locks count: no directories that locks have left, no other nodes, no queues of the
// tree itself.
func TestWhatIsNoLockBelowATreeIsNoObstacle(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		for _, p := range parties() {
			if strings.HasPrefix(p.name, "node") || p.use {
				continue // its path must not exist
			}
			leave, err := p.enter(t.Context(), c)
			if err == nil {
				err = leave()
			}
			if err != nil && !strings.HasPrefix(p.name, "semaphore of kazoo") { // to it, all directories are permits
				t.Fatalf("%s: %v", p.name, err)
			}
			if strings.HasPrefix(p.name, "kept") {
				time.Sleep(2 * time.Minute)
			}
			synctest.Wait() // a cancelled Lock removes its node in the background
		}
		for path, mode := range map[string]zk.Mode{
			"/service": zk.Persistent, "/service/10.0.0.1:80": zk.Ephemeral, "/service/0000000007": zk.Persistent, "/x-lock-0000000001": zk.Persistent,
		} {
			if _, _, err := c.Create(t.Context(), lockPath+path, []byte("text"), mode); err != nil && !errors.Is(err, zk.ErrNoNode) {
				t.Fatal(err)
			}
		}
		waits := lock(t, holdfast.NewRWMutex(client(t, srv), lockPath+"/%2Fx")) // as a lock of the tree that is not in yet
		unlock(t, lock(t, holdfast.NewTree(c, lockPath).Path("")))
		unlock(t, lock(t, holdfast.NewTree(c, lockPath).Path("orders")))
		unlock(t, lock(t, holdfast.NewMutex(c, lockPath+"/orders")))
		unlock(t, waits)
	})
}

// With nothing but its own queues below it, a lock of a tree costs no further round trip. With more nodes below it
// than it can look at, it is refused.
func TestLookBelowATreeIsBounded(t *testing.T) {
	defer holdfast.SetMostBelow(20)()
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		line := newLine(t, srv)
		tree := holdfast.NewTree(line.Client, lockPath)
		for i := range 40 {
			unlock(t, lock(t, tree.Path(fmt.Sprint("p", i))))
		}
		synctest.Wait() // the client asks its new server once whether it is alone
		flushes := line.flushes.Load()
		h := lock(t, tree.Path(""))
		synctest.Wait()
		if n := line.flushes.Load() - flushes; n != 1 {
			t.Errorf("%d round trips; want 1", n)
		}
		unlock(t, h)
		c := client(t, srv)
		for i := range 20 {
			if _, _, err := c.Create(t.Context(), fmt.Sprintf("%s/n%d", lockPath, i), nil, zk.Persistent); err != nil {
				t.Fatal(err)
			}
		}
		unlock(t, lock(t, tree.Path("")))
		if _, _, err := c.Create(t.Context(), lockPath+"/n0/n", nil, zk.Persistent); err != nil {
			t.Fatal(err)
		}
		_, err := tree.Path("").Lock(t.Context())
		wantErr(t, err, holdfast.ErrKind)
		if want := "more than 20 nodes below " + lockPath; !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v; want %q in it", err, want)
		}
		wantNoNodes(t, c)
	})
}

// Clients use trees and other kinds at random, while answers and requests get lost, sessions end and the network is
// slow. No lock of the tree is held beside another lock at its path or below.
func TestTreesBesideOtherKindsUnderFaults(t *testing.T) {
	plain := func(c *zk.Client, rng *rand.Rand) holdfast.Locker {
		path := lockPath + []string{"", "/orders", "/a/b"}[rng.IntN(3)]
		switch rng.IntN(6) {
		case 0:
			return holdfast.NewSemaphore(c, path, 3).Locker(1)
		case 1:
			return holdfast.NewSlots(c, path, 3).Locker(1)
		case 2:
			return holdfast.NewNodeLock(c, path+"/node")
		case 3:
			return holdfast.NewRWMutex(c, path).RLocker()
		case 4:
			return holdfast.NewSemaphore(c, path, 3, holdfast.WithLayout(layout.Kazoo)).Locker(1)
		}
		return holdfast.NewMutex(c, path)
	}
	var turns [2]int // of others, of the tree
	for seed := range uint64(25) {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			var mu sync.Mutex // guards rng and held, and turns
			rng := rand.New(rand.NewPCG(36, seed))
			chance := func(n int) bool { mu.Lock(); defer mu.Unlock(); return rng.IntN(n) == 0 }
			for _, op := range []zkproto.Op{zkproto.OpCreate2, zkproto.OpMulti, zkproto.OpGetChildren2, zkproto.OpExists, zkproto.OpDelete} {
				srv.Intercept(op, func(string) zktest.Action {
					switch {
					case chance(200):
						return zktest.DropRequest
					case chance(200):
						return zktest.DropReply
					}
					return zktest.Pass
				})
			}
			held := make(map[*holdfast.Hold]bool) // whether it is of the tree
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			var all sync.WaitGroup
			for i := range 6 {
				mine := rand.New(rand.NewPCG(seed, uint64(i)))
				c := client(t, srv)
				all.Go(func() {
					for range 20 {
						ofTree := mine.IntN(2) == 0
						l := holdfast.NewTree(c, lockPath).Path([]string{"", "orders", "x/y"}[mine.IntN(3)])
						var locker holdfast.Locker = l
						if !ofTree {
							locker = plain(c, mine)
						}
						patience, giveUp := context.WithTimeout(ctx, time.Duration(1+mine.IntN(2000))*time.Millisecond)
						h, err := locker.Lock(patience)
						giveUp()
						if err != nil {
							time.Sleep(time.Duration(mine.IntN(300)) * time.Millisecond)
							continue
						}
						mu.Lock()
						held[h] = ofTree
						for o, other := range held {
							if other != ofTree && o.Context().Err() == nil && h.Context().Err() == nil {
								t.Errorf("seed %d: %s is held beside %s", seed, h.Path(), o.Path())
							}
						}
						if ofTree {
							turns[1]++
						} else {
							turns[0]++
						}
						mu.Unlock()
						time.Sleep(time.Duration(mine.IntN(200)) * time.Millisecond)
						mu.Lock()
						delete(held, h)
						mu.Unlock()
						if mine.IntN(10) == 0 {
							srv.Expire(h.SessionID())
						}
						h.Unlock()
					}
				})
			}
			all.Wait()
		})
	}
	t.Logf("figure: %d turns of a tree and %d of other locks", turns[1], turns[0])
	if turns[0] < 100 || turns[1] < 100 {
		t.Errorf("only %d turns of the tree and %d of others", turns[1], turns[0])
	}
}

// A node that a client may not read may be a lock that excludes its own. The client says so, and does not hold.
func TestTreesAndLocksThatMayNotBeRead(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		private := holdfast.WithACL(zk.ACL{Perms: zk.PermAll, Scheme: "auth"})
		cfg := srv.Config()
		cfg.Auth = []zk.Auth{zk.DigestAuth("ann", "secret")}
		ann, err := zk.Dial(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer ann.Close()
		c := client(t, srv)
		unlock(t, lock(t, holdfast.NewTree(c, lockPath).Path(""))) // the directories above are everybody's
		unlock(t, lock(t, holdfast.NewMutex(c, lockPath+"/orders/7")))
		if err := c.Delete(t.Context(), lockPath+"/%2F", zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		h := lock(t, holdfast.NewTree(ann, lockPath, private).Path(""))
		for _, path := range []string{lockPath, lockPath + "/orders/7"} {
			_, err := holdfast.NewMutex(c, path).TryLock(t.Context())
			wantErr(t, err, zk.ErrNoAuth)
			if !strings.Contains(fmt.Sprint(err), "cannot see whether a tree holds "+path) {
				t.Error(err)
			}
		}
		unlock(t, h)
		time.Sleep(5 * time.Minute) // the server removes the empty directory
		unlock(t, lock(t, holdfast.NewMutex(c, lockPath+"/orders/7")))
		h = lock(t, holdfast.NewMutex(ann, lockPath+"/private", private))
		_, err = holdfast.NewTree(c, lockPath).Path("x").TryLock(t.Context())
		wantErr(t, err, zk.ErrNoAuth)
		if !strings.Contains(fmt.Sprint(err), "cannot see whether there are other locks in the tree "+lockPath) {
			t.Error(err)
		}
		unlock(t, h)
		time.Sleep(5 * time.Minute)
		unlock(t, lock(t, holdfast.NewTree(c, lockPath).Path("x")))
	})
}

// A Once and a lock of another kind cannot have one name: the later of the two is refused.
func TestOnceAndLocksUnderOneNameAreRefused(t *testing.T) {
	for _, other := range uses() {
		t.Run(other.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := client(t, srv)
				h := lock(t, other.of(client(t, srv)))
				o := once.New(c, lockPath)
				r, err := o.Key("key").Do(t.Context(), func(context.Context) ([]byte, error) { return nil, nil })
				wantErr(t, err, holdfast.ErrKind)
				if r.Ran {
					t.Error("the function was called")
				}
				synctest.Wait()
				if left, err := c.Ephemerals(t.Context(), "/"); err != nil || len(left) > 0 {
					t.Errorf("left behind: %q, %v", left, err)
				}
				unlock(t, h)
				time.Sleep(10 * time.Minute) // the directories of the other kind go
				check := func(context.Context) ([]byte, error) {
					_, err := other.of(c).TryLock(t.Context())
					wantErr(t, err, holdfast.ErrKind)
					if foreign, err := holdfast.Foreign(t.Context(), c, lockPath); other.name != "node" && (err != nil || len(foreign) != 1 || foreign[0].Kind != "a Once") {
						t.Errorf("foreign nodes: %+v, %v", foreign, err)
					}
					if err != nil && !strings.Contains(err.Error(), "is of a Once") {
						t.Errorf("%v; want the kind", err)
					}
					return nil, nil
				}
				if _, err := o.Key("key").Do(t.Context(), check); err != nil {
					t.Fatal(err)
				}
				check(t.Context()) // its mark stays
				if err := o.Key("key").Forget(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Minute)
				unlock(t, lock(t, other.of(c)))
			})
		})
	}
}

// A Once and another lock come together: one of them runs at each request of the other. Both may be refused,
// but both must not run.
func TestOnceAndLocksThatComeTogetherSeeEachOther(t *testing.T) {
	for _, other := range uses() {
		for at, reached := 1, true; reached; at++ {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				// With a record of the beginning, there is a request between the look and the run.
				o, c := once.New(client(t, srv), lockPath, once.AtMostOnce()), client(t, srv)
				var inside atomic.Bool
				var h *holdfast.Hold
				var lockErr error
				var cut *cut
				cut = newCut(srv, at, func(zkproto.Op) zktest.Action {
					if inside.CompareAndSwap(false, true) {
						cut.on.Store(false)
						h, lockErr = other.of(c).TryLock(t.Context())
						cut.on.Store(true)
					}
					return zktest.Pass
				})
				cut.on.Store(true)
				_, err := o.Key("key").Do(t.Context(), func(context.Context) ([]byte, error) {
					if h != nil && h.Context().Err() == nil {
						t.Errorf("%s at request %d: both run", other.name, at)
					}
					return nil, nil
				})
				cut.on.Store(false)
				if reached = cut.reached.Load(); reached && (err != nil && !errors.Is(err, holdfast.ErrKind) || lockErr != nil && !refused(lockErr)) {
					t.Errorf("%s at request %d: %v; %v", other.name, at, err, lockErr)
				}
				if h != nil {
					unlock(t, h)
				}
			})
		}
	}
}

// A cut counts the requests for nodes below /holdfast, and does something at one of them.
type cut struct {
	on      atomic.Bool
	n       atomic.Int32
	at      int32
	next    func() // is called at the request after that, if it is set
	reached atomic.Bool
}

// newCut makes strike answer the at-th request after on is set. It starts at 1.
func newCut(srv *zktest.Server, at int, strike func(op zkproto.Op) zktest.Action) *cut {
	c := &cut{at: int32(at)}
	for _, op := range []zkproto.Op{
		zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpDelete, zkproto.OpExists, zkproto.OpGetData,
		zkproto.OpSetData, zkproto.OpGetChildren2, zkproto.OpMulti,
	} {
		srv.Intercept(op, func(path string) zktest.Action {
			if !c.on.Load() || !strings.HasPrefix(path, "/holdfast") {
				return zktest.Pass
			}
			n := c.n.Add(1)
			if n == c.at+1 && c.next != nil {
				c.next()
				return zktest.DropRequest
			}
			if n != c.at {
				return zktest.Pass
			}
			c.reached.Store(true)
			return strike(op)
		})
	}
	return c
}
