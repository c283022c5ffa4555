//go:build unix

package supervise

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

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
// background job of a script): the command inherits that choice. A request to stop that is sent twice at once is one
// request. A signal must be in one call only for each c. stop ends it, and may be called once.
func Notify(c chan<- os.Signal, sigs ...os.Signal) (stop func()) {
	in := make(chan os.Signal, 64)
	for _, sig := range sigs {
		if !signal.Ignored(sig) {
			signal.Notify(in, sig)
		}
	}
	over := make(chan struct{})
	go relay(in, c, over)
	return func() {
		time.AfterFunc(atOnce(syscall.SIGTERM), func() { // until then, the second of two signals has no effect
			signal.Stop(in)
			close(over)
		})
	}
}

// atOnce returns the time within which a second signal is the first one. timeout(1) signals its child, and then its process
// group with the child in it. On a busy machine, there is some time in between. A key can be pressed twice on purpose, and
// HUP and others may ask a command for something each time.
func atOnce(sig os.Signal) time.Duration {
	switch sig {
	case syscall.SIGTERM:
		return 500 * time.Millisecond
	case syscall.SIGINT, syscall.SIGQUIT:
		return 50 * time.Millisecond
	}
	return 0
}

// relay relays the signals of Notify until over is closed.
func relay(in <-chan os.Signal, out chan<- os.Signal, over <-chan struct{}) {
	last := make(map[os.Signal]time.Time)
	for {
		select {
		case sig := <-in:
			now := time.Now()
			if now.Sub(last[sig]) < atOnce(sig) {
				continue
			}
			last[sig] = now
			select {
			case out <- sig:
			default: // as package os/signal does
			}
		case <-over:
			return
		}
	}
}

// SurviveBrokenPipe makes a write to a closed stdout or stderr return an error. Otherwise
// SIGPIPE would end this process, and the command with it. (Not signal.Ignore, because the
// command would inherit that.)
func SurviveBrokenPipe() {
	if !signal.Ignored(syscall.SIGPIPE) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}
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
