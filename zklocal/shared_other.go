//go:build !linux && !darwin && !windows

package zklocal

// sharedFileSystem returns "": on this system it is unknown whether other machines can mount a
// directory.
func sharedFileSystem(string) string { return "" }
