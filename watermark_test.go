package holdfast_test

import (
	"context"
	"flag"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zktest"
)

var longest = flag.Int("waiters", 400, "how many wait in the longest queue")

// A release costs the same in a long queue as in a longer one. Clients come and go in turn, and
// only the first few, which came while the queue was short, list it again.
func TestLongQueueCostsConstantBytesPerRelease(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		const first = 40
		clients := max(20, *longest/20) // more places per client would share their lists, see shared_list.go
		var lines []*line
		for range clients {
			lines = append(lines, newLine(t, srv))
		}
		all := []*waiter{wait(t.Context(), holdfast.NewMutex(lines[0].Client, lockPath))}
		for i := range *longest {
			all = append(all, wait(t.Context(), holdfast.NewMutex(lines[(i+1)%clients].Client, lockPath)))
		}
		total := func() (n int64) {
			for _, l := range lines {
				n += l.bytes.Load()
			}
			return n
		}
		joins := total()
		var most int64
		for i, w := range all {
			if w.waiting() {
				t.Fatalf("%d waits", i)
			}
			before := total()
			unlock(t, w.got(t))
			synctest.Wait()
			if i >= first {
				most = max(most, total()-before)
			}
		}
		t.Logf("%d waiters: %d bytes to join, at most %d for a release, %d in all", *longest, joins, most, total())
		if most > 2000 {
			t.Errorf("a release cost %d bytes", most)
		}
		wantQueued(t, lines[0].Client, 0)
	})
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

func TestMarkIsLeftOnlyWhereTheDataAreNobodys(t *testing.T) {
	tests := []struct {
		name   string
		of     func(*zk.Client) holdfast.Locker
		data   string
		acl    []zk.ACL
		marked bool
	}{
		{"mutex", mutexAt, "", nil, true},
		{"writer", writeAt, "", nil, true},
		{"an older mark", mutexAt, "holdfast: passed 1", nil, true},
		{"a larger mark, by hand", mutexAt, "holdfast: passed 99x", nil, false},
		{"readers", readAt, "", nil, false},
		{"somebody's data", mutexAt, "their own", nil, false},
		{"a semaphore's limit", mutexAt, "3", nil, false},
		{"may not be written", mutexAt, "", []zk.ACL{{Perms: zk.PermRead | zk.PermCreate | zk.PermDelete, Scheme: "world", ID: "anyone"}}, false},
		{"another layout", func(c *zk.Client) holdfast.Locker {
			return holdfast.NewMutex(c, lockPath, holdfast.WithLayout(layout.GoZookeeper))
		}, "", nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := client(t, srv)
				all := []*waiter{wait(t.Context(), tt.of(c))}
				if _, err := c.Set(t.Context(), lockPath, []byte(tt.data), zk.AnyVersion); err != nil {
					t.Fatal(err)
				}
				for range 50 {
					all = append(all, wait(t.Context(), tt.of(c)))
				}
				if tt.acl != nil {
					if _, err := c.SetACL(t.Context(), lockPath, tt.acl, zk.AnyVersion); err != nil {
						t.Fatal(err)
					}
				}
				if _, _, err := c.Create(t.Context(), "/counted", nil, zk.Persistent); err != nil {
					t.Fatal(err)
				}
				for i, w := range all {
					if w.waiting() {
						t.Fatalf("%d waits", i)
					}
					h := w.got(t)
					if i%2 == 0 {
						unlock(t, h)
					} else if _, err := h.CommitAndUnlock(t.Context(), zk.SetOp("/counted", nil, zk.AnyVersion)); err != nil { // with or without a mark
						t.Error(err)
					}
				}
				synctest.Wait()
				if _, stat, err := c.Get(t.Context(), "/counted"); err != nil || int(stat.Version) != len(all)/2 {
					t.Errorf("version %d, %v; want %d", stat.Version, err, len(all)/2)
				}
				got := directoryData(t, c)
				if !tt.marked && got != tt.data {
					t.Errorf("data %q; want %q", got, tt.data)
				}
				if tt.marked && (!strings.HasPrefix(got, "holdfast: passed ") || got == tt.data) {
					t.Errorf("data %q: no watermark", got)
				}
			})
		})
	}
}

// A watermark covers clients that have held the lock. Waiters conclude no more from it.
func TestMarksOfALongQueue(t *testing.T) {
	const long = 40
	tests := []struct {
		name string
		of   func(i int) func(*zk.Client) holdfast.Locker
		// then runs when the client at 34 holds the lock; the client at 35 is next.
		then func(t *testing.T, admin *zk.Client, all []*standing)
		next []int // the next holders, one after the other
	}{
		{"nothing", nil, nil, []int{34, 35, 36, 37, 38, 39}},
		{"the second nearest leaves", nil, func(t *testing.T, _ *zk.Client, all []*standing) { all[36].cancel() }, []int{34, 35, 37, 38, 39}},
		{"the nearest leaves", nil, func(t *testing.T, _ *zk.Client, all []*standing) { all[35].cancel() }, []int{34, 36, 37, 38, 39}},
		{"all between leave", nil, func(t *testing.T, _ *zk.Client, all []*standing) {
			for _, s := range all[35:39] {
				s.cancel()
			}
		}, []int{34, 39}},
		{"a waiter is removed", nil, func(t *testing.T, admin *zk.Client, all []*standing) {
			if err := admin.Delete(t.Context(), all[36].node, zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}, []int{34, 35, 37, 38, 39}},
		{"the holder is removed", nil, func(t *testing.T, admin *zk.Client, all []*standing) {
			if err := admin.Delete(t.Context(), all[34].node, zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}, []int{35, 36, 37, 38, 39}},
		{"the data are taken", nil, func(t *testing.T, admin *zk.Client, all []*standing) {
			if _, err := admin.Set(t.Context(), lockPath, []byte("5"), zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}, []int{34, 35, 36, 37, 38, 39}},
		{"the mark is an old one of a queue that has wrapped", nil, func(t *testing.T, admin *zk.Client, all []*standing) {
			if _, err := admin.Set(t.Context(), lockPath, []byte("holdfast: passed 1"), zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
			all[35].cancel()
		}, []int{34, 36, 37, 38, 39}},
		{"writers", func(int) func(*zk.Client) holdfast.Locker { return writeAt }, nil, []int{34, 35, 36, 37, 38, 39}},
		{"a go-zookeeper node holds", func(i int) func(*zk.Client) holdfast.Locker {
			if i%2 == 0 {
				return func(c *zk.Client) holdfast.Locker {
					return holdfast.NewMutex(c, lockPath, holdfast.WithLayout(layout.GoZookeeper))
				}
			}
			return mutexAt
		}, nil, []int{34, 35, 36, 37, 38, 39}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				admin := client(t, srv)
				var all []*standing
				for i := range long {
					of := mutexAt
					if tt.of != nil {
						of = tt.of(i)
					}
					all = append(all, stand(t, srv, of))
				}
				drain(t, all[:34])
				if tt.then != nil {
					tt.then(t, admin, all)
					synctest.Wait()
				}
				for _, i := range tt.next {
					for j := i + 1; j < long; j++ {
						if all[j].in0(t) {
							t.Fatalf("%d has the lock before %d releases it", j, i)
						}
					}
					if !all[i].in0(t) {
						t.Fatalf("%d does not have the lock in its turn", i)
					}
					unlock(t, all[i].hold)
					synctest.Wait()
				}
				if got := directoryData(t, admin); tt.name == "the data are taken" && got != "5" {
					t.Errorf("a watermark replaced somebody's data: %q", got)
				}
			})
		})
	}
}

// A writer that has come through a long queue and takes the read side leaves no watermark: the
// reader is in its place.
func TestWriterThatStepsDownLeavesNoMark(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		var all []*standing
		for range 40 {
			all = append(all, stand(t, srv, writeAt))
		}
		drain(t, all[:34])
		c := all[34].Client
		before := directoryData(t, c)
		r, err := holdfast.NewRWMutex(c, lockPath).RLock(all[34].hold.Context())
		if err != nil {
			t.Fatal(err)
		}
		unlock(t, all[34].hold)
		if !all[35].waiting() {
			t.Fatal("a writer holds the lock beside a reader")
		}
		all[35].cancel() // its watcher must not take the next for the head
		time.Sleep(time.Second)
		if got := directoryData(t, c); got != before {
			t.Errorf("a watermark was left: %q, before %q", got, before)
		}
		for _, s := range all[36:] {
			if !s.waiting() {
				t.Fatal("a writer holds the lock beside a reader")
			}
		}
		unlock(t, r)
		drain(t, all[36:])
	})
}

func TestSemaphoreTakesAMarkForNoLimit(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		if err := holdfast.NewSemaphore(c, lockPath, 0).SetLimit(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Set(t.Context(), lockPath, []byte("holdfast: passed 17"), zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		h, err := holdfast.NewSemaphore(c, lockPath, 3).Acquire(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		unlock(t, h)
		if got := directoryData(t, c); got != "3" {
			t.Errorf("the limit is %q; want it unchanged", got)
		}
	})
}

// A line is an instrumented client: it counts its requests and received bytes. Its connection
// can be cut and kept from coming back.
type line struct {
	*zk.Client
	requests atomic.Int64 // requests that are answered
	flushes  atomic.Int64 // requests sent together count once
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

func (l *line) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down != nil
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
	c.line.flushes.Add(1)
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
