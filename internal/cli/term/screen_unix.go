//go:build unix

package term

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// screenOf returns the screen of a terminal, or nil if f is none or belongs to another job.
func screenOf(f *os.File) *Screen {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	return NewScreen(func() (width int) {
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

// ScreenHeight returns the rows of the terminal that w is, or 0.
func ScreenHeight(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	rows := 0
	_ = raw.Control(func(fd uintptr) {
		if size, err := unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ); err == nil {
			rows = int(size.Row)
		}
	})
	return rows
}
