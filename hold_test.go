package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/layout"
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
		srv.Expire(h.SessionID())
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

func TestErrFollowsTheHold(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		m := holdfast.NewMutex(client(t, srv), lockPath)
		h := lock(t, m)
		if err := h.Err(); err != nil {
			t.Error(err)
		}
		unlock(t, h)
		wantErr(t, h.Err(), holdfast.ErrNotHeld)

		h = lock(t, m)
		srv.Expire(h.SessionID())
		<-h.Lost()
		wantErr(t, h.Err(), holdfast.ErrLost)
		wantErr(t, h.Err(), zk.ErrSessionExpired)
	})
}

func TestFromContextFindsTheLatestHold(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		if h, ok := holdfast.FromContext(t.Context()); ok || h != nil {
			t.Errorf("found %v in a context without a Hold", h)
		}
		outer := lock(t, holdfast.NewMutex(c, lockPath))
		inner, err := holdfast.NewMutex(c, lockPath+"-inner").Lock(outer.Context())
		if err != nil {
			t.Fatal(err)
		}
		err = holdfast.Do(inner.Context(), holdfast.NewMutex(c, lockPath+"-third"), func(ctx context.Context) error {
			if h, ok := holdfast.FromContext(ctx); !ok || h == inner || h == outer || h.Err() != nil {
				t.Errorf("found %v under Do", h)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		unlock(t, inner)
		ctx, cancel := context.WithCancel(inner.Context())
		cancel()
		if h, ok := holdfast.FromContext(ctx); !ok || h != inner || !errors.Is(h.Err(), holdfast.ErrNotHeld) {
			t.Errorf("found %v in a context that has ended", h)
		}
		unlock(t, outer)
	})
}

// wantLedger checks what has been written: "-" means nothing.
func wantLedger(t *testing.T, c *zk.Client, want string) {
	t.Helper()
	got := "-"
	data, _, err := c.Get(t.Context(), ledger)
	switch {
	case err == nil:
		got = string(data)
	case !errors.Is(err, zk.ErrNoNode):
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("written: %q; want %q", got, want)
	}
}

func TestCommitAndUnlockIsOneTransaction(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		h := lock(t, holdfast.NewMutex(c, lockPath))
		next := wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath))
		var sent atomic.Int32
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			sent.Add(1)
			if !errors.Is(context.Cause(h.Context()), holdfast.ErrNotHeld) {
				t.Error("the transaction is sent before the Context ends")
			}
			return zktest.Pass
		})
		srv.Intercept(zkproto.OpDelete, func(string) zktest.Action {
			t.Error("the node is deleted on its own")
			return zktest.Pass
		})
		res, err := h.CommitAndUnlock(t.Context(), zk.CreateOp(ledger, []byte("1"), zk.Persistent), zk.SetOp(ledger, []byte("2"), 0))
		if err != nil || len(res) != 2 || res[0].Path != ledger {
			t.Fatal(res, err)
		}
		if n := sent.Load(); n != 1 {
			t.Errorf("%d transactions", n)
		}
		srv.Intercept(zkproto.OpMulti, nil)
		srv.Intercept(zkproto.OpDelete, nil)
		wantLedger(t, c, "2")
		wantErr(t, h.Unlock(), holdfast.ErrNotHeld)
		_, err = h.CommitAndUnlock(t.Context())
		wantErr(t, err, holdfast.ErrNotHeld)
		unlock(t, next.got(t))
		wantQueued(t, c, 0)
	})
}

// Whatever comes of the transaction, the lock is free afterwards, and nothing is written by halves.
func TestCommitAndUnlockReleasesWhateverComesOfIt(t *testing.T) {
	create := zk.CreateOp(ledger, []byte("done"), zk.Persistent)
	curator := func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewMutex(c, lockPath, opts...)
	}
	cases := map[string]struct {
		of      func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker
		before  func(t *testing.T, srv *zktest.Server, h *holdfast.Hold)
		ops     []zk.Op
		want    error
		written string
	}{
		"the operations are refused": {ops: []zk.Op{create, zk.SetOp(ledger, nil, 7)}, want: zk.ErrBadVersion, written: "-"},
		"an operation is invalid":    {ops: []zk.Op{create, zk.GetOp(ledger)}, want: zk.ErrBadArguments, written: "-"},
		"the node is gone": {
			before: func(t *testing.T, srv *zktest.Server, h *holdfast.Hold) {
				if err := client(t, srv).Delete(t.Context(), h.Path(), zk.AnyVersion); err != nil {
					t.Fatal(err)
				}
			},
			ops: []zk.Op{create}, want: holdfast.ErrLost, written: "-",
		},
		"the session has expired": {
			before: func(t *testing.T, srv *zktest.Server, h *holdfast.Hold) {
				srv.Expire(h.SessionID())
				<-h.Lost()
			},
			ops: []zk.Op{create}, want: holdfast.ErrLost, written: "-",
		},
		"the request is lost": {
			before: func(t *testing.T, srv *zktest.Server, h *holdfast.Hold) {
				dropOnce(srv, zkproto.OpMulti, zktest.DropRequest)
			},
			ops: []zk.Op{create}, want: zk.ErrConnectionLoss, written: "-",
		},
		"the answer is lost": {
			before: func(t *testing.T, srv *zktest.Server, h *holdfast.Hold) {
				dropOnce(srv, zkproto.OpMulti, zktest.DropReply)
			},
			ops: []zk.Op{create}, want: zk.ErrConnectionLoss, written: "done",
		},
		"the server throttles": {
			before: func(t *testing.T, srv *zktest.Server, h *holdfast.Hold) {
				dropOnce(srv, zkproto.OpMulti, zktest.Throttle)
			},
			ops: []zk.Op{create}, written: "done",
		},
		"names come back": {
			of: func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
				return holdfast.NewMutex(c, lockPath, append(opts, holdfast.WithLayout(layout.WriteLock))...)
			},
			ops: []zk.Op{create}, written: "done",
		},
		"a semaphore's permits": {
			of: func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
				return holdfast.NewSemaphore(c, lockPath, 3, opts...).Locker(2)
			},
			ops: []zk.Op{create}, written: "done",
		},
		"several locks": {
			of: func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
				return holdfast.NewMultiLock(holdfast.NewMutex(c, lockPath, opts...), holdfast.NewMutex(c, lockPath+"-other"))
			},
			ops: []zk.Op{create}, written: "done",
		},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				if tt.of == nil {
					tt.of = curator
				}
				h := lock(t, tt.of(client(t, srv)))
				if tt.before != nil {
					tt.before(t, srv, h)
				}
				_, err := h.CommitAndUnlock(t.Context(), tt.ops...)
				if !errors.Is(err, tt.want) {
					t.Errorf("got %v; want %v", err, tt.want)
				}
				if lost := errors.Is(tt.want, zk.ErrConnectionLoss); zk.MayHaveHappened(err) != lost {
					t.Errorf("may have happened: %v; want %v", !lost, lost)
				}
				if h.Context().Err() == nil {
					t.Error("the Context goes on")
				}
				wantErr(t, h.Unlock(), holdfast.ErrNotHeld)
				c := client(t, srv)
				wantLedger(t, c, tt.written)
				free, err := tt.of(c).TryLock(t.Context())
				if err != nil {
					t.Fatal("not free: ", err)
				}
				unlock(t, free)
			})
		})
	}
}

// A Hold that joined keeps the node, and the transaction is fenced all the same.
func TestCommitAndUnlockLeavesTheNodeToTheOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		m := holdfast.NewMutex(c, lockPath, holdfast.Reentrant())
		h := lock(t, m)
		inner, err := m.Lock(h.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := inner.CommitAndUnlock(t.Context(), zk.CreateOp(ledger, []byte("1"), zk.Persistent)); err != nil {
			t.Fatal(err)
		}
		wantQueued(t, c, 1)
		if h.Err() != nil {
			t.Error(h.Err())
		}
		if inner, err = m.Lock(h.Context()); err != nil {
			t.Fatal(err)
		}
		if err := client(t, srv).Delete(t.Context(), h.Path(), zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		_, err = inner.CommitAndUnlock(t.Context(), zk.SetOp(ledger, []byte("2"), zk.AnyVersion))
		wantErr(t, err, holdfast.ErrLost)
		wantLedger(t, c, "1")
		wantErr(t, h.Unlock(), holdfast.ErrLost)
	})
}

// With local handoff, the next waiter has the same node. It begins after the transaction.
func TestCommitAndUnlockBeforeTheLocalHandoff(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		h := lock(t, inMemory(c, 3))
		next := wait(t.Context(), inMemory(c, 3))
		synctest.Wait()
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			if !next.waiting() {
				t.Error("the next holder began before the transaction")
			}
			return zktest.Pass
		})
		if _, err := h.CommitAndUnlock(t.Context(), zk.CreateOp(ledger, nil, zk.Persistent)); err != nil {
			t.Fatal(err)
		}
		g := next.got(t)
		if g.Token() != h.Token() {
			t.Error("the lock was not handed on in memory")
		}
		unlock(t, g)
	})
}

// Release does not wait for the server. Whatever the session sends afterwards finds the lock free.
func TestReleaseGoesAheadOfLaterRequests(t *testing.T) {
	for name, of := range map[string]func(c *zk.Client) holdfast.Locker{
		"Mutex": func(c *zk.Client) holdfast.Locker { return holdfast.NewMutex(c, lockPath) },
		"names": func(c *zk.Client) holdfast.Locker {
			return holdfast.NewMutex(c, lockPath, holdfast.WithLayout(layout.WriteLock))
		},
		"NodeLock":  func(c *zk.Client) holdfast.Locker { return holdfast.NewNodeLock(c, lockPath) },
		"Semaphore": func(c *zk.Client) holdfast.Locker { return holdfast.NewSemaphore(c, lockPath, 2).Locker(2) },
		"MultiLock": func(c *zk.Client) holdfast.Locker { return holdfast.NewMultiLock(mutexes(c, "a", "b", "c")...) },
		"read side": func(c *zk.Client) holdfast.Locker { return holdfast.NewRWMutex(c, lockPath) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := client(t, srv)
				l := of(c)
				for range 20 {
					h, err := l.TryLock(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if err := h.Release(); err != nil {
						t.Fatal(err)
					}
					wantErr(t, context.Cause(h.Context()), holdfast.ErrNotHeld)
					wantErr(t, h.Release(), holdfast.ErrNotHeld)
					wantErr(t, h.Unlock(), holdfast.ErrNotHeld)
				}
			})
		})
	}
}

func TestReleaseDoesNotWaitForTheServer(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		next := wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath))
		resume := srv.Stall()
		began := time.Now()
		if err := h.Release(); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("Release waited for %v", waited)
		}
		time.Sleep(100 * time.Millisecond)
		resume()
		unlock(t, next.got(t))
	})
}

// The removal is completed though the connection breaks in the middle of it.
func TestReleaseOutlastsLostConnections(t *testing.T) {
	for _, fault := range faults {
		for _, layout := range []holdfast.Layout{layout.Curator, layout.WriteLock} {
			t.Run(fmt.Sprint(fault, " ", layout.Name), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					h := lock(t, holdfast.NewMutex(client(t, srv), lockPath, holdfast.WithLayout(layout)))
					next := wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath, holdfast.WithLayout(layout)))
					dropOnce(srv, zkproto.OpMulti, fault)
					if err := h.Release(); err != nil {
						t.Fatal(err)
					}
					unlock(t, next.got(t))
					synctest.Wait()
					wantQueued(t, client(t, srv), 0)
				})
			})
		}
	}
}

func TestReleaseOfALostHold(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		srv.Expire(h.SessionID())
		<-h.Lost()
		wantErr(t, h.Release(), holdfast.ErrLost)
		wantErr(t, h.Release(), holdfast.ErrNotHeld)
	})
}

// Close after Release leaves no node, and no goroutine (inBubble sees that).
func TestCloseAfterReleaseLeavesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		for range 10 {
			if err := lock(t, holdfast.NewMutex(c, lockPath)).Release(); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		wantQueued(t, client(t, srv), 0)
	})
}

// Holders that came through a long queue leave a watermark with the removal, as Unlock does.
func TestReleaseOfALongQueueLeavesAWatermark(t *testing.T) {
	for name, end := range map[string]func(h *holdfast.Hold) error{
		"Release":         (*holdfast.Hold).Release,
		"CommitAndUnlock": func(h *holdfast.Hold) error { _, err := h.CommitAndUnlock(context.Background()); return err },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := client(t, srv)
				first := lock(t, holdfast.NewMutex(c, lockPath))
				var all []*waiter
				for range 40 { // of sessions of their own, which do not share their lists
					all = append(all, wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath)))
					synctest.Wait()
				}
				unlock(t, first)
				synctest.Wait()
				for range all {
					in, _ := apart(all)
					if len(in) != 1 {
						t.Fatalf("%d hold the lock", len(in))
					}
					h := in[0].got(t)
					synctest.Wait() // the directory is read
					if err := end(h); err != nil {
						t.Fatal(err)
					}
					all = slices.DeleteFunc(all, func(w *waiter) bool { return w == in[0] })
					synctest.Wait()
					if data := directoryData(t, c); len(all) < 5 && !strings.Contains(data, fmt.Sprint(h.Token())) {
						t.Errorf("the directory has %q; want the watermark of %d", data, h.Token())
					}
				}
			})
		})
	}
}

// Where CommitAndUnlock takes two transactions, its error still names the call.
func TestCommitAndUnlockInTwoTransactionsNamesItself(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := lock(t, nodeLock(t, srv))
		_, err := h.CommitAndUnlock(t.Context(), zk.SetOp("/missing", nil, zk.AnyVersion))
		wantErr(t, err, zk.ErrNoNode)
		if e, ok := errors.AsType[*holdfast.Error](err); !ok || e.Op != "commit and unlock" || e.Path != lockPath {
			t.Errorf("got %#v", err)
		}
	})
}

// The name of a NodeLock's node comes back: the removal hits the node of the Hold, and no successor's.
func TestNoEndOfAHoldHitsTheNodeOfASuccessor(t *testing.T) {
	for name, end := range map[string]func(h *holdfast.Hold) error{
		"Unlock":          (*holdfast.Hold).Unlock,
		"Release":         (*holdfast.Hold).Release,
		"CommitAndUnlock": func(h *holdfast.Hold) error { _, err := h.CommitAndUnlock(context.Background()); return err },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				other := client(t, srv)
				h := lock(t, holdfast.NewNodeLock(client(t, srv), lockPath))
				if err := other.Delete(t.Context(), h.Path(), zk.AnyVersion); err != nil {
					t.Fatal(err)
				}
				next := lock(t, holdfast.NewNodeLock(other, lockPath))
				if err := end(h); err != nil {
					wantErr(t, err, holdfast.ErrLost)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if next.Err() != nil {
					t.Errorf("the successor has %v", next.Err())
				}
				unlock(t, next)
			})
		})
	}
}
