package queue

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

	"holdfast/internal/queue/names"
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

// dial returns a client with its own session. change may be nil.
func dial(t *testing.T, srv *zktest.Server, change func(*zk.Config)) *zk.Client {
	t.Helper()
	cfg := srv.Config()
	cfg.SessionTimeout = sessionTimeout
	if change != nil {
		change(&cfg)
	}
	c, err := zk.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func client(t *testing.T, srv *zktest.Server) *zk.Client { return dial(t, srv, nil) }

// A locker locks as the kinds of lock do that only queue. It outlives its node and its session.
type locker struct {
	*Queue
	side names.Side
}

func mutexIn(c *zk.Client, g *names.Grammar, acl ...zk.ACL) locker {
	return locker{&Queue{Client: c, Path: lockPath, Kind: Lock, Grammar: g, ACL: acl}, names.Mutex}
}

func sideAt(c *zk.Client, s names.Side) locker {
	return locker{&Queue{Client: c, Path: lockPath, Kind: Lock, Grammar: names.Default}, s}
}

func mutexAt(c *zk.Client) locker { return sideAt(c, names.Mutex) }
func writeAt(c *zk.Client) locker { return sideAt(c, names.Write) }
func readAt(c *zk.Client) locker  { return sideAt(c, names.Read) }

// A hold is a place that nobody is ahead of. Its session is proven.
type hold struct {
	*Place
	lease *zk.Lease
}

func (l locker) Lock(ctx context.Context) (*hold, error) {
	for {
		h, err := l.enter(ctx)
		if ctx.Err() != nil || !errors.Is(err, ErrGone) && !errors.Is(err, zk.ErrSessionExpired) {
			return h, err
		}
	}
}

func (l locker) enter(ctx context.Context) (*hold, error) {
	p, err := l.Enter(ctx, l.side, func(a names.Attempt) ([]byte, error) {
		if a.Unique {
			return nil, nil
		}
		return Note{ID: a.ID}.Encode()
	})
	if err != nil {
		return nil, err
	}
	h := &hold{Place: p}
	if err = p.Wait(ctx, true); err == nil {
		if h.lease, err = p.Prove(ctx); err == nil && ctx.Err() != nil {
			h.lease.Release()
			err = context.Cause(ctx)
		}
	}
	p.Stop()
	if err != nil {
		p.Leave(ctx)
		return nil, err
	}
	p.PrepareWatermark()
	return h, nil
}

func (h *hold) Unlock() error {
	h.lease.Release()
	if w, _, _ := h.TakeWatch(); w != nil {
		w.Stop()
	}
	return h.Remove()
}

func lock(t *testing.T, l locker) *hold {
	t.Helper()
	h, err := l.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func unlock(t *testing.T, h *hold) {
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

// directoryData returns the data of the lock's directory.
func directoryData(t *testing.T, c *zk.Client) string {
	t.Helper()
	data, _, err := c.Get(t.Context(), lockPath)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// waiter is a Lock in a goroutine.
type waiter struct {
	done chan struct{}
	hold *hold
	err  error
}

func start(ctx context.Context, l locker) *waiter {
	w := &waiter{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.hold, w.err = l.Lock(ctx)
	}()
	return w
}

func wait(ctx context.Context, l locker) *waiter {
	w := start(ctx, l)
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

// got returns the hold of a waiter whose turn has come, or is about to. An event tells it: a waiter that has missed its event
// finds out only later, see LookAgain.
func (w *waiter) got(t *testing.T) *hold {
	t.Helper()
	began := time.Now()
	<-w.done
	if w.err != nil {
		t.Fatal(w.err)
	}
	if took := time.Since(began); took > 25*time.Second {
		t.Errorf("the waiter has acquired the lock only after %v", took)
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

// A line is an instrumented client: it counts its requests and received bytes. Its connection
// can be cut and kept from coming back.
type line struct {
	*zk.Client
	requests atomic.Int64 // requests that are answered
	bytes    atomic.Int64 // both ways
	slowly   atomic.Bool  // it receives slowly

	deafen atomic.Bool // it receives nothing more after its next write
	deaf   atomic.Pointer[chan struct{}]

	mu   sync.Mutex
	conn net.Conn
	down chan struct{} // closed when it may connect; nil while it may
}

func newLine(t *testing.T, srv *zktest.Server) *line {
	t.Helper()
	l := &line{}
	l.Client = dial(t, srv, func(cfg *zk.Config) {
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
	})
	t.Cleanup(l.mend)
	return l
}

// cut breaks the connection until mend.
func (l *line) cut() {
	l.mu.Lock()
	if l.down == nil {
		l.down = make(chan struct{})
	}
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

// Read can return one byte at a time. So there is time between two events for the reaction to
// the first, or it returns nothing at all.
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

// hear ends the deafness: everything from the meantime arrives at once.
func (l *line) hear() {
	if gate := l.deaf.Swap(nil); gate != nil {
		close(*gate)
	}
	synctest.Wait()
}

// A standing is a waiter or holder with its own line, and its node.
type standing struct {
	*waiter
	*line
	node   string
	cancel context.CancelFunc
}

// stand puts a client at the end of the queue.
func stand(t *testing.T, srv *zktest.Server, of func(*zk.Client) locker) *standing {
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

// standAll queues n clients of a kind.
func standAll(t *testing.T, srv *zktest.Server, n int, of func(*zk.Client) locker) []*standing {
	t.Helper()
	var all []*standing
	for range n {
		all = append(all, stand(t, srv, of))
	}
	return all
}

// in reports whether s has had a hold of its first node.
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

// in0 is in, for waiters whose wait may have been cancelled.
func (s *standing) in0(t *testing.T) bool { return !s.waiting() && s.err == nil && s.in(t) }

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
