//go:build unix

package interop

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast"
	"holdfast/zk"
)

// A roundCounter counts the round trips of a client. It counts a write that follows a read,
// and every connection.
type roundCounter struct {
	mu     sync.Mutex // guards the fields below
	rounds int
	sent   bool // a write came last, and no read since
}

type countedConn struct {
	net.Conn
	*roundCounter
}

func (r *roundCounter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rounds, r.sent = r.rounds+1, false
	return countedConn{nc, r}, nil
}

func (c countedConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	if !c.sent {
		c.rounds, c.sent = c.rounds+1, true
	}
	c.mu.Unlock()
	return c.Conn.Write(b)
}

func (c countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = false
	return n, err
}

// take returns the round trips since the last take.
func (r *roundCounter) take() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.rounds
	r.rounds, r.sent = 0, false
	return n
}

// A Lock on an idle session of an ensemble must prove the session first. That takes five round
// trips at most: the lock's node, a connection, the attach, and a write. While the session is
// proven, it takes only the node's. (A ping may come in between, so the median counts.)
func TestLockOnAnIdleSessionTakesFewRoundTrips(t *testing.T) {
	const timeout, sessions = 3 * time.Second, 9
	z := ensemble.get(t)
	ctx, cancel := context.WithTimeout(t.Context(), stepTime)
	defer cancel()
	var mu sync.Mutex
	var idle, fresh []int
	var took []time.Duration
	var all sync.WaitGroup
	for i := range sessions {
		addr := z.Addrs()[i%3] // the leader and followers
		var r roundCounter
		c := dialURL(t, "zk://"+addr, func(cfg *zk.Config) {
			cfg.SessionTimeout, cfg.TickTime, cfg.Dial = timeout, z.Tick(), r.dial
		})
		path := "/idle-" + string(rune('a'+i))
		_, _, err := c.Create(ctx, path, nil, zk.Persistent) // no server removes it while the session idles
		if !errors.Is(err, zk.ErrNodeExists) {
			must(t, err)
		}
		all.Go(func() {
			m := holdfast.NewMutex(c, path)
			lock := func() (int, time.Duration) {
				r.take()
				began := time.Now()
				h, err := m.Lock(ctx)
				if err != nil {
					t.Error(err)
					return 0, 0
				}
				n, d := r.take(), time.Since(began)
				if err := h.Unlock(); err != nil {
					t.Error(err)
				}
				return n, d
			}
			lock() // learns about the ensemble
			f, _ := lock()
			pause(ctx, 3*timeout) // no event shows that a session is idle
			n, d := lock()
			mu.Lock()
			defer mu.Unlock()
			idle, fresh, took = append(idle, n), append(fresh, f), append(took, d)
		})
	}
	all.Wait()
	slices.Sort(idle)
	slices.Sort(fresh)
	measured(t, "round trips of a Lock, smallest, median and largest: %d, %d and %d on an idle session, %d, %d and %d on one that is proven; on an idle one it took %s",
		idle[0], idle[len(idle)/2], idle[len(idle)-1], fresh[0], fresh[len(fresh)/2], fresh[len(fresh)-1], percentiles(took))
	if n := idle[len(idle)/2]; n > 5 || n < 4 {
		t.Errorf("the median Lock on an idle session takes %d round trips; want 4 or 5", n)
	}
	if n := fresh[len(fresh)/2]; n != 1 {
		t.Errorf("the median Lock on a session that is proven takes %d round trips; want 1", n)
	}
}
