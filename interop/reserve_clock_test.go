//go:build unix

package interop

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"

	"holdfast"
	"holdfast/interop/peers"
	"holdfast/reserve"
	"holdfast/zk"
)

// The wall clock of Apache's server goes back by an hour. Commands that try every moment get the lock within twice the
// time of --min-hold. A waiter that has joined before the step waits for that time, no shorter and no longer.
func TestReservationWhenTheClockOfApacheGoesBack(t *testing.T) {
	const d = 3 * time.Second
	clock, err := peers.NewWallClock(t.TempDir(), "testdata/wallclock.c")
	need(t, err)
	z, err := peers.StartZooKeeper(t.Context(), t.TempDir(), peers.ZooKeeperConfig{WallClock: clock})
	need(t, err)
	t.Cleanup(func() { z.Close() })
	cfg, err := zk.ParseURL(z.URL())
	must(t, err)
	c, err := zk.Dial(t.Context(), cfg)
	must(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*stepTime)
	defer cancel()
	run := func(more ...string) int {
		args := append([]string{"run", "-q", "--server", z.URL(), "--try"}, more...)
		err := exec.CommandContext(ctx, holdfastBin(t), append(args, "job", "--", "true")...).Run()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return exit.ExitCode()
		}
		must(t, err)
		return 0
	}
	began := time.Now()
	if code := run("--min-hold", d.String()); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	must(t, clock.Set(-time.Hour))
	for code := -1; code != 0; {
		if code = run(); code != 0 && code != 75 {
			t.Fatalf("exit code %d", code)
		}
	}
	// The first look follows the step at once; a command takes a moment on a busy machine.
	if took := time.Since(began); took < d || took > 2*d+15*time.Second {
		t.Errorf("the job was kept for %v; want %v", took, d)
	}

	const path = "/holdfast/locks/waiter"
	h, err := holdfast.NewMutex(c, path).Lock(ctx)
	must(t, err)
	got := make(chan time.Time, 1)
	go func() {
		h, err := reserve.Locker(holdfast.NewMutex(c, path)).Lock(ctx)
		got <- time.Now()
		if err == nil {
			err = h.Unlock()
		}
		if err != nil {
			t.Error(err)
		}
	}()
	for queue := []holdfast.Entry(nil); len(queue) < 2; {
		queue, err = holdfast.List(ctx, c, path)
		must(t, err)
	}
	must(t, clock.Set(-2*time.Hour))
	before := time.Now()
	must(t, reserve.For(ctx, h, d))
	recorded := time.Now()
	r, err := reserve.Of(ctx, c, path)
	must(t, err)
	if off := recorded.Sub(r.From); off < 110*time.Minute {
		t.Fatalf("the server's clock is %v behind: it has not moved", off)
	}
	must(t, h.Unlock())
	at := <-got
	if at.Sub(recorded) < d-(recorded.Sub(before)) || at.Sub(before) > d+15*time.Second {
		t.Errorf("the waiter got the lock %v after the reservation of %v", at.Sub(before), d)
	}
}
