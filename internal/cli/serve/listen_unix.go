//go:build unix

package serve

import (
	"net"
	"os"
	"syscall"
)

// ownGroup returns the group of a file, or -1.
func ownGroup(path string) int {
	if info, err := os.Lstat(path); err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			return int(stat.Gid)
		}
	}
	return -1
}

// listenPrivately listens on a Unix socket to which only this user may connect, from its first moment on. The umask is
// that of the whole process, so files that are made meanwhile are private, too.
func listenPrivately(path string) (net.Listener, error) {
	defer syscall.Umask(syscall.Umask(0o077))
	return net.Listen("unix", path)
}
