package supervise

import (
	"os"
	"os/signal"
	"syscall"
)

// Signals that this process was started to ignore stay ignored, in this process, in the watchdog and in the command: trap ”
// TERM in a script means the commands of the script. Go's runtime keeps HUP and INT ignored, and forgets the others when it
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

// Heed ends that for a process that does not belong to whoever has started it.
func Heed() {
	unused := make(chan os.Signal, 1)
	for sig := syscall.Signal(1); sig <= maxSignal; sig++ {
		if signal.Ignored(sig) {
			signal.Notify(unused, sig)
		}
	}
	signal.Stop(unused)
}
