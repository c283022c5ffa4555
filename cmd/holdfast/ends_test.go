package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/job"
	"holdfast/internal/supervise"
)

// endingOf parses flags and returns the ending for a session timeout.
func endingOf(t *testing.T, timeout time.Duration, flags ...string) (supervise.Ending, error) {
	t.Helper()
	var f job.Flags
	cmd := &cobra.Command{Use: "run"}
	f.Register(cmd)
	if err := cmd.ParseFlags(flags); err != nil {
		return supervise.Ending{}, err
	}
	at, err := f.Ending(cmd, &conn.Flags{Timeout: timeout})
	if err != nil {
		return supervise.Ending{}, err
	}
	return at(timeout)
}

func TestEndingOfFlags(t *testing.T) {
	const s = time.Second
	standard := supervise.Ending{Grace: 5 * s, Signal: syscall.SIGTERM, MaxHoldKill: 5 * s}
	with := func(change func(*supervise.Ending)) supervise.Ending {
		e := standard
		change(&e)
		return e
	}
	for _, tt := range []struct {
		name    string
		timeout time.Duration
		flags   []string
		want    supervise.Ending
	}{
		{"none", 15 * s, nil, standard},
		{"a short session", 6 * s, nil, with(func(e *supervise.Ending) { e.Grace = 2 * s })},
		{"--term-before", 15 * s, []string{"--term-before=6s"}, with(func(e *supervise.Ending) { e.Grace = 6 * s })},
		// The command has its time before the lock expires, too.
		{"--kill-after", 15 * s, []string{"--kill-after=1s"}, with(func(e *supervise.Ending) { e.Grace, e.KillAfter, e.MaxHoldKill = 1250*time.Millisecond, s, s })},
		{"a long --kill-after", 15 * s, []string{"--kill-after=1m"}, with(func(e *supervise.Ending) { e.KillAfter, e.MaxHoldKill = time.Minute, time.Minute })},
		{"both", 15 * s, []string{"--kill-after=1s", "--term-before=6s"}, with(func(e *supervise.Ending) { e.Grace, e.KillAfter, e.MaxHoldKill = 6*s, s, s })},
		{"never", 15 * s, []string{"--kill-after=0", "--max-hold=1d"}, with(func(e *supervise.Ending) { e.MaxHold, e.MaxHoldKill = 24*time.Hour, 0 })},
		{"--leftovers", 15 * s, []string{"--leftovers=ignore"}, with(func(e *supervise.Ending) { e.Leftovers = supervise.LeftoversIgnored })},
		{"--on-lost", 15 * s, []string{"--on-lost=signal=INT"}, with(func(e *supervise.Ending) { e.OnLost, e.LostSignal = supervise.LostSignals, syscall.SIGINT })},
	} {
		if got, err := endingOf(t, tt.timeout, tt.flags...); err != nil || got != tt.want {
			t.Errorf("%s: %+v, %v; want %+v", tt.name, got, err, tt.want)
		}
	}
	if _, err := endingOf(t, 15*s, "--term-before=6001ms"); err == nil {
		t.Error("--term-before of more than two fifths of the session timeout is accepted")
	}
	if !supervise.CanFreeze {
		return
	}
	e, err := endingOf(t, 15*s, "--on-suspect=stop")
	if err != nil || e.Freeze <= e.Grace || e.Freeze > 7500*time.Millisecond {
		t.Errorf("--on-suspect stop: %+v, %v; want to suspend before TERM, and not while the session is proven as usual", e, err)
	}
}
