//go:build unix

package term

import (
	"os"

	"golang.org/x/sys/unix"
)

// Interactive reports whether f is our terminal.
func Interactive(f *os.File) bool {
	_, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil
}
