package cyclewatch_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/internal/cyclewatch"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const (
	ours   = "/locks/ours"   // held by the client that waits
	theirs = "/locks/theirs" // it waits for this one
)

// A wait is one of a client that holds a lock, on a server that counts the requests of its Watch.
type wait struct {
	*testing.T
	srv      *zktest.Server
	holder   *zk.Client // of the lock that it waits for
	requests atomic.Int64
	told     chan time.Time // of a cycle
}

// begin begins a wait, with its Watch.
func begin(ctx context.Context, t *testing.T) *wait {
	w := &wait{T: t, srv: zktest.NewServer(), told: make(chan time.Time, 1)}
	w.srv.Intercept(zkproto.OpMultiRead, func(string) zktest.Action {
		w.requests.Add(1)
		return zktest.Pass
	})
	c := w.srv.Client()
	w.holder = w.srv.Client()
	_, err := holdfast.NewMutex(w.holder, theirs).Lock(t.Context())
	must(t, err)
	h, err := holdfast.NewMutex(c, ours).Lock(t.Context())
	must(t, err)
	go holdfast.NewMutex(c, theirs).Lock(ctx)
	synctest.Wait()
	watch := cyclewatch.Watch{Client: c, Prefixes: []string{"/locks/"}, Held: []string{h.Path()}}
	go watch.Run(ctx, func(f *cyclewatch.Found) {
		if f == nil {
			w.told <- time.Time{}
		} else {
			w.told <- time.Now()
		}
	})
	return w
}

// busy lets others wait for the lock of the client, each for some time, and one more in each period.
func (w *wait) busy(ctx context.Context, period, patience time.Duration) {
	for ctx.Err() == nil {
		c := w.srv.Client()
		go func() {
			defer c.Close()
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			if h, err := holdfast.NewMutex(c, ours).Lock(ctx); err == nil {
				_ = h.Unlock()
			}
		}()
		select {
		case <-time.After(period):
		case <-ctx.Done():
		}
	}
}

// A wait of some minutes learns within three seconds that it is in a cycle, also if somebody joins the queue of its lock each
// second.
func TestAnOldWaitOnABusyLockIsTold(t *testing.T) {
	for phase := range 10 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			w := begin(ctx, t)
			defer w.srv.Close()
			defer cancel()
			go w.busy(ctx, 900*time.Millisecond, 3*time.Second)
			time.Sleep(3*time.Minute + time.Duration(phase)*730*time.Millisecond)
			closed := time.Now()
			go holdfast.NewMutex(w.holder, ours).Lock(ctx)
			if took := (<-w.told).Sub(closed); took > 3*time.Second {
				t.Errorf("told after %v", took)
			}
			cancel()
			synctest.Wait()
		})
	}
}

// Attempts that leave nothing behind cost no reading of all locks, but two requests each second at most.
func TestAttemptsCostNoReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := begin(ctx, t)
		defer w.srv.Close()
		defer cancel()
		c := w.srv.Client()
		go func() {
			for ctx.Err() == nil {
				if _, err := holdfast.NewMutex(c, ours).TryLock(t.Context()); !errors.Is(err, holdfast.ErrLocked) {
					t.Error(err)
				}
				select {
				case <-time.After(370 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		}()
		time.Sleep(20 * time.Second)
		before := w.requests.Load()
		time.Sleep(100 * time.Second)
		if n := w.requests.Load() - before; n > 230 || n < 100 {
			t.Errorf("%d requests in 100 s", n)
		}
		cancel()
		synctest.Wait()
	})
}

// When a cycle ends since a member gives up, its other members are told within two seconds.
func TestTheEndOfACycleIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := begin(ctx, t)
		defer w.srv.Close()
		defer cancel()
		time.Sleep(time.Minute)
		theirCtx, giveUp := context.WithCancel(ctx)
		go holdfast.NewMutex(w.holder, ours).Lock(theirCtx)
		if at := <-w.told; at.IsZero() {
			t.Fatal("told that there is no cycle")
		}
		time.Sleep(time.Minute)
		giveUp()
		ended := time.Now()
		if at := <-w.told; !at.IsZero() || time.Since(ended) > 2*time.Second {
			t.Errorf("told after %v", time.Since(ended))
		}
		cancel()
		synctest.Wait()
	})
}

// The queue of a semaphore can be gone when nobody has waited for long. Somebody makes it anew, and waits in it.
func TestAQueueThatWasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		srv := zktest.NewServer()
		defer srv.Close()
		defer cancel()
		c, other := srv.Client(), srv.Client()
		pool := func(c *zk.Client) holdfast.Locker { return holdfast.NewSemaphore(c, ours, 1).Locker(1) }
		_, err := pool(c).Lock(ctx)
		must(t, err)
		_, err = holdfast.NewMutex(other, theirs).Lock(ctx)
		must(t, err)
		must(t, c.Delete(ctx, ours+"/locks", zk.AnyVersion))
		go holdfast.NewMutex(c, theirs).Lock(ctx)
		told := make(chan time.Time, 1)
		watch := cyclewatch.Watch{Client: c, Prefixes: []string{"/locks/"}}
		go watch.Run(ctx, func(*cyclewatch.Found) { told <- time.Now() })
		time.Sleep(time.Minute)
		began := time.Now()
		go pool(other).Lock(ctx)
		if took := (<-told).Sub(began); took > 2*time.Second {
			t.Errorf("told after %v", took)
		}
		cancel()
		synctest.Wait()
	})
}
