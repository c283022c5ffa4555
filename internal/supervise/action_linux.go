package supervise

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An action is what a signal does in this process: the kernel's struct sigaction, of which only the first field is of
// interest. The zero action is the default one. Package os/signal cannot restore that for the signals that Go's runtime
// handles.
type action [8]uintptr

func (a *action) ignores() bool { return a[0] == 1 } // SIG_IGN

// act sets what sig does, unless it is nil, and returns what it did before.
func act(sig syscall.Signal, set *action) (before action) {
	const setSize = 8 // of a set of signals
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(&before)), setSize, 0, 0)
	return before
}

// stopsIgnored are the stop signals of the terminal that this process was started to ignore. So it is in a command
// substitution of bash. Go's runtime leaves them alone until something asks for them.
var stopsIgnored = func() map[syscall.Signal]bool {
	ignored := make(map[syscall.Signal]bool)
	for _, sig := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU} {
		if a := act(sig, nil); a.ignores() {
			ignored[sig] = true
		}
	}
	return ignored
}()

// stopGroup stops this process's group by sig. A handler in this process does not keep it from stopping.
func stopGroup(sig syscall.Signal) {
	if !stopsIgnored[sig] {
		before := act(sig, new(action))
		defer act(sig, &before)
	}
	_ = unix.Kill(0, sig)
}

// Die ends this process by sig, and its whole process group if group is set. So a shell learns that a key of the terminal
// has ended the command: see [Outcome]. Die returns if the signal does not end the process, as in the first process of a
// container.
func Die(sig syscall.Signal, group bool) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // the command has dumped its core, if at all
	act(sig, new(action))
	var set unix.Sigset_t
	set.Val[0] = 1 << (sig - 1)
	_ = unix.PthreadSigmask(unix.SIG_UNBLOCK, &set, nil)
	to := os.Getpid()
	if group {
		to = 0
	}
	_ = unix.Kill(to, sig)
}
