package zktest

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"holdfast/zkproto"
)

// A network carries connections between clients and one server in this process.
type network struct {
	stalled atomic.Bool

	mu         sync.Mutex
	listener   *listener // nil while the server is down
	conns      map[*connection]struct{}
	intercepts map[zkproto.Op]func(path string) Action
}

func newNetwork() *network {
	return &network{
		conns:      make(map[*connection]struct{}),
		intercepts: make(map[zkproto.Op]func(string) Action),
	}
}

// A listener is the server's side: a net.Listener.
type listener struct {
	net    *network
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// listen replaces the listener of a server that has been closed.
func (n *network) listen() *listener {
	l := &listener{net: n, accept: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listener = l
	return l
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return serverAddr }

const (
	serverAddr = addr("zktest:2181")
	clientAddr = addr("client")
)

// dial connects to the server, or is refused if it is down.
func (n *network) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	n.mu.Lock()
	l := n.listener
	n.mu.Unlock()
	c := n.connect()
	refused := &net.OpError{Op: "dial", Net: serverAddr.Network(), Addr: serverAddr, Err: syscall.ECONNREFUSED}
	if l == nil {
		c.cut()
		return nil, refused
	}
	select {
	case l.accept <- c.server:
		return c.client, nil
	case <-l.closed:
		c.cut()
		return nil, refused
	case <-ctx.Done():
		c.cut()
		return nil, context.Cause(ctx)
	}
}

// A connection has two ends, and inspects the bytes between them.
type connection struct {
	net            *network
	client, server *end
	inspector      inspector
}

func (n *network) connect() *connection {
	up, down := newPipe(n), newPipe(n)
	c := &connection{net: n}
	c.client = &end{conn: c, in: down, out: up, addr: clientAddr, peer: serverAddr}
	c.server = &end{conn: c, in: up, out: down, addr: serverAddr, peer: clientAddr}
	c.client.filter = c.fromClient
	c.server.filter = c.fromServer
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns[c] = struct{}{}
	return c
}

// cut breaks the connection. Each end reads the bytes that have reached it, and then an error.
func (c *connection) cut() {
	for _, p := range []*pipe{c.client.in, c.client.out} {
		p.finish(syscall.ECONNRESET, syscall.ECONNRESET)
	}
	c.net.forget(c)
}

func (n *network) forget(c *connection) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

func (n *network) all() []*connection {
	n.mu.Lock()
	defer n.mu.Unlock()
	conns := make([]*connection, 0, len(n.conns))
	for c := range n.conns {
		conns = append(conns, c)
	}
	return conns
}

// cutAll breaks every connection.
func (n *network) cutAll() {
	for _, c := range n.all() {
		c.cut()
	}
}

// stall holds back, or releases, the bytes in both directions.
func (n *network) stall(on bool) {
	n.stalled.Store(on)
	for _, c := range n.all() {
		c.client.in.wake()
		c.client.out.wake()
	}
}
