package zkserver

import (
	"container/list"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/internal/guess"
	"holdfast/zkserver/internal/login"
	"holdfast/zkserver/internal/store"
	"holdfast/zkserver/internal/tree"
)

// Serve returns ErrServerClosed after Shutdown, Close or the end of a linger.
var ErrServerClosed = errors.New("zkserver: server closed")

// ErrInUse is wrapped by the errors of Open and Check when another process has the store open.
var ErrInUse = store.ErrInUse

// A Server is one node that serves ZooKeeper clients. Its methods are safe for
// concurrent use.
type Server struct {
	cfg     Config
	store   store.Store
	secret  []byte
	users   login.Users
	guesses *guess.Limiter
	words   map[string]bool // the allowed ones

	limited atomic.Pointer[Limits] // see limits

	queue      queue       // readers → owner
	oneMachine atomic.Bool // see Config.OneMachine
	reachable  sync.Once   // once Serve has had a listener that other machines may reach

	idle    chan struct{} // holds a token while no commit is under way
	commits chan *batch   // owner → committer; room for one, sent only with the token

	restUntil time.Time // see restAfter; guarded by the token of idle

	trouble atomic.Pointer[error] // of the store, see noteTrouble

	teller *teller

	moved           atomic.Int64 // see MoveClock, in milliseconds
	opened          time.Time
	committingSince atomic.Int64 // nanoseconds from opened; 0 if no commit is under way

	readers sync.WaitGroup // the goroutines that push to queue
	writers sync.WaitGroup

	quit chan struct{} // closed by Close and by a fatal error: stop at once
	done chan struct{} // closed when all has stopped

	deaths *deathWatches

	owning sync.Mutex // guards owner
	owner  owner

	counters  counters
	footprint footprint
	buffers   buffers

	mu        sync.Mutex
	stopping  bool                       // no new listeners and connections
	quitting  bool                       // quit is closed
	err       error                      // why the server stopped by itself
	listeners map[*net.Listener]struct{} // a listener itself may not be comparable
	conns     map[*conn]struct{}
	counted   int64     // the connections that count, see count
	filed     int64     // those that take an open file
	fileRoom  int64     // the most of them, see limitByFiles
	mostFiles int64     // the most files that the process may have open
	newcomers list.List // of *conn: those of filed that wait for their login, the oldest first
	addresses map[netip.Addr]*address
	lastConn  int64
	idleSince time.Time // when conns became empty
}

// Open opens the store, and makes it if there is none. All its sessions live again with their full
// timeout. (Config.OneMachine has an exception, after a restart of the machine.)
//
// The error wraps ErrInUse if another process has the directory open. It wraps ErrDamaged or
// ErrFormat if the store cannot be served.
func Open(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	users, err := newUsers(cfg)
	if err != nil {
		return nil, err
	}
	cfg.Users, cfg.SuperDigest = nil, "" // so that no log prints them with the rest
	st, err := openStore(cfg)
	if err != nil {
		return nil, openError(cfg, err)
	}
	s, err := start(cfg, users, st)
	if err != nil {
		st.Close()
		return nil, openError(cfg, err)
	}
	return s, nil
}

func openError(cfg Config, err error) error {
	where := cfg.Dir
	if where == "" {
		where = "memory"
	}
	return fmt.Errorf("zkserver: open %s: %w", where, err)
}

// start loads st and starts the owner.
func start(cfg Config, u login.Users, st store.Store) (*Server, error) {
	s := &Server{
		cfg: cfg, users: u, guesses: guess.NewLimiter(), store: st,
		queue:     queue{wake: make(chan struct{}, 1)},
		idle:      make(chan struct{}, 1),
		commits:   make(chan *batch, 1),
		teller:    newTeller(),
		quit:      make(chan struct{}),
		done:      make(chan struct{}),
		listeners: make(map[*net.Listener]struct{}),
		conns:     make(map[*conn]struct{}),
		addresses: make(map[netip.Addr]*address),
		opened:    time.Now(),
		deaths:    newDeathWatches(),
		idleSince: time.Now(),
	}
	s.oneMachine.Store(cfg.OneMachine)
	s.limited.Store(&cfg.Limits)
	s.limitByFiles(openFiles())
	s.words, _ = allowedWords(cfg.FourLetterWords) // validated
	s.idle <- struct{}{}
	secret := make([]byte, 32)
	rand.Read(secret)
	now := time.Now()
	if err := s.load(store.Meta{Secret: secret, Ceiling: zxidAt(now)}, now); err != nil {
		return nil, err
	}
	if j, ok := st.(*store.Journal); ok && !j.SyncsLater() {
		s.oneMachine.Store(false) // else the owner would wait for the disk, see handOver
	}
	s.publish()
	s.measureStore()
	for _, sess := range s.owner.sessions {
		s.watchGroup(sess)
	}
	go s.run()
	return s, nil
}

// Serve serves clients that connect to l until the server stops, and then closes l. It
// returns ErrServerClosed, or why the server had to stop, or why l accepts no more. A lack
// of open files or memory only makes new connections wait. If l is not a Unix socket, Serve
// ends Config.OneMachine: first it syncs everything that was answered.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	if l.Addr().Network() != "unix" {
		s.reachable.Do(s.syncAll)
	}
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		return s.stopError()
	}
	s.listeners[&l] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, &l)
		s.mu.Unlock()
	}()
	var delay time.Duration
	for {
		nc, err := l.Accept()
		if err == nil {
			delay = 0
			s.accept(nc)
			continue
		}
		s.mu.Lock()
		stopping := s.stopping
		s.mu.Unlock()
		if stopping {
			return s.stopError()
		}
		if !Passing(err) {
			return fmt.Errorf("zkserver: accept on %s: %w", l.Addr(), err)
		}
		// Most likely the process has no free file descriptor. Connected clients must be served on.
		delay = min(max(2*delay, 5*time.Millisecond), time.Second)
		s.refused(LimitFiles, "addr", l.Addr(), "err", err)
		select {
		case <-time.After(delay):
		case <-s.done:
		}
	}
}

// syncAll ends OneMachine. When it returns, everything that was answered is durable, and from
// then on every change is synced.
func (s *Server) syncAll() {
	if !s.oneMachine.Swap(false) {
		return
	}
	_ = s.inTurn(context.Background(), func(done chan<- struct{}) {
		b := s.owner.batch
		b.changes.PutCeiling(s.owner.ceiling) // so that there is something to commit
		b.released = append(b.released, func() { close(done) })
	}) // after an error the server has stopped
}

func (s *Server) accept(nc net.Conn) {
	addr := addressOf(nc)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		nc.Close()
		return
	}
	if limit := s.admit(nc, addr); limit != "" {
		cut(nc)
		s.refused(limit, "remote", nc.RemoteAddr())
		return
	}
	limitUnsent(nc)
	s.lastConn++
	c := newConn(s, tree.Watcher(s.lastConn), nc)
	c.address = addr
	s.conns[c] = struct{}{}
	s.count(c)
	s.counters.connections.Store(s.counted)
	s.readers.Add(1)
	s.writers.Add(1)
	go c.read()
	go c.write()
}

// Shutdown takes no new connections and no new requests, answers those that it has
// taken, and closes the store. Sessions stay in the store. If ctx ends first, Shutdown cuts off
// the rest as Close does, and returns the cause of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopListening()
	s.mu.Lock()
	for c := range s.conns {
		c.stopReading()
	}
	s.mu.Unlock()
	go func() {
		// This ends soon in any case, because nothing is read any more.
		s.readers.Wait()
		s.queue.push(&request{kind: kindStop})
	}()
	select {
	case <-s.done:
		return s.Err()
	case <-ctx.Done():
		s.Close()
		return context.Cause(ctx)
	}
}

// Close stops at once. Every acknowledged change is on disk. Requests without an answer
// may or may not have happened, as after a crash.
func (s *Server) Close() error {
	s.stopNow(nil)
	<-s.done
	return s.Err()
}

// Done returns a channel that is closed when the server has stopped, for whatever reason, and its
// store is closed.
func (s *Server) Done() <-chan struct{} { return s.done }

// MoveClock moves the clock of the server by d, as a clock does that somebody sets. This clock stamps the nodes (their
// Ctime and Mtime), and says when a node with a time to live is removed. Sessions do not depend on it. MoveClock is for
// tests.
func (s *Server) MoveClock(d time.Duration) { s.moved.Add(d.Milliseconds()) }

// ExpireSession ends a session as if its timeout had passed, and reports whether
// there was one. When it returns, the end is durable, and the notifications of it have been handed to
// the connections.
func (s *Server) ExpireSession(id int64) bool {
	expired, released := false, make(chan struct{})
	s.queue.push(&request{kind: kindCall, call: func() {
		ended := func() {
			b := s.owner.batch
			b.released = append(b.released, func() { close(released) })
		}
		sess := s.owner.sessions[id]
		if sess == nil {
			ended()
			return
		}
		expired = true
		s.counters.expired.Add(1)
		s.endSession(sess, ended)
	}})
	select {
	case <-released:
		return expired
	case <-s.done:
		return false
	}
}
