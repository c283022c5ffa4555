package zk

import (
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

// The requests of a session have different numbers, even on different connections. A follower matches the
// commit of a write by session and number, whichever server was asked. Seen on 3.8.0: a create
// of /v was answered with the node /w0, which the session had made through another server under
// the same number; and a delete of a missing node succeeded.
func TestRequestsAreNumberedOverAllConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := make(map[int32]int)
		connections := 0
		c := dialTest(t, 10*time.Second, func(p *peer) {
			connections++
			p.accept(7, 10*time.Second)
			for range 3 {
				h, _ := p.request()
				if h.Op == 0 {
					return
				}
				if h.Op == zkproto.OpExists {
					seen[h.Xid]++
				}
				p.answer(h.Xid, 1, 0, &zkproto.StatResponse{})
			}
		})
		for asked := 0; asked < 20; {
			if _, _, err := c.Exists(t.Context(), "/a"); err == nil {
				asked++
			}
		}
		if connections < 5 {
			t.Errorf("%d connections; want several", connections)
		}
		for xid, times := range seen {
			if times > 1 {
				t.Errorf("%d requests have the number %d", times, xid)
			}
		}
	})
}
