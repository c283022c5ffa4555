//go:build unix

package supervise

import (
	"os"
	"os/signal"
	"syscall"
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
