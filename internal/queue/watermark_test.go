package queue

import (
	"flag"
	"testing"
	"testing/synctest"

	"holdfast/internal/queue/names"
	"holdfast/zk"
	"holdfast/zktest"
)

func init() { LongFrom = 32 } // queues of more than a few hundred would make the tests slow

var longest = flag.Int("waiters", 400, "how many wait in the longest queue")

// A release costs the same in a long queue as in a longer one. Clients come and go in turn, and
// only the first few, which came while the queue was short, list it again.
func TestLongQueueCostsConstantBytesPerRelease(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		const first = 40
		clients := max(20, *longest/20) // more places per client would share their lists, see shared_list.go
		var lines []*line
		for range clients {
			lines = append(lines, newLine(t, srv))
		}
		all := []*waiter{wait(t.Context(), mutexAt(lines[0].Client))}
		for i := range *longest {
			all = append(all, wait(t.Context(), mutexAt(lines[(i+1)%clients].Client)))
		}
		total := func() (n int64) {
			for _, l := range lines {
				n += l.bytes.Load()
			}
			return n
		}
		joins := total()
		var most int64
		for i, w := range all {
			if w.waiting() {
				t.Fatalf("%d waits", i)
			}
			before := total()
			unlock(t, w.got(t))
			synctest.Wait()
			if i >= first {
				most = max(most, total()-before)
			}
		}
		t.Logf("%d waiters: %d bytes to join, at most %d for a release, %d in all", *longest, joins, most, total())
		if most > 2000 {
			t.Errorf("a release cost %d bytes", most)
		}
		wantQueued(t, lines[0].Client, 0)
	})
}

// A watermark covers clients that have held the lock. Waiters conclude no more from it.
func TestMarksOfALongQueue(t *testing.T) {
	const long = 40
	tests := []struct {
		name string
		of   func(i int) func(*zk.Client) locker
		// then runs when the client at 34 holds the lock; the client at 35 is next.
		then func(t *testing.T, admin *zk.Client, all []*standing)
		next []int // the next holders, one after the other
	}{
		{"nothing", nil, nil, []int{34, 35, 36, 37, 38, 39}},
		{"the second nearest leaves", nil, func(t *testing.T, _ *zk.Client, all []*standing) { all[36].cancel() }, []int{34, 35, 37, 38, 39}},
		{"the nearest leaves", nil, func(t *testing.T, _ *zk.Client, all []*standing) { all[35].cancel() }, []int{34, 36, 37, 38, 39}},
		{"all between leave", nil, func(t *testing.T, _ *zk.Client, all []*standing) {
			for _, s := range all[35:39] {
				s.cancel()
			}
		}, []int{34, 39}},
		{"a waiter is removed", nil, func(t *testing.T, admin *zk.Client, all []*standing) {
			if err := admin.Delete(t.Context(), all[36].node, zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}, []int{34, 35, 37, 38, 39}},
		{"the holder is removed", nil, func(t *testing.T, admin *zk.Client, all []*standing) {
			if err := admin.Delete(t.Context(), all[34].node, zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}, []int{35, 36, 37, 38, 39}},
		{"the data are taken", nil, func(t *testing.T, admin *zk.Client, all []*standing) {
			if _, err := admin.Set(t.Context(), lockPath, []byte("5"), zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}, []int{34, 35, 36, 37, 38, 39}},
		{"the mark is an old one of a queue that has wrapped", nil, func(t *testing.T, admin *zk.Client, all []*standing) {
			if _, err := admin.Set(t.Context(), lockPath, []byte("holdfast: passed 1"), zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
			all[35].cancel()
		}, []int{34, 36, 37, 38, 39}},
		{"writers", func(int) func(*zk.Client) locker { return writeAt }, nil, []int{34, 35, 36, 37, 38, 39}},
		{"a go-zookeeper node holds", func(i int) func(*zk.Client) locker {
			if i%2 == 0 {
				return func(c *zk.Client) locker {
					return mutexIn(c, names.Compile(names.GoZookeeper))
				}
			}
			return mutexAt
		}, nil, []int{34, 35, 36, 37, 38, 39}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				admin := client(t, srv)
				var all []*standing
				for i := range long {
					of := mutexAt
					if tt.of != nil {
						of = tt.of(i)
					}
					all = append(all, stand(t, srv, of))
				}
				drain(t, all[:34])
				if tt.then != nil {
					tt.then(t, admin, all)
					synctest.Wait()
				}
				for _, i := range tt.next {
					for j := i + 1; j < long; j++ {
						if all[j].in0(t) {
							t.Fatalf("%d has the lock before %d releases it", j, i)
						}
					}
					if !all[i].in0(t) {
						t.Fatalf("%d does not have the lock in its turn", i)
					}
					unlock(t, all[i].hold)
					synctest.Wait()
				}
				if got := directoryData(t, admin); tt.name == "the data are taken" && got != "5" {
					t.Errorf("a watermark replaced somebody's data: %q", got)
				}
			})
		})
	}
}

// In a long queue a holder leaves a watermark. It proves that all up to the holder's own
// place have gone, and nothing about those behind it.
func TestMarkOfSomebodyFurtherAheadIsNoProof(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		const n = 42
		all := standAll(t, srv, n, mutexAt)
		const holds = 36 // those who joined when the queue was long, and some before
		for _, s := range all[:holds] {
			unlock(t, s.got(t))
		}
		data, _, err := all[n-1].Get(t.Context(), lockPath)
		if err != nil || len(data) == 0 {
			t.Fatalf("no watermark: %q, %v: the test shows nothing", data, err)
		}
		for _, i := range []int{holds + 1, holds + 2, holds + 3} {
			all[i].cancel()
			<-all[i].done
			synctest.Wait()
		}
		for i, s := range all[holds+4:] {
			if !s.waiting() {
				t.Errorf("%d acquired the lock that %d holds", holds+4+i, holds)
			}
		}
		unlock(t, all[holds].got(t))
		unlock(t, all[holds+4].got(t))
		unlock(t, all[holds+5].got(t))
	})
}

// The directory's data may belong to somebody. Then holders leave no watermarks.
func TestMarksLeaveOthersDataAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		admin := client(t, srv)
		unlock(t, lock(t, mutexAt(admin))) // the directory exists
		const theirs = "who may lock: see the wiki"
		if _, err := admin.Set(t.Context(), lockPath, []byte(theirs), zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		for _, s := range standAll(t, srv, 40, mutexAt) {
			unlock(t, s.got(t))
		}
		if data, _, err := admin.Get(t.Context(), lockPath); err != nil || string(data) != theirs {
			t.Errorf("the data are %q, %v; want %q", data, err, theirs)
		}
	})
}
