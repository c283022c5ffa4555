package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
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

// fillQueue makes places in the queue of a lock by hand.
func fillQueue(t *testing.T, c *zk.Client, path string, data []byte, names ...string) {
	t.Helper()
	if _, _, err := c.Create(t.Context(), path, nil, zk.Persistent); err != nil {
		t.Fatal(err)
	}
	for some := range slices.Chunk(names, 500) {
		var ops []zk.Op
		for _, name := range some {
			ops = append(ops, zk.CreateOp(path+"/"+name, data, zk.Persistent))
		}
		if _, err := c.Multi(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
	}
}

// List says who holds a lock as the waiters see it, also where nodes made by hand share a number, or numbers wrap.
func TestListSaysWhoHolds(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		for seed := range uint64(200) {
			rng := rand.New(rand.NewPCG(seed, 1))
			path := fmt.Sprintf("/l%d", seed)
			start, span := int32(rng.IntN(3)*0x3fffffff), 1+rng.IntN(6)
			var names []string
			numbers := make(map[string]int32)
			for i := range 1 + rng.IntN(8) {
				kind := []string{"lock", "__WRIT__", "__READ__"}[rng.IntN(3)]
				if kind == "lock" {
					kind = "-lock-"
				}
				number := start + int32(rng.IntN(span))
				names = append(names, fmt.Sprintf("_c_00000000-0000-0000-0000-%012d%s%010d", i, kind, number))
				numbers[names[i]] = number
			}
			fillQueue(t, c, path, nil, names...)
			entries, err := holdfast.List(t.Context(), c, path)
			if err != nil || len(entries) != len(names) {
				t.Fatalf("%v: %d entries, %v", names, len(entries), err)
			}
			for _, e := range entries {
				waits := slices.ContainsFunc(entries, func(o holdfast.Entry) bool {
					return numbers[o.Name]-numbers[e.Name] < 0 && !(e.Shared && o.Shared)
				})
				if e.Held == waits {
					t.Errorf("%v: %s held %v", names, e.Name, e.Held)
				}
			}
		}
	})
}

// Nodes with so much data that the client does not take the answers together are listed in parts.
func TestListOfNodesWithMuchData(t *testing.T) {
	if testing.Short() {
		t.Skip("needs some hundred megabytes")
	}
	srv := zktest.NewServer()
	defer srv.Close()
	c := srv.Client()
	data := []byte(strings.Repeat("x", 1_000_000))
	for i := range 150 {
		name := fmt.Sprintf("_c_00000000-0000-0000-0000-%012d-lock-%010d", i, i)
		if i == 0 {
			fillQueue(t, c, "/l", data, name)
		} else if _, _, err := c.Create(t.Context(), "/l/"+name, data, zk.Persistent); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := holdfast.List(t.Context(), c, "/l")
	if err != nil || len(entries) != 150 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for i, e := range entries {
		if e.Held != (i == 0) || !strings.HasSuffix(e.Name, fmt.Sprintf("%010d", i)) || len(e.Owner) > 5000 {
			t.Errorf("%d: %s, held %v", i, e.Name, e.Held)
		}
	}
}

// What other programs write into their nodes does not fill the memory of a program that lists.
func TestListCutsLongTexts(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		long := strings.Repeat("é", 200_000)
		fillQueue(t, c, "/l", []byte(long), "_c_00000000-0000-0000-0000-000000000001-lock-0000000001")
		entries, err := holdfast.List(t.Context(), c, "/l")
		if err != nil || len(entries) != 1 || entries[0].Owner != strings.Repeat("é", 2048)+"…" {
			t.Errorf("%d entries, %v; want the beginning of the owner", len(entries), err)
		}
		h := lock(t, holdfast.NewMutex(c, "/m", holdfast.WithOwner(long), holdfast.WithReason("x"), holdfast.WithLabels(map[string]string{"a": long})))
		entries, err = holdfast.List(t.Context(), c, "/m")
		if err != nil || len(entries) != 1 || len(entries[0].Owner) > 5000 || entries[0].Reason != "x" || len(entries[0].Labels) > 0 {
			t.Errorf("%d entries, %v", len(entries), err)
		}
		unlock(t, h)
	})
}

// The labels of a node are in the list, and stay when the holder writes its node again.
func TestLabelsAreListed(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		labels := map[string]string{"team": "search"}
		h := lock(t, holdfast.NewMutex(c, lockPath, holdfast.WithOwner("ada"), holdfast.WithLabels(labels)))
		labels["team"] = "another"
		for range 3 { // the second: the holder has said since when it holds the lock; the third: a request came
			entries, err := holdfast.List(t.Context(), c, lockPath)
			if err != nil || len(entries) != 1 || len(entries[0].Labels) != 1 || entries[0].Labels["team"] != "search" || entries[0].Owner != "ada" {
				t.Fatalf("%+v, %v", entries, err)
			}
			time.Sleep(2 * time.Second)
			if err := holdfast.Revoke(t.Context(), client(t, srv), lockPath, h.Token()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
		}
		unlock(t, h)
		_, err := holdfast.NewElection(c, "/holdfast/locks/e", holdfast.WithLabels(labels)).Campaign(t.Context(), nil)
		wantErr(t, err, zk.ErrBadArguments)
	})
}

// A directory with very many places takes List a time that grows with their number, and not with its square. Nodes of another
// program can all have one number.
func TestListOfVeryManyPlaces(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	c := srv.Client()
	quickest := func(n int) time.Duration {
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf("_c_00000000-0000-0000-0000-%012d-lock-0000000001", i)
		}
		path := fmt.Sprintf("/many-%d", n)
		fillQueue(t, c, path, nil, names...)
		least := time.Hour
		for range 3 {
			began := time.Now()
			if entries, err := holdfast.List(t.Context(), c, path); err != nil || len(entries) != n {
				t.Fatal(len(entries), err)
			}
			least = min(least, time.Since(began))
		}
		return least
	}
	few, many := quickest(2_000), quickest(40_000)
	if many > 150*few { // a square would be 400
		t.Errorf("20 times as many places take %v instead of %v", many, few)
	}
}

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
