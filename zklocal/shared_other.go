//go:build !linux && !darwin && !windows

package zklocal

// sharedFileSystem returns "": this system does not tell whether other machines can mount a
// directory.
func sharedFileSystem(string) string { return "" }
