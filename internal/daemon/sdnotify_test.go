package daemon

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The watchdog is fed only while the server answers. A timer alone would guard nothing.
func TestWatchdogIsPattedOnlyWhileTheServerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var pats atomic.Int32
		var hang, fail atomic.Bool
		go keepAlive(ctx, time.Second, func(ctx context.Context) error {
			switch {
			case hang.Load():
				<-ctx.Done()
				return ctx.Err()
			case fail.Load():
				return errors.New("closed")
			}
			return nil
		}, func() { pats.Add(1) })
		over := func(d time.Duration) int {
			before := pats.Load()
			time.Sleep(d)
			synctest.Wait()
			return int(pats.Load() - before)
		}
		if n := over(9500 * time.Millisecond); n < 9 {
			t.Errorf("while alive: fed %d times in 9.5 s", n)
		}
		hang.Store(true)
		if n := over(10 * time.Second); n != 0 {
			t.Errorf("while hanging: fed %d times", n)
		}
		hang.Store(false)
		fail.Store(true)
		over(2 * time.Second) // the hanging call ends
		if n := over(10 * time.Second); n != 0 {
			t.Errorf("while failing: fed %d times", n)
		}
		fail.Store(false)
		if n := over(10 * time.Second); n < 9 {
			t.Errorf("alive again: fed %d times in 10 s", n)
		}
	})
}

// The watchdog of another process is ignored.
func TestWatchdogOfAnotherProcessIsLeftAlone(t *testing.T) {
	t.Setenv("WATCHDOG_USEC", "1000")
	t.Setenv("WATCHDOG_PID", "1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // otherwise this test would not end when it fails
	(&Notifier{}).Watchdog(ctx, func(context.Context) error {
		t.Error("the server was asked whether it is alive")
		return nil
	})
}
