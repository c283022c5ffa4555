package holdfast_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

const ledger = "/ledger"

func TestCommitWritesWhileHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		h := lock(t, holdfast.NewMutex(c, lockPath))
		res, err := h.Commit(t.Context(), zk.CreateOp(ledger, []byte("1"), zk.Persistent), zk.SetOp(ledger, []byte("2"), 0))
		if err != nil || len(res) != 2 || res[0].Path != ledger {
			t.Fatal(res, err)
		}
		// A transaction that fails for another reason does not end the hold.
		_, err = h.Commit(t.Context(), zk.SetOp(ledger, []byte("3"), 7))
		wantErr(t, err, zk.ErrBadVersion)
		if errors.Is(err, holdfast.ErrLost) || h.Context().Err() != nil {
			t.Errorf("lost: %v", err)
		}
		unlock(t, h)
		_, err = h.Commit(t.Context(), zk.SetOp(ledger, []byte("4"), zk.AnyVersion))
		wantErr(t, err, holdfast.ErrNotHeld)
		if data, _, err := c.Get(t.Context(), ledger); err != nil || string(data) != "2" {
			t.Errorf("%q, %v", data, err)
		}
	})
}

// The holder does not know yet that it lost the lock, and its successor has written. The
// transaction fails (CURATOR-607).
func TestCommitAfterTheLossDoesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := client(t, srv), client(t, srv)
		h := lock(t, holdfast.NewMutex(c, lockPath))
		if _, err := h.Commit(t.Context(), zk.CreateOp(ledger, nil, zk.Persistent)); err != nil {
			t.Fatal(err)
		}
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			srv.Intercept(zkproto.OpMulti, nil)
			if err := other.Delete(t.Context(), h.Path(), zk.AnyVersion); err != nil {
				t.Error(err)
			}
			next := lock(t, holdfast.NewMutex(other, lockPath))
			if _, err := next.Commit(t.Context(), zk.SetOp(ledger, []byte("successor"), zk.AnyVersion)); err != nil {
				t.Error(err)
			}
			return zktest.Pass
		})
		_, err := h.Commit(t.Context(), zk.SetOp(ledger, []byte("late"), zk.AnyVersion))
		wantErr(t, err, holdfast.ErrLost)
		<-h.Lost()
		if data, _, err := c.Get(t.Context(), ledger); err != nil || string(data) != "successor" {
			t.Errorf("%q, %v", data, err)
		}
		wantErr(t, h.Unlock(), holdfast.ErrLost)
	})
}

func TestCommitAfterExpiryIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		srv.Expire(h.Session())
		_, err := h.Commit(t.Context(), zk.CreateOp(ledger, nil, zk.Persistent))
		if zk.MayHaveHappened(err) { // in flight when the server broke the connection
			_, err = h.Commit(t.Context(), zk.CreateOp(ledger, nil, zk.Persistent))
		}
		wantErr(t, err, holdfast.ErrLost)
		if _, ok, err := client(t, srv).Exists(t.Context(), ledger); ok || err != nil {
			t.Errorf("written after the loss (%v)", err)
		}
	})
}

func TestCommitSaysThatItMayHaveHappened(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action { return zktest.DropReply })
		_, err := h.Commit(t.Context(), zk.CreateOp(ledger, nil, zk.Persistent))
		if !zk.MayHaveHappened(err) || errors.Is(err, holdfast.ErrLost) {
			t.Errorf("got %v", err)
		}
		srv.Intercept(zkproto.OpMulti, nil)
		unlock(t, h)
	})
}

// Curator's Revoker sets the data; so does ours.
func TestHolderIsAskedForItsLock(t *testing.T) {
	for name, ask := range map[string]func(c *zk.Client, h *holdfast.Hold) error{
		"Revoke": func(c *zk.Client, h *holdfast.Hold) error {
			return holdfast.Revoke(context.Background(), c, lockPath, h.Token())
		},
		"Curator's Revoker": func(c *zk.Client, h *holdfast.Hold) error {
			_, err := c.Set(context.Background(), h.Path(), []byte("__REVOKE__"), zk.AnyVersion)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := client(t, srv)
				m := holdfast.NewMutex(client(t, srv), lockPath, holdfast.Reentrant(), holdfast.WithReason("reindex"))
				h := lock(t, m)
				inner, err := m.Lock(h.Context())
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				// Other changes of the data are no release request.
				if _, err := c.Set(t.Context(), h.Path(), []byte("hello"), zk.AnyVersion); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				select {
				case <-h.Revoked():
					t.Fatal("a change of the data without a release request revoked the hold")
				default:
				}
				if err := ask(c, h); err != nil {
					t.Fatal(err)
				}
				<-h.Revoked()
				<-inner.Revoked()
				if h.Context().Err() != nil {
					t.Error("a release request ended the hold")
				}
				late, err := m.Lock(h.Context()) // joins after the request
				if err != nil {
					t.Fatal(err)
				}
				<-late.Revoked()
				for _, h := range []*holdfast.Hold{late, inner, h} {
					unlock(t, h)
				}
			})
		})
	}
}

// A waiter that is asked to release hears of it once it holds the lock.
func TestRequestToAWaiterIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		first := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		w := wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath))
		entries, err := holdfast.List(t.Context(), c, lockPath)
		if err != nil || len(entries) != 2 {
			t.Fatal(entries, err)
		}
		if err := holdfast.Revoke(t.Context(), c, lockPath, entries[1].Token); err != nil {
			t.Fatal(err)
		}
		unlock(t, first)
		h := w.got(t)
		<-h.Revoked()
		unlock(t, h)
	})
}

func TestBreakRemovesTheTenureOfOneToken(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		h := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		next := wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath))
		if err := holdfast.Break(t.Context(), c, lockPath, h.Token()); err != nil {
			t.Fatal(err)
		}
		<-h.Lost()
		wantErr(t, h.Unlock(), holdfast.ErrLost)
		n := next.got(t)
		// Compare and delete: the token of a former holder matches no other node.
		wantErr(t, holdfast.Break(t.Context(), c, lockPath, h.Token()), holdfast.ErrNotHeld)
		wantErr(t, holdfast.Revoke(t.Context(), c, lockPath, h.Token()), holdfast.ErrNotHeld)
		wantErr(t, holdfast.Break(t.Context(), c, lockPath+"/none", h.Token()), holdfast.ErrNotHeld)
		if n.Context().Err() != nil {
			t.Error("Break with an old token hit the successor")
		}
		unlock(t, n)
	})
}

func TestBreakTakesBothSidesOfADowngrade(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, m := client(t, srv), rw(t, srv)
		w := lock(t, m)
		r, err := m.RLock(w.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := holdfast.Break(t.Context(), c, lockPath, w.Token()); err != nil {
			t.Fatal(err)
		}
		<-w.Lost()
		<-r.Lost()
		wantQueued(t, c, 0)
	})
}

// The answer to the delete is lost. The delete happened, and Break reports no loss.
func TestBreakSurvivesALostConnection(t *testing.T) {
	for _, fault := range faults {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			c := client(t, srv)
			h := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
			var hit atomic.Bool
			srv.Intercept(zkproto.OpDelete, func(string) zktest.Action {
				if hit.CompareAndSwap(false, true) {
					return fault
				}
				return zktest.Pass
			})
			if err := holdfast.Break(t.Context(), c, lockPath, h.Token()); err != nil {
				t.Error(fault, err)
			}
			<-h.Lost()
			if !hit.Load() {
				t.Error("the fault never struck")
			}
		})
	}
}

// Unlock retries over a broken connection until the node is gone (CURATOR-678, kazoo #732).
func TestUnlockOutlastsALostConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		h := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		var drops atomic.Int32
		srv.Intercept(zkproto.OpDelete, func(string) zktest.Action {
			if drops.Add(1) < 8 {
				return faults[(drops.Load()+1)%2] // the first never arrives
			}
			return zktest.Pass
		})
		unlock(t, h)
		wantQueued(t, c, 0)
	})
}

// While no server is reachable, Unlock waits for the end of the session, which removes the
// node. It takes no longer than that.
func TestUnlockWithoutAServerEndsWithTheSession(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		deadline := h.Deadline()
		resume := srv.Stall()
		unlock(t, h)
		if late := time.Since(deadline); late > time.Second {
			t.Errorf("Unlock returned %v after the deadline", late)
		}
		wantErr(t, context.Cause(h.Context()), holdfast.ErrNotHeld)
		resume()
	})
}

// The next holder may begin as soon as the node is gone. So the Hold's context ends first.
func TestContextEndsBeforeTheNodeGoes(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		m := holdfast.NewMutex(c, lockPath)
		h := lock(t, holdfast.NewMultiLock(m, holdfast.NewNodeLock(c, lockPath+"-node")))
		var deletes, early atomic.Int32
		srv.Intercept(zkproto.OpDelete, func(string) zktest.Action {
			deletes.Add(1)
			if h.Context().Err() == nil {
				early.Add(1)
			}
			return zktest.Pass
		})
		unlock(t, h)
		if deletes.Load() != 2 || early.Load() != 0 {
			t.Errorf("%d of %d nodes were removed while the context lasted", early.Load(), deletes.Load())
		}
	})
}
