package daemon

import (
	"net"
	"sync"
	"time"

	"holdfast/zkserver"
)

// AdminConnections is how many connections --admin has open at most.
const AdminConnections = 32

// SharedListener limits the open connections of l to most. The open files for them are taken from those that server has
// for its own connections, so it may be fewer.
func SharedListener(l net.Listener, server *zkserver.Server, most int) net.Listener {
	return newBoundedListener(l, server.SetAside(most))
}

// BoundedListener limits the open connections of l to most.
func BoundedListener(l net.Listener, most int) net.Listener { return newBoundedListener(l, most) }

// A boundedListener limits the number of open connections. Further ones wait in the kernel.
type boundedListener struct {
	net.Listener
	tokens chan struct{} // one for each open connection
	closed chan struct{}
	once   sync.Once // guards closed
}

func newBoundedListener(l net.Listener, most int) *boundedListener {
	return &boundedListener{Listener: l, tokens: make(chan struct{}, most), closed: make(chan struct{})}
}

// Accept waits until fewer connections than the limit are open, and then for the next one. If the
// process or the machine is short of files or memory, it retries at least once a second. net/http
// would stop serving at most of these errors.
func (l *boundedListener) Accept() (net.Conn, error) {
	select {
	case l.tokens <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	for delay := 5 * time.Millisecond; ; delay = min(2*delay, time.Second) {
		nc, err := l.Listener.Accept()
		if err == nil {
			return &boundedConn{Conn: nc, release: sync.OnceFunc(func() { <-l.tokens })}, nil
		}
		if !zkserver.Passing(err) {
			<-l.tokens
			return nil, err
		}
		select {
		case <-time.After(delay):
		case <-l.closed:
			<-l.tokens
			return nil, net.ErrClosed
		}
	}
}

// Close ends Accept, also while Accept waits for a connection to close.
func (l *boundedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// A boundedConn makes room for another connection when it is closed.
type boundedConn struct {
	net.Conn
	release func()
}

func (c *boundedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
