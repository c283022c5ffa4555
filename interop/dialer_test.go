//go:build unix

package interop

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/zk"
)

// A gate is the way of one client to its servers. It knows which server the
// client is connected to, can break that connection and can keep the client from
// making the next one.
type gate struct {
	mu   sync.Mutex
	open func(addr string) bool
	addr string // of the latest connection
	conn net.Conn
}

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
	return conn, nil
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

// dialURL connects our client to url, as somebody whom the server lets in; change may
// adapt the config before.
func dialURL(t testing.TB, url string, change ...func(*zk.Config)) *zk.Client {
	t.Helper()
	cfg, err := zk.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.TickTime = 500 * time.Millisecond // that of all peers, unless a test says otherwise
	if d := oneDemanding.peer; d != nil && strings.HasPrefix(url, d.URL()) {
		d.identify(&cfg)
	}
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
