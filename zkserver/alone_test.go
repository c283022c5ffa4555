package zkserver

import (
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/store"
)

// Who is alone need not wait for an idle committer, nor keep to one share: the next commit
// has been filled when the one before ends. With somebody beside it that is so no more, and
// who comes waits for the two commits that are on their way.
func TestAloneIsFast(t *testing.T) {
	const (
		takes    = 10 * time.Millisecond // one commit
		size     = 2 * largeRequest
		inFlight = 64
		requests = 20 * inFlight
		perBatch = largeBatch/size - 1 // a frame is more than its data
	)
	for name, beside := range map[string]bool{"alone": false, "somebody beside it": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, dial := onDisk(t, &timedStore{store.NewMemory(), takes})
				c, other := dial(), dial()
				c.create("/a", 0)
				other.create("/b", 0)
				time.Sleep(2 * aloneAfter)
				c.exists("/a", false)
				time.Sleep(2 * aloneAfter)
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
							t.Errorf("who is beside it has waited %v", waited)
						}
					}
				}
				clients.Wait()
				if fast := took < (requests/perBatch+4)*takes; fast == beside {
					t.Errorf("%d large requests took %v, commits of %v", requests, took, takes)
				}
			})
		})
	}
}

// Backlogs get on together, however many there are: who has had something goes behind who
// has not.
func TestBacklogsGetOnTogether(t *testing.T) {
	const clients, requests = 12, 10
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		var greedy []*conn
		var raw []*rawClient
		first := dial()
		first.connect(10*time.Second, nil)
		first.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/big", Data: make([]byte, roundWork), ACL: openACL})
		for range clients {
			c := dial()
			c.connect(10*time.Second, nil)
			raw = append(raw, c)
		}
		synctest.Wait()
		apart, looks := 0, 0
		var look func()
		look = func() {
			least, most := requests, 0
			for _, c := range greedy {
				least, most = min(least, len(c.owned.waits)), max(most, len(c.owned.waits))
			}
			apart = max(apart, most-least)
			if looks++; most > 0 {
				s.queue.push(&request{kind: kindCall, call: look})
			}
		}
		held(s, func() {
			for _, c := range raw {
				for range requests {
					c.send(zkproto.OpGetData, &zkproto.ReadRequest{Path: "/big"})
				}
			}
		}, func() {
			for w, c := range s.owner.watchers {
				if len(c.owned.waits) > 0 {
					greedy = append(greedy, s.owner.watchers[w])
				}
			}
			look()
		})
		for _, c := range raw {
			go io.Copy(io.Discard, c.nc)
		}
		synctest.Wait()
		if len(greedy) != clients || looks < clients*(requests-1)/(backlogWork/roundWork) {
			t.Fatalf("%d clients had something waiting; looked at them %d times", len(greedy), looks)
		}
		if apart > 5 {
			t.Errorf("one had %d requests more waiting than another", apart)
		}
	})
}
