//go:build unix

package interop

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"holdfast/zk"
)

// A gate controls one client's way to its servers. It knows the server that the client is
// connected to. It can break that connection, prevent the next one, and lose or hold back
// messages.
type gate struct {
	mu    sync.Mutex
	open  func(addr string) bool
	addr  string // of the latest connection
	conn  net.Conn
	lose  direction
	lost  bool          // lose has happened
	held  chan struct{} // if not nil, incoming messages are held back until it is closed
	wrote chan struct{} // has a token if the client has written long bytes since
	left  int           // of these
}

// A direction is the direction in which a gate loses the next message.
type direction int

const (
	nothing direction = iota
	request
	reply
)

func newGate() *gate { return &gate{open: anywhere} }

func anywhere(string) bool { return true }

func nowhere(string) bool { return false }

func only(addr string) func(string) bool {
	return func(a string) bool { return a == addr }
}

// let sets the servers that the client may connect to from now on.
func (g *gate) let(open func(addr string) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = open
}

// dial is for zk.Config.Dial.
func (g *gate) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	g.mu.Lock()
	open := g.open(addr)
	g.mu.Unlock()
	if !open {
		return nil, fmt.Errorf("dial %s: the gate is closed", addr)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.addr, g.conn = addr, conn
	return &gatedConn{conn, g}, nil
}

// loseNext breaks the connection as soon as a message is written to it or arrives from it, and
// loses the message.
func (g *gate) loseNext(d direction) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lose, g.lost = d, false
}

// hasLost reports whether loseNext has lost its message.
func (g *gate) hasLost() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lost
}

// loses reports whether a message in this direction must be lost now.
func (g *gate) loses(d direction) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lose != d {
		return false
	}
	g.lose, g.lost = nothing, true
	return true
}

// hold keeps incoming messages back until release is called. The channel has a token once the client has written so many bytes
// since: it sends pings, and other short requests, by itself.
func (g *gate) hold(bytes int) (wrote <-chan struct{}, release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	held := make(chan struct{})
	g.held, g.wrote, g.left = held, make(chan struct{}, 1), bytes
	return g.wrote, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.held = nil
		close(held)
	}
}

// A gatedConn is a connection through a gate.
type gatedConn struct {
	net.Conn
	g *gate
}

func (c *gatedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.g.mu.Lock()
	held := c.g.held
	c.g.mu.Unlock()
	if held != nil {
		<-held
	}
	if n > 0 && c.g.loses(reply) {
		c.Conn.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *gatedConn) Write(p []byte) (int, error) {
	if c.g.loses(request) {
		c.Conn.Close()
		return len(p), nil
	}
	n, err := c.Conn.Write(p)
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	if c.g.left -= n; c.g.held != nil && c.g.left <= 0 {
		select {
		case c.g.wrote <- struct{}{}:
		default:
		}
	}
	return n, err
}

// connectedTo returns the server of the latest connection.
func (g *gate) connectedTo() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.addr
}

// cut breaks the connection.
func (g *gate) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conn.Close()
}

// dialURL connects our client to url; change may adapt the config before.
func dialURL(t testing.TB, url string, change ...func(*zk.Config)) *zk.Client {
	t.Helper()
	cfg, err := zk.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.TickTime = 500 * time.Millisecond // the tick of all peers, unless a test says otherwise
	for _, f := range change {
		f(&cfg)
	}
	ctx, cancel := context.WithTimeout(t.Context(), stepTime)
	defer cancel()
	c, err := zk.Dial(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}
