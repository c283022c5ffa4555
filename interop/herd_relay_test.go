//go:build unix

package interop

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"holdfast/zkproto"
)

// A traffic counts what went over a relay's connections in some time. It omits pings and their
// answers: the clock causes those, however long the queue is.
type traffic struct {
	toServer, toClients int // bytes, including the four of each frame's length
	requests            int
	notifications       int
	// woken counts the clients that got a notification or sent a request, except the first
	// sender. In a window that begins in silence, that is the releaser.
	woken int
}

// A countingRelay is a proxy between clients and one server. It knows only the form of frames
// and their headers, so it counts every client the same way.
type countingRelay struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	closed bool
	conns  map[*relayed]struct{}
	now    traffic
	first  *relayed              // sender of the first request of this window
	seen   map[*relayed]struct{} // clients with traffic in this window
	open   int                   // requests without an answer, except pings
	last   time.Time             // when the last frame other than a ping's passed
}

// relayed is one connection of a client.
type relayed struct {
	client, server net.Conn
	open           int // like the relay's; the relay's mutex guards it
}

func newCountingRelay(t testing.TB, target string) *countingRelay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	r := &countingRelay{listener: l, target: target, conns: make(map[*relayed]struct{}), seen: make(map[*relayed]struct{})}
	r.wg.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

func (r *countingRelay) addr() string { return r.listener.Addr().String() }

func (r *countingRelay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		server, err := net.Dial("tcp", r.target)
		if err != nil {
			client.Close()
			continue
		}
		c := &relayed{client: client, server: server}
		r.mu.Lock()
		if r.closed {
			client.Close()
			server.Close()
		}
		r.conns[c] = struct{}{}
		r.mu.Unlock()
		r.wg.Go(func() { r.pass(c, server, client, r.request) })
		r.wg.Go(func() { r.pass(c, client, server, r.reply) })
	}
}

// pass copies frame by frame, and counts each before it goes on.
func (r *countingRelay) pass(c *relayed, to io.Writer, from io.Reader, count func(c *relayed, body []byte)) {
	in, out := bufio.NewReaderSize(from, 32<<10), bufio.NewWriterSize(to, 32<<10)
	var frame []byte
	for connect := true; ; connect = false {
		body, err := zkproto.ReadFrame(in, frame, zkproto.MaxFrame)
		if err != nil {
			break
		}
		frame = body
		if !connect {
			count(c, body)
		}
		size := len(body)
		_, err = out.Write([]byte{byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size)})
		if err == nil {
			_, err = out.Write(body)
		}
		if err == nil && in.Buffered() == 0 {
			err = out.Flush()
		}
		if err != nil {
			break
		}
	}
	c.client.Close()
	c.server.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
	r.open -= c.open
	c.open = 0
}

func (r *countingRelay) request(c *relayed, body []byte) {
	var h zkproto.RequestHeader
	h.Decode(zkproto.NewReader(body))
	if h.Op == zkproto.OpPing {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.toServer += 4 + len(body)
	r.now.requests++
	if r.first == nil {
		r.first = c
	}
	r.seen[c] = struct{}{}
	r.open++
	c.open++
	r.last = time.Now()
}

func (r *countingRelay) reply(c *relayed, body []byte) {
	var h zkproto.ReplyHeader
	h.Decode(zkproto.NewReader(body))
	if h.Xid == zkproto.XidPing {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.toClients += 4 + len(body)
	r.last = time.Now()
	if h.Xid == zkproto.XidNotification {
		r.now.notifications++
		r.seen[c] = struct{}{}
		return
	}
	r.open--
	c.open--
}

// settle returns the traffic since the last settle, once nothing has been in flight for this
// long: every request is answered, and no notified client has more to ask. No event shows this
// for a client seen from outside.
func (r *countingRelay) settle(ctx context.Context, silence time.Duration) (traffic, error) {
	for {
		r.mu.Lock()
		open, idle := r.open, time.Since(r.last)
		if open == 0 && idle >= silence {
			defer r.mu.Unlock()
			t := r.now
			delete(r.seen, r.first)
			t.woken = len(r.seen)
			r.now, r.first = traffic{}, nil
			clear(r.seen)
			return t, nil
		}
		r.mu.Unlock()
		select {
		case <-time.After(max(silence-idle, silence/10)):
		case <-ctx.Done():
			return traffic{}, fmt.Errorf("%d requests without an answer: %w", open, context.Cause(ctx))
		}
	}
}

// close breaks all connections.
func (r *countingRelay) close() {
	r.mu.Lock()
	r.closed = true
	for c := range r.conns {
		c.client.Close()
		c.server.Close()
	}
	r.mu.Unlock()
	r.listener.Close()
	r.wg.Wait()
}
