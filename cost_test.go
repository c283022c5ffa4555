package holdfast_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"holdfast"
	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// A permit that is free costs few round trips and commits: each is a wait for the network or for a disk.
func TestPermitsCostFewRoundTripsAndCommits(t *testing.T) {
	for name, tt := range map[string]struct {
		of                              func(c *zk.Client) holdfast.Locker
		requests, roundTrips, committed int64 // no round trips: as many as the goroutines of an Unlock take
	}{
		"semaphore":     {func(c *zk.Client) holdfast.Locker { return holdfast.NewSemaphore(c, lockPath, 3).Locker(1) }, 10, 4, 3},
		"three permits": {func(c *zk.Client) holdfast.Locker { return holdfast.NewSemaphore(c, lockPath, 3).Locker(3) }, 12, 0, 5}, // a commit for each permit that goes
		"semaphore of kazoo": {func(c *zk.Client) holdfast.Locker {
			return holdfast.NewSemaphore(c, lockPath, 3, holdfast.WithLayout(layout.Kazoo)).Locker(1)
		}, 11, 5, 3},
		"slots": {func(c *zk.Client) holdfast.Locker { return holdfast.NewSlots(c, lockPath, 3).Locker() }, 11, 5, 3},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				line := newLine(t, srv)
				l := tt.of(line.Client)
				unlock(t, lock(t, l)) // makes the directories
				synctest.Wait()
				var writes atomic.Int64
				for _, op := range []zkproto.Op{zkproto.OpCreate2, zkproto.OpMulti, zkproto.OpDelete, zkproto.OpSetData} {
					srv.Intercept(op, func(path string) zktest.Action {
						if strings.HasPrefix(path, lockPath) {
							writes.Add(1)
						}
						return zktest.Pass
					})
				}
				requests, flushes := line.requests.Load(), line.flushes.Load()
				unlock(t, lock(t, l))
				synctest.Wait()
				trips := line.flushes.Load() - flushes
				if tt.roundTrips == 0 {
					trips = 0
				}
				got := fmt.Sprintf("%d requests, %d round trips, %d commits", line.requests.Load()-requests, trips, writes.Load())
				if want := fmt.Sprintf("%d requests, %d round trips, %d commits", tt.requests, tt.roundTrips, tt.committed); got != want {
					t.Errorf("%s; want %s", got, want)
				}
			})
		})
	}
}

// The transaction that takes a permit removes the place at the turnstile, and leaves the watermark of a long
// queue there. If somebody else writes into that directory, the permit is taken without a watermark.
func TestTurnstileOfALongQueueGetsAWatermark(t *testing.T) {
	for _, disturbed := range []bool{false, true} {
		t.Run(fmt.Sprint("disturbed ", disturbed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := client(t, srv)
				if disturbed {
					srv.Intercept(zkproto.OpMulti, func(path string) zktest.Action {
						if _, err := c.Set(t.Context(), lockPath+"/locks", nil, zk.AnyVersion); err != nil {
							t.Error(err)
						}
						return zktest.Pass
					})
				}
				h := lock(t, semaphore(t, srv, 1).Locker(1))
				s := semaphore(t, srv, 1)
				got := make(chan *holdfast.Hold)
				const waiters = 40
				ctx, cancel := context.WithCancel(t.Context())
				var group sync.WaitGroup
				defer group.Wait()
				defer cancel()
				for range waiters {
					group.Go(func() {
						h, err := s.Acquire(ctx, 1)
						if err != nil && ctx.Err() == nil {
							t.Error(err)
						}
						select {
						case got <- h:
						case <-ctx.Done():
						}
					})
				}
				synctest.Wait()
				for range waiters {
					unlock(t, h)
					if h = <-got; h == nil {
						return
					}
				}
				unlock(t, h)
				data, _, err := c.Get(t.Context(), lockPath+"/locks")
				if err != nil || strings.HasPrefix(string(data), "holdfast: passed ") == disturbed {
					t.Errorf("the turnstile has %q, %v; disturbed: %v", data, err, disturbed)
				}
				wantFree(t, s, 1, 1)
			})
		})
	}
}
