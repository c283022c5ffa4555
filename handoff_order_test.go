package holdfast_test

import (
	"context"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// A heldConn gives out all that comes within a second as one read, once.
type heldConn struct {
	net.Conn
	held *atomic.Bool
}

func (c heldConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil || !c.held.CompareAndSwap(true, false) {
		return n, err
	}
	time.Sleep(time.Second)
	more, err := c.Conn.Read(b[n:])
	return n + more, err
}

// Our node goes, and then the one ahead, and we hear of both before we begin to wait: the
// first counts, whichever we look at first.
func TestEventsThatComeTogetherAreTakenInOrder(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that both are there before the waiter runs
	for range 20 {                                  // it looks at either first
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			admin := client(t, srv)
			holder := stand(t, srv, mutexAt)
			var once, held atomic.Bool
			srv.Intercept(zkproto.OpGetData, func(path string) zktest.Action {
				if path == holder.node && once.CompareAndSwap(false, true) {
					held.Store(true) // the answer comes together with what happens then
				}
				return zktest.Pass
			})
			victim := stand(t, srv, func(*zk.Client) holdfast.Locker {
				cfg := srv.Config()
				dial := cfg.Dial
				cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					nc, err := dial(ctx, network, addr)
					return heldConn{nc, &held}, err
				}
				c, err := zk.Dial(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				return holdfast.NewMutex(c, lockPath)
			})
			next := stand(t, srv, mutexAt)
			_, err := admin.Pipeline(t.Context(), zk.DeleteOp(victim.node, zk.AnyVersion), zk.DeleteOp(holder.node, zk.AnyVersion))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			if !once.Load() || held.Load() {
				t.Fatal("nothing came: the test shows nothing")
			}
			if victim.in(t) || !next.in(t) {
				t.Fatal("the lock was taken with a node that was gone before its turn")
			}
		})
	}
}

// A slowConn reads a few bytes in every millisecond.
type slowConn struct{ net.Conn }

func (c slowConn) Read(b []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return c.Conn.Read(b[:min(len(b), 16)])
}

// What happened while there was no connection is told afterwards, in no order, and slowly:
// that the node ahead has gone may be known long before it is known that ours went first.
func TestCatchUpThatComesInPiecesIsNoRelease(t *testing.T) {
	for range 20 { // the order is random
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			admin := client(t, srv)
			cfg := srv.Config()
			cfg.SessionTimeout = 10 * time.Second
			dial := cfg.Dial
			var away atomic.Bool
			var conn net.Conn
			cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if away.Load() {
					return nil, net.ErrClosed
				}
				nc, err := dial(ctx, network, addr)
				conn = nc
				return slowConn{nc}, err
			}
			c, err := zk.Dial(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			holder := stand(t, srv, mutexAt)
			before := queued(t, admin)
			victim := wait(t.Context(), holdfast.NewMutex(c, lockPath))
			time.Sleep(time.Second)
			next := stand(t, srv, mutexAt)
			var node string
			for _, name := range queued(t, admin) {
				if path := lockPath + "/" + name; path != next.node && path != holder.node {
					node = path
				}
			}
			if len(before) != 1 || node == "" {
				t.Fatal(before, node)
			}
			away.Store(true)
			conn.Close()
			synctest.Wait()
			if _, err := admin.Pipeline(t.Context(), zk.DeleteOp(node, zk.AnyVersion), zk.DeleteOp(holder.node, zk.AnyVersion)); err != nil {
				t.Fatal(err)
			}
			away.Store(false)
			time.Sleep(3 * time.Second)
			if !victim.waiting() {
				t.Fatalf("the lock was taken with a node that was gone before its turn (%v)", victim.err)
			}
			if !next.in(t) {
				t.Fatal("the next does not have the lock")
			}
			unlock(t, next.hold)
			unlock(t, victim.got(t))
		})
	}
}

// The writer right ahead gives up, and another one holds the lock.
func TestReaderOutlastsTheWriterThatGivesUp(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		holder, second := stand(t, srv, writeAt), stand(t, srv, writeAt)
		reader, another := stand(t, srv, readAt), stand(t, srv, readAt)
		second.cancel()
		<-second.done
		if !reader.waiting() || !another.waiting() {
			t.Fatal("a reader came in beside a writer")
		}
		unlock(t, holder.hold)
		unlock(t, reader.got(t))
		unlock(t, another.got(t))
	})
}

// In a long queue a holder leaves a mark that proves that all up to its own place have
// gone. Of those behind it proves nothing.
func TestMarkOfSomebodyFurtherAheadIsNoProof(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		const n = 42
		all := standAll(t, srv, n, mutexAt)
		const holds = 36 // came when the queue was long, and so did some before it
		for _, s := range all[:holds] {
			unlock(t, s.got(t))
		}
		data, _, err := all[n-1].Get(t.Context(), lockPath)
		if err != nil || len(data) == 0 {
			t.Fatalf("no mark: %q, %v: the test shows nothing", data, err)
		}
		for _, i := range []int{holds + 1, holds + 2, holds + 3} {
			all[i].cancel()
			<-all[i].done
			synctest.Wait()
		}
		for i, s := range all[holds+4:] {
			if !s.waiting() {
				t.Errorf("%d took the lock, which %d has", holds+4+i, holds)
			}
		}
		unlock(t, all[holds].got(t))
		unlock(t, all[holds+4].got(t))
		unlock(t, all[holds+5].got(t))
	})
}

// The directory's data may be somebody's: then there are no marks.
func TestMarksLeaveOthersDataAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		admin := client(t, srv)
		unlock(t, lock(t, holdfast.NewMutex(admin, lockPath))) // the directory exists
		const theirs = "who may lock: see the wiki"
		if _, err := admin.Set(t.Context(), lockPath, []byte(theirs), zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		for _, s := range standAll(t, srv, 40, mutexAt) {
			unlock(t, s.got(t))
		}
		if data, _, err := admin.Get(t.Context(), lockPath); err != nil || string(data) != theirs {
			t.Errorf("the data are %q, %v; want %q", data, err, theirs)
		}
	})
}
