//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// interactive reports whether f is our terminal.
func interactive(f *os.File) bool {
	_, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil
}
