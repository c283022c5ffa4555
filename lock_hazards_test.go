package holdfast_test

import (
	"context"
	"strings"
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

// The session has lapsed here and the server has not noticed: our node of that life is at
// the head, and not ours any more (CURATOR-604, CURATOR-653, CURATOR-696).
func TestOwnNodeOfADyingSessionIsWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		m := holdfast.NewMutex(c, lockPath)
		h := lock(t, m)
		resume := srv.Stall()
		<-h.Lost()
		resume()
		if _, err := m.TryLock(t.Context()); err == nil {
			t.Fatal("took the lock beside the node of its own last session")
		}
		next := lock(t, m)
		if next.Session() == h.Session() || next.Token() <= h.Token() {
			t.Errorf("session %x, token %d after session %x, token %d", next.Session(), next.Token(), h.Session(), h.Token())
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
			t.Fatalf("numbers %s, %s: the test shows nothing", number(first), number(second))
		}
		if second.Token() <= first.Token() {
			t.Errorf("token %d after %d", second.Token(), first.Token())
		}
		unlock(t, second)
	})
}

// The directory goes between its creation and that of our node, again and again (kazoo
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

// kazoo begins its timeout anew at every wake-up.
func TestWaitIsBoundedAsAWholeHoweverOftenItWakes(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		var cancels []context.CancelFunc
		for range 3 { // who gives up one after the other, the nearest last
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

// CURATOR-376: two releases raced, and one cleared what was not its own.
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
			t.Error("an old Hold ended a new one")
		}
		unlock(t, again)
	})
}

// The lock outlives the context that it was taken with, for longer than a session lasts
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

// A client that is closed in the middle of everything: its locks are free at once, and its
// waits end with the reason (CURATOR-18).
func TestCloseEndsHoldsAndWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, observer := client(t, srv), client(t, srv)
		h := lock(t, holdfast.NewMutex(c, lockPath))
		w := wait(t.Context(), holdfast.NewMutex(c, lockPath))
		s := wait(t.Context(), holdfast.NewMultiLock(holdfast.NewSemaphore(c, "/sem", 1).Locker(), holdfast.NewMutex(c, lockPath)))
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

// A holder slept past the end of its session, its successor has written, and it wakes up
// in the middle of its work: with nothing to check, an update is lost; the token, and
// Commit, notice.
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
		srv.Expire(sleeper.Session())
		next := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		write("unfenced", "new", next.Token(), false)
		write("fenced", "new", next.Token(), true)
		if _, err := next.Commit(t.Context(), zk.SetOp(ledger, []byte("new"), zk.AnyVersion)); err != nil {
			t.Fatal(err)
		}
		// It wakes up, and has not looked at its context yet.
		write("unfenced", "old", sleeper.Token(), false)
		write("fenced", "old", sleeper.Token(), true)
		_, err := sleeper.Commit(t.Context(), zk.SetOp(ledger, []byte("old"), zk.AnyVersion))
		if err == nil {
			t.Error("committed after its tenure")
		}
		if store["unfenced"].value != "old" {
			t.Error("unfenced, the update should be lost: the test shows nothing")
		}
		if store["fenced"].value != "new" {
			t.Error("the token did not help")
		}
		if data, _, err := client(t, srv).Get(t.Context(), ledger); err != nil || string(data) != "new" {
			t.Errorf("%q, %v", data, err)
		}
		unlock(t, next)
		synctest.Wait() // it is told that its session is over
		wantErr(t, sleeper.Unlock(), holdfast.ErrLost)
	})
}
