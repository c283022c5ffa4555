package zk

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

// Bugs of other clients, with a test for each. The numbers are of reports in their projects.

// go-zookeeper #101, CURATOR-297: a consumer that does not read its watches must delay neither pings
// nor replies.
func TestUnreadWatchesStopNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 6 * time.Second
		c := dialTest(t, timeout, func(p *peer) {
			p.accept(7, timeout)
			for {
				h, r := p.request()
				switch h.Op {
				case 0:
					return
				case zkproto.OpExists:
					var m zkproto.ReadRequest
					m.Decode(r)
					p.answer(h.Xid, 1, 0, &zkproto.StatResponse{})
					p.answer(zkproto.XidNotification, -1, 0, &zkproto.WatcherEvent{Type: zkproto.EventNodeDataChanged, State: zkproto.StateSyncConnected, Path: m.Path})
				default:
					p.answer(h.Xid, 1, 0, nil)
				}
			}
		})
		for i := range 1000 {
			if _, _, _, err := c.ExistsW(t.Context(), fmt.Sprintf("/n%d", i)); err != nil {
				t.Fatal(err)
			}
		}
		s := mustSession(t, c)
		time.Sleep(10 * timeout)
		if err := s.Context().Err(); err != nil {
			t.Errorf("the session ended: %v", context.Cause(s.Context()))
		}
	})
}

// kazoo #482, etcd #18082: a call without a connection ends with its context. A call on a closed client
// ends at once.
func TestCallsWithoutAConnectionEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialTest(t, time.Hour, func(p *peer) { p.accept(7, time.Hour) }, func(p *peer) {})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, _, err := c.Exists(ctx, "/a")
		wantErr(t, err, context.DeadlineExceeded)
		if MayHaveHappened(err) || time.Since(start) != time.Second {
			t.Errorf("the call returned %v after %v", err, time.Since(start))
		}
		c.Close()
		_, _, err = c.Exists(t.Context(), "/a")
		wantErr(t, err, ErrClosed)
	})
}

// helix #962, ZOOKEEPER-3593: a list that is too long for one answer has its own error. It is not a lost
// connection that is retried for ever.
func TestAnswerThatIsTooLargeIsAnErrorOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialTest(t, 10*time.Second, func(p *peer) {
			p.accept(7, 10*time.Second)
			p.request()
			p.nc.Write(binary.BigEndian.AppendUint32(nil, maxReply+1))
		}, func(p *peer) {
			p.accept(7, 10*time.Second)
			p.serve()
		})
		_, _, err := c.Children(t.Context(), "/a")
		wantErr(t, err, ErrTooLarge)
		synctest.Wait()
		if _, _, err := c.Exists(t.Context(), "/a"); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// ZOOKEEPER-706, samuel #167: a client with many watches must not restore them in one request that every
// server refuses.
func TestManyWatchesAreRestoredInSeveralRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const watches, timeout = 5000, time.Minute
		path := func(i int) string { return fmt.Sprintf("/%s/%d", strings.Repeat("x", 200), i) }
		restored := make(map[string]bool)
		done := make(chan struct{})
		c := dialTest(t, timeout, func(p *peer) {
			p.accept(7, timeout)
			for range watches {
				h, _ := p.request()
				p.answer(h.Xid, 5, 0, &zkproto.StatResponse{})
			}
		}, func(p *peer) {
			p.accept(7, timeout)
			for len(restored) < watches {
				frame := p.frame()
				if len(frame) > 256<<10 {
					t.Errorf("a request of %d bytes is larger than a server accepts", len(frame))
				}
				r := zkproto.NewReader(frame)
				var h zkproto.RequestHeader
				var m zkproto.SetWatchesRequest
				h.Decode(r)
				m.Decode(r)
				if h.Op != zkproto.OpSetWatches || m.RelativeZxid != 5 {
					t.Errorf("the request is %v, relative to %d", h, m.RelativeZxid)
					return
				}
				for _, w := range m.Data {
					restored[w] = true
				}
				p.answer(h.Xid, 6, 0, nil)
			}
			close(done)
			p.serve()
		})
		for i := range watches {
			if _, _, _, err := c.ExistsW(t.Context(), path(i)); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-done:
		case <-time.After(timeout):
			t.Fatal("the watches were not restored")
		}
		for i := range watches {
			if !restored[path(i)] {
				t.Fatalf("the watch on %s was not restored", path(i))
			}
		}
	})
}

// kazoo #42: the server's data was wiped, so its zxid is behind ours, and it hangs up without an answer.
// The session is over, and the next one starts from nothing.
func TestServerWhoseDataWasWipedDoesNotTrapTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 10 * time.Second
		attempts := 0
		wiped := func(p *peer) {
			body := p.frame()
			if body == nil {
				return
			}
			var req zkproto.ConnectRequest
			req.Decode(zkproto.NewReader(body))
			if req.LastZxidSeen > 3 {
				attempts++
				return
			}
			resp := zkproto.ConnectResponse{Timeout: int32(timeout.Milliseconds()), SessionID: 8, Passwd: make([]byte, 16), HasReadOnly: true}
			p.send(resp.Append(nil))
			p.serve()
		}
		c := dialTest(t, timeout, func(p *peer) {
			p.accept(7, timeout)
			h, _ := p.request()
			p.answer(h.Xid, 1<<40, 0, &zkproto.StatResponse{})
		}, wiped)
		s := mustSession(t, c)
		if _, _, err := s.Exists(t.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		<-s.Context().Done()
		wantErr(t, context.Cause(s.Context()), ErrSessionExpired)
		if _, _, err := c.Exists(t.Context(), "/a"); err != nil {
			t.Errorf("in the next session: %v", err)
		}
		if attempts == 0 || attempts > 200 {
			t.Errorf("%d attempts to resume in %v", attempts, timeout)
		}
	})
}

// curator #961: the clients of a server that restarts must not reconnect in step.
func TestPausesBetweenAttemptsDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := make(map[time.Duration]bool)
		for range 20 {
			start := time.Now()
			sleep(t.Context(), time.Second)
			d := time.Since(start)
			if d < 500*time.Millisecond || d > 1500*time.Millisecond {
				t.Errorf("the client paused for %v", d)
			}
			seen[d] = true
		}
		if len(seen) < 10 {
			t.Errorf("only %d different pauses of 20", len(seen))
		}
	})
}
