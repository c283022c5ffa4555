package holdfast_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"holdfast"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// A permit that is free costs few round trips and commits: each is a wait for the network or for a disk.
func TestPermitsCostFewRoundTripsAndCommits(t *testing.T) {
	for name, tt := range map[string]struct {
		of                              func(c *zk.Client) holdfast.Locker
		requests, roundTrips, committed int64
	}{
		"semaphore":     {func(c *zk.Client) holdfast.Locker { return holdfast.NewSemaphore(c, lockPath, 3).Locker() }, 9, 6, 4},
		"three permits": {func(c *zk.Client) holdfast.Locker { return holdfast.NewSemaphore(c, lockPath, 3).LockerN(3) }, 11, 6, 6},
		"semaphore of kazoo": {func(c *zk.Client) holdfast.Locker {
			return holdfast.NewSemaphore(c, lockPath, 3, holdfast.WithLayout(holdfast.LayoutKazoo)).Locker()
		}, 10, 7, 4},
		"slots": {func(c *zk.Client) holdfast.Locker { return holdfast.NewSlots(c, lockPath, 3).Locker() }, 10, 7, 4},
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
				got := fmt.Sprintf("%d requests, %d round trips, %d commits", line.requests.Load()-requests, line.flushes.Load()-flushes, writes.Load())
				if want := fmt.Sprintf("%d requests, %d round trips, %d commits", tt.requests, tt.roundTrips, tt.committed); got != want {
					t.Errorf("%s; want %s", got, want)
				}
			})
		})
	}
}
