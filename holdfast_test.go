package holdfast_test

import (
	"context"
	"errors"
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

const lockPath = "/holdfast/locks/db"

// inBubble runs f with its own server and fake time.
func inBubble(t *testing.T, f func(t *testing.T, srv *zktest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		// Pings keep a bubble busy, so a wait for an event that never comes would spin for ever.
		hangs := time.AfterFunc(2*time.Hour, func() { panic(t.Name() + " has hung for two hours of its own time") })
		defer hangs.Stop()
		srv := zktest.NewServer()
		defer srv.Close()
		f(t, srv)
	})
}

// sessionTimeout is the timeout that these tests' clients ask for.
const sessionTimeout = 10 * time.Second

// client returns a client with its own session.
func client(t *testing.T, srv *zktest.Server) *zk.Client {
	t.Helper()
	cfg := srv.Config()
	cfg.SessionTimeout = sessionTimeout
	c, err := zk.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func lock(t *testing.T, l holdfast.Locker) *holdfast.Hold {
	t.Helper()
	h, err := l.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func unlock(t *testing.T, h *holdfast.Hold) {
	t.Helper()
	if err := h.Unlock(); err != nil {
		t.Error(err)
	}
}

func wantErr(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("got error %v; want %v", got, want)
	}
}

// queued lists the names of the nodes in the lock's directory.
func queued(t *testing.T, c *zk.Client) []string {
	t.Helper()
	names, _, err := c.Children(t.Context(), lockPath)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
	return names
}

func wantQueued(t *testing.T, c *zk.Client, n int) {
	t.Helper()
	if names := queued(t, c); len(names) != n {
		t.Errorf("%d nodes in the queue, want %d: %v", len(names), n, names)
	}
}

// waiter is a Lock in a goroutine.
type waiter struct {
	done chan struct{}
	hold *holdfast.Hold
	err  error
}

func wait(ctx context.Context, l holdfast.Locker) *waiter {
	w := &waiter{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.hold, w.err = l.Lock(ctx)
	}()
	synctest.Wait()
	return w
}

func (w *waiter) waiting() bool {
	synctest.Wait()
	select {
	case <-w.done:
		return false
	default:
		return true
	}
}

// got returns the Hold of a waiter whose turn has come, or is about to. An event tells it: a waiter that has missed its event
// finds out only later, see queue.LookAgain.
func (w *waiter) got(t *testing.T) *holdfast.Hold {
	t.Helper()
	began := time.Now()
	h := w.gotLate(t)
	if took := time.Since(began); took > 25*time.Second {
		t.Errorf("the waiter has acquired the lock only after %v", took)
	}
	return h
}

// gotLate is got without a bound.
func (w *waiter) gotLate(t *testing.T) *holdfast.Hold {
	t.Helper()
	<-w.done
	if w.err != nil {
		t.Fatal(w.err)
	}
	return w.hold
}

// apart separates the waiters that hold the lock from those that still wait.
func apart(all []*waiter) (in, waiting []*waiter) {
	for _, w := range all {
		select {
		case <-w.done:
			in = append(in, w)
		default:
			waiting = append(waiting, w)
		}
	}
	return in, waiting
}

// drain lets every client hold the lock in turn.
func drain(t *testing.T, all []*standing) {
	t.Helper()
	for i, s := range all {
		if !s.in(t) {
			t.Fatalf("%d does not have the lock in its turn", i)
		}
		unlock(t, s.hold)
		synctest.Wait()
	}
}

// A line is an instrumented client: it counts its requests and received bytes. Its connection
// can be cut and kept from coming back.
type line struct {
	*zk.Client
	requests atomic.Int64 // requests that are answered
	flushes  atomic.Int64 // requests sent together count once
	bytes    atomic.Int64 // both ways

	deaf atomic.Pointer[chan struct{}] // it receives nothing until that is closed

	mu   sync.Mutex
	conn net.Conn
	down chan struct{} // closed when it may connect; nil while it may
}

func newLine(t *testing.T, srv *zktest.Server) *line {
	t.Helper()
	l := &line{}
	cfg := srv.Config()
	cfg.SessionTimeout = 10 * time.Second
	cfg.Trace = &zk.Trace{RequestDone: func(context.Context, string, string, time.Duration, error) { l.requests.Add(1) }}
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

// stay keeps the client from reconnecting, until mend. An open connection stays.
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

// connect lets the client reconnect.
func (l *line) connect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down != nil {
		close(l.down)
		l.down = nil
	}
}

func (l *line) mend() {
	l.connect()
	time.Sleep(time.Second) // longer than the pause before it connects
	synctest.Wait()
}

type countedConn struct {
	net.Conn
	line *line
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if gate := c.line.deaf.Load(); gate != nil {
		<-*gate
	}
	c.line.bytes.Add(int64(n))
	return n, err
}

func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.line.flushes.Add(1)
	c.line.bytes.Add(int64(n))
	return n, err
}

// A standing is a waiter or holder with its own line, and its node.
type standing struct {
	*waiter
	*line
	node   string
	cancel context.CancelFunc
}

// stand puts a client at the end of the queue.
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
		t.Fatal("the client did not join the queue")
	}
	return s
}

func mutexAt(c *zk.Client) holdfast.Locker { return holdfast.NewMutex(c, lockPath) }
func writeAt(c *zk.Client) holdfast.Locker { return holdfast.NewRWMutex(c, lockPath) }
func readAt(c *zk.Client) holdfast.Locker  { return holdfast.NewRWMutex(c, lockPath).RLocker() }

// standAll queues n clients of a kind.
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
