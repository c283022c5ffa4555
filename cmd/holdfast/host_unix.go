//go:build unix

package main

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const openNoFollow = syscall.O_NOFOLLOW

// detach gives the host a session of its own: no terminal, and none of its signals.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// closeInherited closes the descriptors that came from whoever started us: a pipe among
// them would not end for its reader while the host lives. Those that Go opened are
// close-on-exec, so the flag tells them apart.
func closeInherited() {
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

// forgetStdout ends a detached host's tie to the process that has started it.
func forgetStdout() {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return // a pipe that nobody reads does no harm either
	}
	defer null.Close()
	_ = dup(int(null.Fd()), int(os.Stdout.Fd()))
}
