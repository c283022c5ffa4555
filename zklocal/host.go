package zklocal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"holdfast/zkserver"
)

// ErrHosted is wrapped by the error of [OpenHost] if another process (or another Host of this
// process) is the directory's host.
var ErrHosted = errors.New("another process hosts this directory")

const (
	// lockPatience is the time for which OpenHost tries to acquire host.lock. A process that
	// only checks for a host holds it for some microseconds, and must not be mistaken for a
	// host.
	lockPatience = 100 * time.Millisecond
	// handoverPatience is the time that openHost waits for the store once it has the lock. The
	// kernel closes the files of a killed process one after the other, and may close host.lock
	// before those of the store, which have their own lock.
	handoverPatience = time.Second
	// removalCheck is the interval at which a host and its clients check that the directory and
	// its socket are still there. On Linux inotify notifies the host at once; the check finds
	// changes that inotify cannot see.
	removalCheck = time.Second
	// removalGrace is the time for which the host of a removed directory keeps its claim to the
	// path after it has closed all connections. In this time the holders stop their work. A
	// process must be scheduled within it (assumption A3 of docs/explanation/guarantees.md).
	removalGrace = 500 * time.Millisecond
	// socketPatience is the time before a removed socket is created again. rm -rf may be about
	// to remove the directory, and a new file there would make it fail.
	socketPatience = 100 * time.Millisecond
)

// A Host serves one directory from this process.
type Host struct {
	dir    string
	lock   *fileLock
	claim  *claim
	server *zkserver.Server
	watch  *watch // nil if there is none
	logger *slog.Logger

	mu     sync.Mutex // guards socket, which only run changes
	socket *socket

	served  <-chan error // the result of Serve for the socket; nil after that; used by run only
	missing time.Time    // since when the socket is missing, zero if it is there; used by run only

	done chan struct{}
	err  error // written before done is closed
}

// OpenHost makes this process the host of the directory cfg.Dir. It acquires the directory's
// lock, opens the store and serves it on the directory's socket. The socket listens when
// OpenHost returns. OpenHost creates the directory if necessary. The directory must be private
// to the caller (mode 0700).
//
// Set cfg.OneMachine, unless the host also serves clients on other machines. If cfg.MaxSessionTimeout is 0, it is 30 ticks,
// so a host with the default tick grants DefaultSessionTimeout.
//
// If there is a host already, the error wraps [ErrHosted] and names the directory and the
// host's process id. If other machines can mount the directory's file system, the error wraps
// [ErrShared].
func OpenHost(cfg zkserver.Config) (*Host, error) {
	dir, err := prepareDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	cfg.Dir = dir
	return openHost(context.Background(), cfg, lockPatience)
}

// ticksOfSession is the longest session timeout that a host grants by default, in ticks. It is DefaultSessionTimeout.
const ticksOfSession = 30

// openHost implements OpenHost for a prepared directory. ctx bounds the wait for the host of an
// earlier directory at the same path.
func openHost(ctx context.Context, cfg zkserver.Config, patience time.Duration) (_ *Host, err error) {
	dir := cfg.Dir
	if cfg.MaxSessionTimeout == 0 {
		const defaultTick = 2 * time.Second // of zkserver
		cfg.MaxSessionTimeout = max(cmp.Or(cfg.TickTime, defaultTick)*ticksOfSession, cfg.MinSessionTimeout)
	}
	lock, err := tryLock(filepath.Join(dir, hostLockName))
	for wait := (backoff{}); errors.Is(err, errHeld) && wait.total < patience; {
		wait.pause(context.Background())
		lock, err = tryLock(filepath.Join(dir, hostLockName))
	}
	if errors.Is(err, errHeld) {
		return nil, fmt.Errorf("zklocal: host %s: %w (%s): connect to it as file://%[1]s, or end it first", dir, ErrHosted, hostName(dir))
	}
	if err != nil {
		return nil, explain("host", dir, err)
	}
	h := &Host{dir: dir, lock: lock, logger: cfg.Logger, done: make(chan struct{})}
	if h.logger == nil {
		h.logger = slog.New(slog.DiscardHandler)
	}
	defer func() {
		if err != nil {
			h.release()
		}
	}()
	// Written before the store is opened, which can take long, so that messages can name us.
	if err := writePID(dir); err != nil {
		return nil, explain("host", dir, err)
	}
	if h.claim, err = claimPath(ctx, dir, lock.current); err != nil {
		return nil, fmt.Errorf("zklocal: host %s: wait for the host of an earlier directory: %w", dir, err)
	}
	h.server, err = zkserver.Open(cfg)
	for wait := (backoff{}); errors.Is(err, zkserver.ErrInUse) && wait.total < handoverPatience; {
		wait.pause(context.Background())
		h.server, err = zkserver.Open(cfg)
	}
	if err != nil {
		if noRoom(err) {
			return nil, explain("host", dir, err)
		}
		return nil, fmt.Errorf("zklocal: host %s: %w", dir, err) // err names the file
	}
	if h.socket, err = listenSocket(dir); err != nil {
		h.server.Close()
		return nil, explain("host", dir, err)
	}
	if h.watch, err = newWatch(dir); err != nil {
		h.logger.Info("zklocal: no notification when the directory is removed; checking it at intervals", "dir", dir, "every", removalCheck, "err", err)
	}
	h.watch.addSocket(h.socket)
	if !lock.current() { // the directory was removed before the watch existed
		h.server.Close()
		h.socket.Close()
		h.watch.close()
		return nil, fmt.Errorf("zklocal: host %s: %w", dir, errRemoved)
	}
	go h.run()
	return h, nil
}

// Server returns the server, for further listeners. Stop it with the Host's methods only.
func (h *Host) Server() *zkserver.Server { return h.server }

// Socket returns the path of the directory's Unix socket.
func (h *Host) Socket() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.socket.path
}

// Done returns a channel that is closed when the server has stopped, for any reason, and the
// directory is free for the next host.
func (h *Host) Done() <-chan struct{} { return h.done }

// Err returns the reason why the server stopped, once Done is closed. It is nil after Shutdown,
// after Close, and after the end of the linger time.
func (h *Host) Err() error {
	select {
	case <-h.done:
		return h.err
	default:
		return nil
	}
}

// Shutdown accepts no further requests, answers the accepted ones, closes the store and
// releases the directory. Sessions stay in the store for the next host. If ctx ends first,
// Shutdown stops at once, as Close does, and returns ctx's cause.
func (h *Host) Shutdown(ctx context.Context) error {
	err := h.server.Shutdown(ctx)
	if err != nil {
		h.server.Close()
	}
	<-h.done
	return err
}

// Close stops the server at once and releases the directory. Acknowledged changes are on disk,
// and sessions stay in the store for the next host.
func (h *Host) Close() error {
	err := h.server.Close()
	<-h.done
	return err
}

// run checks the directory until the server has stopped, and then releases the directory.
func (h *Host) run() {
	defer close(h.done)
	h.serve()
	poll := time.NewTicker(removalCheck)
	defer poll.Stop()
	for stopped := false; !stopped; {
		select {
		case err := <-h.served:
			h.served = nil
			if !errors.Is(err, zkserver.ErrServerClosed) {
				// Without a socket no client can reach this host, so another process must
				// become the host.
				h.err = err
				h.server.Close()
			}
		case <-h.watch.reports():
			poll.Reset(h.look())
		case <-h.claim.asked:
			poll.Reset(h.look())
		case <-poll.C:
			poll.Reset(h.look())
		case <-h.server.Done():
			stopped = true
		}
	}
	if !h.lock.current() {
		// The holders learned of the loss when their connections broke. The next host of this
		// path waits until they have had time to stop.
		h.err = fmt.Errorf("zklocal: host %s: %w", h.dir, errRemoved)
		time.Sleep(removalGrace)
	}
	if h.err == nil {
		h.err = h.server.Err()
	}
	h.socket.Close()
	if h.served != nil {
		<-h.served
	}
	h.watch.close()
	h.release()
}

// serve serves the current socket.
func (h *Host) serve() {
	served, l := make(chan error, 1), h.socket.Listener
	go func() { served <- h.server.Serve(l) }()
	h.served = served
}

// look stops the server if the directory was removed. The clients' connections break, the
// clients find the cause, and end their sessions. If only the socket was removed, look creates
// it again. It returns the time until the next check.
func (h *Host) look() (again time.Duration) {
	if !h.lock.current() {
		h.server.Close()
		return removalCheck
	}
	switch now := time.Now(); {
	case h.socket.reachable():
		h.missing = time.Time{}
		return removalCheck
	case h.missing.IsZero():
		h.missing = now
		return socketPatience
	case now.Sub(h.missing) < socketPatience:
		return socketPatience
	}
	next, err := listenSocket(h.dir)
	if err != nil {
		h.logger.Error("zklocal: the directory's socket was removed and cannot be created again yet", "dir", h.dir, "err", err)
		return removalCheck
	}
	h.logger.Warn("zklocal: the directory's socket was removed; creating it again", "dir", h.dir)
	h.watch.addSocket(next)
	h.socket.Close()
	if h.served != nil {
		<-h.served
	}
	h.mu.Lock()
	h.socket = next
	h.mu.Unlock()
	h.missing = time.Time{}
	h.serve()
	return removalCheck
}

// release removes the host's files and releases the directory. It removes files only while the
// lock still guards them: after a removal the same names can belong to another host.
func (h *Host) release() {
	if h.lock.current() {
		removeSocket(h.dir)
		os.Remove(filepath.Join(h.dir, hostPIDName))
	}
	if h.claim != nil {
		h.claim.close()
	}
	h.lock.unlock()
}
