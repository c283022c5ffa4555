package holdfast_test

import (
	"context"
	"fmt"
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

// countLooks counts the reads that set a watch on nodes in a lock's queue.
func countLooks(srv *zktest.Server) *atomic.Int32 {
	looks := new(atomic.Int32)
	srv.Intercept(zkproto.OpGetData, func(path string) zktest.Action {
		if strings.HasPrefix(path, lockPath+"/") {
			looks.Add(1)
		}
		return zktest.Pass
	})
	return looks
}

func wantLooks(t *testing.T, looks *atomic.Int32, want int32) {
	t.Helper()
	synctest.Wait()
	if n := looks.Swap(0); n != want {
		t.Errorf("%d reads of nodes of the queue, want %d", n, want)
	}
}

// A lock that is released soon costs a create, a list and a delete. It does not look at its
// node, whatever timer others of its session have set.
func TestYoungHoldDoesNotLookAtItsNode(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		m := holdfast.NewMutex(c, lockPath)
		looks := countLooks(srv)
		for _, held := range []time.Duration{0, holdfast.GracePeriod / 5, holdfast.GracePeriod * 3 / 5, holdfast.GracePeriod - 1} {
			for range 20 {
				h := lock(t, m)
				time.Sleep(held)
				unlock(t, h)
			}
			time.Sleep(10 * holdfast.GracePeriod)
			wantLooks(t, looks, 0)
		}
	})
}

// A longer Hold looks once, at the end of its grace period and not before, however many others
// of the session come and go.
func TestHoldLooksAtItsNodeOnceAfterItsYouth(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		looks := countLooks(srv)
		var holds []*holdfast.Hold
		for i := range 10 { // each half a grace period after the one before
			holds = append(holds, lock(t, holdfast.NewRWMutex(c, lockPath).RLocker()))
			unlock(t, lock(t, holdfast.NewRWMutex(c, lockPath).RLocker()))
			time.Sleep(holdfast.GracePeriod/2 - 1)
			wantLooks(t, looks, 0)
			time.Sleep(1 * time.Nanosecond)
			wantLooks(t, looks, min(int32(i), 1))
		}
		time.Sleep(10 * holdfast.GracePeriod)
		wantLooks(t, looks, 1)
		for _, h := range holds {
			if h.Context().Err() != nil {
				t.Error(context.Cause(h.Context()))
			}
			unlock(t, h)
		}
		wantNoNodes(t, c)
	})
}

// A loss or a release request during the grace period is reported at its end.
func TestYoungHoldIsToldAfterItsYouth(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, admin := client(t, srv), client(t, srv)
		for _, after := range []time.Duration{0, holdfast.GracePeriod / 2} {
			h := lock(t, holdfast.NewMutex(c, lockPath))
			began := time.Now()
			time.Sleep(after)
			if err := holdfast.Revoke(t.Context(), admin, lockPath, h.Token()); err != nil {
				t.Fatal(err)
			}
			<-h.Revoked()
			if told := time.Since(began); told > holdfast.GracePeriod {
				t.Errorf("asked to release %v after Lock, told after %v", after, told)
			}
			unlock(t, h)

			h = lock(t, holdfast.NewMutex(c, lockPath))
			began = time.Now()
			time.Sleep(after)
			if err := holdfast.Break(t.Context(), admin, lockPath, h.Token()); err != nil {
				t.Fatal(err)
			}
			<-h.Lost()
			if told := time.Since(began); told > holdfast.GracePeriod {
				t.Errorf("removed %v after Lock, told after %v", after, told)
			}
			wantErr(t, h.Unlock(), holdfast.ErrLost)
		}
	})
}

// The directory is removed with everything in it, and its numbers start again. Another node of
// our session gets our node's name, in a layout whose names tell sessions apart, not attempts.
func TestYoungHoldWhoseNameIsAnothersIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		m := holdfast.NewMutex(c, lockPath, holdfast.WithLayout(layout.SessionID))
		h := lock(t, m)
		for _, path := range []string{h.Path(), lockPath} {
			if err := c.Delete(t.Context(), path, zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}
		next := lock(t, m)
		if next.Path() != h.Path() {
			t.Fatalf("the names %s and %s differ: the test shows nothing", next.Path(), h.Path())
		}
		time.Sleep(holdfast.GracePeriod)
		synctest.Wait()
		wantErr(t, context.Cause(h.Context()), holdfast.ErrLost)
		wantErr(t, h.Unlock(), holdfast.ErrLost)
		if err := next.Context().Err(); err != nil {
			t.Errorf("the other: %v", err)
		}
		unlock(t, next)
	})
}

// The end of the session is reported at once, within the grace period and after it.
func TestEndOfTheSessionIsToldAtOnce(t *testing.T) {
	for _, held := range []time.Duration{0, holdfast.GracePeriod / 2, 2 * holdfast.GracePeriod} {
		t.Run(fmt.Sprint(held), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := client(t, srv)
				h := lock(t, holdfast.NewMutex(c, lockPath))
				time.Sleep(held)
				s, err := c.Session(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				srv.Expire(s.ID())
				<-s.Context().Done()
				over := time.Now()
				<-h.Lost()
				if late := time.Since(over); late != 0 {
					t.Errorf("told %v after the end of the session; want at once", late)
				}
				wantErr(t, context.Cause(h.Context()), holdfast.ErrLost)
				wantErr(t, h.Unlock(), holdfast.ErrLost)
			})
		})
	}
}

// A waiter that was asked to release while it waited knows it when it holds the lock.
func TestWaiterThatWasAskedKnowsItAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, admin := client(t, srv), client(t, srv)
		first := lock(t, holdfast.NewMutex(admin, lockPath))
		w := wait(t.Context(), holdfast.NewMutex(c, lockPath))
		entries, err := holdfast.List(t.Context(), admin, lockPath)
		if err != nil || len(entries) != 2 {
			t.Fatal(entries, err)
		}
		if err := holdfast.Revoke(t.Context(), admin, lockPath, entries[1].Token); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // it has seen the change of its node, and watches again
		unlock(t, first)
		h := w.got(t)
		select {
		case <-h.Revoked():
		default:
			t.Error("not told")
		}
		unlock(t, h)
	})
}
