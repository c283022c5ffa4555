package zktest

import (
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
}

// An Option changes what NewServer makes.
type Option func(*zkserver.Config)

// TickTime sets the server's unit of time, 2 s by default: session timeouts are
// brought between 2 and 20 of it. A test on the real clock wants it small.
func TickTime(d time.Duration) Option { return func(c *zkserver.Config) { c.TickTime = d } }

// NewServer starts a server. It panics if an option makes no sense.
func NewServer(opts ...Option) *Server {
	s := &Server{cfg: zkserver.Config{Memory: zkserver.NewMemory()}, net: newNetwork()}
	for _, o := range opts {
		o(&s.cfg)
	}
	s.start()
	return s
}

// start runs a server on what the one before has left.
func (s *Server) start() {
	server, err := zkserver.Open(s.cfg)
	if err != nil {
		panic(fmt.Sprintf("zktest: %v", err))
	}
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

// Config is how a client of one's own reaches the server. Whether a connection can be
// made does not depend on the address it names.
func (s *Server) Config() zk.Config {
	return zk.Config{
		Servers: []string{string(serverAddr)},
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

// Close closes the clients that Client made, then the server, and waits until both
// have ended. It may be called again.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.net.stall(false) // or the clients would wait for their goodbye to be answered
	for _, c := range s.clients {
		c.Close()
	}
	s.stop()
}

// Expire ends a session as if its timeout had passed: its ephemeral nodes go, its
// connection is closed. It returns when that is done. An unknown session is no error.
func (s *Server) Expire(sessionID int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server.ExpireSession(sessionID)
}

// Restart stops the server as a crash would and starts it on what it had made
// durable: nodes and sessions survive, connections and watches do not.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.stop()
	s.start()
}

// CloseClientConnections breaks every connection. Sessions live on.
func (s *Server) CloseClientConnections() { s.net.cutAll() }

// Stall holds back every byte between clients and server until resume is called:
// connections stay open and new ones can be made, but nobody hears anything. The
// server's clock goes on, so sessions expire, as behind a network that swallows
// packets. What was held back then arrives.
func (s *Server) Stall() (resume func()) {
	s.net.stall(true)
	return sync.OnceFunc(func() { s.net.stall(false) })
}

// Intercept lets f decide what becomes of every request of one kind, on every
// connection; a later call for the same op replaces it, nil takes it away. op is what
// is on the wire: this repository's client creates with [zkproto.OpCreate2] and
// containers with [zkproto.OpCreateContainer], and reads children with
// [zkproto.OpGetChildren2]. path is the node's (without its sequence number), in
// transactions and multi-reads that of the first operation, "" if there is none. f runs while the
// client's write waits.
func (s *Server) Intercept(op zkproto.Op, f func(path string) Action) {
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	if f == nil {
		delete(s.net.intercepts, op)
	} else {
		s.net.intercepts[op] = f
	}
}
