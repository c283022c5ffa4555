package holdfast_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

func nodeLock(t *testing.T, srv *zktest.Server) *holdfast.NodeLock {
	return holdfast.NewNodeLock(client(t, srv), lockPath, holdfast.WithOwner("api-7"))
}

// wantNode checks whether the lock's node exists.
func wantNode(t *testing.T, c *zk.Client, want bool) {
	t.Helper()
	if _, ok, err := c.Exists(t.Context(), lockPath); ok != want || err != nil {
		t.Errorf("the node exists: %v, %v; want %v", ok, err, want)
	}
}

func TestNodeLockIsOneNode(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		h := lock(t, nodeLock(t, srv))
		if h.Path() != lockPath {
			t.Errorf("path %s", h.Path())
		}
		_, err := nodeLock(t, srv).TryLock(t.Context())
		wantErr(t, err, holdfast.ErrLocked)
		entries, err := holdfast.List(t.Context(), c, lockPath)
		if err != nil || len(entries) != 1 || !entries[0].Held || entries[0].Owner != "api-7" || entries[0].Token != h.Token() {
			t.Errorf("%+v, %v", entries, err)
		}
		w := wait(t.Context(), nodeLock(t, srv))
		unlock(t, h)
		next := w.got(t)
		if next.Token() <= h.Token() {
			t.Errorf("token %d after %d; want it to grow", next.Token(), h.Token())
		}
		unlock(t, next)
		wantNode(t, c, false)
	})
}

// Every request is lost once, in either direction. The node's data say whose it is.
func TestNodeLockKnowsItsNodeAfterALostAnswer(t *testing.T) {
	for _, op := range []zkproto.Op{zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpGetData, zkproto.OpExists, zkproto.OpDelete} {
		for _, fault := range faults {
			t.Run(fmt.Sprintf("%v/%v", op, fault), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					l, observer := nodeLock(t, srv), client(t, srv)
					var hit, looking atomic.Bool
					srv.Intercept(op, func(path string) zktest.Action {
						if !looking.Load() && hit.CompareAndSwap(false, true) {
							return fault
						}
						return zktest.Pass
					})
					h := lock(t, l)
					time.Sleep(2 * holdfast.GracePeriod) // the look at its own node
					synctest.Wait()
					looking.Store(true)
					if stat, ok, err := observer.Exists(t.Context(), lockPath); !ok || err != nil || stat.Czxid != h.Token() || stat.EphemeralOwner != h.SessionID() {
						t.Errorf("the node is %+v, %v, %v; want one with token %d", stat, ok, err, h.Token())
					}
					if h.Context().Err() != nil {
						t.Errorf("lost: %v", context.Cause(h.Context()))
					}
					looking.Store(false)
					unlock(t, h)
					looking.Store(true)
					wantNode(t, observer, false)
					if !hit.Load() {
						t.Error("the fault never struck")
					}
				})
			})
		}
	}
}

// Two goroutines share a session: the node belongs to the session, but only one holds the lock.
func TestNodeLockOfOneSessionIsHeldOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		l := nodeLock(t, srv)
		h := lock(t, l)
		var hit atomic.Bool
		srv.Intercept(zkproto.OpCreate2, func(string) zktest.Action {
			if hit.CompareAndSwap(false, true) {
				return zktest.DropReply // the node that it finds then is not its own
			}
			return zktest.Pass
		})
		w := wait(t.Context(), l)
		time.Sleep(time.Second)
		if !w.waiting() {
			t.Fatal("one session got the lock twice")
		}
		unlock(t, h)
		unlock(t, w.got(t))
	})
}

func TestNodeLockCancelledInDoubtLeavesNoNode(t *testing.T) {
	for _, fault := range faults {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			l, observer := nodeLock(t, srv), client(t, srv)
			unlock(t, lock(t, l))
			ctx, cancel := context.WithCancel(t.Context())
			srv.Intercept(zkproto.OpCreate2, func(string) zktest.Action {
				cancel()
				return fault
			})
			_, err := l.Lock(ctx)
			wantErr(t, err, context.Canceled)
			srv.Intercept(zkproto.OpCreate2, nil)
			time.Sleep(time.Second) // for the reconnect
			synctest.Wait()
			wantNode(t, observer, false)
		})
	}
}

// A release removes only our own node, never the successor's of the same name (zk-ruby #34,
// etcd #22082).
func TestNodeLockDoesNotRemoveItsSuccessor(t *testing.T) {
	steal := func(t *testing.T, srv *zktest.Server, c *zk.Client, h *holdfast.Hold) *holdfast.Hold {
		if err := c.Delete(t.Context(), lockPath, zk.AnyVersion); err != nil {
			t.Error(err)
		}
		next, err := holdfast.NewNodeLock(c, lockPath).TryLock(t.Context())
		if err != nil {
			t.Error(err)
		}
		return next
	}
	t.Run("after the loss", func(t *testing.T) {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			c := client(t, srv)
			h := lock(t, nodeLock(t, srv))
			next := steal(t, srv, c, h)
			<-h.Lost()
			wantErr(t, h.Unlock(), holdfast.ErrLost)
			synctest.Wait()
			if next.Context().Err() != nil {
				t.Error("the successor lost its node")
			}
			unlock(t, next)
		})
	})
	t.Run("when the delete happened and its answer was lost", func(t *testing.T) {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			c := client(t, srv)
			h := lock(t, nodeLock(t, srv))
			w := wait(t.Context(), holdfast.NewNodeLock(c, lockPath))
			var hit atomic.Bool
			srv.Intercept(zkproto.OpDelete, func(string) zktest.Action {
				if hit.CompareAndSwap(false, true) {
					return zktest.DropReply
				}
				return zktest.Pass
			})
			unlock(t, h)
			next := w.got(t)
			synctest.Wait()
			if next.Context().Err() != nil {
				t.Error("the repeated delete hit the successor")
			}
			unlock(t, next)
		})
	})
}

// The create fails with NodeExists: the node is our own, of a session that died. We wait for
// its end, and neither steal it nor take it for ours (KAFKA-1387).
func TestNodeLockWaitsForItsOwnDyingPredecessor(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		l := holdfast.NewNodeLock(c, lockPath, holdfast.WithOwner("api-7"))
		h := lock(t, l)
		resume := srv.Stall() // the session lapses here before the server ends it
		<-h.Lost()
		resume()
		w := wait(t.Context(), l)
		next := w.got(t)
		if next.SessionID() == h.SessionID() || next.Token() <= h.Token() {
			t.Errorf("session %x, token %d after session %x, token %d; want another session and a greater token", next.SessionID(), next.Token(), h.SessionID(), h.Token())
		}
		wantErr(t, h.Unlock(), holdfast.ErrLost)
		synctest.Wait()
		if next.Context().Err() != nil {
			t.Error("the old Hold removed the new one's node")
		}
		unlock(t, next)
	})
}

// A node that never goes away is no lock: the error says so instead of a wait for ever.
func TestNodeLockOnAnotherSortOfNodeIsAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		unlock(t, lock(t, holdfast.NewMutex(c, lockPath)))
		_, err := nodeLock(t, srv).Lock(t.Context())
		wantErr(t, err, zk.ErrNodeExists)
	})
}

func TestNodeLockWaiterQueuesAgainInTheNextSession(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		h := lock(t, nodeLock(t, srv))
		w := wait(t.Context(), holdfast.NewNodeLock(c, lockPath))
		s, err := c.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		srv.Expire(s.ID())
		<-s.Context().Done()
		if !w.waiting() {
			t.Fatal(w.err)
		}
		unlock(t, h)
		unlock(t, w.got(t))
	})
}

func TestNodeLockReentry(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		plain, again := holdfast.NewNodeLock(c, lockPath), holdfast.NewNodeLock(c, lockPath, holdfast.Reentrant())
		h := lock(t, plain)
		_, err := plain.Lock(h.Context())
		wantErr(t, err, holdfast.ErrDeadlock)
		inner, err := again.Lock(h.Context())
		if err != nil {
			t.Fatal(err)
		}
		unlock(t, h)
		wantNode(t, c, true)
		unlock(t, inner)
		wantNode(t, c, false)
	})
}

func TestNodeLockIsNotAnotherLockOfItsPath(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		h := lock(t, holdfast.NewMutex(c, lockPath))
		_, err := holdfast.NewNodeLock(c, lockPath, holdfast.Reentrant()).Lock(h.Context())
		wantErr(t, err, holdfast.ErrKind)
		unlock(t, h)
	})
}

func TestNodeLockUnderFaults(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		var n atomic.Int64
		for _, op := range []zkproto.Op{zkproto.OpCreate2, zkproto.OpDelete, zkproto.OpGetData, zkproto.OpExists} {
			srv.Intercept(op, func(string) zktest.Action {
				if n.Add(1)%31 == 0 {
					return faults[n.Load()%2]
				}
				return zktest.Pass
			})
		}
		var wg sync.WaitGroup
		var holders atomic.Int32
		count := 0
		for range 3 {
			l := nodeLock(t, srv)
			for range 3 {
				wg.Go(func() {
					for range 5 {
						h := lock(t, l)
						if holders.Add(1) != 1 {
							t.Error("two hold the lock")
						}
						count++
						time.Sleep(time.Millisecond)
						holders.Add(-1)
						unlock(t, h)
					}
				})
			}
		}
		wg.Wait()
		if count != 45 {
			t.Errorf("count is %d; want 45", count)
		}
	})
}
