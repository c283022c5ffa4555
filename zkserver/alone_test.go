package zkserver

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/sched"
	"holdfast/zkserver/internal/store"
)

// A client that is alone need not wait for an idle committer, nor keep to one share: the next
// batch is full when the commit before it ends. When a second client arrives, this ends. The
// second client waits for at most the two commits in flight.
func TestAloneIsFast(t *testing.T) {
	const (
		takes    = 10 * time.Millisecond // one commit
		size     = 2 * largeRequest
		inFlight = 64
		requests = 20 * inFlight
		perBatch = sched.Full / (size + 1024) // the work of a request is more than its data
	)
	for name, beside := range map[string]bool{"alone": false, "somebody beside it": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, dial := onDisk(t, &timedStore{store.NewMemory(), takes})
				c, other := dial(), dial()
				c.create("/a", 0)
				other.create("/b", 0)
				write := frameOf(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/a", Data: make([]byte, size), Version: -1})
				var clients sync.WaitGroup
				tokens := make(chan struct{}, inFlight)
				began := time.Now()
				clients.Go(func() {
					for range requests {
						tokens <- struct{}{}
						c.nc.Write(write)
					}
				})
				var took time.Duration
				clients.Go(func() {
					for range requests {
						c.read()
						<-tokens
					}
					took = time.Since(began)
				})
				if beside {
					for range 20 {
						time.Sleep(takes)
						sent := time.Now()
						other.call(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/b", Version: -1})
						if waited := time.Since(sent); waited > 3*takes {
							t.Errorf("the other client waited %v", waited)
						}
					}
				}
				clients.Wait()
				if fast := took < (requests/perBatch+4)*takes; fast == beside {
					t.Errorf("%d large requests took %v, with commits of %v", requests, took, takes)
				}
			})
		})
	}
}
