//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// screenOf returns the screen of a terminal, or nil if f is none or belongs to another job.
func screenOf(f *os.File) *screen {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	return newScreen(func() (width int) {
		_ = raw.Control(func(fd uintptr) {
			size, err := unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ)
			if err != nil {
				return // no terminal
			}
			// A job in the background must not draw over the shell's line. If this is not our controlling
			// terminal, there is no shell.
			if group, err := unix.IoctlGetInt(int(fd), unix.TIOCGPGRP); err == nil && group != unix.Getpgrp() {
				return
			}
			if width = int(size.Col); width == 0 {
				width = unknownWidth
			}
		})
		return width
	})
}
