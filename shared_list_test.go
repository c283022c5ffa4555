package holdfast_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zktest"
)

// lister returns a client that counts its lists of a queue.
func lister(t *testing.T, srv *zktest.Server) (*zk.Client, *atomic.Int64) {
	t.Helper()
	var lists atomic.Int64
	cfg := srv.Config()
	cfg.SessionTimeout = 10 * time.Second
	cfg.Trace = &zk.Trace{RequestDone: func(_ context.Context, op, path string, _ time.Duration, _ error) {
		if op == "children" && path == lockPath {
			lists.Add(1)
		}
	}}
	c, err := zk.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, &lists
}

// crowdOf makes n clients join at the same moment.
func crowdOf(ctx context.Context, n int, l holdfast.Locker) []*waiter {
	all := make([]*waiter, n)
	for i := range all {
		w := &waiter{done: make(chan struct{})}
		all[i] = w
		go func() {
			defer close(w.done)
			w.hold, w.err = l.Lock(ctx)
		}()
	}
	synctest.Wait()
	return all
}

// apart separates the waiters that hold the lock from those that still wait.
func apart(all []*waiter) (in, waiting []*waiter) {
	for _, w := range all {
		select {
		case <-w.done:
			in = append(in, w)
		default:
			waiting = append(waiting, w)
		}
	}
	return in, waiting
}

func TestCrowdThatJoinsSharesItsLists(t *testing.T) {
	for _, tt := range []struct {
		name string
		of   func(*zk.Client) holdfast.Locker
		most int64 // besides those of the first 32, which list for themselves
	}{
		{"mutexes", mutexAt, 20},
		{"writers", writeAt, 20},
		{"readers", readAt, 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c, lists := lister(t, srv)
				first := lock(t, holdfast.NewRWMutex(client(t, srv), lockPath))
				const n = 500
				all := crowdOf(t.Context(), n, tt.of(c))
				wantQueued(t, c, n+1)
				asked := lists.Load()
				t.Logf("%d lists for %d who join", asked, n)
				if asked > 33+tt.most {
					t.Errorf("%d lists for %d who join; want no more than %d", asked, n, 33+tt.most)
				}
				unlock(t, first)
				for len(all) > 0 {
					synctest.Wait()
					in, rest := apart(all)
					if len(in) == 0 || len(in) > 1 && tt.name != "readers" {
						t.Fatalf("%d hold the lock, and %d wait", len(in), len(rest))
					}
					for _, w := range in {
						unlock(t, w.got(t))
					}
					all = rest
				}
				wantQueued(t, c, 0)
			})
		})
	}
}

// Waiters queue again one after the other, each after its turn.
func TestWhoQueuesAgainBehindItsOwnCrowdReadsNoList(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, lists := lister(t, srv)
		var turns atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		const n, rounds = 200, 5
		crowd := make(chan struct{})
		for range n {
			go func() {
				m := holdfast.NewMutex(c, lockPath)
				for {
					hold, err := m.Lock(ctx)
					if err != nil {
						crowd <- struct{}{}
						return
					}
					if turns.Add(1) == rounds*n {
						cancel()
					}
					hold.Unlock()
				}
			}()
		}
		synctest.Wait()
		before := lists.Load()
		unlock(t, first)
		for range n {
			<-crowd
		}
		asked := lists.Load() - before
		t.Logf("%d lists in %d turns", asked, rounds*n)
		if most := int64(4 * rounds); asked > most+40 { // the last leave, few and each for itself
			t.Errorf("%d lists in %d turns; want no more than %d", asked, rounds*n, most+40)
		}
	})
}

// Half of a group gives up at once, and every waiter right behind one of them looks again.
func TestCrowdThatGivesUpIsLookedAtTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, lists := lister(t, srv)
		first := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		const n = 300
		stay := crowdOf(t.Context(), n/3, mutexAt(c))
		crowdOf(ctx, n/3, mutexAt(c))
		stay = append(stay, crowdOf(t.Context(), n/3, mutexAt(c))...)
		before := lists.Load()
		cancel()
		synctest.Wait()
		wantQueued(t, c, 1+len(stay))
		asked := lists.Load() - before - 1 // ours
		t.Logf("%d lists when %d of %d give up", asked, n/3, n)
		if asked > 20 {
			t.Errorf("%d lists when %d of %d give up; want fewer", asked, n/3, n)
		}
		unlock(t, first)
		for len(stay) > 0 {
			synctest.Wait()
			in, rest := apart(stay)
			if len(in) != 1 {
				t.Fatalf("%d hold the lock, and %d wait", len(in), len(rest))
			}
			unlock(t, in[0].got(t))
			stay = rest
		}
		wantQueued(t, c, 0)
	})
}

// A reader does not rely on a waiting writer of its own session ahead of it. If that writer's
// node is removed by hand, the writer may not notice yet, and then nothing blocks the reader.
func TestReaderOfACrowdDoesNotWaitForAWriterThatIsGone(t *testing.T) {
	defer holdfast.SetShareFrom(0)()
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		admin, c := client(t, srv), client(t, srv)
		for range 2 {
			lock(t, readAt(admin))
		}
		writer := stand(t, srv, func(*zk.Client) holdfast.Locker { return writeAt(c) })
		reader := wait(t.Context(), readAt(c))
		if err := admin.Delete(t.Context(), writer.node, zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		if reader.waiting() {
			t.Error("a reader waits, and no writer is ahead of it")
		}
	})
}

// Places of one session that see different queues among the same names do not share.
func TestCrowdIsOfOneLayout(t *testing.T) {
	defer holdfast.SetShareFrom(0)()
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, _ := lister(t, srv)
		first := lock(t, holdfast.NewMutex(c, lockPath))
		blind := holdfast.Layout{Name: layout.Curator.Name, Mutex: "_c_{uuid}-other-", Exclusive: []string{"*other-"}}
		wait(t.Context(), holdfast.NewMutex(c, lockPath))
		other := wait(t.Context(), holdfast.NewMutex(c, lockPath, holdfast.WithLayout(blind)))
		if other.waiting() {
			t.Error("a lock with other names waits for nodes that it does not see")
		}
		unlock(t, first)
	})
}

func TestRollSaysTheSameAsTheNames(t *testing.T) {
	seed := *randomSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	for range 20_000 {
		start := [...]int32{0, 1<<31 - 4, -3, -1 << 31, 17}[rng.IntN(5)]
		var names []string
		for i := range int32(rng.IntN(8)) {
			form := [...]string{"lock-", "__WRIT__", "__READ__", "nothing-"}[rng.IntN(4)]
			seq := start + i
			switch rng.IntN(12) {
			case 0:
				seq = rng.Int32() - rng.Int32() // as if made by hand
			case 1:
				seq-- // two nodes have it
			}
			names = append(names, fmt.Sprintf("_c_%d-%s%010d", i, form, seq))
		}
		rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, me := range append(names, "_c_-lock-0000000003") {
			alone, inRoll, aloneErr, inRollErr := holdfast.Ahead(names, me)
			if aloneErr != inRollErr {
				t.Fatalf("-seed %d: %s in %q: %v from the names, %v from a shared list", seed, me, names, aloneErr, inRollErr)
			}
			if alone != inRoll && !twins(names) {
				t.Fatalf("-seed %d: %s in %q: %q from the names, %q from a shared list", seed, me, names, alone, inRoll)
			}
		}
	}
}

// twins reports whether a number occurs twice. Then it is undefined which of the two is nearer.
func twins(names []string) bool {
	seen := make(map[string]bool)
	for _, n := range names {
		number := n[len(n)-10:]
		if seen[number] {
			return true
		}
		seen[number] = true
	}
	return false
}
