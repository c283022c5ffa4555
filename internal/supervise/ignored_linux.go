package supervise

import (
	"os"
	"os/signal"
	"syscall"
)

// Signals that this process was started to ignore stay ignored, in this process, in the watchdog and in the command: a
// script that ignores TERM means its commands, too. Go's runtime keeps HUP and INT ignored, and forgets the others when it
// starts. wasIgnored has looked before.
func init() {
	for sig := syscall.Signal(1); sig <= maxSignal; sig++ {
		switch sig {
		case syscall.SIGCHLD: // the watchdog waits for its children
		case syscall.SIGURG: // the runtime needs it
		case syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU: // the runtime leaves them alone: see stopsIgnored
		default:
			if wasIgnored(sig) {
				signal.Ignore(sig)
			}
		}
	}
}

// Heed makes this process ignore no signals any more. It is for a process that serves others, too, and not only the program
// that has started it.
func Heed() {
	unused := make(chan os.Signal, 1)
	for sig := syscall.Signal(1); sig <= maxSignal; sig++ {
		if signal.Ignored(sig) {
			signal.Notify(unused, sig)
		}
	}
	signal.Stop(unused)
}
