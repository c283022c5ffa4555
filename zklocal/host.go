package zklocal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"holdfast/zkserver"
)

// ErrHosted is wrapped by the error of [OpenHost] when another process (or another
// Host of this one) is the directory's host.
var ErrHosted = errors.New("another process hosts this directory")

var errRemoved = errors.New("the directory was removed or replaced")

const (
	// lockPatience is how long OpenHost asks for host.lock. A process that only looks
	// whether there is a host holds it for some microseconds, and must not be taken
	// for one.
	lockPatience = 100 * time.Millisecond
	// handoverPatience is how long openHost waits for the store when it has the lock. The
	// files of a killed process are closed one after the other, host.lock before those of
	// the store, which have a lock of their own.
	handoverPatience = time.Second
	// removalCheck is how often a host looks whether its directory is still there.
	// While a removed one goes on, a process that makes the directory anew could take
	// a lock that is held here.
	removalCheck = time.Second
)

// Host is this process as the host of a directory.
type Host struct {
	dir      string
	lock     *fileLock
	server   *zkserver.Server
	listener net.Listener
	socket   string

	done chan struct{}
	err  error // written before done is closed
}

// OpenHost makes this process the host of the directory cfg.Dir: it takes the
// directory's lock, opens the store and serves it on the directory's socket, which
// listens when OpenHost returns. The directory is made if there is none, and must be
// the caller's alone (mode 0700).
//
// If there is a host already the error wraps [ErrHosted] and names the directory and
// the host's process id.
func OpenHost(cfg zkserver.Config) (*Host, error) {
	dir, err := prepareDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	cfg.Dir = dir
	return openHost(cfg, lockPatience)
}

// openHost is OpenHost for a directory that is prepared.
func openHost(cfg zkserver.Config, patience time.Duration) (_ *Host, err error) {
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
	h := &Host{dir: dir, lock: lock, done: make(chan struct{})}
	defer func() {
		if err != nil {
			h.release()
		}
	}()
	// Written first, so that messages can name us while a large store is opened.
	if err := writePID(dir); err != nil {
		return nil, explain("host", dir, err)
	}
	h.server, err = zkserver.Open(cfg)
	for wait := (backoff{}); errors.Is(err, zkserver.ErrInUse) && wait.total < handoverPatience; {
		wait.pause(context.Background())
		h.server, err = zkserver.Open(cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("zklocal: host %s: %w", dir, err)
	}
	if h.listener, h.socket, err = listenSocket(dir); err != nil {
		h.server.Close()
		return nil, explain("host", dir, err)
	}
	go h.run()
	return h, nil
}

// Server returns the server, for serving further listeners and for waiting. It is
// stopped with the Host's methods.
func (h *Host) Server() *zkserver.Server { return h.server }

// Socket returns the path of the directory's Unix socket.
func (h *Host) Socket() string { return h.socket }

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
	served := make(chan error, 1)
	go func() { served <- h.server.Serve(h.listener) }()

	check := time.NewTicker(removalCheck)
	defer check.Stop()
	for stopped := false; !stopped; {
		select {
		case err := <-served:
			served = nil
			if !errors.Is(err, zkserver.ErrServerClosed) {
				// Without its socket the directory has no host, so let somebody else be it.
				h.err = err
				h.server.Close()
			}
		case <-check.C:
			if h.err == nil && !h.lock.current() {
				h.err = fmt.Errorf("zklocal: host %s: %w", h.dir, errRemoved)
				h.server.Close()
			}
		case <-h.server.Done():
			stopped = true
		}
	}
	if h.err == nil {
		h.err = h.server.Err()
	}
	h.listener.Close()
	if served != nil {
		<-served
	}
	h.release()
}

// release gives the directory back. What lies there is removed only while the lock
// still guards it: after a removal the names can belong to another host.
func (h *Host) release() {
	if h.lock.current() {
		removeSocket(h.dir)
		os.Remove(filepath.Join(h.dir, hostPIDName))
	}
	h.lock.unlock()
}
