package zktest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zkserver"
)

// A Server is a ZooKeeper server for one test. Its methods are safe for concurrent
// use.
type Server struct {
	cfg zkserver.Config
	net *network

	mu      sync.Mutex
	server  *zkserver.Server
	served  chan struct{} // closed when Serve has returned
	clients []*zk.Client
	closed  bool
	moved   time.Duration // the clock, in all
}

// An Option changes the server that NewServer starts.
type Option func(*zkserver.Config)

// TickTime sets the server's unit of time, 2 s by default. The server limits session timeouts
// to between 2 and 20 ticks. A test on the real clock needs a short tick.
func TickTime(d time.Duration) Option { return func(c *zkserver.Config) { c.TickTime = d } }

// NewServer starts a server. It panics if an option is invalid.
func NewServer(opts ...Option) *Server {
	s := &Server{cfg: zkserver.Config{Memory: zkserver.NewMemory()}, net: newNetwork()}
	for _, o := range opts {
		o(&s.cfg)
	}
	s.start()
	return s
}

// start runs a server on the store of its predecessor.
func (s *Server) start() {
	server, err := zkserver.Open(s.cfg)
	if err != nil {
		panic(fmt.Sprintf("zktest: %v", err))
	}
	server.MoveClock(s.moved)
	l, served := s.net.listen(), make(chan struct{})
	go func() {
		defer close(served)
		server.Serve(l)
	}()
	s.server, s.served = server, served
}

func (s *Server) stop() {
	s.server.Close()
	<-s.served
}

// Config returns the configuration for other clients of the server. Dialling ignores the
// address in it.
func (s *Server) Config() zk.Config {
	return zk.Config{
		Servers:  []string{string(serverAddr)},
		TickTime: cmp.Or(s.cfg.TickTime, 2*time.Second), // its default
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			return s.net.dial(ctx, network, address)
		},
	}
}

// Client connects a client, which Close closes. It panics if that fails.
func (s *Server) Client() *zk.Client {
	c, err := zk.Dial(context.Background(), s.Config())
	if err != nil {
		panic(fmt.Sprintf("zktest: %v", err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = append(s.clients, c)
	return c
}

// Close closes the clients that Client made, then the server, and waits until all have ended.
// It can be called more than once.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.net.stall(false) // otherwise the clients would wait for the answers to closeSession
	for _, c := range s.clients {
		c.Close()
	}
	s.stop()
}

// Expire ends a session as if its timeout had passed: the server removes its ephemeral nodes
// and closes its connection. Expire returns when that is done. An unknown session is no error.
func (s *Server) Expire(sessionID int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server.ExpireSession(sessionID)
}

// Restart stops the server as a crash would and starts it again with its durable state. Nodes
// and sessions survive; connections and watches do not.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.stop()
	s.start()
}

// MoveClock moves the server's clock by d, forward or back, as an administrator or a change of the leader can. The times
// of nodes (zk.Stat) follow it. The timeouts of sessions do not.
func (s *Server) MoveClock(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moved += d
	s.server.MoveClock(d)
}

// CloseClientConnections breaks every connection. Sessions live on.
func (s *Server) CloseClientConnections() { s.net.cutAll() }

// Stall holds back all bytes between clients and server until resume is called. Connections
// stay open and new ones can be made, but no byte arrives. The server's clock goes on, so
// sessions expire, as with a network that drops packets. After resume, the bytes that were held
// back arrive.
func (s *Server) Stall() (resume func()) {
	s.net.stall(true)
	return sync.OnceFunc(func() { s.net.stall(false) })
}

// Intercept lets f decide what happens to every request of one kind, on every connection. A
// later call for the same op replaces f; nil removes it. op is the operation on the wire: this
// repository's client creates with [zkproto.OpCreate2] and containers with
// [zkproto.OpCreateContainer], and reads children with [zkproto.OpGetChildren2]. path is the
// node's (without its sequence number). For transactions and multi-reads it is that of the
// first operation, "" if there is none. f runs while the client's write waits.
func (s *Server) Intercept(op zkproto.Op, f func(path string) Action) {
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	if f == nil {
		delete(s.net.intercepts, op)
	} else {
		s.net.intercepts[op] = f
	}
}
