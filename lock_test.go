package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
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
	"holdfast/once"
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
		{"slots", lockPath + "/slot-queue", func(c *zk.Client) holdfast.Locker { return holdfast.NewSlots(c, lockPath, 2).Locker(1) }},
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
	// Requests of a wait that finds out whether its node was made.
	ops := []zkproto.Op{zkproto.OpMulti, zkproto.OpGetChildren2, zkproto.OpGetData, zkproto.OpCreateContainer}
	for _, k := range kinds() {
		for causeName, cause := range causes {
			for _, op := range ops {
				t.Run(fmt.Sprintf("%s/%s/%v", k.name, causeName, op), func(t *testing.T) {
					inBubble(t, func(t *testing.T, srv *zktest.Server) {
						c := client(t, srv)
						why := cause(t, srv)
						if op != zkproto.OpCreateContainer {
							h, err := k.of(c).Lock(t.Context()) // creates the parents
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
						h, err := k.of(c).Lock(ctx)
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

// Told in time: the server stops answering. The holder's context must end before the server
// can give the lock to the next client.
func TestHolderIsToldBeforeTheLockCanPassOn(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		holder := client(t, srv)
		h := lock(t, holdfast.NewMutex(holder, lockPath))
		w := wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath))
		resume := srv.Stall()
		stalled := time.Now()
		deadline := h.Deadline()
		<-h.Context().Done()
		if now := time.Now(); now.Before(deadline) || now.Sub(deadline) > time.Millisecond {
			t.Errorf("the holder was told %v after the deadline; want at it", now.Sub(deadline))
		}
		if told := time.Since(stalled); told >= sessionTimeout {
			t.Errorf("the holder was told %v after the stall; a server may expire the session after %v", told, sessionTimeout)
		}
		wantErr(t, context.Cause(h.Context()), holdfast.ErrLost)
		wantErr(t, context.Cause(h.Context()), zk.ErrSessionExpired)
		if !w.waiting() {
			t.Error("another had the lock before the holder was told")
		}
		resume()
	})
}

// The node ahead goes between the list and the watch, so there is no event (CURATOR-527,
// helix #44).
func TestPredecessorThatVanishesBeforeTheWatch(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		synctest.Wait() // its own watch is set
		gone := make(chan struct{})
		srv.Intercept(zkproto.OpGetData, func(path string) zktest.Action {
			if path == h.Path() {
				unlock(t, h)
				close(gone)
			}
			return zktest.Pass
		})
		w := wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath))
		<-gone
		unlock(t, w.got(t))
	})
}

func TestDirectoryThatIsRemovedIsMadeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		m := holdfast.NewMutex(c, lockPath)
		unlock(t, lock(t, m))
		for _, dir := range []string{lockPath, "/holdfast/locks", "/holdfast"} {
			if err := c.Delete(t.Context(), dir, zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}
		unlock(t, lock(t, m))
	})
}

func TestDo(t *testing.T) {
	boom := errors.New("boom")
	t.Run("returns what f returns and unlocks", func(t *testing.T) {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			c := client(t, srv)
			err := holdfast.Do(t.Context(), holdfast.NewMutex(c, lockPath), func(context.Context) error { return boom })
			wantErr(t, err, boom)
			wantQueued(t, c, 0)
		})
	})
	t.Run("ends with the caller's context", func(t *testing.T) {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			ctx, cancel := context.WithCancelCause(t.Context())
			err := holdfast.Do(ctx, holdfast.NewMutex(client(t, srv), lockPath), func(ctx context.Context) error {
				cancel(boom)
				<-ctx.Done()
				return context.Cause(ctx)
			})
			wantErr(t, err, boom)
			if errors.Is(err, holdfast.ErrLost) {
				t.Errorf("%v: no request was lost: the test shows nothing", err)
			}
		})
	})
	t.Run("tells of the loss", func(t *testing.T) {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			c := client(t, srv)
			err := holdfast.Do(t.Context(), holdfast.NewMutex(c, lockPath), func(ctx context.Context) error {
				s, err := c.Session(ctx)
				if err != nil {
					return err
				}
				srv.Expire(s.ID())
				<-ctx.Done()
				return nil // f is not told
			})
			wantErr(t, err, holdfast.ErrLost)
			err = holdfast.Do(t.Context(), holdfast.NewMutex(c, lockPath), func(ctx context.Context) error {
				s, err := c.Session(ctx)
				if err != nil {
					return err
				}
				srv.Expire(s.ID())
				<-ctx.Done()
				return fmt.Errorf("%w: at file 7: %w", boom, ctx.Err())
			})
			wantErr(t, err, holdfast.ErrLost)
			wantErr(t, err, boom)
			if text := err.Error(); strings.Contains(text, "\n") || !strings.HasPrefix(text, "boom: at file 7: context canceled; holdfast: unlock "+lockPath+": ") {
				t.Errorf("%q is not one line", text)
			}
		})
	})
	t.Run("does not keep the lock when f panics", func(t *testing.T) {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			c := client(t, srv)
			func() {
				defer func() { recover() }()
				holdfast.Do(t.Context(), holdfast.NewMutex(c, lockPath), func(context.Context) error { panic(boom) })
			}()
			wantQueued(t, c, 0)
		})
	})
}

func TestInvalidLockPathsAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		for _, path := range []string{"", "/", "db", "/a/", "/a//b", "/a/../b", "/a\nb"} {
			_, err := holdfast.NewMutex(c, path).Lock(t.Context())
			wantErr(t, err, zk.ErrInvalidPath)
			if path != "" && err != nil && !strings.Contains(err.Error(), "invalid path") {
				t.Errorf("%v", err)
			}
		}
	})
}

func TestListShowsTheQueueInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		if entries, err := holdfast.List(t.Context(), c, lockPath); err != nil || len(entries) != 0 {
			t.Fatalf("a lock that never existed: %v, %v", entries, err)
		}
		h := lock(t, holdfast.NewMutex(c, lockPath, holdfast.WithOwner("api-7"), holdfast.WithReason("reindex")))
		w := wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath))
		// Curator writes the host's address into the node.
		if _, _, err := c.Create(t.Context(), lockPath+"/_c_6266cbe9-453b-4a50-8718-b39f57879b6e-lock-", []byte("10.0.0.5"), zk.EphemeralSequential); err != nil {
			t.Fatal(err)
		}
		entries, err := holdfast.List(t.Context(), c, lockPath)
		if err != nil || len(entries) != 3 {
			t.Fatal(entries, err)
		}
		e := entries[0]
		if !e.Held || e.Path != h.Path() || e.Token != h.Token() || e.Session != h.SessionID() || e.Owner != "api-7" || e.Reason != "reindex" {
			t.Errorf("holder: %+v", e)
		}
		if time.Since(e.Since).Abs() > time.Minute {
			t.Errorf("held since %v; want %v", e.Since, time.Now())
		}
		if entries[1].Held || entries[1].Owner != "" || entries[2].Owner != "10.0.0.5" {
			t.Errorf("waiters: %+v", entries[1:])
		}
		if !slices.IsSortedFunc(entries, func(a, b holdfast.Entry) int { return int(a.Token - b.Token) }) {
			t.Errorf("not in order: %+v", entries)
		}
		unlock(t, h)
		unlock(t, w.got(t))
	})
}

// One release wakes one waiter: the others receive nothing.
func TestReleaseWakesOnlyTheNext(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		var waiters []*waiter
		for range 50 {
			waiters = append(waiters, wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath)))
		}
		var lists atomic.Int64
		srv.Intercept(zkproto.OpGetChildren2, func(string) zktest.Action {
			lists.Add(1)
			return zktest.Pass
		})
		unlock(t, h)
		next := waiters[0].got(t)
		synctest.Wait()
		if n := lists.Load(); n != 1 {
			t.Errorf("one release made %d clients list the queue; want 1", n)
		}
		unlock(t, next)
		for _, w := range waiters[1:] {
			unlock(t, w.got(t))
		}
	})
}

// A goroutine that is blocked in Lock or Do uses little stack, so the collector can shrink it.
// The stack is most of a waiter's cost. How much is little depends on the compiler and the race
// detector. So the test compares waiters with goroutines in a select below a frame of known size.
func TestWaitersStandOnSmallStacks(t *testing.T) {
	tests := []struct {
		name string
		of   func(*zk.Client) holdfast.Locker
	}{
		{"for the second nearest", mutexAt},
		{"for the nearest", readAt},
	}
	const n = 200
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !alone(t) {
				return
			}
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				lock(t, mutexAt(client(t, srv)))
				l, ctx := tt.of(client(t, srv)), t.Context()
				var wg sync.WaitGroup
				defer wg.Wait()
				stop := make(chan struct{})
				defer close(stop)
				before := stacks()
				for range n {
					wg.Go(func() {
						growStack()
						waitUnderAFrame(stop, ctx.Done())
					})
				}
				between := stacks()
				for range n {
					go func() {
						growStack()
						holdfast.Do(ctx, l, func(context.Context) error { return nil })
					}()
				}
				ours, small := (stacks()-between)/n, (between-before)/n
				t.Logf("a waiter has a stack of %d bytes, a goroutine below a small frame one of %d", ours, small)
				if ours > small+1024 {
					t.Error("a waiter's stack is over 1 KiB larger than that of a goroutine below a small frame")
				}
			})
		})
	}
}

// alone reports whether t runs in its own process, without stacks that other tests left to be
// reused. If not, it runs the test in one.
func alone(t *testing.T) bool {
	const variable = "HOLDFAST_TEST_ALONE"
	if os.Getenv(variable) != "" {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$")
	cmd.Env = append(os.Environ(), variable+"=1")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("alone: %v", err)
	}
	return false
}

// stacks returns the size of all stacks after the collector has shrunk them.
func stacks() int64 {
	time.Sleep(time.Second)
	synctest.Wait()
	for range 4 { // each collection halves a stack
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.StackInuse)
}

// growStack sees to it that there is a stack to take back: one of 16 KiB.
//
//go:noinline
func growStack() {
	var deep [9 << 10]byte
	keep(deep[:])
}

// waitUnderAFrame has as much on its stack as a waiter may have.
//
//go:noinline
func waitUnderAFrame(a, b <-chan struct{}) {
	var frame [512]byte
	select {
	case <-a:
	case <-b:
	}
	keep(frame[:])
}

//go:noinline
func keep([]byte) {}

// Servers of other implementations have no containers. They refuse the request in one of these ways, or never answer it.
var withoutContainers = map[string]func(srv *zktest.Server, asked *int) func(string) zktest.Action{
	"drops the connection": func(_ *zktest.Server, asked *int) func(string) zktest.Action {
		return func(string) zktest.Action { *asked++; return zktest.DropRequest }
	},
	"refuses the arguments": func(_ *zktest.Server, asked *int) func(string) zktest.Action {
		return func(string) zktest.Action { *asked++; return zktest.Action(zkproto.CodeBadArguments) }
	},
	"does not know the request": func(_ *zktest.Server, asked *int) func(string) zktest.Action {
		return func(string) zktest.Action { *asked++; return zktest.Action(zkproto.CodeUnimplemented) }
	},
}

// Every kind of lock works on a server without containers. Its directories are persistent nodes there. The client finds that
// out once.
func TestLocksOnAServerWithoutContainers(t *testing.T) {
	for how, refuse := range withoutContainers {
		for kind, lock := range map[string]func(c *zk.Client, path string) holdfast.Locker{
			"mutex":     func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewMutex(c, path) },
			"writer":    func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewRWMutex(c, path) },
			"semaphore": func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewSemaphore(c, path, 2).Locker(1) },
			"slots":     func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewSlots(c, path, 2).Locker(1) },
			"node":      func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewNodeLock(c, path) },
			"tree":      func(c *zk.Client, path string) holdfast.Locker { return holdfast.NewTree(c, "/tree").Path(path[1:]) },
		} {
			t.Run(how+"/"+kind, func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					asked := 0
					srv.Intercept(zkproto.OpCreateContainer, refuse(srv, &asked))
					c := client(t, srv)
					l := lock(c, "/deep/below/lock")
					began := time.Now()
					h, err := l.TryLock(t.Context())
					if err != nil {
						t.Fatalf("try lock: %v", err)
					}
					if took := time.Since(began); took > 10*time.Second {
						t.Errorf("took %v", took)
					}
					unlock(t, h)
					first := asked
					h, err = lock(c, "/another/lock").Lock(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					unlock(t, h)
					if first > 5 || asked != first {
						t.Errorf("the server was asked for containers %d times, and %d times later", first, asked-first)
					}
				})
			})
		}
	}
}

// The same with nodes that have a time to live: a detached lock that expires has an ordinary node there.
func TestDetachedOnAServerWithoutTimesToLive(t *testing.T) {
	for how, refuse := range withoutContainers {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				asked, times := 0, 1
				if how == "drops the connection" {
					times = 3 // then the client asks for an ordinary node
				}
				refuses := refuse(srv, &asked)
				srv.Intercept(zkproto.OpMulti, func(path string) zktest.Action {
					if asked == times {
						return zktest.Pass
					}
					return refuses(path)
				})
				c := client(t, srv)
				got, err := holdfast.NewDetached(c, lockPath, time.Hour).Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if err := holdfast.NewDetached(c, lockPath, 0).Unlock(t.Context(), got.ID); err != nil || asked != times {
					t.Error(err, asked)
				}
			})
		})
	}
}

// A request that ends every connection makes a call fail with an error that names it, while the server answers others. The
// call does not try for ever.
func TestARequestThatAlwaysFailsIsNamed(t *testing.T) {
	run := func(context.Context) ([]byte, error) { return nil, nil }
	type setup struct {
		ctx     context.Context
		c       *zk.Client
		m       *holdfast.Mutex
		breakIt func()
	}
	for _, tt := range []struct {
		what string
		op   zkproto.Op
		says string
		act  func(s setup) error
	}{
		{"lock", zkproto.OpCreate2, "create /", func(s setup) error { s.breakIt(); return locked(s.m.Lock(s.ctx)) }},
		{"try lock", zkproto.OpCreate2, "create /", func(s setup) error { s.breakIt(); return locked(s.m.TryLock(s.ctx)) }},
		{"try lock", zkproto.OpGetChildren2, "children /", func(s setup) error { s.breakIt(); return locked(s.m.TryLock(s.ctx)) }},
		{"unlock", zkproto.OpDelete, "delete /", func(s setup) error {
			h, err := s.m.Lock(s.ctx)
			s.breakIt()
			return errors.Join(err, h.Unlock())
		}},
		{"wait", zkproto.OpGetData, "get /", func(s setup) error {
			h, err := s.m.Lock(s.ctx)
			s.breakIt()
			return errors.Join(err, locked(s.m.Lock(s.ctx)), h.Unlock())
		}},
		{"commit", zkproto.OpMulti, "multi", func(s setup) error {
			h, err := s.m.Lock(s.ctx)
			s.breakIt()
			for range 100 {
				if _, err = h.Commit(s.ctx, zk.CheckOp(lockPath, zk.AnyVersion)); !errors.Is(err, zk.ErrConnectionLoss) {
					break
				}
			}
			return errors.Join(err, h.Unlock())
		}},
		{"semaphore", zkproto.OpMulti, "multi", func(s setup) error {
			s.breakIt()
			return locked(holdfast.NewSemaphore(s.c, "/sem", 2).TryAcquire(s.ctx, 1))
		}},
		{"semaphore's limit", zkproto.OpSetData, "set /", func(s setup) error {
			s.breakIt()
			return holdfast.NewSemaphore(s.c, lockPath, 2).SetLimit(s.ctx, 3)
		}},
		{"slots", zkproto.OpMulti, "multi", func(s setup) error {
			s.breakIt()
			return locked(holdfast.NewSlots(s.c, "/slots", 2).Acquire(s.ctx, 1))
		}},
		{"node", zkproto.OpCreate2, "create /", func(s setup) error {
			s.breakIt()
			return locked(holdfast.NewNodeLock(s.c, "/node").TryLock(s.ctx))
		}},
		{"detached", zkproto.OpMulti, "multi", func(s setup) error {
			s.breakIt()
			_, err := holdfast.NewDetached(s.c, "/detached", time.Hour).TryLock(s.ctx)
			return err
		}},
		{"once", zkproto.OpMulti, "multi", func(s setup) error {
			s.breakIt()
			_, err := once.New(s.c, "/once").Key("key").Do(s.ctx, run)
			return err
		}},
		{"forget", zkproto.OpMulti, "multi", func(s setup) error {
			_, err := once.New(s.c, "/once").Key("key").Do(s.ctx, run)
			s.breakIt()
			return errors.Join(err, once.New(s.c, "/once").Key("key").Forget(s.ctx))
		}},
		{"list", zkproto.OpMulti, "multi", func(s setup) error {
			s.breakIt()
			_, err := holdfast.List(s.ctx, s.c, lockPath)
			return err
		}},
	} {
		t.Run(tt.what+"/"+tt.op.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := client(t, srv)
				unlock(t, lock(t, holdfast.NewMutex(c, lockPath)))
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				err := tt.act(setup{ctx, c, holdfast.NewMutex(c, lockPath), func() {
					srv.Intercept(tt.op, func(string) zktest.Action { return zktest.DropRequest })
				}})
				srv.Intercept(tt.op, nil)
				if took := time.Since(began); err == nil || took > 2*time.Minute || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("got error %v after %v; want one that names the request %q", err, took, tt.says)
				}
			})
		})
	}
}

// A program that forgets to create its chroot learns what is missing.
func TestLockBelowAChrootThatIsMissing(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	cfg := srv.Config()
	cfg.Chroot = "/missing"
	c, err := zk.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = holdfast.NewMutex(c, "/locks/job").Lock(t.Context())
	if !errors.Is(err, zk.ErrNoNode) || !strings.Contains(err.Error(), "zk.Config.CreateChroot") {
		t.Errorf("%v; want the chroot to be named", err)
	}
}
