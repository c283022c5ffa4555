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

// A party is one way to use lockPath, or a path below it.
type party struct {
	name, path   string
	tree, shards bool
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
		{name: "slots", enter: tries(func(c *zk.Client) holdfast.Locker { return holdfast.NewSlots(c, path, 2).Locker() })},
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
	return append(all,
		party{name: "tree", path: lockPath, tree: true, enter: treeAt(lockPath, "")},
		party{name: "tree orders", path: lockPath, tree: true, enter: treeAt(lockPath, "orders")},
		party{name: "tree/orders", path: lockPath + "/orders", tree: true, enter: treeAt(lockPath+"/orders", "")},
	)
}

// pairs are the pairs of parties of which a tree or shards are one, and that must not hold together.
func pairs(all []party) (pairs [][2]party) {
	for _, a := range all {
		for _, b := range all {
			covers := func(a, b party) bool { return a.tree && strings.HasPrefix(b.path+"/", a.path+"/") }
			if a.name != b.name && (covers(a, b) || covers(b, a) || (a.shards || b.shards) && a.path == b.path) {
				pairs = append(pairs, [2]party{a, b})
			}
		}
	}
	return pairs
}

// A tree and a lock of another kind at its path or below exclude or refuse each other, whoever comes first. So do
// shards and a lock at their path. When the first has gone, the second acquires the lock.
func TestTreesAndShardsBesideOtherKinds(t *testing.T) {
	for _, pair := range pairs(parties()) {
		first, second := pair[0], pair[1]
		t.Run(first.name+" and "+second.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				leave, err := first.enter(t.Context(), client(t, srv))
				if err != nil {
					t.Fatal(err)
				}
				c := client(t, srv)
				got, err := second.enter(t.Context(), c)
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
				if strings.HasPrefix(first.name, "kept") || strings.HasPrefix(second.name, "semaphore of kazoo") {
					time.Sleep(5 * time.Minute) // to kazoo, the directories that the first has left are permits
				}
				if strings.HasPrefix(second.name, "node") {
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
func TestTreesAndShardsThatComeTogetherWithOtherKinds(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	together := 0
	for _, pair := range pairs(parties()) {
		first, second := pair[0], pair[1]
		if second.shards || strings.HasPrefix(second.name, "once") { // they do not end at once; as the first they are tried
			continue
		}
		for at, reached := 1, true; reached && at < 60; at++ {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				one, other := client(t, srv), client(t, srv)
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
					if firstErr == nil && err == nil {
						t.Errorf("%s and %s, at its request %d, are both in", first.name, second.name, at)
					}
					for who, err := range map[string]error{first.name: firstErr, second.name: err} {
						if err != nil && !refused(err) {
							t.Errorf("%s, with %s at request %d: %v", who, second.name, at, err)
						}
					}
				}
				for _, leave := range []func() error{leave, got} {
					if leave != nil {
						leave()
					}
				}
			})
		}
	}
	t.Logf("figure: %d moments of two kinds", together)
}

// The error of both says what is there, and what to type.
func TestErrKindNamesTreesAndShards(t *testing.T) {
	find := func(name string) party {
		all := parties()
		return all[slices.IndexFunc(all, func(p party) bool { return p.name == name })]
	}
	for _, tt := range []struct {
		first, second string
		says          []string
	}{
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
				for _, want := range tt.says {
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
		"slots": tries(func(c *zk.Client) holdfast.Locker { return holdfast.NewSlots(c, path, 2).Locker() }),
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

// Of what is below a tree, only locks count: no directories that locks have left, no other nodes, no queues of the
// tree itself.
func TestWhatIsNoLockBelowATreeIsNoObstacle(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		for _, p := range parties() {
			if strings.HasPrefix(p.name, "node") {
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
			return holdfast.NewSlots(c, path, 3).Locker()
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

// What a client may not read may be a lock that it must not be held beside. It says so, and does not hold.
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
