package zk

import (
	"context"
	"errors"
	"net"
	"runtime"
	"testing"
	"time"

	"holdfast/zkproto"
)

// A peer is the server's end of a connection, played by a test. It behaves in ways that a real
// server never does.
type peer struct {
	t    *testing.T
	nc   net.Conn
	step int32 // the xid of the step that auth has read
}

// dialPeers returns a Dial whose n-th connection is served by the n-th function, and
// by the last one from then on.
func dialPeers(t *testing.T, serve ...func(p *peer)) func(context.Context, string, string) (net.Conn, error) {
	n := 0
	return func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		f := serve[min(n, len(serve)-1)]
		n++
		go func() {
			defer theirs.Close()
			f(&peer{t: t, nc: theirs})
		}()
		return ours, nil
	}
}

// frame reads one frame; it returns nil when the client has disconnected.
func (p *peer) frame() []byte {
	b, err := zkproto.ReadFrame(p.nc, nil, zkproto.MaxFrame)
	if err != nil {
		return nil
	}
	return b
}

// accept answers the handshake and returns its request.
func (p *peer) accept(id int64, timeout time.Duration) zkproto.ConnectRequest {
	var req zkproto.ConnectRequest
	body := p.frame()
	if body == nil {
		runtime.Goexit() // the client abandoned the attempt
	}
	r := zkproto.NewReader(body)
	req.Decode(r)
	if err := r.Complete(); err != nil {
		p.t.Errorf("connect request: %v", err)
	}
	resp := zkproto.ConnectResponse{
		Timeout: int32(timeout.Milliseconds()), SessionID: id, Passwd: make([]byte, 16), HasReadOnly: true,
	}
	p.send(resp.Append(nil))
	return req
}

// request reads one request; its op is 0 when the client has disconnected.
func (p *peer) request() (zkproto.RequestHeader, *zkproto.Reader) {
	var h zkproto.RequestHeader
	r := zkproto.NewReader(p.frame())
	h.Decode(r)
	return h, r
}

// send sends a frame. It reports whether the client is still connected.
func (p *peer) send(body []byte) bool {
	_, err := p.nc.Write(zkproto.EndFrame(append(zkproto.BeginFrame(nil), body...), 0))
	return err == nil
}

// answer replies to xid with a body; see send.
func (p *peer) answer(xid int32, zxid int64, code zkproto.Code, body encoder) bool {
	b := (&zkproto.ReplyHeader{Xid: xid, Zxid: zxid, Err: code}).Append(nil)
	if body != nil {
		b = body.Append(b)
	}
	return p.send(b)
}

// serve answers everything in order until the client disconnects: exists with a Stat, the rest
// with an empty body.
func (p *peer) serve() {
	for {
		h, _ := p.request()
		switch h.Op {
		case 0:
			return
		case zkproto.OpExists:
			p.answer(h.Xid, 1, 0, &zkproto.StatResponse{})
		default:
			p.answer(h.Xid, 1, 0, nil)
			if h.Op == zkproto.OpCloseSession {
				return
			}
		}
	}
}

// hang reads and never answers.
func (p *peer) hang() {
	for p.frame() != nil {
	}
}

func dialTest(t *testing.T, timeout time.Duration, serve ...func(p *peer)) *Client {
	t.Helper()
	return dialLease(t, LeasePing, timeout, serve...)
}

// dialThrough is dialTest with connections that wrap has changed.
func dialThrough(t *testing.T, timeout time.Duration, wrap func(net.Conn) net.Conn, serve ...func(p *peer)) *Client {
	t.Helper()
	peers := dialPeers(t, serve...)
	c, err := Dial(t.Context(), Config{Servers: []string{"test:1"}, SessionTimeout: timeout, Lease: LeasePing,
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := peers(ctx, network, addr)
			return wrap(nc), err
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// dialLease is dialTest for a test of leases. With LeaseAuto, the first request is the client's
// own, for the configuration.
func dialLease(t *testing.T, mode LeaseMode, timeout time.Duration, serve ...func(p *peer)) *Client {
	t.Helper()
	c, err := Dial(t.Context(), Config{Servers: []string{"test:1"}, SessionTimeout: timeout, Lease: mode, Dial: dialPeers(t, serve...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func mustSession(t *testing.T, c *Client) *Session {
	t.Helper()
	s, err := c.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mustEnd waits up to an hour for the end of a session: in a bubble, pings would go on for ever.
func mustEnd(t *testing.T, s *Session) {
	t.Helper()
	select {
	case <-s.Context().Done():
	case <-time.After(time.Hour):
		t.Fatal("the session has not ended")
	}
}

func wantErr(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("got error %v; want %v", got, want)
	}
}
