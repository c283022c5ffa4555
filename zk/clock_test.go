package zk

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The machine is suspended, and Go's clock with it. The client's timers notice nothing, but the server
// has kept counting.
func TestSuspendCountsAgainstTheSession(t *testing.T) {
	var suspended atomic.Int64
	slept = func() time.Duration { return time.Duration(suspended.Load()) }
	defer func() { slept = systemSlept }()
	synctest.Test(t, func(t *testing.T) {
		const timeout = 12 * time.Second
		c := dialTest(t, timeout, func(p *peer) {
			p.accept(7, timeout)
			p.serve()
		})
		s := mustSession(t, c)
		time.Sleep(time.Minute)
		suspended.Store(int64(5 * time.Second))
		if left := time.Until(s.Deadline()); left > timeout-5*time.Second {
			t.Errorf("%v left after a suspend of 5 s", left)
		}
		time.Sleep(time.Minute)
		if s.Context().Err() != nil {
			t.Fatal("a short suspend ended the session although the server kept answering")
		}
		suspended.Store(int64(5*time.Second + time.Hour))
		if !s.Deadline().Before(time.Now()) {
			t.Errorf("the deadline is still %v ahead after an hour's suspend", time.Until(s.Deadline()))
		}
		woken := time.Now()
		mustEnd(t, s)
		wantErr(t, context.Cause(s.Context()), ErrSessionExpired)
		if late := time.Since(woken); late > timeout/6 {
			t.Errorf("told %v after the wake-up; want at once", late)
		}
	})
}

func TestSystemThatWasNotSuspendedSaysSo(t *testing.T) {
	for range 1000 {
		if d := systemSlept(); d != 0 {
			t.Fatalf("systemSlept reports %v without a suspend", d)
		}
	}
}
