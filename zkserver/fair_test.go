package zkserver

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

// A large request that has to wait for the next commit is not overtaken by the small one
// that the same client has sent behind it.
func TestALargeRequestThatWaitsIsNotOvertaken(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		var clients []*rawClient
		for i := range 3 {
			c := dial()
			c.connect(10*time.Second, nil)
			c.create(fmt.Sprint("/", i), 0)
			clients = append(clients, c)
		}
		// The owner stands still until all have sent.
		sent := make(chan struct{})
		s.queue.push(&request{kind: kindCall, call: func() { <-sent }})
		for i, c := range clients[:2] { // together they fill the commit
			for range 2 {
				c.send(zkproto.OpSetData, &zkproto.SetDataRequest{Path: fmt.Sprint("/", i), Data: make([]byte, roundBytes), Version: -1})
				synctest.Wait()
			}
		}
		last := clients[2]
		large := last.send(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/2", Data: make([]byte, 2*largeRequest), Version: -1})
		small := last.send(zkproto.OpExists, &zkproto.ReadRequest{Path: "/2"})
		synctest.Wait()
		close(sent)
		for i, want := range []int32{large, small} {
			if got := last.read().Xid; got != want {
				t.Errorf("answer %d is that of request %d; want %d", i+1, got, want)
			}
		}
	})
}
