//go:build unix

package supervise

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// StopSignals end the wait for a lock: the signals that would end this process.
var StopSignals = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// ReloadSignals make a server read its files again, and do not stop it.
var ReloadSignals = []os.Signal{syscall.SIGHUP}

// JobSignals go to a running command only. Before it runs they keep their usual meaning.
var JobSignals = []os.Signal{syscall.SIGCONT, syscall.SIGWINCH, syscall.SIGTSTP}

// Notify relays sigs to c, except the signals that this process was started to ignore (nohup, a
// background job of a script): the command inherits that choice.
func Notify(c chan<- os.Signal, sigs ...os.Signal) {
	for _, sig := range sigs {
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
}

// SurviveBrokenPipe makes a write to a closed stdout or stderr return an error. Otherwise
// SIGPIPE would end this process, and the command with it. (Not signal.Ignore, because the
// command would inherit that.)
func SurviveBrokenPipe() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// SignalNumber returns N of the exit code 128+N.
func SignalNumber(sig os.Signal) int {
	if n, ok := sig.(syscall.Signal); ok {
		return int(n)
	}
	return 0
}

// CanFreeze reports whether a job can be suspended.
const CanFreeze = true

// freezing is the signal that suspends a process, and continuing the one that continues it.
const (
	freezing   = syscall.SIGSTOP
	continuing = syscall.SIGCONT
)

// maxSignal is the largest number of a signal, on Linux.
const maxSignal = 64

// ParseSignal returns the signal with this name (TERM, SIGTERM, term) or number.
func ParseSignal(text string) (syscall.Signal, error) {
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= maxSignal {
		return syscall.Signal(n), nil
	}
	name := "SIG" + strings.TrimPrefix(strings.ToUpper(text), "SIG")
	if n := unix.SignalNum(name); n != 0 {
		return n, nil
	}
	return 0, fmt.Errorf("want a name such as TERM, or a number from 1 to %d", maxSignal)
}

// CanAsk reports whether a signal can ask a command to stop, and can be forwarded. A process cannot handle KILL and
// STOP, and CONT continues it. The kernel and Go's runtime send the others to this process.
func CanAsk(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGCONT, syscall.SIGCHLD, syscall.SIGPIPE, syscall.SIGURG:
		return false
	}
	return true
}

// SignalName returns the name of a signal without SIG, or its number.
func SignalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return strings.TrimPrefix(name, "SIG")
	}
	return strconv.Itoa(int(sig))
}

// asksToStop reports whether a signal of the user asks the job to stop.
func asksToStop(sig os.Signal) bool {
	switch sig {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT:
		return true
	}
	return false
}
