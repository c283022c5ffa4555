package zklocal

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"holdfast/zk"
)

var errRemoved = errors.New("the directory was removed or replaced")

// leadsTo reports whether the name of f still leads to the open file. A new file cannot be
// mistaken for it, because its inode stays in use while f is open.
func leadsTo(f *os.File) bool {
	ours, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(f.Name())
	if err != nil {
		// Only a missing name proves a removal. A failing disk or a lack of memory does not.
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
	}
	return os.SameFile(ours, named)
}

// An identity is a directory that clients of this process have connected to. Its path does not
// identify it: a directory that replaces it has the same path, and none of its sessions. An
// identity is safe for concurrent use.
type identity struct {
	dir string

	mu   sync.Mutex // guards the fields below
	f    *os.File   // host.lock; nil once the directory is gone, or after close
	gone time.Time  // when that was noticed; zero while it is there
}

// removed reports whether the directory was removed, moved or replaced.
func (id *identity) removed() bool { return !id.removedAt().IsZero() }

// removedAt returns the time at which the removal was noticed, zero if there was none.
func (id *identity) removedAt() time.Time {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.f != nil && !leadsTo(id.f) {
		id.gone = time.Now()
		id.f.Close()
		id.f = nil
	}
	return id.gone
}

// isOf reports whether lock is the directory's host.lock.
func (id *identity) isOf(lock *os.File) bool {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.f == nil {
		return false
	}
	ours, err := id.f.Stat()
	theirs, err2 := lock.Stat()
	return err == nil && err2 == nil && os.SameFile(ours, theirs)
}

// close closes the file. A later removal of the directory is not detected.
func (id *identity) close() {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.f != nil {
		id.f.Close()
		id.f = nil
	}
}

// watch checks the directory at an interval, and calls gone once if it was removed. The caller
// must call stop.
func (id *identity) watch(every time.Duration, gone func()) (stop func()) {
	var (
		mu      sync.Mutex // guards stopped, and timer until it is set
		stopped bool
		timer   *time.Timer
	)
	look := func() {
		if id.removed() {
			gone()
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			timer.Reset(every)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(every, look)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}

// errGone returns the error of a connection whose directory was removed. It ends the client's
// session, see [zk.Config.Dial].
func (id *identity) errGone() error {
	return fmt.Errorf("zklocal: %s: %w: %w", id.dir, errRemoved, zk.ErrSessionExpired)
}

// A conn is a connection to the directory's host that breaks when the directory is
// removed.
type conn struct {
	net.Conn
	id   *identity
	stop func() // stops the checks of the directory
}

func newConn(nc net.Conn, id *identity) *conn {
	c := &conn{Conn: nc, id: id}
	c.stop = id.watch(removalCheck, func() { nc.Close() })
	return c
}

// Read also fails if the directory was removed. Usually the host notices first and closes the
// connection; Read then tells the client why.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, c.explain(err)
}

// Write is like Read.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n, c.explain(err)
}

func (c *conn) explain(err error) error {
	if err != nil && c.id.removed() {
		return c.id.errGone()
	}
	return err
}

// Close also stops the checks of the directory.
func (c *conn) Close() error {
	c.stop()
	return c.Conn.Close()
}
