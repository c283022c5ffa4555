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

var errClosed = errors.New("the store was closed")

const (
	// startPatience is how long, at most, a started host may take to get the directory's lock.
	// Then we host ourselves; should it come after all, it finds the lock taken and
	// ends, so a patience that is too short does no harm.
	startPatience = 2 * time.Second
	// dialCheck is how often a client without a connection looks whether the directory of
	// its session is still there.
	dialCheck = 5 * time.Millisecond
	// shutdownPatience is how long Close lets the clients of other processes have
	// the answers to what they have sent.
	shutdownPatience = 2 * time.Second
)

// Config says where a store is and who shall host it.
type Config struct {
	// Dir is the directory. It is made, with its parents, if there is none.
	Dir string
	// StartHost, if not nil, starts a process of its own that hosts dir with
	// [OpenHost], and returns when it is started or has its lock; it should give up
	// within seconds. It is called whenever the directory has no host. If it fails,
	// this process hosts the directory itself. Nil: this process hosts it.
	StartHost func(dir string) error
	// Logger gets what happens to the host. Nil: nothing is logged.
	Logger *slog.Logger
}

// Store is a directory with a store in it that processes share. It is safe for
// concurrent use, and several clients may use one Store.
type Store struct {
	dir       string
	startHost func(dir string) error
	logger    *slog.Logger

	// life ends when Close begins, and with it every dial that is under way.
	life context.Context
	end  context.CancelCauseFunc

	// turn holds a token while somebody works on the fields below: opening a host can
	// take long, and who waits for that must be able to give up, which a Mutex does
	// not allow.
	turn   chan struct{}
	host   atomic.Pointer[Host] // this process as the host, or nil; may have stopped; set with the token, read by all
	closed bool

	mu       sync.Mutex // guards identity
	identity *identity  // of the directory that clients are connected to; nil before the first
}

// Open checks the directory cfg.Dir, and makes it if there is none. It does not yet
// connect or host: that happens when a client with the store's [Store.Config] dials.
// If other machines can mount the directory's file system, the error wraps [ErrShared].
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

// Config returns the configuration for clients of the store. Its Dial function
// connects to the directory's host, and if there is none, starts or becomes it; a
// client that reconnects after the loss of a host takes over in this way. Session
// timeout and chroot are the caller's to set.
func (s *Store) Config() zk.Config {
	// For messages only: the Dial function knows the socket. The slash is what a path
	// with a drive letter lacks.
	name := strings.TrimPrefix(filepath.ToSlash(filepath.Join(s.dir, socketName)), "/")
	last := new(lastDirectory)
	return zk.Config{
		Servers: []string{"unix:///" + name},
		Dial:    func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx, last) },
		Logger:  s.logger,
	}
}

// lastDirectory is where the clients of one Config were connected last.
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

// Close ends every dial that is under way and, if this process hosts the directory,
// gives it back: another process takes over, and sessions and locks of others go on.
// Close the clients of this process first; a client that is still open can no longer
// connect.
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

// dial is the Dial hook of a Config, whose clients were connected to last before. If that
// directory is gone, so are the sessions in it: dial fails at once with an error that says
// so, once. It does not wait for the new directory to have a host, since by then another
// client can have a lock there.
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

// connect goes round until a host answers on the socket: the lock says whether there is a
// host, and the socket, when it is ready. A socket that refuses, is missing, or breaks off
// belongs to a host that is dead, on its way out or on its way in, and nothing but the lock
// can tell these apart.
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

// reach connects to the host that there is, and says of which directory.
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
		nc.Close() // the host or the socket may be the new directory's
		return nil, id, id.errGone()
	}
	return nc, id, nil
}

// dialHere connects over memory to the host in this process. It returns nil if there is none, or
// not of this directory: a host may not have noticed yet that its directory was removed.
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

// identify returns the identity of the present directory, one for all clients.
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

// provideHost sees to it that the directory has a host. It reports whether one has
// just come up, so that there is no need to wait before the next attempt. An error
// is one that waiting does not cure.
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
			return false, nil // it is us, and its queue of connections is full
		}
	}
	if s.settling() {
		return false, nil
	}
	// Again, for the directory may have been removed since.
	if _, err := prepareDir(s.dir); err != nil {
		return false, err
	}
	if s.startHost == nil {
		return s.hostHere()
	}
	return s.hostElsewhere(ctx)
}

// settling reports whether the directory was removed a moment ago. Then it is not made anew
// yet: rm -rf may still have to remove the directories above, and would fail.
func (s *Store) settling() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.identity != nil && time.Since(s.identity.removedAt()) < removalGrace
}

// hostHere makes this process the host, unless there is one. The end of the dial does not end
// it: a short attempt and its successors would never have waited long enough for a former
// host that is stopped.
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

// hostElsewhere starts a process that hosts the directory and waits for its socket.
// Of the processes that find no host, start.lock lets one do this at a time; when
// that one is killed, the lock passes on.
func (s *Store) hostElsewhere(ctx context.Context) (bool, error) {
	starting, err := tryLock(filepath.Join(s.dir, startLockName))
	if errors.Is(err, errHeld) {
		return false, nil
	}
	if err != nil {
		return false, explain("start a host for", s.dir, err)
	}
	defer starting.unlock()

	// Only now is it certain that nobody who saw the same as we is starting one.
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
		// A short attempt must still come to the end of this, or it and its successors
		// would start one hopeless host after the other.
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
			return false, nil // it has the lock and takes long to open the store
		}
		if !wait.pause(ctx) {
			return false, nil
		}
	}
}

// hosted reports whether somebody has the host's lock.
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

// backoff waits ever longer between attempts, from a millisecond to a tenth of a
// second: a host that starts is met early, and one that is stopped costs little.
type backoff struct {
	next  time.Duration
	total time.Duration // waited so far
}

// pause waits; it returns false if ctx ends, or has ended.
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
