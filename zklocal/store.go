package zklocal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/zk"
	"holdfast/zkserver"
)

// DefaultSessionTimeout is the session timeout of [Store.Config]. It is longer than that of package zk, since no network is
// in between, and a process that dies ends its session (on Linux). It costs time only where a process is stopped, or killed
// with zk.Config.Outlive.
const DefaultSessionTimeout = time.Minute

var errClosed = errors.New("the store was closed")

const (
	// startPatience is the time in which a started host must acquire the directory's lock.
	// After that this process hosts the directory itself. If the started host comes later, it
	// finds the lock taken and ends, so a short patience does no harm.
	startPatience = 2 * time.Second
	// dialCheck is the interval at which a client without a connection checks that the
	// directory of its session is still there.
	dialCheck = 5 * time.Millisecond
	// shutdownPatience is the time that Close leaves to clients of other processes to receive
	// the answers to their requests.
	shutdownPatience = 2 * time.Second
)

// A Config says where a store is and which process hosts it.
type Config struct {
	// Dir is the directory. Open creates it, with its parents, if necessary.
	Dir string
	// StartHost, if not nil, starts another process that hosts dir with [OpenHost]. It returns
	// when that process is started or has the lock, and should give up within seconds. It is
	// called whenever the directory has no host. If it is nil or fails, this process hosts the
	// directory itself.
	StartHost func(dir string) error
	// Logger gets the host's events. If it is nil, nothing is logged.
	Logger *slog.Logger
}

// A Store is a directory with a store that processes share. It is safe for concurrent use, and
// several clients may use one Store.
type Store struct {
	dir       string
	startHost func(dir string) error
	logger    *slog.Logger

	// life ends when Close begins, and ends every dial.
	life context.Context
	end  context.CancelCauseFunc

	// turn holds a token while a goroutine works on the fields below. Opening a host can take
	// long, and a goroutine that waits for it must be able to give up, which a Mutex does not
	// allow.
	turn   chan struct{}
	host   atomic.Pointer[Host] // this process as the host, or nil; may have stopped; set with the token, read by all
	closed bool

	mu       sync.Mutex // guards identity
	identity *identity  // of the directory that clients are connected to; nil before the first
}

// Open checks the directory cfg.Dir, and creates it if necessary. It neither connects nor hosts
// yet: that happens when a client with the store's [Store.Config] dials. If other machines can
// mount the directory's file system, the error wraps [ErrShared].
func Open(cfg Config) (*Store, error) {
	dir, err := prepareDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, startHost: cfg.StartHost, logger: cfg.Logger, turn: make(chan struct{}, 1)}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	s.life, s.end = context.WithCancelCause(context.Background())
	return s, nil
}

// Config returns the configuration for clients of the store. Its Dial function connects to the
// directory's host. If there is none, it starts or becomes the host, also when a client
// reconnects after the loss of a host. The session timeout is DefaultSessionTimeout; the caller may set another one, and a chroot.
func (s *Store) Config() zk.Config {
	// For messages only: the Dial function knows the socket. A path with a drive letter lacks
	// the slash.
	name := strings.TrimPrefix(filepath.ToSlash(filepath.Join(s.dir, socketName)), "/")
	last := new(lastDirectory)
	return zk.Config{
		Servers:        []string{"unix:///" + name},
		SessionTimeout: DefaultSessionTimeout,
		Dial:           func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx, last) },
		Logger:         s.logger,
	}
}

// lastDirectory is the directory to which the clients of one Config connected last.
type lastDirectory struct {
	mu sync.Mutex // guards id
	id *identity  // nil before the first connection
}

func (l *lastDirectory) get() *identity {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id
}

func (l *lastDirectory) set(id *identity) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id = id
}

// Close ends every dial and, if this process hosts the directory, releases it. Another process
// takes over, and sessions and locks of other processes go on. Close the clients of this
// process first; a client that is still open can no longer connect.
func (s *Store) Close() error {
	s.end(errClosed)
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.closed {
		return nil
	}
	s.closed = true
	s.mu.Lock()
	if s.identity != nil {
		s.identity.close()
	}
	s.mu.Unlock()
	host := s.host.Load()
	if host == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdownPatience)
	defer cancel()
	if err := host.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("zklocal: close %s: %w", s.dir, err)
	}
	return host.Err()
}

// dial is the Dial hook of a Config. last is the directory to which the Config's clients
// connected last. If that directory is gone, its sessions are over: dial fails at once with an
// error that says so, once. It does not wait until the new directory has a host, because by
// then another client can hold a lock there.
func (s *Store) dial(ctx context.Context, last *lastDirectory) (net.Conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.life, func() { cancel(errClosed) })()
	before := last.get()
	if before != nil {
		defer before.watch(dialCheck, func() { cancel(before.errGone()) })()
	}
	nc, id, err := s.connect(ctx)
	switch {
	case before != nil && before.removed():
		if err == nil {
			nc.Close()
		}
		last.set(nil)
		return nil, before.errGone()
	case err != nil:
		return nil, err
	}
	last.set(id)
	return newConn(nc, id), nil
}

// connect retries until a host answers on the socket. The lock shows whether there is a host,
// and the socket shows when it is ready. If the socket refuses, is missing, or breaks, its host
// is dead, ending or starting, and only the lock can tell these apart.
func (s *Store) connect(ctx context.Context) (net.Conn, *identity, error) {
	for wait := (backoff{}); ; {
		nc, id, err := s.reach(ctx)
		if err == nil {
			return nc, id, nil
		}
		if ctx.Err() == nil {
			up, err := s.provideHost(ctx)
			if err != nil {
				return nil, nil, err
			}
			if up {
				continue
			}
		}
		if !wait.pause(ctx) {
			return nil, nil, fmt.Errorf("zklocal: connect to the host of %s (%s): no answer on its socket (%w): %w",
				s.dir, hostName(s.dir), err, context.Cause(ctx))
		}
	}
}

// reach connects to the existing host, and returns the identity of its directory.
func (s *Store) reach(ctx context.Context) (net.Conn, *identity, error) {
	id, err := s.identify()
	if err != nil {
		return nil, nil, err
	}
	nc := s.dialHere(id)
	if nc == nil {
		if nc, err = dialSocket(ctx, s.dir); err != nil {
			return nil, id, err
		}
	}
	if id.removed() {
		nc.Close() // the host or the socket may belong to the new directory
		return nil, id, id.errGone()
	}
	return nc, id, nil
}

// dialHere connects over memory to the host in this process. It returns nil if there is none,
// or if the host has another directory: it may not have noticed yet that its directory was
// removed.
func (s *Store) dialHere(id *identity) net.Conn {
	host := s.host.Load()
	if host == nil || !id.isOf(host.lock.f) {
		return nil
	}
	nc, err := host.server.Connect()
	if err != nil {
		return nil
	}
	return nc
}

// identify returns the identity of the current directory, one for all clients.
func (s *Store) identify() (*identity, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return nil, errClosed
	}
	if s.identity == nil || s.identity.removed() {
		f, err := os.Open(filepath.Join(s.dir, hostLockName))
		if err != nil {
			return nil, err
		}
		s.identity = &identity{dir: s.dir, f: f}
	}
	return s.identity, nil
}

// provideHost makes sure that the directory has a host. It reports whether a host has just
// started, so that the next attempt need not wait. It returns an error only if waiting does not
// help.
func (s *Store) provideHost(ctx context.Context) (up bool, err error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return false, nil
	}
	if s.closed || ctx.Err() != nil {
		return false, nil
	}
	if host := s.host.Load(); host != nil {
		select {
		case <-host.Done():
			if err := host.Err(); err != nil {
				s.logger.Error("zklocal: the host in this process stopped", "dir", s.dir, "err", err)
			}
			s.host.Store(nil)
		default:
			return false, nil // this process is the host, and its queue of connections is full
		}
	}
	if s.settling() {
		return false, nil
	}
	// Prepare again, because the directory may have been removed since.
	if _, err := prepareDir(s.dir); err != nil {
		return false, err
	}
	if s.startHost == nil {
		return s.hostHere()
	}
	return s.hostElsewhere(ctx)
}

// settling reports whether the directory was removed a moment ago. It must not be created again
// yet: rm -rf may still have to remove its parents, and would fail.
func (s *Store) settling() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.identity != nil && time.Since(s.identity.removedAt()) < removalGrace
}

// hostHere makes this process the host, unless there is one. The end of the dial does not
// cancel it. Otherwise a series of short attempts would never wait long enough for a stopped
// former host.
func (s *Store) hostHere() (bool, error) {
	host, err := openHost(s.life, zkserver.Config{Dir: s.dir, OneMachine: true, Logger: s.logger}, 0)
	if errors.Is(err, ErrHosted) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s.logger.Info("zklocal: this process hosts the directory", "dir", s.dir)
	s.host.Store(host)
	return true, nil
}

// hostElsewhere starts a process that hosts the directory, and waits for its socket. start.lock
// lets one process do this at a time; when that one is killed, the next one acquires the lock.
func (s *Store) hostElsewhere(ctx context.Context) (bool, error) {
	starting, err := tryLock(filepath.Join(s.dir, startLockName))
	if errors.Is(err, errHeld) {
		return false, nil
	}
	if err != nil {
		return false, explain("start a host for", s.dir, err)
	}
	defer starting.unlock()

	// Only with start.lock held is it certain that no other process is starting a host.
	if hosted, err := s.hosted(); hosted || err != nil {
		return false, err
	}
	if startErr := s.startHost(s.dir); startErr != nil {
		s.logger.Warn("zklocal: no host could be started, so this process hosts the directory", "dir", s.dir, "err", startErr)
		up, err := s.hostHere()
		if err != nil && !strings.Contains(startErr.Error(), err.Error()) {
			err = fmt.Errorf("%w (nor can another process: %w)", err, startErr)
		}
		return up, err
	}
	patience := startPatience
	if deadline, ok := ctx.Deadline(); ok {
		// A short attempt must reach the end of this function. Otherwise a series of them would
		// start one useless host after the other.
		patience = min(patience, time.Until(deadline)/2)
	}
	for wait := (backoff{}); ; {
		conn, err := dialSocket(ctx, s.dir)
		if err == nil {
			conn.Close()
			return true, nil
		}
		if wait.total >= patience {
			hosted, err := s.hosted()
			if err != nil {
				return false, err
			}
			if !hosted {
				s.logger.Warn("zklocal: the host that was started did not come up, so this process hosts the directory", "dir", s.dir)
				return s.hostHere()
			}
			return false, nil // the host has the lock and is still opening the store
		}
		if !wait.pause(ctx) {
			return false, nil
		}
	}
}

// hosted reports whether a process holds the host's lock.
func (s *Store) hosted() (bool, error) {
	lock, err := tryLock(filepath.Join(s.dir, hostLockName))
	if errors.Is(err, errHeld) {
		return true, nil
	}
	if err != nil {
		return false, explain("open", s.dir, err)
	}
	lock.unlock()
	return false, nil
}

// A backoff waits ever longer between attempts, from a millisecond to a tenth of a second. So a
// starting host is found early, and a stopped one costs little.
type backoff struct {
	next  time.Duration
	total time.Duration // waited so far
}

// pause waits. It returns false if ctx ends or has ended.
func (b *backoff) pause(ctx context.Context) bool {
	b.next = min(max(2*b.next, time.Millisecond), 100*time.Millisecond)
	b.total += b.next
	timer := time.NewTimer(b.next)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
