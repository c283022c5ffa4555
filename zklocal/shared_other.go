//go:build !linux && !darwin && !windows

package zklocal

// sharedFileSystem is not known here.
func sharedFileSystem(string) string { return "" }
