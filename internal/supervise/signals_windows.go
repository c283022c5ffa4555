package supervise

import (
	"os"
	"os/signal"
	"syscall"
)

var (
	// StopSignals end the wait for a lock.
	StopSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}
	// ReloadSignals make a server read its files again: there are none.
	ReloadSignals []os.Signal
	// JobSignals go to a running command: there are none.
	JobSignals []os.Signal
)

// Notify relays sigs to c.
func Notify(c chan<- os.Signal, sigs ...os.Signal) {
	if len(sigs) > 0 {
		signal.Notify(c, sigs...)
	}
}

// SurviveBrokenPipe does nothing here.
func SurviveBrokenPipe() {}

// SignalNumber returns N of the exit code 128+N.
func SignalNumber(sig os.Signal) int {
	if n, ok := sig.(syscall.Signal); ok {
		return int(n)
	}
	return 0
}
