//go:build !linux

package zkserver

// openFiles is how many files this process has open and may have; -1 is unknown.
func openFiles() (open, most int64) { return -1, -1 }
