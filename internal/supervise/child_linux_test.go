package supervise

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The watchdog runs with GOMAXPROCS=1, whatever the user sets for the command.
func TestWatchdogEnv(t *testing.T) {
	for _, tt := range []struct{ ours, want []string }{
		{nil, []string{"GOMAXPROCS=1"}},
		{[]string{"A=1", "GOMAXPROCS=8", "B=2"}, []string{"A=1", "B=2", "GOMAXPROCS=1"}},
		{[]string{"XGOMAXPROCS=8", "GOMAXPROCSX=8"}, []string{"XGOMAXPROCS=8", "GOMAXPROCSX=8", "GOMAXPROCS=1"}},
	} {
		if got := watchdogEnv(slices.Clone(tt.ours)); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.ours, got, tt.want)
		}
	}
}

// A child gets signals until it is reaped, and none afterwards: its number may be another process's then.
func TestChildGetsNoSignalAfterItIsReaped(t *testing.T) {
	for _, byAnother := range []bool{false, true} {
		pid, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "1000"}, &syscall.ProcAttr{})
		if err != nil {
			t.Fatal(err)
		}
		c := &child{Pid: pid}
		if err := c.Signal(unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if byAnother {
			if _, err := waitID(unix.P_PID, pid, unix.WEXITED); err != nil {
				t.Fatal(err)
			}
		}
		c.wait()
		if err := c.Signal(unix.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("reaped by another goroutine: %v: signal: %v, want %v", byAnother, err, os.ErrProcessDone)
		}
		if _, err := waitID(unix.P_PID, pid, unix.WEXITED|unix.WNOHANG); err != unix.ECHILD {
			t.Errorf("reaped by another goroutine: %v: a child is left: %v", byAnother, err)
		}
	}
}
