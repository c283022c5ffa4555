package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// interactive reports whether f is a console.
func interactive(f *os.File) bool {
	var mode uint32
	return windows.GetConsoleMode(windows.Handle(f.Fd()), &mode) == nil
}
