package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/internal/queue"
	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// The context ends, and at the same moment the session ends or the node goes. The caller
// gets the context's cause, and Lock makes no further attempt.
func TestWhoGivesUpIsToldThatItDid(t *testing.T) {
	enough := errors.New("enough")
	for _, ended := range []error{zk.ErrSessionExpired, queue.ErrGone} {
		ctx, cancel := context.WithCancelCause(t.Context())
		attempts := 0
		_, err := holdfast.Outlive(ctx, func() (*holdfast.Hold, error) {
			if attempts++; attempts == 2 {
				cancel(enough)
			}
			return nil, ended
		})
		if err != enough || attempts != 2 {
			t.Errorf("%v: got %v after %d attempts; want %v after two", ended, err, attempts, enough)
		}
	}
}

// The session has lapsed here, but the server has not noticed. Our node of that session is
// at the head, and no longer ours (CURATOR-604, CURATOR-653, CURATOR-696).
func TestOwnNodeOfADyingSessionIsWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		m := holdfast.NewMutex(c, lockPath)
		h := lock(t, m)
		resume := srv.Stall()
		<-h.Lost()
		resume()
		if _, err := m.TryLock(t.Context()); err == nil {
			t.Fatal("acquired the lock beside the node of its own last session")
		}
		next := lock(t, m)
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

// The server removes an empty container, and the numbers below it start again at 0.
func TestTokensGrowThoughTheNumbersStartAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		m := holdfast.NewMutex(c, lockPath)
		unlock(t, lock(t, m))
		first := lock(t, m)
		unlock(t, first)
		if err := c.Delete(t.Context(), lockPath, zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		second := lock(t, m)
		number := func(h *holdfast.Hold) string { return h.Path()[strings.LastIndexByte(h.Path(), '-'):] }
		if number(second) >= number(first) {
			t.Fatalf("numbers %s, %s did not start again: the test shows nothing", number(first), number(second))
		}
		if second.Token() <= first.Token() {
			t.Errorf("token %d after %d; want it to grow", second.Token(), first.Token())
		}
		unlock(t, second)
	})
}

// The directory is removed between its creation and our node's, again and again (kazoo
// #563, CURATOR-435).
func TestDirectoryThatIsReapedWhileWeLockIsMadeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, reaper := client(t, srv), client(t, srv)
		var reaped atomic.Int32
		srv.Intercept(zkproto.OpCreate2, func(path string) zktest.Action {
			if strings.HasPrefix(path, lockPath+"/") && reaped.Load() < 5 {
				if reaper.Delete(t.Context(), lockPath, zk.AnyVersion) == nil {
					reaped.Add(1)
				}
			}
			return zktest.Pass
		})
		unlock(t, lock(t, holdfast.NewMutex(c, lockPath)))
		if reaped.Load() != 5 {
			t.Errorf("reaped %d times; want 5", reaped.Load())
		}
	})
}

// One deadline bounds the whole wait. kazoo restarts its timeout at every wake-up.
func TestWaitIsBoundedAsAWholeHoweverOftenItWakes(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		var cancels []context.CancelFunc
		for range 3 { // those ahead give up one after the other, the nearest last
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			wait(ctx, holdfast.NewMutex(client(t, srv), lockPath))
			cancels = append(cancels, cancel)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		begin := time.Now()
		w := wait(ctx, holdfast.NewMutex(client(t, srv), lockPath))
		for _, leave := range []int{2, 1, 0} {
			time.Sleep(3 * time.Second)
			cancels[leave]()
		}
		<-w.done
		wantErr(t, w.err, context.DeadlineExceeded)
		if took := time.Since(begin); took != 10*time.Second {
			t.Errorf("gave up after %v; want 10s", took)
		}
		unlock(t, h)
	})
}

// CURATOR-376: two releases raced, and one cleared state that was not its own.
func TestUnlockByManyAtOnceSucceedsOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		m := holdfast.NewMutex(client(t, srv), lockPath)
		h := lock(t, m)
		var wg sync.WaitGroup
		var ok atomic.Int32
		for range 10 {
			wg.Go(func() {
				err := h.Unlock()
				if err == nil {
					ok.Add(1)
				} else {
					wantErr(t, err, holdfast.ErrNotHeld)
				}
			})
		}
		wg.Wait()
		if ok.Load() != 1 {
			t.Errorf("%d of 10 unlocked; want 1", ok.Load())
		}
		again := lock(t, m)
		wantErr(t, h.Unlock(), holdfast.ErrNotHeld)
		if again.Context().Err() != nil {
			t.Error("the Unlock of an old Hold ended a new one")
		}
		unlock(t, again)
	})
}

// The lock outlives the context it was acquired with, for longer than a session lasts
// (vitess #11794).
func TestCancelAfterSuccessKeepsTheLock(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		h, err := holdfast.NewMutex(client(t, srv), lockPath).Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(5 * time.Minute)
		if h.Context().Err() != nil || !time.Now().Before(h.Deadline()) {
			t.Errorf("lost: %v", context.Cause(h.Context()))
		}
		_, err = holdfast.NewMutex(client(t, srv), lockPath).TryLock(t.Context())
		wantErr(t, err, holdfast.ErrLocked)
		unlock(t, h)
	})
}

// A client is closed in the middle of everything. Its locks are free at once, and its waits
// end with the reason (CURATOR-18).
func TestCloseEndsHoldsAndWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, observer := client(t, srv), client(t, srv)
		h := lock(t, holdfast.NewMutex(c, lockPath))
		w := wait(t.Context(), holdfast.NewMutex(c, lockPath))
		s := wait(t.Context(), holdfast.NewMultiLock(holdfast.NewSemaphore(c, "/sem", 1).Locker(1), holdfast.NewMutex(c, lockPath)))
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		for _, w := range []*waiter{w, s} {
			<-w.done
			wantErr(t, w.err, zk.ErrClosed)
		}
		<-h.Lost()
		wantErr(t, h.Unlock(), holdfast.ErrLost)
		wantQueued(t, observer, 0)
	})
}

// A holder sleeps past the end of its session, and its successor writes. Then the holder
// wakes up in the middle of its work. Without a check, an update is lost; the token and
// Commit both detect it.
func TestHolderThatWakesUpTooLateIsFenced(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		store := map[string]struct {
			value string
			token int64
		}{}
		write := func(key, value string, token int64, fenced bool) {
			if !fenced || token >= store[key].token {
				e := store[key]
				e.value, e.token = value, max(token, e.token)
				store[key] = e
			}
		}
		sleeper := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		if _, err := sleeper.Commit(t.Context(), zk.CreateOp(ledger, nil, zk.Persistent)); err != nil {
			t.Fatal(err)
		}
		srv.Expire(sleeper.SessionID())
		next := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		write("unfenced", "new", next.Token(), false)
		write("fenced", "new", next.Token(), true)
		if _, err := next.Commit(t.Context(), zk.SetOp(ledger, []byte("new"), zk.AnyVersion)); err != nil {
			t.Fatal(err)
		}
		// The sleeper wakes up, and has not looked at its context yet.
		write("unfenced", "old", sleeper.Token(), false)
		write("fenced", "old", sleeper.Token(), true)
		_, err := sleeper.Commit(t.Context(), zk.SetOp(ledger, []byte("old"), zk.AnyVersion))
		if err == nil {
			t.Error("Commit succeeded after its tenure")
		}
		if store["unfenced"].value != "old" {
			t.Error("without a fence the update should be lost: the test shows nothing")
		}
		if store["fenced"].value != "new" {
			t.Error("the token did not stop the stale write")
		}
		if data, _, err := client(t, srv).Get(t.Context(), ledger); err != nil || string(data) != "new" {
			t.Errorf("%q, %v", data, err)
		}
		unlock(t, next)
		synctest.Wait() // the sleeper is told that its session is over
		wantErr(t, sleeper.Unlock(), holdfast.ErrLost)
	})
}

// Our node is removed before the list of those ahead is read, and the list is empty. That is
// not "nobody ahead" (etcd #11456).
func TestNodeThatIsRemovedBeforeTheListIsNoHold(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, admin := client(t, srv), client(t, srv)
		m := holdfast.NewMutex(c, lockPath)
		unlock(t, lock(t, m)) // creates the parents
		synctest.Wait()
		var removed atomic.Bool
		srv.Intercept(zkproto.OpGetChildren2, func(path string) zktest.Action {
			if path == lockPath && removed.CompareAndSwap(false, true) {
				for _, name := range queued(t, admin) {
					if strings.Contains(name, "lock-") {
						if err := admin.Delete(t.Context(), lockPath+"/"+name, zk.AnyVersion); err != nil {
							t.Error(err)
						}
					}
				}
			}
			return zktest.Pass
		})
		h := lock(t, m)
		synctest.Wait()
		if !removed.Load() {
			t.Error("no node was removed: the test shows nothing")
		}
		if h.Context().Err() != nil {
			t.Errorf("a Hold without a node: %v", h.Context().Err())
		}
		wantQueued(t, admin, 1)
		unlock(t, h)
	})
}

// Somebody removes the node of a TryLock before it has read who is ahead. TryLock tries again, and does
// not fail with an error that no caller can know.
func TestTryLockOutlastsTheRemovalOfItsNode(t *testing.T) {
	for _, tt := range []struct {
		name, dir string
		of        func(*zk.Client) holdfast.Locker
	}{
		{"mutex", lockPath, mutexAt},
		{"writer", lockPath, writeAt},
		{"reader", lockPath, readAt},
		{"semaphore", lockPath + "/locks", func(c *zk.Client) holdfast.Locker { return holdfast.NewSemaphore(c, lockPath, 2).Locker(1) }},
		{"slots", lockPath + "/slot-queue", func(c *zk.Client) holdfast.Locker { return holdfast.NewSlots(c, lockPath, 2).Locker() }},
		{"multi", lockPath, func(c *zk.Client) holdfast.Locker { return holdfast.NewMultiLock(mutexAt(c)) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c, admin := client(t, srv), client(t, srv)
				l := tt.of(c)
				unlock(t, lock(t, l)) // creates the parents
				synctest.Wait()
				var removed atomic.Bool
				srv.Intercept(zkproto.OpGetChildren2, func(path string) zktest.Action {
					if path != tt.dir || !removed.CompareAndSwap(false, true) {
						return zktest.Pass
					}
					listed, _, err := admin.Children(t.Context(), path)
					for _, name := range listed {
						err = errors.Join(err, admin.Delete(t.Context(), path+"/"+name, zk.AnyVersion))
					}
					if err != nil {
						t.Error(err)
					}
					return zktest.Pass
				})
				h, err := l.TryLock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if !removed.Load() {
					t.Error("no node was removed: the test shows nothing")
				}
				unlock(t, h)
			})
		})
	}
}

// While a MultiLock tries its second lock, the first is lost. It tries both again.
func TestTryLockOfSeveralOutlastsTheLossOfOne(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, d, admin := client(t, srv), client(t, srv), client(t, srv)
		m := holdfast.NewMultiLock(mutexes(c, "a")[0], mutexes(d, "b")[0])
		unlock(t, lock(t, m)) // creates the parents
		synctest.Wait()
		var removed atomic.Bool
		srv.Intercept(zkproto.OpCreate2, func(path string) zktest.Action {
			if !strings.HasPrefix(path, lockPath+"/b/") || !removed.CompareAndSwap(false, true) {
				return zktest.Pass
			}
			listed, _, err := admin.Children(t.Context(), lockPath+"/a")
			if err != nil || len(listed) != 1 {
				t.Error(listed, err)
			}
			for _, name := range listed {
				if err := admin.Delete(t.Context(), lockPath+"/a/"+name, zk.AnyVersion); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(time.Second) // until the holder knows
			return zktest.Pass
		})
		h, err := m.TryLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !removed.Load() {
			t.Error("no node was removed: the test shows nothing")
		}
		unlock(t, h)
	})
}

// The context of a TryLock ends while its node is removed again and again: the caller gets the cause.
func TestTryLockGivesUpWithItsContext(t *testing.T) {
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	attempts := 0
	_, err := holdfast.DespiteRemoval(ctx, func() (*holdfast.Hold, error) {
		if attempts++; attempts == 3 {
			cancel(enough)
		}
		return nil, queue.ErrGone
	})
	if err != enough || attempts != 3 {
		t.Errorf("got %v after %d attempts; want %v after three", err, attempts, enough)
	}
}

// In a layout whose names do not tell one client from another, the search for a node of ours reads all of
// the queue. It reads many nodes in one round trip.
func TestSearchForANodeTakesFewRoundTrips(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		line, admin := newLine(t, srv), client(t, srv)
		m := holdfast.NewMutex(line.Client, lockPath, holdfast.WithLayout(layout.HostRW))
		h := lock(t, m)
		form := strings.TrimRight(h.Path(), "0123456789")
		unlock(t, h)
		const others = 300
		creates := make([]zk.Op, others)
		for i := range creates {
			creates[i] = zk.CreateOp(form, nil, zk.EphemeralSequential)
		}
		if _, err := admin.Pipeline(t.Context(), creates...); err != nil {
			t.Fatal(err)
		}
		dropOnce(srv, zkproto.OpCreate2, zktest.DropReply)
		before := line.flushes.Load()
		_, err := m.TryLock(t.Context())
		wantErr(t, err, holdfast.ErrLocked)
		if n := line.flushes.Load() - before; n > 20 {
			t.Errorf("a lost answer took %d round trips with %d others in the queue; want 20 at most", n, others)
		}
		wantQueued(t, admin, others)
	})
}

// The create in the next session is lost. The search for its node finds the node of the
// former session, which the server has not ended yet. That node belongs to another attempt
// and is about to go (CURATOR-604, CURATOR-498).
func TestNodeOfADyingSessionIsNotFoundInsteadOfOurs(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		m := holdfast.NewMutex(client(t, srv), lockPath)
		h := lock(t, m)
		resume := srv.Stall()
		<-h.Lost()
		resume()
		var lost atomic.Bool
		srv.Intercept(zkproto.OpCreate2, func(string) zktest.Action {
			if lost.CompareAndSwap(false, true) {
				return zktest.DropRequest
			}
			return zktest.Pass
		})
		_, err := m.TryLock(t.Context())
		wantErr(t, err, holdfast.ErrLocked)
		next := lock(t, m)
		if !lost.Load() {
			t.Error("no create was lost: the test shows nothing")
		}
		if next.SessionID() == h.SessionID() || next.Token() <= h.Token() {
			t.Errorf("session %x, token %d after session %x, token %d; want another session and a greater token", next.SessionID(), next.Token(), h.SessionID(), h.Token())
		}
		time.Sleep(time.Minute)
		if next.Context().Err() != nil {
			t.Error("the node of the Hold is gone")
		}
		unlock(t, next)
	})
}

// helix #1118, pravega #3985: a mere reader may read from a server that lags, so List makes
// it catch up first, by a write. A locker need not: its own create ensures this.
func TestListLetsTheServerCatchUpBeforeItReads(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		unlock(t, lock(t, holdfast.NewMutex(c, lockPath)))
		var mu sync.Mutex
		var order []zkproto.Op
		for _, op := range []zkproto.Op{zkproto.OpMulti, zkproto.OpGetChildren2, zkproto.OpGetData, zkproto.OpExists} {
			srv.Intercept(op, func(string) zktest.Action {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, op)
				return zktest.Pass
			})
		}
		if _, _, err := c.Create(t.Context(), lockPath+"/x-lock-", nil, zk.EphemeralSequential); err != nil {
			t.Fatal(err)
		}
		if _, err := holdfast.List(t.Context(), c, lockPath); err != nil {
			t.Fatal(err)
		}
		if want := []zkproto.Op{zkproto.OpMulti, zkproto.OpGetChildren2, zkproto.OpGetData}; !slices.Equal(order, want) {
			t.Errorf("List sent %v; want %v", order, want)
		}
	})
}

// Apache's leader answers a sync at once, whatever it still has to apply. So the search for
// a node whose creation was not answered follows a write. Otherwise the node would be made
// twice, and the first would stay in the queue for the rest of the session.
func TestLostCreateIsLookedForBehindAWrite(t *testing.T) {
	for _, fault := range []zktest.Action{zktest.DropRequest, zktest.DropReply} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			c := client(t, srv)
			unlock(t, lock(t, holdfast.NewMutex(c, lockPath)))
			var mu sync.Mutex
			var order []zkproto.Op
			for _, op := range []zkproto.Op{zkproto.OpSync, zkproto.OpMulti, zkproto.OpGetChildren2} {
				srv.Intercept(op, func(string) zktest.Action {
					mu.Lock()
					defer mu.Unlock()
					if len(order) > 0 || op != zkproto.OpGetChildren2 { // skips the list of the join that is lost
						order = append(order, op)
					}
					return zktest.Pass
				})
			}
			srv.Intercept(zkproto.OpCreate2, func(string) zktest.Action {
				srv.Intercept(zkproto.OpCreate2, nil)
				return fault
			})
			h := lock(t, holdfast.NewMutex(c, lockPath))
			mu.Lock()
			if len(order) < 2 || order[0] != zkproto.OpMulti || order[1] != zkproto.OpGetChildren2 {
				t.Errorf("after a lost create: %v; want a transaction, then the list", order)
			}
			mu.Unlock()
			wantQueued(t, c, 1)
			unlock(t, h)
		})
	}
}

// A spentContext has ended without waking those that wait for its Done. So a waiter sees it
// that another event wakes at the same moment.
type spentContext struct {
	context.Context
	spent atomic.Bool
}

func (c *spentContext) Done() <-chan struct{} { return nil }

func (c *spentContext) Err() error {
	if c.spent.Load() {
		return context.Canceled
	}
	return nil
}

// The context ends and the lock becomes free at once. If the waiter acquired it then, nobody
// would release it (etcd #10111).
func TestWhoHasGivenUpGetsNoLock(t *testing.T) {
	kinds := map[string]func(*testing.T, *zktest.Server) holdfast.Locker{
		"mutex": func(t *testing.T, srv *zktest.Server) holdfast.Locker {
			return holdfast.NewMutex(client(t, srv), lockPath)
		},
		"node lock": func(t *testing.T, srv *zktest.Server) holdfast.Locker {
			return holdfast.NewNodeLock(client(t, srv), lockPath)
		},
		"semaphore": func(t *testing.T, srv *zktest.Server) holdfast.Locker {
			return holdfast.NewSemaphore(client(t, srv), lockPath, 1).Locker(1)
		},
		"mutex that is handed on in memory": func(t *testing.T, srv *zktest.Server) holdfast.Locker {
			return inMemory(client(t, srv), 3)
		},
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				h := lock(t, kind(t, srv))
				ctx := &spentContext{Context: t.Context()}
				w := wait(ctx, kind(t, srv))
				if !w.waiting() {
					t.Fatal(w.err)
				}
				ctx.spent.Store(true)
				unlock(t, h)
				<-w.done
				wantErr(t, w.err, context.Canceled)
				if w.hold != nil {
					t.Error("Lock returned a Hold though its context had ended")
				}
				unlock(t, lock(t, kind(t, srv))) // no node is left in the way
			})
		})
	}
}

// lostHold returns the cause of a Hold's Context after the Hold's node was removed.
func lostHold(t *testing.T, srv *zktest.Server) error {
	c := client(t, srv)
	h := lock(t, holdfast.NewMutex(c, "/holdfast/locks/another"))
	if err := c.Delete(t.Context(), h.Path(), zk.AnyVersion); err != nil {
		t.Fatal(err)
	}
	<-h.Context().Done()
	return context.Cause(h.Context())
}

// The cause that ended a wait's context is no answer to the wait's own requests. The loss of
// another lock was taken for an empty queue, so a node whose create had no answer stayed: a
// MultiLock lost one lock while it queued for the next. And a connection that another
// request lost, as errgroup.WithContext passes it on, was retried for ever.
func TestCauseOfTheContextIsNotTakenForAnAnswer(t *testing.T) {
	causes := map[string]func(*testing.T, *zktest.Server) error{
		"another lock was lost":     lostHold,
		"another connection":        func(*testing.T, *zktest.Server) error { return fmt.Errorf("another: %w", zk.ErrConnectionLoss) },
		"another node":              func(*testing.T, *zktest.Server) error { return fmt.Errorf("another: %w", zk.ErrNoNode) },
		"another session's end":     func(*testing.T, *zktest.Server) error { return fmt.Errorf("another: %w", zk.ErrSessionExpired) },
		"a node that exists":        func(*testing.T, *zktest.Server) error { return fmt.Errorf("another: %w", zk.ErrNodeExists) },
		"a version that is no more": func(*testing.T, *zktest.Server) error { return fmt.Errorf("another: %w", zk.ErrBadVersion) },
	}
	kinds := map[string]func(*zk.Client) holdfast.Locker{
		"mutex":     func(c *zk.Client) holdfast.Locker { return holdfast.NewMutex(c, lockPath) },
		"semaphore": func(c *zk.Client) holdfast.Locker { return holdfast.NewSemaphore(c, lockPath, 2).Locker(1) },
		"node lock": func(c *zk.Client) holdfast.Locker { return holdfast.NewNodeLock(c, lockPath) },
	}
	// Requests of a wait that finds out whether its node was made.
	ops := []zkproto.Op{zkproto.OpMulti, zkproto.OpGetChildren2, zkproto.OpGetData, zkproto.OpCreateContainer}
	for kindName, kind := range kinds {
		for causeName, cause := range causes {
			for _, op := range ops {
				t.Run(fmt.Sprintf("%s/%s/%v", kindName, causeName, op), func(t *testing.T) {
					inBubble(t, func(t *testing.T, srv *zktest.Server) {
						c := client(t, srv)
						why := cause(t, srv)
						if op != zkproto.OpCreateContainer {
							h, err := kind(c).Lock(t.Context()) // creates the parents
							if err != nil {
								t.Fatal(err)
							}
							unlock(t, h)
						}
						ctx, cancel := context.WithCancelCause(t.Context())
						defer cancel(nil)
						var settled atomic.Bool // earlier requests ask something else
						settled.Store(op == zkproto.OpMulti || op == zkproto.OpCreateContainer)
						srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
							settled.Store(true)
							return zktest.Pass
						})
						srv.Intercept(op, func(string) zktest.Action {
							if !settled.Load() {
								return zktest.Pass
							}
							cancel(why)
							synctest.Wait() // the cause has arrived
							return zktest.DropReply
						})
						srv.Intercept(zkproto.OpCreate2, func(string) zktest.Action {
							srv.Intercept(zkproto.OpCreate2, nil)
							return zktest.DropReply
						})
						h, err := kind(c).Lock(ctx)
						srv.Intercept(op, nil)
						if ctx.Err() == nil { // this kind does not send that request
							if err != nil {
								t.Fatal(err)
							}
							unlock(t, h)
						} else {
							wantErr(t, err, why)
						}
						time.Sleep(3 * time.Second) // for the reconnect
						synctest.Wait()
						if nodes, err := c.Ephemerals(t.Context(), "/"); err != nil || len(nodes) > 0 {
							t.Errorf("nodes left behind: %v, %v", nodes, err)
						}
					})
				})
			}
		}
	}
}

// Nor is such a cause a reason to report the lock of a Commit as lost.
func TestCommitWhoseContextEndedWithAnotherSessionIsNotLost(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		ctx, cancel := context.WithCancelCause(t.Context())
		why := fmt.Errorf("another: %w", zk.ErrSessionExpired)
		cancel(why)
		_, err := h.Commit(ctx, zk.SetOp("/a", nil, zk.AnyVersion))
		wantErr(t, err, why)
		if errors.Is(err, holdfast.ErrLost) {
			t.Errorf("lost: %v", err)
		}
		if h.Context().Err() != nil {
			t.Error("the hold has ended")
		}
		unlock(t, h)
	})
}
