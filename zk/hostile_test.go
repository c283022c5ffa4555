package zk

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

func TestUnknownErrorCodesAreErrorsAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialTest(t, 10*time.Second, func(p *peer) {
			p.accept(7, 10*time.Second)
			h, _ := p.request()
			p.answer(h.Xid, 1, -9999, nil)
			p.serve()
		})
		_, _, err := c.Exists(t.Context(), "/a")
		wantErr(t, err, Code(-9999))
		if _, ok, err := c.Exists(t.Context(), "/a"); !ok || err != nil {
			t.Errorf("afterwards: %v, %v", ok, err)
		}
	})
}

// A reply that announces more items than it has bytes must not make the client allocate for them.
func TestChildrenCountIsComparedWithWhatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialTest(t, 10*time.Second, func(p *peer) {
			p.accept(7, 10*time.Second)
			h, _ := p.request()
			b := (&zkproto.ReplyHeader{Xid: h.Xid, Zxid: 1}).Append(nil)
			p.send(binary.BigEndian.AppendUint32(b, 1<<31-1))
		}, func(p *peer) {
			p.accept(7, 10*time.Second)
			p.serve()
		})
		_, _, err := c.Children(t.Context(), "/a")
		wantErr(t, err, zkproto.ErrMalformed)
	})
}

// kazoo #42, ZOOKEEPER-4508: no server is reachable. The client must still learn that its session is
// over, by its own clock and before the server would end it.
func TestSessionLapsesWhenNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 10 * time.Second
		var asked time.Time
		c := dialTest(t, timeout, func(p *peer) {
			p.accept(7, timeout)
			asked = time.Now()
			p.hang()
		}, func(p *peer) { p.hang() })
		s := mustSession(t, c)
		deadline := s.Deadline()
		<-s.Context().Done()
		wantErr(t, context.Cause(s.Context()), ErrSessionExpired)
		if now := time.Now(); now.Before(deadline) || !now.Before(asked.Add(timeout)) {
			t.Errorf("lapsed after %v; want at %v, before %v", now.Sub(asked), deadline.Sub(asked), timeout)
		}
		_, _, err := s.Exists(t.Context(), "/a")
		wantErr(t, err, ErrSessionExpired)
		if MayHaveHappened(err) {
			t.Error("a request on an ended session is said to have happened perhaps, but was never sent")
		}
	})
}

// Notifications prove nothing: they may still arrive after our sending side was cut.
func TestEventsDoNotKeepTheSessionAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 10 * time.Second
		began := time.Now() // the server heard the client at this time, and never afterwards
		c := dialTest(t, timeout, func(p *peer) {
			p.accept(7, timeout)
			go p.hang()
			event := &zkproto.WatcherEvent{Type: zkproto.EventNodeCreated, State: zkproto.StateSyncConnected, Path: "/a"}
			for p.answer(zkproto.XidNotification, -1, 0, event) {
				time.Sleep(time.Second)
			}
		}, func(p *peer) { p.hang() })
		s := mustSession(t, c)
		deadline := s.Deadline()
		mustEnd(t, s)
		if late := time.Since(deadline); late < 0 || late > 10*time.Millisecond {
			t.Errorf("the session ended %v after the deadline", late)
		}
		if lasted := time.Since(began); lasted >= timeout {
			t.Errorf("the session ended %v after the server last heard the client; the server expires it after %v", lasted, timeout)
		}
		c.Close()
		time.Sleep(2 * time.Second) // the peer notices that the client is gone
	})
}

// The deadline counts from when the answered request was sent, not from when the answer came: the
// server may have handled it long before (CURATOR-460).
func TestDeadlineCountsFromTheSendOfTheAnsweredRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 20 * time.Second
		c := dialTest(t, timeout, func(p *peer) {
			p.accept(7, timeout)
			h, _ := p.request()
			time.Sleep(3 * time.Second)
			p.answer(h.Xid, 1, 0, &zkproto.StatResponse{})
			p.serve()
		})
		s := mustSession(t, c)
		sent := time.Now()
		if _, _, err := s.Exists(t.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		if latest := sent.Add(timeout - timeout/100); s.Deadline().After(latest) {
			t.Errorf("deadline %v after the send; at most %v is proven", s.Deadline().Sub(sent), latest.Sub(sent))
		}
		if time.Since(sent) != 3*time.Second {
			t.Errorf("the answer came after %v", time.Since(sent))
		}
	})
}

func TestDeadlineCountsFromTheSendOfTheAnsweredPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 12 * time.Second
		pinged := make(chan time.Time, 1)
		c := dialTest(t, timeout, func(p *peer) {
			p.accept(7, timeout)
			h, _ := p.request()
			at := time.Now()
			time.Sleep(time.Second)
			p.answer(h.Xid, 1, 0, nil)
			pinged <- at
			p.serve()
		})
		s := mustSession(t, c)
		sent := <-pinged
		synctest.Wait()
		if latest := sent.Add(timeout - timeout/100); s.Deadline().After(latest) {
			t.Errorf("deadline %v after the ping was sent; at most %v is proven", s.Deadline().Sub(sent), latest.Sub(sent))
		}
	})
}

func TestPingsKeepTheSessionProven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 6 * time.Second
		c := dialTest(t, timeout, func(p *peer) {
			p.accept(7, timeout)
			p.serve()
		})
		s := mustSession(t, c)
		for range 600 {
			time.Sleep(time.Second)
			if left := time.Until(s.Deadline()); left < timeout/2 {
				t.Fatalf("only %v left while the server answers", left)
			}
		}
		if err := s.Context().Err(); err != nil {
			t.Fatal(err)
		}
	})
}

// A server that answers a resume with another session has made a new one. All nodes and watches of the
// old one are lost (ClickHouse #116690).
func TestAnotherSessionIdIsAnExpiry(t *testing.T) {
	testExpiry(t, func(p *peer) { p.accept(8, 10*time.Second) })
}

func TestRefusedResumeIsAnExpiry(t *testing.T) {
	testExpiry(t, func(p *peer) { p.accept(0, 0) })
}

func testExpiry(t *testing.T, resume func(p *peer)) {
	synctest.Test(t, func(t *testing.T) {
		c := dialTest(t, 10*time.Second,
			func(p *peer) {
				p.accept(7, 10*time.Second)
				h, _ := p.request() // exists with a watch
				p.answer(h.Xid, 5, 0, &zkproto.StatResponse{})
				p.request() // and a request without an answer
			},
			func(p *peer) {
				resume(p)
				p.frame()
			},
			func(p *peer) {
				if req := p.accept(9, 10*time.Second); req.SessionID != 0 || req.LastZxidSeen != 0 {
					t.Errorf("the new session began with %+v", req)
				}
				p.serve()
			})
		s := mustSession(t, c)
		_, _, w, err := s.ExistsW(t.Context(), "/a")
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = s.Exists(t.Context(), "/b")
		wantErr(t, err, ErrConnectionLoss)
		mustEnd(t, s)
		ev := <-w.C
		wantErr(t, ev.Err, ErrSessionExpired)
		if next := mustSession(t, c); next.ID() != 9 {
			t.Errorf("next session is %d; want 9", next.ID())
		}
		if _, ok, err := c.Exists(t.Context(), "/a"); !ok || err != nil {
			t.Errorf("in the next session: %v, %v", ok, err)
		}
	})
}

func TestEndOfContextSaysWhetherTheRequestWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialTest(t, 10*time.Second, func(p *peer) {
			p.accept(7, 10*time.Second)
			p.hang()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err := c.Exists(ctx, "/a")
		wantErr(t, err, context.DeadlineExceeded)
		if !MayHaveHappened(err) {
			t.Errorf("%v: the request was sent, so it may have happened", err)
		}
		_, _, err = c.Exists(ctx, "/a")
		wantErr(t, err, context.DeadlineExceeded)
		if MayHaveHappened(err) {
			t.Errorf("%v: the request was not sent, so it is safe to retry", err)
		}
	})
}

// Requests that were not sent when the connection broke go out on the next one, after the
// watches.
func TestQueueOutlivesTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialTest(t, 10*time.Second,
			func(p *peer) {
				p.accept(7, 10*time.Second)
				h, _ := p.request()
				p.answer(h.Xid, 5, 0, &zkproto.StatResponse{})
			},
			func(p *peer) {
				time.Sleep(time.Second)
				p.accept(7, 10*time.Second)
				h, r := p.request()
				var m zkproto.SetWatchesRequest
				m.Decode(r)
				if h.Op != zkproto.OpSetWatches || m.RelativeZxid != 5 || len(m.Data) != 1 || m.Data[0] != "/a" {
					t.Errorf("first request on the new connection: %v %+v", h, m)
				}
				p.answer(h.Xid, 6, 0, nil)
				p.serve()
			})
		if _, _, _, err := c.ExistsW(t.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the connection is broken now
		if _, ok, err := c.Exists(t.Context(), "/b"); !ok || err != nil {
			t.Errorf("the queued request got %v, %v", ok, err)
		}
	})
}

func TestDialSaysWhyItCouldNotConnect(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := Dial(ctx, Config{Servers: []string{"unix:///nonexistent/socket"}})
	wantErr(t, err, context.DeadlineExceeded)
	if err == nil || !contains(err.Error(), "/nonexistent/socket", "no such file") {
		t.Errorf("got %v; want it to name the server and the reason", err)
	}
}

func TestCloseFailsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialTest(t, 10*time.Second, func(p *peer) {
			p.accept(7, 10*time.Second)
			p.hang()
		})
		s := mustSession(t, c)
		failed := make(chan error)
		go func() {
			_, _, err := c.Exists(t.Context(), "/a")
			failed <- err
		}()
		synctest.Wait()
		go c.Close()
		if err := <-failed; err == nil {
			t.Error("a request without an answer succeeded")
		}
		c.Close()
		wantErr(t, context.Cause(s.Context()), ErrClosed)
		_, _, err := c.Exists(t.Context(), "/a")
		wantErr(t, err, ErrClosed)
	})
}

func TestRequestsThatNoServerAcceptsAreNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialTest(t, 10*time.Second, func(p *peer) {
			p.accept(7, 10*time.Second)
			p.serve()
		})
		_, err := c.Set(t.Context(), "/a", make([]byte, 1<<20), AnyVersion)
		wantErr(t, err, ErrTooLarge)
		for _, path := range []string{"", "a", "/a/", "/a//b", "/a/./b", "/..", "/a\x00b", "/a\uf8ff", "/\U0001F512"} {
			_, _, err := c.Exists(t.Context(), path)
			wantErr(t, err, ErrInvalidPath)
			_, err = c.Multi(t.Context(), SetOp(path, nil, 0))
			wantErr(t, err, ErrInvalidPath)
		}
		_, err = c.Multi(t.Context(), GetOp("/a"))
		wantErr(t, err, ErrBadArguments)
		_, err = c.Pipeline(t.Context(), CheckOp("/a", 0))
		wantErr(t, err, ErrBadArguments)
		_, _, err = c.Create(t.Context(), "/a", nil, 99)
		wantErr(t, err, ErrBadArguments)
	})
}

func contains(s string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}
