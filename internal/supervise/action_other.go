//go:build unix && !linux

package supervise

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// stopGroup stops this process's group. It does not use sig, which may have a handler here, and os/signal cannot remove
// one: Reset leaves a handler that does nothing.
func stopGroup(syscall.Signal) { _ = syscall.Kill(0, syscall.SIGTTIN) }

// Die ends this process by sig, and its whole process group if group is set. So a shell learns that a key of the terminal
// has ended the command: see [Outcome]. Die returns if the signal does not end the process.
func Die(sig syscall.Signal, group bool) {
	to := os.Getpid()
	if group {
		to = 0
	}
	if sig != syscall.SIGINT { // for QUIT, Go's runtime prints a trace
		if group {
			signal.Ignore(sig)
			_ = syscall.Kill(to, sig)
		}
		return
	}
	signal.Reset(sig)
	_ = syscall.Kill(to, sig)
	time.Sleep(time.Second) // another thread may handle it
}
