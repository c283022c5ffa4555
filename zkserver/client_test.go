package zkserver

import (
	"bufio"
	"net"
	"testing"
	"time"

	"holdfast/zkproto"
)

// A rawClient speaks the protocol frame by frame, even in ways that a proper client would not.
type rawClient struct {
	t   *testing.T
	nc  net.Conn
	in  *bufio.Reader
	xid int32
}

func dialRaw(t *testing.T, l net.Listener) *rawClient {
	t.Helper()
	nc, err := net.Dial(l.Addr().Network(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return newRaw(t, nc)
}

func newRaw(t *testing.T, nc net.Conn) *rawClient {
	t.Cleanup(func() { nc.Close() })
	return &rawClient{t: t, nc: nc, in: bufio.NewReader(nc)}
}

// A message is any message of zkproto that can be sent.
type message interface{ Append([]byte) []byte }

func (c *rawClient) sendFrame(ms ...message) {
	c.t.Helper()
	b := zkproto.BeginFrame(nil)
	for _, m := range ms {
		b = m.Append(b)
	}
	if _, err := c.nc.Write(zkproto.EndFrame(b, 0)); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// connect makes a session, or resumes the session of an earlier response.
func (c *rawClient) connect(timeout time.Duration, old *zkproto.ConnectResponse) *zkproto.ConnectResponse {
	c.t.Helper()
	req := &zkproto.ConnectRequest{Timeout: int32(timeout / time.Millisecond), Passwd: make([]byte, 16), HasReadOnly: true}
	if old != nil {
		req.SessionID, req.Passwd = old.SessionID, old.Passwd
	}
	c.sendFrame(req)
	frame := c.readFrame()
	var resp zkproto.ConnectResponse
	r := zkproto.NewReader(frame)
	resp.Decode(r)
	if err := r.Complete(); err != nil {
		c.t.Fatalf("connect response: %v", err)
	}
	return &resp
}

func (c *rawClient) readFrame() []byte {
	c.t.Helper()
	frame, err := zkproto.ReadFrame(c.in, nil, 64<<20)
	if err != nil {
		c.t.Fatalf("read: %v", err)
	}
	return frame
}

// An answer is a decoded header and the undecoded rest.
type answer struct {
	zkproto.ReplyHeader
	body *zkproto.Reader
}

func (c *rawClient) read() answer {
	c.t.Helper()
	var a answer
	a.body = zkproto.NewReader(c.readFrame())
	a.Decode(a.body)
	if a.body.Err() != nil {
		c.t.Fatalf("reply header: %v", a.body.Err())
	}
	return a
}

// send sends one request and returns its xid.
func (c *rawClient) send(op zkproto.Op, m message) int32 {
	c.t.Helper()
	xid := zkproto.XidPing
	if op != zkproto.OpPing {
		c.xid++
		xid = c.xid
	}
	h := &zkproto.RequestHeader{Xid: xid, Op: op}
	if m == nil {
		c.sendFrame(h)
	} else {
		c.sendFrame(h, m)
	}
	return xid
}

// call sends one request and returns the next frame, which must be its answer.
func (c *rawClient) call(op zkproto.Op, m message) answer {
	c.t.Helper()
	xid := c.send(op, m)
	a := c.read()
	if a.Xid != xid {
		c.t.Fatalf("%v: got a frame with xid %d; want the answer to %d", op, a.Xid, xid)
	}
	return a
}

// event reads the next frame, which must be a notification.
func (c *rawClient) event() zkproto.WatcherEvent {
	c.t.Helper()
	a := c.read()
	if a.Xid != zkproto.XidNotification {
		c.t.Fatalf("got a frame with xid %d; want a notification", a.Xid)
	}
	var e zkproto.WatcherEvent
	e.Decode(a.body)
	if err := a.body.Complete(); err != nil {
		c.t.Fatalf("notification: %v", err)
	}
	return e
}

// closed fails the test unless the server has closed the connection without sending more.
func (c *rawClient) closed() {
	c.t.Helper()
	c.nc.SetReadDeadline(time.Now().Add(10 * time.Second))
	if b, err := c.in.ReadByte(); err == nil {
		c.t.Fatalf("got byte %#x; want the connection closed", b)
	} else if ne, ok := err.(net.Error); ok && ne.Timeout() {
		c.t.Fatal("the connection is still open")
	}
}

func (c *rawClient) create(path string, flags int32) string {
	c.t.Helper()
	a := c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: path, Data: []byte("x"), ACL: openACL, Flags: flags})
	if a.Err != zkproto.CodeOK {
		c.t.Fatalf("create %s: %v", path, a.Err)
	}
	return a.body.String()
}

func (c *rawClient) exists(path string, watch bool) (zkproto.Stat, zkproto.Code) {
	c.t.Helper()
	a := c.call(zkproto.OpExists, &zkproto.ReadRequest{Path: path, Watch: watch})
	var stat zkproto.Stat
	if a.Err == zkproto.CodeOK {
		stat.Decode(a.body)
	}
	return stat, a.Err
}

var openACL = []zkproto.ACL{{Perms: zkproto.PermAll, Scheme: "world", ID: "anyone"}}

// connections returns how many clients are connected.
func (s *Server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}
