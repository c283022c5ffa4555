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
	"holdfast/once"
	"holdfast/reserve"
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

// directoryData returns the data of the lock's directory.
func directoryData(t *testing.T, c *zk.Client) string {
	t.Helper()
	data, _, err := c.Get(t.Context(), lockPath)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
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

// chrooted returns a client of srv with another root.
func chrooted(t *testing.T, srv *zktest.Server) *zk.Client {
	t.Helper()
	cfg := srv.Config()
	cfg.Chroot, cfg.CreateChroot = "/app", true
	c, err := zk.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// countWrites counts the requests of all clients that may change something, apart from proofs of sessions.
func countWrites(srv *zktest.Server) *atomic.Int64 {
	var n atomic.Int64
	for _, op := range []zkproto.Op{zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpMulti, zkproto.OpDelete, zkproto.OpSetData} {
		srv.Intercept(op, func(string) zktest.Action {
			n.Add(1)
			return zktest.Pass
		})
	}
	return &n
}

// A function that is given a Hold of the wrong sort refuses it, says what to give, and sends nothing that changes a
// node. Otherwise two callers would run one job, or somebody else's node would be overwritten.
func TestFunctionsRefuseTheWrongHold(t *testing.T) {
	holds := map[string]func(t *testing.T, srv *zktest.Server, c *zk.Client) *holdfast.Hold{
		"mutex": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, holdfast.NewMutex(c, lockPath, holdfast.WithOwner("ada")))
		},
		"mutex with a value": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, holdfast.NewMutex(c, lockPath, holdfast.WithValue([]byte("mine"))))
		},
		"writer": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, holdfast.NewRWMutex(c, lockPath))
		},
		"reader": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, holdfast.NewRWMutex(c, lockPath).RLocker())
		},
		"reader under a writer": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			m := holdfast.NewRWMutex(c, lockPath)
			h, err := m.RLock(lock(t, m).Context())
			if err != nil {
				t.Fatal(err)
			}
			return h
		},
		"permit": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, holdfast.NewSemaphore(c, lockPath, 2).Locker(1))
		},
		"the only permit": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, holdfast.NewSemaphore(c, lockPath, 1).Locker(1))
		},
		"slot": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, holdfast.NewSlots(c, lockPath, 2).Locker(1))
		},
		"node lock": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, holdfast.NewNodeLock(c, lockPath))
		},
		"several": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, holdfast.NewMultiLock(holdfast.NewMutex(c, lockPath), holdfast.NewMutex(c, lockPath+"2")))
		},
		"tree": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, holdfast.NewTree(c, lockPath).Path("a"))
		},
		"kept": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold { return lock(t, keeper(c)) },
		"handed on": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, inMemory(c, 3))
		},
		"joined": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			m := holdfast.NewMutex(c, lockPath, holdfast.Reentrant())
			h, err := m.Lock(lock(t, m).Context())
			if err != nil {
				t.Fatal(err)
			}
			return h
		},
		"other client": func(t *testing.T, srv *zktest.Server, _ *zk.Client) *holdfast.Hold {
			return lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		},
		"other root": func(t *testing.T, srv *zktest.Server, _ *zk.Client) *holdfast.Hold {
			return lock(t, holdfast.NewMutex(chrooted(t, srv), lockPath))
		},
		"term": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, candidate{holdfast.NewElection(c, lockPath), "a"})
		},
		"term of another client": func(t *testing.T, srv *zktest.Server, _ *zk.Client) *holdfast.Hold {
			return lock(t, candidate{holdfast.NewElection(client(t, srv), lockPath), "a"})
		},
		"term of another election": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, candidate{holdfast.NewElection(c, lockPath+"2"), "a"})
		},
		"term in another layout": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, candidate{holdfast.NewElection(c, lockPath, holdfast.WithLayout(layout.LeaderLatch)), "a"})
		},
		"none": func(*testing.T, *zktest.Server, *zk.Client) *holdfast.Hold { return nil },
		"zero": func(*testing.T, *zktest.Server, *zk.Client) *holdfast.Hold { return new(holdfast.Hold) },
		"unlocked": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			h := lock(t, candidate{holdfast.NewElection(c, lockPath), "a"})
			unlock(t, h)
			return h
		},
		"lost": func(t *testing.T, srv *zktest.Server, c *zk.Client) *holdfast.Hold {
			h := lock(t, candidate{holdfast.NewElection(c, lockPath), "a"})
			srv.Expire(h.SessionID())
			<-h.Lost()
			return h
		},
	}
	functions := map[string]struct {
		call  func(ctx context.Context, c *zk.Client, h *holdfast.Hold) error
		takes string // the names of the holds that it takes
		no    string // and of those that it cannot be called with
	}{
		"Turn": {func(ctx context.Context, c *zk.Client, h *holdfast.Hold) error {
			_, _, err := once.New(c, lockPath+"/.holdfast").Key("k").Turn(ctx, h)
			return err
		}, "mutex, mutex with a value, writer, node lock, term, term of another election, term in another layout", ""},
		"TurnWithin": {func(ctx context.Context, c *zk.Client, h *holdfast.Hold) error {
			_, _, err := once.New(c, lockPath+"/.holdfast").Every(time.Hour).Turn(ctx, h)
			return err
		}, "mutex, mutex with a value, writer, node lock, term, term of another election, term in another layout", ""},
		"Proclaim": {func(ctx context.Context, c *zk.Client, h *holdfast.Hold) error {
			return holdfast.NewElection(c, lockPath).Proclaim(ctx, h, []byte("10.0.0.5:80"))
		}, "term", ""},
		"Reserve": {func(ctx context.Context, _ *zk.Client, h *holdfast.Hold) error {
			return reserve.For(ctx, h, time.Minute)
		},
			"mutex, mutex with a value, writer, several, joined, other client, other root, term, term of another client, term of another election, term in another layout", ""},
		"Unreserve": {func(ctx context.Context, _ *zk.Client, h *holdfast.Hold) error { return reserve.Cancel(ctx, h) },
			"mutex, mutex with a value, writer, several, joined, other client, other root, term, term of another client, term of another election, term in another layout", ""},
	}
	has := func(list, name string) bool { return strings.Contains(", "+list+", ", ", "+name+", ") }
	for function, f := range functions {
		for name, make := range holds {
			if has(f.no, name) {
				continue
			}
			t.Run(function+"/"+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					c := client(t, srv)
					h := make(t, srv, c)
					writes := countWrites(srv)
					err := f.call(t.Context(), c, h)
					var failed *holdfast.Error
					switch {
					case has(f.takes, name):
						if err != nil {
							t.Fatal(err)
						}
						return
					case !errors.As(err, &failed):
						t.Fatalf("%v; want a *holdfast.Error", err)
					case name == "unlocked":
						wantErr(t, err, holdfast.ErrNotHeld)
					case name == "lost":
						wantErr(t, err, holdfast.ErrLost)
					default:
						wantErr(t, err, zk.ErrBadArguments)
						if !strings.Contains(err.Error(), ": give ") && !strings.Contains(err.Error(), ": make ") &&
							!strings.Contains(err.Error(), ": lock ") && !strings.Contains(err.Error(), ": unlock ") {
							t.Errorf("%v does not say what to do", err)
						}
					}
					if n := writes.Load(); n != 0 {
						t.Errorf("%d requests that write", n)
					}
				})
			})
		}
	}
}
