//go:build unix

package host

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"holdfast/internal/supervise"
)

const openNoFollow = syscall.O_NOFOLLOW

// detach gives the host its own session, without a terminal and its signals.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// CloseInherited closes the descriptors that the host has inherited. Otherwise the reader of an
// inherited pipe would wait for its end while the host lives. Descriptors that Go opens are
// close-on-exec, so the others are inherited.
func CloseInherited() {
	list, err := os.ReadDir("/dev/fd")
	if err != nil {
		return
	}
	for _, e := range list {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}

// ForgetStdout replaces stdout, a pipe to the process that started the host, by the null device.
func ForgetStdout() {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return // an unread pipe does no harm either
	}
	defer null.Close()
	_ = dup(int(null.Fd()), int(os.Stdout.Fd()))
}

// ForgetStdin replaces stdin by the null device.
func ForgetStdin() {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return
	}
	defer null.Close()
	_ = dup(int(null.Fd()), int(os.Stdin.Fd()))
}

// A detached host also serves jobs that did not start it. So it resets the settings that it has
// inherited from the job that did: priority, limits and umask can slow it down or end it early.
// Start sets its working directory and environment.

// neutralLimits are the limits that can end a host or stop its service. The limit of core files
// stays: Go writes none.
var neutralLimits = []struct {
	name      string
	resource  int
	unlimited bool // also the hard limit, where that is permitted
}{
	{"address space", unix.RLIMIT_AS, true},
	{"data segment", unix.RLIMIT_DATA, true},
	{"resident memory", unix.RLIMIT_RSS, true},
	{"processor time", unix.RLIMIT_CPU, true},
	{"file size", unix.RLIMIT_FSIZE, true},
	{"open files", unix.RLIMIT_NOFILE, false},
	{"processes", unix.RLIMIT_NPROC, false},
}

// BecomeNeutral resets limits, priority, umask and ignored signals, which the process has inherited from the job
// that started it. It returns the settings that it may not reset.
func BecomeNeutral() (kept []string) {
	unix.Umask(0o077)
	supervise.Heed()
	for _, limit := range neutralLimits {
		if left := raiseLimit(limit.resource, limit.unlimited); left != nil && limit.unlimited {
			kept = append(kept, fmt.Sprintf("%s limited to %d", limit.name, left.Max))
		}
	}
	return append(kept, raisePriority()...)
}

// raiseLimit raises the soft limit to the hard one. If unlimited is set, it removes both, as far
// as permitted. It returns the limit that is left, or nil if there is none.
func raiseLimit(resource int, unlimited bool) (left *unix.Rlimit) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(resource, &limit); err != nil || limit.Cur == unix.RLIM_INFINITY {
		return nil
	}
	if unlimited {
		none := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
		if unix.Setrlimit(resource, &none) == nil {
			return nil
		}
	}
	limit.Cur = limit.Max
	if err := unix.Setrlimit(resource, &limit); err != nil || limit.Max != unix.RLIM_INFINITY {
		return &limit
	}
	return nil
}
