package zkserver

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/sched"
	"holdfast/zkserver/internal/store"
)

// A timedStore is a disk on which each commit takes a fixed time.
type timedStore struct {
	*store.Memory
	takes time.Duration
}

func (s *timedStore) Commit(b *store.Batch) error {
	time.Sleep(s.takes)
	return s.Memory.Commit(b)
}

// After large writes, small ones have the disk for as long as the large ones took. Without small
// writes, the large ones continue.
func TestLargeWritesRest(t *testing.T) {
	const (
		takes    = 10 * time.Millisecond
		attacker = 4
	)
	for name, smalls := range map[string]int{"beside small ones": 20, "alone": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, dial := onDisk(t, &timedStore{store.NewMemory(), takes})
				c := dial()
				c.create("/a", 0)
				var larges atomic.Int64
				var clients sync.WaitGroup
				began := time.Now()
				for range attacker {
					l := dial()
					clients.Go(func() {
						for time.Since(began) < 80*takes {
							l.call(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/a", Data: make([]byte, sched.Full), Version: -1})
							larges.Add(1)
						}
					})
				}
				time.Sleep(10 * takes)
				before, from := larges.Load(), time.Now()
				for range smalls {
					time.Sleep(takes / 10)
					sent := time.Now()
					c.call(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/a", Version: -1})
					if took := time.Since(sent); took > 2*takes {
						t.Errorf("a small write took %v; want at most the current large one's time and its own", took)
					}
				}
				if smalls == 0 {
					time.Sleep(20 * takes)
				}
				during, took := larges.Load()-before, time.Since(from)
				if want := int64(took / takes); smalls == 0 && during < want-1 || smalls > 0 && (during > want/2+2 || during < want/4) {
					t.Errorf("%d large writes in the time of %d", during, want)
				}
				clients.Wait()
			})
		})
	}
}

// A client with waiting requests does not count as silent.
func TestWaitingIsNotSilence(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		c.create("/a", 0)
		s.queue.push(&request{kind: kindCall, call: func() { s.owner.resting = true }})
		c.send(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/a", Data: make([]byte, 2*largeRequest), Version: -1})
		for range 10 {
			c.send(zkproto.OpPing, nil)
			time.Sleep(5 * time.Second)
		}
		if st := s.Stats(); st.SessionsExpired > 0 || st.Outstanding != 11 {
			t.Errorf("%d requests wait, %d sessions have expired", st.Outstanding, st.SessionsExpired)
		}
		s.queue.push(&request{kind: kindCall, call: func() { s.owner.resting = false }})
		for range 11 {
			c.read()
		}
	})
}
