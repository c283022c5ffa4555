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
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// countLooks counts the reads of nodes in a lock's queue, which are what sets a watch.
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
		t.Errorf("%d looks at nodes of the queue, want %d", n, want)
	}
}

// A lock that is let go soon costs a create, a list and a delete, and no look at its node,
// whatever the timer that others of its session have set.
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

// Who holds on looks once, at its time and not before, however many others of the session
// come and go.
func TestHoldLooksAtItsNodeOnceAfterItsYouth(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		looks := countLooks(srv)
		var holds []*holdfast.Hold
		for i := range 10 { // each half of its youth after the one before
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

// What happens to the node while it is not watched is told when it is: the loss and the
// request to let go.
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
				t.Errorf("asked %v after Lock, told after %v", after, told)
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

// The directory is removed with all that is in it, and begins to count anew: another node
// of our session has the name that ours had, in a layout whose names tell sessions apart and
// not attempts.
func TestYoungHoldWhoseNameIsAnothersIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		m := holdfast.NewMutex(c, lockPath, holdfast.WithLayout(holdfast.LayoutSessionID))
		h := lock(t, m)
		for _, path := range []string{h.Path(), lockPath} {
			if err := c.Delete(t.Context(), path, zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}
		next := lock(t, m)
		if next.Path() != h.Path() {
			t.Fatalf("%s and %s: the test shows nothing", next.Path(), h.Path())
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
					t.Errorf("told %v after the end of the session", late)
				}
				wantErr(t, context.Cause(h.Context()), holdfast.ErrLost)
				wantErr(t, h.Unlock(), holdfast.ErrLost)
			})
		})
	}
}

// Who was asked to let go while it waited knows it when it holds the lock.
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
		synctest.Wait() // it has seen that its node has changed, and watches again
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
