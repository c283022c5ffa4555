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

// detach gives the host its own session, without a terminal and its signals.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// closeInherited closes the descriptors that the host has inherited. Otherwise the reader of an
// inherited pipe would wait for its end while the host lives. Descriptors that Go opens are
// close-on-exec, so the others are inherited.
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

// forgetStdout replaces stdout, a pipe to the process that started the host, by the null device.
func forgetStdout() {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return // an unread pipe does no harm either
	}
	defer null.Close()
	_ = dup(int(null.Fd()), int(os.Stdout.Fd()))
}
