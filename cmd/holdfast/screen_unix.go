//go:build unix

package main

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// screenHeight returns the rows of the terminal that w is, or 0.
func screenHeight(w io.Writer) int {
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
