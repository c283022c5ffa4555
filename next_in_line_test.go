package holdfast_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

// An audited client takes its server for an ensemble, and counts what it sends.
type audited struct {
	*zk.Client
	dials  atomic.Int64
	writes atomic.Int64 // to connections
}

type auditedConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c auditedConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// auditedTimeout is a session timeout that can be proven with the usual tick.
const auditedTimeout = 10 * time.Second

func audit(t *testing.T, srv *zktest.Server) *audited {
	t.Helper()
	a := new(audited)
	cfg := srv.Config()
	cfg.SessionTimeout, cfg.Lease = auditedTimeout, zk.LeaseQuorum
	dial := cfg.Dial
	cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		a.dials.Add(1)
		nc, err := dial(ctx, network, addr)
		return auditedConn{nc, &a.writes}, err
	}
	c, err := zk.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	a.Client = c
	return a
}

// idles reports what the client sends in 20 minutes, above the pings of an idle session.
func (a *audited) idles() int64 {
	synctest.Wait()
	before := a.writes.Load()
	const while = 20 * time.Minute
	time.Sleep(while)
	return a.writes.Load() - before - int64(while/(auditedTimeout/6))
}

func (a *audited) join(t *testing.T, of func(*zk.Client) holdfast.Locker) (*waiter, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	return wait(ctx, of(a.Client)), cancel
}

// The next in line proves its session while it waits. When its turn comes, it holds the lock
// without having sent anything. Those behind it prove nothing yet.
func TestNextInLineIsProvenBeforeItsTurn(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		holder, next, third := audit(t, srv), audit(t, srv), audit(t, srv)
		time.Sleep(10 * time.Minute) // none of them was proven lately
		hold := lock(t, mutexAt(holder.Client))
		waits, _ := next.join(t, mutexAt)
		behind, _ := third.join(t, mutexAt)
		if n := third.idles(); n > 0 {
			t.Errorf("the third sends %d probes", n)
		}
		if next.dials.Load() != 2 || third.dials.Load() != 1 {
			t.Errorf("the next has attached %d times and the third %d times; want 2 and 1", next.dials.Load(), third.dials.Load())
		}
		before := next.writes.Load()
		unlock(t, hold)
		synctest.Wait()
		if waits.waiting() || waits.err != nil {
			t.Fatalf("the next does not hold the lock: %v", waits.err)
		}
		if n := next.writes.Load() - before; n != 0 {
			t.Errorf("the next has sent %d messages to hold the lock; want none", n)
		}
		if dials := third.dials.Load(); dials != 2 { // it is the next in line now
			t.Errorf("the third has attached %d times; want 2", dials)
		}
		unlock(t, waits.hold)
		synctest.Wait()
		if behind.waiting() || behind.err != nil {
			t.Fatalf("the third does not hold the lock: %v", behind.err)
		}
		unlock(t, behind.hold)
	})
}

// There may be many readers behind one writer. They wait without a proof.
func TestReadersInLineProveNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		writer, reader := audit(t, srv), audit(t, srv)
		hold := lock(t, writeAt(writer.Client))
		waits, _ := reader.join(t, readAt)
		if n := reader.idles(); n > 0 {
			t.Errorf("the reader sends %d probes", n)
		}
		unlock(t, hold)
		synctest.Wait()
		if waits.waiting() || waits.err != nil {
			t.Fatalf("the reader does not hold the lock: %v", waits.err)
		}
	})
}

// However a wait ends, its lease ends too, and after a while the session sends pings only.
func TestNextInLineLeavesNoLease(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(t *testing.T, admin *zk.Client, hold *holdfast.Hold, w *waiter, cancel context.CancelFunc)
	}{
		{"cancelled", func(t *testing.T, _ *zk.Client, _ *holdfast.Hold, w *waiter, cancel context.CancelFunc) {
			cancel()
			synctest.Wait()
			wantErr(t, w.err, context.Canceled)
		}},
		{"held and unlocked", func(t *testing.T, _ *zk.Client, hold *holdfast.Hold, w *waiter, _ context.CancelFunc) {
			unlock(t, hold)
			synctest.Wait()
			if w.err != nil {
				t.Fatal(w.err)
			}
			unlock(t, w.hold)
		}},
		{"its turn came and its context had ended", func(t *testing.T, _ *zk.Client, hold *holdfast.Hold, w *waiter, cancel context.CancelFunc) {
			cancel()
			unlock(t, hold)
			synctest.Wait()
			if w.hold != nil {
				unlock(t, w.hold)
			}
		}},
		{"its node was removed, and it was cancelled in its new place", func(t *testing.T, admin *zk.Client, hold *holdfast.Hold, w *waiter, cancel context.CancelFunc) {
			for _, n := range queued(t, admin) {
				if lockPath+"/"+n != hold.Path() {
					if err := admin.Delete(t.Context(), lockPath+"/"+n, zk.AnyVersion); err != nil {
						t.Fatal(err)
					}
				}
			}
			synctest.Wait()
			if len(queued(t, admin)) != 2 {
				t.Fatal("it has not queued again")
			}
			cancel()
			synctest.Wait()
			wantErr(t, w.err, context.Canceled)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				holder, next := client(t, srv), audit(t, srv)
				hold := lock(t, mutexAt(holder))
				w, cancel := next.join(t, mutexAt)
				defer cancel()
				if next.idles() <= 0 {
					t.Fatal("the next in line does not probe: the test shows nothing")
				}
				tt.end(t, holder, hold, w, cancel)
				time.Sleep(2 * auditedTimeout)
				if n := next.idles(); n > 0 {
					t.Errorf("%d probes when nobody waits any more", n)
				}
			})
		})
	}
}
