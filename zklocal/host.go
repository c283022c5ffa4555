package zklocal

import (
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

// ErrHosted is wrapped by the error of [OpenHost] when another process (or another
// Host of this one) is the directory's host.
var ErrHosted = errors.New("another process hosts this directory")

const (
	// lockPatience is how long OpenHost asks for host.lock. A process that only looks
	// whether there is a host holds it for some microseconds, and must not be taken
	// for one.
	lockPatience = 100 * time.Millisecond
	// handoverPatience is how long openHost waits for the store when it has the lock. The
	// files of a killed process are closed one after the other, host.lock before those of
	// the store, which have a lock of their own.
	handoverPatience = time.Second
	// removalCheck is how often a host and its clients look whether the directory and its
	// socket are still there. On Linux inotify tells the host at once; the look finds the
	// changes that inotify cannot see.
	removalCheck = time.Second
	// removalGrace is how long the host of a removed directory keeps its claim to the path
	// after it has closed all connections. In this time the holders end their work; it is the
	// time within which a process must be scheduled (assumption A3 of docs/guarantees.md).
	removalGrace = 500 * time.Millisecond
	// socketPatience is how long a socket that was removed stays so. rm -rf may be about
	// to remove the directory, and would fail if a file were made there.
	socketPatience = 100 * time.Millisecond
)

// Host is this process as the host of a directory.
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

// OpenHost makes this process the host of the directory cfg.Dir: it takes the
// directory's lock, opens the store and serves it on the directory's socket, which
// listens when OpenHost returns. The directory is made if there is none, and must be
// the caller's alone (mode 0700).
//
// Set cfg.OneMachine, unless clients on other machines are served as well.
//
// If there is a host already the error wraps [ErrHosted] and names the directory and
// the host's process id. If other machines can mount the directory's file system, the
// error wraps [ErrShared].
func OpenHost(cfg zkserver.Config) (*Host, error) {
	dir, err := prepareDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	cfg.Dir = dir
	return openHost(context.Background(), cfg, lockPatience)
}

// openHost is OpenHost for a directory that is prepared. The ctx bounds the wait for the
// host of a directory that had the same path.
func openHost(ctx context.Context, cfg zkserver.Config, patience time.Duration) (_ *Host, err error) {
	dir := cfg.Dir
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
	// Written first, so that messages can name us while a large store is opened.
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
		return nil, fmt.Errorf("zklocal: host %s: %w", dir, err) // it names the file that is wrong
	}
	if h.socket, err = listenSocket(dir); err != nil {
		h.server.Close()
		return nil, explain("host", dir, err)
	}
	if h.watch, err = newWatch(dir); err != nil {
		h.logger.Info("zklocal: nothing tells when the directory is removed, so the host looks in turns", "dir", dir, "every", removalCheck, "err", err)
	}
	h.watch.addSocket(h.socket)
	if !lock.current() { // it was removed before there was a watch
		h.server.Close()
		h.socket.Close()
		h.watch.close()
		return nil, fmt.Errorf("zklocal: host %s: %w", dir, errRemoved)
	}
	go h.run()
	return h, nil
}

// Server returns the server, for serving further listeners and for waiting. It is
// stopped with the Host's methods.
func (h *Host) Server() *zkserver.Server { return h.server }

// Socket returns the path of the directory's Unix socket.
func (h *Host) Socket() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.socket.path
}

// Done returns a channel that is closed when the server has stopped, for whatever
// reason, and the directory is free for the next host.
func (h *Host) Done() <-chan struct{} { return h.done }

// Err says, once Done is closed, why the server stopped; nil after Shutdown, after
// Close, and when its linger time was over.
func (h *Host) Err() error {
	select {
	case <-h.done:
		return h.err
	default:
		return nil
	}
}

// Shutdown stops taking requests, answers those that were taken, closes the store
// and gives the directory back. Sessions stay in the store for the next host. When
// ctx ends first, Shutdown stops at once, as Close does, and returns ctx's cause.
func (h *Host) Shutdown(ctx context.Context) error {
	err := h.server.Shutdown(ctx)
	if err != nil {
		h.server.Close()
	}
	<-h.done
	return err
}

// Close stops the server at once and gives the directory back. What was acknowledged
// is on disk, and sessions stay in the store for the next host.
func (h *Host) Close() error {
	err := h.server.Close()
	<-h.done
	return err
}

// run watches over the server until it has stopped, then gives the directory back.
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
				// Without its socket the directory has no host, so let another process be it.
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
		// The holders were told when their connections broke. The next host of this path
		// waits until they have had time to stop.
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

// serve serves the present socket.
func (h *Host) serve() {
	served, l := make(chan error, 1), h.socket.Listener
	go func() { served <- h.server.Serve(l) }()
	h.served = served
}

// look stops the server if the directory was removed: the clients find out why their
// connections broke, and end their sessions. If only the socket was removed, look makes it
// again. It returns when to look next.
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
		h.logger.Error("zklocal: the directory's socket was removed, and cannot be made again yet", "dir", h.dir, "err", err)
		return removalCheck
	}
	h.logger.Warn("zklocal: the directory's socket was removed, and is made again", "dir", h.dir)
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

// release gives the directory back. What lies there is removed only while the lock still
// guards it: after a removal the names can belong to another host.
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
