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

// A gate is the way of one client to its servers. It knows which server the
// client is connected to, can break that connection and can keep the client from
// making the next one; and it can lose or hold back what is on its way.
type gate struct {
	mu    sync.Mutex
	open  func(addr string) bool
	addr  string // of the latest connection
	conn  net.Conn
	lose  direction
	lost  bool          // what lose said
	held  chan struct{} // nil unless what comes is held back, until it is closed
	wrote chan struct{} // holds a token if something was written meanwhile
}

// A direction is what a gate loses next.
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

// let says to which servers the client may connect from now on.
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

// loseNext breaks the connection as soon as something is written to it, or comes from
// it, and loses that.
func (g *gate) loseNext(d direction) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lose, g.lost = d, false
}

// hasLost reports whether loseNext has done its work.
func (g *gate) hasLost() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lost
}

// loses reports whether what goes in this direction now is to be lost.
func (g *gate) loses(d direction) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lose != d {
		return false
	}
	g.lose, g.lost = nothing, true
	return true
}

// hold keeps back what comes until release is called. The channel has a token once
// something has been written since.
func (g *gate) hold() (wrote <-chan struct{}, release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	held := make(chan struct{})
	g.held, g.wrote = held, make(chan struct{}, 1)
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
	if c.g.held != nil {
		select {
		case c.g.wrote <- struct{}{}:
		default:
		}
	}
	return n, err
}

// connectedTo is the server of the latest connection.
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
	cfg.TickTime = 500 * time.Millisecond // that of all peers, unless a test says otherwise
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
