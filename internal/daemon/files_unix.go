//go:build unix

package daemon

import "golang.org/x/sys/unix"

// ownFiles are the open files that a program beside its connections needs.
const ownFiles = 64

// WithinFiles returns how many of so many connections the limit of open files allows.
func WithinFiles(connections int) int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil || uint64(limit.Cur) >= uint64(connections+ownFiles) {
		return connections
	}
	return max(4, int(limit.Cur)-ownFiles)
}
