package queue

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/queue/names"
	"holdfast/zk"
	"holdfast/zktest"
)

// lister returns a client that counts its lists of a queue.
func lister(t *testing.T, srv *zktest.Server) (*zk.Client, *atomic.Int64) {
	t.Helper()
	var lists atomic.Int64
	return dial(t, srv, func(cfg *zk.Config) {
		cfg.Trace = &zk.Trace{RequestDone: func(_ context.Context, op, path string, _ time.Duration, _ error) {
			if op == "children" && path == lockPath {
				lists.Add(1)
			}
		}}
	}), &lists
}

// setShareFrom lowers the number of places from which they share lists, until restore is called.
func setShareFrom(n int) (restore func()) {
	before := ShareFrom
	ShareFrom = n
	return func() { ShareFrom = before }
}

// crowdOf makes n clients join at the same moment.
func crowdOf(ctx context.Context, n int, l locker) []*waiter {
	all := make([]*waiter, n)
	for i := range all {
		all[i] = start(ctx, l)
	}
	synctest.Wait()
	return all
}

func TestCrowdThatJoinsSharesItsLists(t *testing.T) {
	for _, tt := range []struct {
		name string
		of   func(*zk.Client) locker
		most int64 // besides those of the first 32, which list for themselves
	}{
		{"mutexes", mutexAt, 20},
		{"writers", writeAt, 20},
		{"readers", readAt, 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c, lists := lister(t, srv)
				first := lock(t, writeAt(client(t, srv)))
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
		first := lock(t, mutexAt(client(t, srv)))
		const n, rounds = 200, 5
		crowd := make(chan struct{})
		for range n {
			go func() {
				m := mutexAt(c)
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
		first := lock(t, mutexAt(client(t, srv)))
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
	defer setShareFrom(0)()
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		admin, c := client(t, srv), client(t, srv)
		for range 2 {
			lock(t, readAt(admin))
		}
		writer := stand(t, srv, func(*zk.Client) locker { return writeAt(c) })
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
	defer setShareFrom(0)()
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, _ := lister(t, srv)
		first := lock(t, mutexAt(c))
		blind := names.Compile(names.Layout{Name: names.Curator.Name, Mutex: "_c_{uuid}-other-", Exclusive: []string{"*other-"}})
		wait(t.Context(), mutexAt(c))
		other := wait(t.Context(), mutexIn(c, blind))
		if other.waiting() {
			t.Error("a lock with other names waits for nodes that it does not see")
		}
		unlock(t, first)
	})
}
