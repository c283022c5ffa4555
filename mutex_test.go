package holdfast_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

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
