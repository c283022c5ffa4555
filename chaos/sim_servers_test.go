package chaos_test

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"holdfast/zkserver"
)

// The servers of a world are one zkserver, or an ensemble that models Apache's.
type servers interface {
	start()
	crash() // all servers
	close() // for good
	expire(session int64) bool
	moveClock(d time.Duration) // of all servers
	counts() (sessions, connections, watches int)
	watchers() string // the watches, as far as they are known
	waiting() string  // requests of clients without an answer
}

// oneServer is a zkserver in memory.
type oneServer struct {
	net    *network
	tick   time.Duration
	memory *zkserver.Memory
	asker  *line // for the four-letter words
	login  login

	mu     sync.Mutex // guards the fields below
	srv    *zkserver.Server
	served chan struct{}
	moved  time.Duration // see moveClock
	up     bool
}

func newOneServer(n *network, tick time.Duration, asker *line, login login) *oneServer {
	return &oneServer{net: n, tick: tick, memory: zkserver.NewMemory(), asker: asker, login: login}
}

func (s *oneServer) start() {
	cfg := zkserver.Config{Memory: s.memory, TickTime: s.tick, FourLetterWords: []string{"wchp"}, Users: s.login.users}
	if cfg.Users != nil {
		cfg.RequireAuth = []string{"sasl"}
	}
	srv, err := zkserver.Open(cfg)
	if err != nil {
		panic(err)
	}
	l, served := newListener(), make(chan struct{})
	s.net.setHost(0, l.take)
	var listener net.Listener = l
	if s.login.listen != nil {
		listener = s.login.listen(l)
	}
	go func() {
		defer close(served)
		srv.Serve(listener)
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	srv.MoveClock(s.moved)
	s.srv, s.served, s.up = srv, served, true
}

// serves reports whether the server is up.
func (s *oneServer) serves() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.up
}

func (s *oneServer) moveClock(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moved += d
	s.srv.MoveClock(d)
}

func (s *oneServer) server() *zkserver.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.srv
}

func (s *oneServer) crash() {
	s.mu.Lock()
	s.up = false
	s.mu.Unlock()
	s.server().Close()
	<-s.served
	s.net.setHost(0, nil)
}

func (s *oneServer) close() { s.crash() }

func (s *oneServer) expire(session int64) bool { return s.server().ExpireSession(session) }

func (s *oneServer) counts() (sessions, connections, watches int) {
	st := s.server().Stats()
	return int(st.Sessions), int(st.Connections), int(st.Watches)
}

// watchers returns the answer to a four-letter word.
func (s *oneServer) watchers() string {
	if s.login.tls != nil {
		return "(behind TLS)"
	}
	nc, err := s.asker.dial(context.Background(), "", "")
	if err != nil {
		return err.Error()
	}
	defer nc.Close()
	e := nc.(*end)
	e.link.word.Store(true)
	e.out.send([]byte("wchp"))
	answer, _ := io.ReadAll(nc)
	return string(answer)
}

func (s *oneServer) waiting() string { return "" }

// manyServers is an ensemble.
type manyServers struct {
	*ensemble
	net *network
}

func (m *manyServers) start() {
	for _, s := range m.all() {
		m.startServer(s)
	}
}

// startServer starts one.
func (m *manyServers) startServer(s *server) {
	m.ensemble.start(s)
	m.net.setHost(s.id-1, func(_ context.Context, nc net.Conn) bool { return m.accept(s, nc) })
}

// killServer kills one.
func (m *manyServers) killServer(s *server) {
	m.net.setHost(s.id-1, nil)
	m.ensemble.kill(s)
}

func (m *manyServers) crash() {
	for _, s := range m.all() {
		m.killServer(s)
	}
}

func (m *manyServers) close() {
	m.crash()
	m.ensemble.close()
}
