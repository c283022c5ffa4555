package term

import (
	"os"

	"golang.org/x/sys/windows"
)

// Interactive reports whether f is a console.
func Interactive(f *os.File) bool {
	var mode uint32
	return windows.GetConsoleMode(windows.Handle(f.Fd()), &mode) == nil
}
