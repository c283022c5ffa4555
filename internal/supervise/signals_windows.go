package supervise

import (
	"errors"
	"os"
	"os/signal"
	"strings"
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

// Notify relays sigs to c. stop ends it.
func Notify(c chan<- os.Signal, sigs ...os.Signal) (stop func()) {
	if len(sigs) > 0 {
		signal.Notify(c, sigs...)
	}
	return func() { signal.Stop(c) }
}

// Die does nothing here.
func Die(syscall.Signal, bool) {}

// SurviveBrokenPipe does nothing here.
func SurviveBrokenPipe() {}

// SignalNumber returns N of the exit code 128+N.
func SignalNumber(sig os.Signal) int {
	if n, ok := sig.(syscall.Signal); ok {
		return int(n)
	}
	return 0
}

// CanFreeze reports whether a job can be suspended.
const CanFreeze = false

// freezing and continuing are no signals here.
const (
	freezing   = syscall.Signal(-1)
	continuing = syscall.Signal(-2)
)

var signalNames = map[string]syscall.Signal{"INT": syscall.SIGINT, "KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM}

// ParseSignal returns the signal with this name.
func ParseSignal(text string) (syscall.Signal, error) {
	if sig, ok := signalNames[strings.TrimPrefix(strings.ToUpper(text), "SIG")]; ok {
		return sig, nil
	}
	return 0, errors.New("want INT, KILL or TERM")
}

// CanAsk reports whether a signal can ask a command to stop.
func CanAsk(sig syscall.Signal) bool { return sig != syscall.SIGKILL }

// SignalName returns the name of a signal.
func SignalName(sig syscall.Signal) string {
	for name, s := range signalNames {
		if s == sig {
			return name
		}
	}
	return sig.String()
}

// asksToStop reports whether a signal of the user asks the job to stop.
func asksToStop(sig os.Signal) bool { return sig == os.Interrupt || sig == syscall.SIGTERM }
