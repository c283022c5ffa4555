//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// stopSignals end the wait for a lock; they are the ones that would end this process.
var stopSignals = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// reloadSignals make serve read its files again, and do not stop it.
var reloadSignals = []os.Signal{syscall.SIGHUP}

// jobSignals go to a running command only; before it runs they keep their usual meaning.
var jobSignals = []os.Signal{syscall.SIGCONT, syscall.SIGWINCH, syscall.SIGTSTP}

// notify relays sigs to c, but not those that whoever started this process has chosen to
// ignore (nohup, a background job of a script): the command inherits that choice.
func notify(c chan<- os.Signal, sigs ...os.Signal) {
	for _, sig := range sigs {
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
}

// surviveBrokenPipe makes a write to a closed stdout or stderr an error instead of the end
// of this process, which would kill the command with it. (Not signal.Ignore: the
// command would inherit that.)
func surviveBrokenPipe() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// signalNumber is N of the exit code 128+N.
func signalNumber(sig os.Signal) int {
	if n, ok := sig.(syscall.Signal); ok {
		return int(n)
	}
	return 0
}
