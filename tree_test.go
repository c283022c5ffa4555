package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zktest"
)

// excludes is the definition: the one path is the other, or above it.
func excludes(p, o string) bool {
	above := func(a, b string) bool { return a == "" || a == b || strings.HasPrefix(b, a+"/") }
	return above(p, o) || above(o, p)
}

func TestTreeLocksAPathWithAllBelowIt(t *testing.T) {
	all := []string{"", "a", "a/b", "a/b/c", "a/bc", "a/c", "ab", "b"}
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		mine, theirs := holdfast.NewTree(client(t, srv), lockPath), holdfast.NewTree(client(t, srv), lockPath)
		for _, first := range all {
			h := lock(t, mine.Path(first))
			for _, second := range all {
				g, err := theirs.Path(second).TryLock(t.Context())
				switch {
				case err == nil && excludes(first, second):
					t.Errorf("%q beside %q", second, first)
				case err != nil && !excludes(first, second):
					t.Errorf("%q waits for %q: %v", second, first, err)
				case err != nil:
					wantErr(t, err, holdfast.ErrLocked)
				}
				if err == nil {
					unlock(t, g)
				}
			}
			unlock(t, h)
		}
		wantNoNodes(t, client(t, srv))
	})
}

// Different paths are different locks, whatever is in their names, and none is a directory of another kind.
func TestTreeTakesAnyName(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		tree := holdfast.NewTree(client(t, srv), lockPath)
		for _, path := range []string{
			"a/b", "a%2Fb", "%2Fa%2Fb", "a%2fb", "locks", "leases", "c/locks", "c/leases", ".", "..", "a b", "a+b", "ä", "\x00", "\xff", "__READ__0000000001",
			"_c_00000000-0000-0000-0000-000000000000-lock-0000000000", strings.Repeat("x", 1000), strings.Repeat("x/", 63) + "x",
		} {
			h, err := tree.Path(path).TryLock(t.Context())
			if err != nil {
				t.Errorf("%.40q: %v", path, err)
				continue
			}
			defer unlock(t, h)
		}
	})
}

func TestTreeRefusesBadPaths(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		for name, tt := range map[string]struct {
			path string
			opts []holdfast.Option
		}{
			"slash":         {path: "/"},
			"leading":       {path: "/a"},
			"trailing":      {path: "a/"},
			"empty part":    {path: "a//b"},
			"long":          {path: strings.Repeat("x", 1001)},
			"very long":     {path: strings.Repeat("x", 100_000)},
			"deep":          {path: strings.Repeat("x/", 64) + "x"},
			"local handoff": {path: "a", opts: []holdfast.Option{holdfast.WithLocalHandoff(3)}},
			"reentrant":     {path: "a", opts: []holdfast.Option{holdfast.Reentrant()}},
			"no readers":    {path: "a", opts: []holdfast.Option{holdfast.WithLayout(layout.WriteLock)}},
		} {
			tree := holdfast.NewTree(c, lockPath, tt.opts...)
			for _, l := range []holdfast.Locker{tree.Path(tt.path), holdfast.NewMultiLock(tree.Path(tt.path))} {
				for _, acquire := range []func(holdfast.Locker, context.Context) (*holdfast.Hold, error){holdfast.Locker.Lock, holdfast.Locker.TryLock} {
					_, err := acquire(l, t.Context())
					wantErr(t, err, zk.ErrBadArguments)
					if n := len(fmt.Sprint(err)); n > 300 {
						t.Errorf("%s: the error has %d bytes", name, n)
					}
				}
			}
		}
		_, err := holdfast.NewTree(c, "relative").Path("a").Lock(t.Context())
		wantErr(t, err, zk.ErrInvalidPath)
	})
}

// The token of the root fences the whole tree: it grows from each holder to the next that it excludes.
func TestTokensOfATreeGrowAcrossItsPaths(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		mine, theirs := holdfast.NewTree(client(t, srv), lockPath), holdfast.NewTree(client(t, srv), lockPath)
		for _, first := range []string{"", "a", "a/b", "a/b/c"} {
			for _, second := range []string{"", "a", "a/b", "a/b/c"} {
				h := lock(t, mine.Path(first))
				w := wait(t.Context(), theirs.Path(second)) // has nodes of its own below the first holder's already
				synctest.Wait()
				if !w.waiting() {
					t.Fatalf("%q beside %q", second, first)
				}
				unlock(t, h)
				g := w.got(t)
				if g.Token() <= h.Token() {
					t.Errorf("%q has token %d after %q with %d", second, g.Token(), first, h.Token())
				}
				if n := len(g.Tokens()); g.Tokens()[0].Token != g.Token() || n != strings.Count("/"+second, "/")+min(1, len(second)) {
					t.Errorf("%q has %d tokens: %v", second, n, g.Tokens())
				}
				unlock(t, g)
			}
		}
	})
}

// A waiter's node at its own path is older than that of a holder above it, which was first all the same.
func TestTokenOfATreeIsNotThatOfThePath(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		of := func() *holdfast.Tree { return holdfast.NewTree(client(t, srv), lockPath) }
		below := lock(t, of().Path("a/b"))
		last := wait(t.Context(), of().Path("a/b"))
		synctest.Wait()
		above := wait(t.Context(), of().Path("a"))
		synctest.Wait()
		unlock(t, below)
		first := above.got(t)
		if !last.waiting() {
			t.Fatal("a/b beside a")
		}
		unlock(t, first)
		second := last.got(t)
		if !(below.Token() < first.Token() && first.Token() < second.Token()) {
			t.Errorf("tokens %d, %d, %d", below.Token(), first.Token(), second.Token())
		}
		unlock(t, second)
	})
}

// Many clients lock random paths. Nobody holds a path beside one that excludes it, tokens grow, and nobody
// waits for ever.
func TestTreeUnderRandomCallers(t *testing.T) {
	for seed := range uint64(12) {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			var mu sync.Mutex
			held := make(map[int]string)
			last := make(map[string]int64) // the largest token of those that held it
			turns := 0
			var all sync.WaitGroup
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			for i := range 8 {
				rng := rand.New(rand.NewPCG(seed, uint64(i)))
				c := client(t, srv)
				tree := holdfast.NewTree(c, lockPath)
				all.Go(func() {
					for range 15 {
						var parts []string
						for range rng.IntN(4) {
							parts = append(parts, []string{"a", "b"}[rng.IntN(2)])
						}
						p := strings.Join(parts, "/")
						patience, giveUp := context.WithCancel(ctx)
						if rng.IntN(4) == 0 {
							time.AfterFunc(time.Duration(rng.IntN(100))*time.Millisecond, giveUp)
						}
						h, err := tree.Path(p).Lock(patience)
						giveUp()
						if errors.Is(err, context.Canceled) {
							continue
						}
						if err != nil {
							t.Errorf("seed %d: %q: %v", seed, p, err)
							return
						}
						mu.Lock()
						turns++
						for _, o := range held {
							if excludes(p, o) {
								t.Errorf("seed %d: %q beside %q", seed, p, o)
							}
						}
						for o, token := range last {
							if excludes(p, o) && h.Token() <= token {
								t.Errorf("seed %d: %q has token %d after %q with %d", seed, p, h.Token(), o, token)
							}
						}
						held[i] = p
						last[p] = max(last[p], h.Token())
						mu.Unlock()
						time.Sleep(time.Duration(rng.IntN(50)) * time.Millisecond)
						mu.Lock()
						delete(held, i)
						mu.Unlock()
						if rng.IntN(8) == 0 {
							srv.Expire(h.SessionID())
							h.Unlock()
							continue
						}
						unlock(t, h)
					}
				})
			}
			all.Wait()
			if turns < 60 {
				t.Errorf("seed %d: only %d turns", seed, turns)
			}
		})
	}
}

// A holder that locks another path of its tree might wait for callers that wait for it. It is told at once,
// also if nobody waits at present.
func TestTreeInsideItselfIsADeadlock(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		tree := holdfast.NewTree(client(t, srv), lockPath)
		h := lock(t, tree.Path("a"))
		w := wait(t.Context(), holdfast.NewTree(client(t, srv), lockPath).Path("a/b")) // has "a/b", and waits for "a"
		synctest.Wait()
		for _, path := range []string{"", "a", "a/b", "a/c", "b"} {
			for _, l := range []holdfast.Locker{tree.Path(path), holdfast.NewMultiLock(tree.Path(path), holdfast.NewMutex(client(t, srv), ledger))} {
				_, err := l.Lock(h.Context())
				wantErr(t, err, holdfast.ErrDeadlock)
				_, err = l.TryLock(h.Context())
				wantErr(t, err, holdfast.ErrDeadlock)
			}
		}
		unlock(t, h)
		unlock(t, w.got(t))
		h = lock(t, tree.Path(""))
		for _, path := range []string{"", "a", "a/b"} {
			_, err := tree.Path(path).Lock(h.Context()) // would step down to the root's read side
			wantErr(t, err, holdfast.ErrDeadlock)
		}
		unlock(t, h)
		wantNoNodes(t, client(t, srv))
	})
}

// Locks of a tree have a place in the order of all MultiLocks.
func TestTreesInMultiLocksDoNotDeadlock(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var all sync.WaitGroup
		for i := range 4 {
			c := client(t, srv)
			tree := holdfast.NewTree(c, lockPath+"/tree")
			ls := []holdfast.Locker{
				tree.Path("a/b"), holdfast.NewMutex(c, lockPath+"/x"), tree.Path("a/b/c"), holdfast.NewMutex(c, lockPath+"/z"), tree.Path("c/d"), tree.Path("c"),
			}
			rand.New(rand.NewPCG(1, uint64(i))).Shuffle(len(ls), func(i, j int) { ls[i], ls[j] = ls[j], ls[i] })
			all.Go(func() {
				for range 10 {
					h, err := holdfast.NewMultiLock(ls...).Lock(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					if n := len(h.Tokens()); n != 8 { // x, z, a, a/b, a/b/c, c, c/d and the root
						t.Errorf("%d tokens: %v", n, h.Tokens())
					}
					time.Sleep(time.Millisecond)
					unlock(t, h)
				}
			})
		}
		all.Wait()
	})
}

func TestTreeBesideALockOfItsNodes(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		tree := holdfast.NewTree(c, lockPath)
		h := lock(t, tree.Path("a"))
		node := h.Tokens()[1].Path // of "a"
		_, err := holdfast.NewMutex(client(t, srv), node).TryLock(t.Context())
		wantErr(t, err, holdfast.ErrLocked)
		unlock(t, h)
		_, err = holdfast.NewMultiLock(tree.Path("a"), holdfast.NewRWMutex(c, node)).Lock(t.Context())
		wantErr(t, err, zk.ErrBadArguments)
	})
}

// A holder of a path that crashes or is removed by hand lets the next in, in time.
func TestTreeAfterACrash(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := lock(t, holdfast.NewTree(client(t, srv), lockPath).Path("a/b"))
		w := wait(t.Context(), holdfast.NewTree(client(t, srv), lockPath).Path("a"))
		synctest.Wait()
		srv.Expire(h.SessionID())
		<-h.Lost()
		g := w.got(t)
		if _, err := g.CommitAndUnlock(t.Context(), zk.CreateOp(ledger, nil, zk.Persistent)); err != nil {
			t.Error(err)
		}
		wantErr(t, h.Unlock(), holdfast.ErrLost)
	})
}
