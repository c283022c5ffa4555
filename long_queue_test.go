package holdfast_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

// A line is a client that is watched: it counts what it asks and hears, and its
// connection can be cut and kept from coming back.
type line struct {
	*zk.Client
	requests atomic.Int64 // those that somebody waits for
	bytes    atomic.Int64 // both ways
	slowly   atomic.Bool  // it hears

	deafen atomic.Bool // it hears nothing any more once it has said something
	deaf   atomic.Pointer[chan struct{}]

	mu   sync.Mutex
	conn net.Conn
	down chan struct{} // closed when it may connect; nil while it may
}

func newLine(t *testing.T, srv *zktest.Server) *line {
	t.Helper()
	l := &line{}
	cfg := srv.Config()
	cfg.SessionTimeout = 10 * time.Second
	cfg.Trace = &zk.Trace{RequestDone: func(string, string, time.Duration, error) { l.requests.Add(1) }}
	dial := cfg.Dial
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		l.mu.Lock()
		down := l.down
		l.mu.Unlock()
		if down != nil {
			select {
			case <-down:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		nc, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.conn = &countedConn{Conn: nc, line: l}
		return l.conn, nil
	}
	c, err := zk.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.mend()
		c.Close()
	})
	l.Client = c
	return l
}

// stay keeps the client from connecting again, until mend. A connection that it has goes on.
func (l *line) stay() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down == nil {
		l.down = make(chan struct{})
	}
}

// cut breaks the connection until mend.
func (l *line) cut() {
	l.stay()
	l.mu.Lock()
	l.conn.Close()
	l.mu.Unlock()
	synctest.Wait()
}

func (l *line) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down != nil
}

func (l *line) mend() {
	l.mu.Lock()
	if l.down != nil {
		close(l.down)
		l.down = nil
	}
	l.mu.Unlock()
	time.Sleep(time.Second) // longer than the pause before it connects
	synctest.Wait()
}

type countedConn struct {
	net.Conn
	line *line
}

// Read can hear one byte after the other, so that between two events there is time for
// what the first makes somebody do, or nothing at all.
func (c *countedConn) Read(b []byte) (int, error) {
	if c.line.slowly.Load() {
		b = b[:min(1, len(b))]
		time.Sleep(time.Microsecond)
	}
	n, err := c.Conn.Read(b)
	if gate := c.line.deaf.Load(); gate != nil {
		<-*gate
	}
	c.line.bytes.Add(int64(n))
	return n, err
}

func (c *countedConn) Write(b []byte) (int, error) {
	if c.line.deafen.CompareAndSwap(true, false) {
		gate := make(chan struct{})
		c.line.deaf.Store(&gate)
	}
	n, err := c.Conn.Write(b)
	c.line.bytes.Add(int64(n))
	return n, err
}

// hear ends the deafness: what was said meanwhile comes in one go.
func (l *line) hear() {
	if gate := l.deaf.Swap(nil); gate != nil {
		close(*gate)
	}
	synctest.Wait()
}

// A standing is a waiter, or a holder, with a line of its own, and its node.
type standing struct {
	*waiter
	*line
	node   string
	cancel context.CancelFunc
}

// stand puts somebody at the end of the queue.
func stand(t *testing.T, srv *zktest.Server, of func(*zk.Client) holdfast.Locker) *standing {
	t.Helper()
	s := &standing{line: newLine(t, srv)}
	before, _, _ := s.Children(t.Context(), lockPath)
	ctx, cancel := context.WithCancel(t.Context())
	s.cancel = cancel
	s.waiter = wait(ctx, of(s.Client))
	for _, n := range queued(t, s.Client) {
		if !slices.Contains(before, n) {
			s.node = lockPath + "/" + n
		}
	}
	if s.node == "" {
		t.Fatal("it did not join the queue")
	}
	return s
}

func mutexAt(c *zk.Client) holdfast.Locker { return holdfast.NewMutex(c, lockPath) }
func writeAt(c *zk.Client) holdfast.Locker { return holdfast.NewRWMutex(c, lockPath) }
func readAt(c *zk.Client) holdfast.Locker  { return holdfast.NewRWMutex(c, lockPath).RLocker() }

// line up n of a kind.
func standAll(t *testing.T, srv *zktest.Server, n int, of func(*zk.Client) holdfast.Locker) []*standing {
	t.Helper()
	var all []*standing
	for range n {
		all = append(all, stand(t, srv, of))
	}
	return all
}

// in reports whether s has had a Hold of its first node.
func (s *standing) in(t *testing.T) bool {
	t.Helper()
	if s.waiting() {
		return false
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.hold.Path() == s.node
}
