package zk

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	hook "holdfast/zk/internal/raw"
	"holdfast/zkproto"
)

// Whatever a server sends, the client ends the connection with an error that names the problem. The
// caller of the outstanding request gets it, too. The client continues on the next connection.
func TestNonsenseFromTheServerBreaksTheConnectionOnly(t *testing.T) {
	type send func(p *peer, h zkproto.RequestHeader)
	reply := func(xid int32, code zkproto.Code, body encoder) send {
		return func(p *peer, h zkproto.RequestHeader) { p.answer(h.Xid+xid, 1, code, body) }
	}
	alien := func(xid int32) send {
		return func(p *peer, h zkproto.RequestHeader) { p.answer(xid, 1, 0, nil) }
	}
	raw := func(b ...byte) send {
		return func(p *peer, h zkproto.RequestHeader) { p.nc.Write(b) }
	}
	body := func(b string) send { // after a valid header
		return func(p *peer, h zkproto.RequestHeader) {
			p.send(append((&zkproto.ReplyHeader{Xid: h.Xid, Zxid: 1}).Append(nil), b...))
		}
	}
	event := func(b string) send {
		return func(p *peer, h zkproto.RequestHeader) {
			p.send(append((&zkproto.ReplyHeader{Xid: zkproto.XidNotification}).Append(nil), b...))
		}
	}
	results := func(n int) encoder { // results of checks
		m := new(zkproto.MultiResponse)
		for range n {
			m.Results = append(m.Results, zkproto.MultiResult{Op: zkproto.OpCheck})
		}
		return m
	}
	exists := func(ctx context.Context, c *Client) error { _, _, err := c.Exists(ctx, "/a"); return err }
	get := func(ctx context.Context, c *Client) error { _, _, err := c.Get(ctx, "/a"); return err }
	create := func(ctx context.Context, c *Client) error {
		_, _, err := c.Create(ctx, "/a", nil, Persistent)
		return err
	}
	children := func(ctx context.Context, c *Client) error { _, _, err := c.Children(ctx, "/a"); return err }
	getACL := func(ctx context.Context, c *Client) error { _, _, err := c.GetACL(ctx, "/a"); return err }
	whoAmI := func(ctx context.Context, c *Client) error {
		_, err := c.Raw(ctx, hook.Request{Op: zkproto.OpWhoAmI, Reply: new(zkproto.WhoAmIResponse)})
		return err
	}
	addWatch := func(ctx context.Context, c *Client) error {
		_, err := c.AddWatch(ctx, "/a", WatchPersistent)
		return err
	}
	multi := func(ctx context.Context, c *Client) error {
		_, err := c.Multi(ctx, CheckOp("/a", 0), CheckOp("/b", 0))
		return err
	}
	multiRead := func(ctx context.Context, c *Client) error {
		_, err := c.MultiRead(ctx, GetOp("/a"), GetOp("/b"))
		return err
	}
	const huge, minus = "\x7f\xff\xff\xff", "\xff\xff\xff\xfb"
	tests := []struct {
		name string
		call func(ctx context.Context, c *Client) error
		send send
		says string
	}{
		{"reply to another request", exists, reply(1, 0, &zkproto.StatResponse{}), "reply 2 out of order, 1 was next"},
		{"reply to a request of long ago", exists, reply(-1, 0, &zkproto.StatResponse{}), "reply 0 out of order, 1 was next"},
		{"reply to no request", nil, alien(9), "reply 9 to no request"},
		{"a second answer to the handshake", exists, func(p *peer, h zkproto.RequestHeader) {
			p.send((&zkproto.ConnectResponse{Timeout: 10000, SessionID: 7, Passwd: make([]byte, 16), HasReadOnly: true}).Append(nil))
		}, "reply 0 out of order"},
		{"answer to an authentication", exists, alien(zkproto.XidAuth), "reply -4 out of order"},
		{"answer to watches that were not set", exists, alien(zkproto.XidSetWatches), "reply -8 out of order"},
		{"answer to a ping that was not sent", exists, alien(zkproto.XidPing), "ping that was not sent"},
		{"negative length", exists, raw(0xff, 0xff, 0xff, 0xff), "frame of -1 bytes"},
		{"frame of 2 GB", exists, raw(0x7f, 0xff, 0xff, 0xff), "frame too large: 2147483647 bytes"},
		{"truncated frame", exists, raw(0, 0, 0, 200, 1, 2, 3), "unexpected EOF"},
		{"truncated length", exists, raw(0, 0), "unexpected EOF"},
		{"empty frame", exists, raw(0, 0, 0, 0), "4 bytes announced, 0 are there"},
		{"frame too short for a header", exists, raw(0, 0, 0, 2, 1, 2), "4 bytes announced, 2 are there"},
		{"nothing but a hang-up", exists, raw(), "EOF"},
		{"no record", exists, reply(0, 0, nil), "a stat takes 68 bytes, 0 are there"},
		{"stat cut short", exists, body(strings.Repeat("\x00", 67)), "a stat takes 68 bytes, 67 are there"},
		{"record too long", exists, reply(0, 0, &zkproto.GetDataResponse{Data: []byte("x")}), "5 bytes after the end"},
		{"record behind an error", exists, reply(0, zkproto.CodeNoNode, &zkproto.StatResponse{}), ""},
		{"data of negative length", get, body(minus), "negative length -5"},
		{"data of 2 GB", get, body(huge), "2147483647 bytes announced"},
		{"path of negative length", create, body(minus + strings.Repeat("\x00", 68)), "negative length -5"},
		{"negative number of children", children, body(minus), "negative count -5"},
		{"two thousand million children", children, body(huge), "2147483647 items announced"},
		{"negative number of ACLs", getACL, body(minus), "negative count -5"},
		{"two thousand million ACLs", getACL, body(huge), "2147483647 items announced"},
		{"two thousand million identities", whoAmI, body(huge), "2147483647 items announced"},
		{"no answer to addWatch but its header", addWatch, reply(0, 0, nil), "4 bytes announced, 0 are there"},
		{"too few results", multi, reply(0, 0, results(1)), "1 results for 2 operations"},
		{"too many results", multi, reply(0, 0, results(3)), "3 results for 2 operations"},
		{"results without an end", multi, body("\x00\x00\x00\x0d\x00\x00\x00\x00\x00"), "bytes announced, 0 are there"},
		{"result of an operation that there is not", multi, body("\x00\x00\x00\x63\x00\x00\x00\x00\x00"), "result of operation 99 inside multi"},
		{"too few results of a multi-read", multiRead, reply(0, 0, &zkproto.MultiReadResponse{}), "0 results for 2 operations"},
		{"event cut short", exists, event(""), "4 bytes announced, 0 are there"},
		{"event with a path of negative length", exists, event("\x00\x00\x00\x01\x00\x00\x00\x03" + minus), "negative length -5"},
		{"event too long", exists, event("\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00\x02/ax"), "1 bytes after the end"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cause error
				cfg := Config{Servers: []string{"test:1"}, SessionTimeout: 10 * time.Second, Lease: LeasePing,
					Trace: &Trace{Disconnected: func(_ int64, err error) {
						if cause == nil {
							cause = err
						}
					}}}
				cfg.Dial = dialPeers(t,
					func(p *peer) {
						p.accept(7, 10*time.Second)
						var h zkproto.RequestHeader
						if tt.call != nil {
							h, _ = p.request()
						}
						tt.send(p, h)
						if tt.says != "EOF" && tt.says != "unexpected EOF" {
							p.hang() // the client hangs up
						}
					},
					func(p *peer) {
						if req := p.accept(7, 10*time.Second); req.SessionID != 7 {
							t.Errorf("came back with session %d; want 7", req.SessionID)
						}
						p.serve()
					})
				c, err := Dial(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if tt.says == "" { // bytes after an error are ignored
					if err := tt.call(t.Context(), c); err != nil {
						t.Error(err)
					}
					return
				}
				if tt.call != nil {
					want := ErrConnectionLoss
					if tt.name == "frame of 2 GB" {
						want = ErrTooLarge
					}
					err := tt.call(t.Context(), c)
					wantErr(t, err, want)
					if !MayHaveHappened(err) {
						t.Errorf("MayHaveHappened(%v) = false", err)
					}
					if !contains(fmt.Sprint(err), tt.says) {
						t.Errorf("got error %q; want one that says %q", err, tt.says)
					}
				}
				synctest.Wait() // until the connection is broken
				if !contains(fmt.Sprint(cause), tt.says) {
					t.Errorf("the connection ended with %q; want an error that says %q", cause, tt.says)
				}
				if err := exists(t.Context(), c); err != nil {
					t.Errorf("on the next connection: %v", err)
				}
			})
		})
	}
}

// A frame that never ends, even if a byte comes every second, holds the session up no longer than silence
// would.
func TestFrameThatNeverEndsIsSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 10 * time.Second
		var began time.Time
		gone := make(chan time.Duration, 1)
		c := dialTest(t, timeout, func(p *peer) {
			p.accept(7, timeout)
			go p.hang()
			began = time.Now()
			for _, err := p.nc.Write([]byte{0, 0x0f, 0, 0}); err == nil; _, err = p.nc.Write([]byte{1}) {
				time.Sleep(time.Second)
			}
			gone <- time.Since(began)
		}, func(p *peer) {
			if req := p.accept(7, timeout); req.SessionID != 7 {
				t.Errorf("came back with session %d; want 7", req.SessionID)
			}
			p.serve()
		})
		if took := <-gone; took > timeout*3/5 {
			t.Errorf("the client listened for %v", took)
		}
		if _, _, err := mustSession(t, c).Exists(t.Context(), "/a"); err != nil {
			t.Error(err)
		}
	})
}

// Events for nodes that are not watched are ignored: servers send them when a removal and a
// change cross.
func TestEventsThatNobodyWaitsForAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialTest(t, 10*time.Second, func(p *peer) {
			p.accept(7, 10*time.Second)
			h, _ := p.request()
			p.answer(h.Xid, 1, 0, &zkproto.StatResponse{})
			for _, path := range []string{"/never", "", "a", "/", "//", "/watched/below"} {
				for typ := EventType(-2); typ < 6; typ++ {
					p.event(typ, path)
				}
			}
			p.event(99, "/watched")
			p.event(EventNodeDeleted, "/watched")
			p.event(EventNodeDeleted, "/watched")
			p.serve()
		}, func(p *peer) { t.Error("the client dropped the connection") })
		_, _, w, err := c.ExistsW(t.Context(), "/watched")
		if err != nil {
			t.Fatal(err)
		}
		if ev := <-w.C; ev != (Event{Type: EventNodeDeleted, Path: "/watched"}) {
			t.Errorf("got %+v", ev)
		}
		if _, _, err := c.Exists(t.Context(), "/a"); err != nil {
			t.Error(err)
		}
	})
}

// Invalid answers to the handshake: the client drops each such connection and tries another. The error of
// Dial names the problem.
func TestNonsenseInTheHandshakeIsToldByDial(t *testing.T) {
	connect := func(m zkproto.ConnectResponse) func(p *peer) {
		return func(p *peer) { p.frame(); p.send(m.Append(nil)); p.hang() }
	}
	raw := func(b string) func(p *peer) {
		return func(p *peer) { p.frame(); p.nc.Write([]byte(b)); p.hang() }
	}
	token := func(b string) func(p *peer) { // the first answer of a server with SASL
		return func(p *peer) {
			p.accept(7, 10*time.Second)
			p.auth()
			p.send(append((&zkproto.ReplyHeader{Xid: p.step}).Append(nil), b...))
			p.hang()
		}
	}
	for _, tt := range []struct {
		name  string
		auth  []Auth
		serve func(p *peer)
		says  string
	}{
		{"no timeout", nil, connect(zkproto.ConnectResponse{SessionID: 7}), "refused a new session"},
		{"negative timeout", nil, connect(zkproto.ConnectResponse{SessionID: 7, Timeout: -1}), "refused a new session"},
		{"no session", nil, connect(zkproto.ConnectResponse{Timeout: 10000}), "a session that has no id"},
		{"hang-up", nil, func(p *peer) { p.frame() }, "does not serve yet"},
		{"read-only server", nil, func(p *peer) { p.frame() }, "it lost its quorum and is read-only: start or reconnect the other servers"},
		{"short answer", nil, raw("\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x27\x10"), "8 bytes announced, 0 are there"},
		{"long answer", nil, raw("\x00\x00\x00\x16" + strings.Repeat("\x00", 22)), "1 bytes after the end"},
		{"password of negative length", nil, raw("\x00\x00\x00\x14" + strings.Repeat("\x00", 16) + "\xff\xff\xff\xf0"), "negative length -16"},
		{"password of 2 GB", nil, raw("\x00\x00\x00\x14" + strings.Repeat("\x00", 16) + "\x7f\xff\xff\xff"), "2147483647 bytes announced"},
		{"HTTP", nil, raw("HTTP/1.1 400 Bad Request\r\n\r\n"), "frame too large: 1213486160 bytes"},
		{"TLS alert", nil, raw("\x15\x03\x03\x00\x02\x02\x50"), "its port wants TLS"},
		{"a word", nil, raw("imok"), "frame too large"},
		{"nothing", nil, (*peer).hang, "deadline exceeded"},
		{"SASL token of 2 GB", []Auth{SASLDigestAuth("bob", planted)}, token("\x7f\xff\xff\xff"), "2147483647 bytes announced"},
		{"SASL token of a megabyte", []Auth{SASLDigestAuth("bob", planted)},
			token("\x00\x0f\xf0\x00" + strings.Repeat("x", 0xff000)), "no name=value"},
		{"SASL token above the limit", []Auth{SASLDigestAuth("bob", planted)},
			func(p *peer) { p.accept(7, 10*time.Second); p.auth(); p.nc.Write([]byte{0, 0x10, 0, 0}); p.hang() }, "frame too large: 1048576 bytes"},
		{"answer to a request instead of the authentication", []Auth{DigestAuth("bob", planted)},
			func(p *peer) { p.accept(7, 10*time.Second); p.auth(); p.answer(1, 1, 0, nil); p.hang() }, "reply 1 to the authentication"},
		{"event before the authentication", []Auth{DigestAuth("bob", planted)},
			func(p *peer) { p.accept(7, 10*time.Second); p.auth(); p.event(EventNodeCreated, "/a"); p.hang() }, "reply -1 to the authentication"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
				defer cancel()
				_, err := Dial(ctx, authConfig(t, tt.auth, tt.serve))
				wantErr(t, err, context.DeadlineExceeded)
				if !contains(fmt.Sprint(err), "test:1", tt.says) || secret(fmt.Sprint(err)) {
					t.Errorf("got error %v; want one that says %q", err, tt.says)
				}
			})
		})
	}
}
