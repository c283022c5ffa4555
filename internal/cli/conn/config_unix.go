//go:build unix

package conn

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// writableByOthers reports whether users other than the owner can change the file.
func writableByOthers(info fs.FileInfo) bool { return info.Mode().Perm()&0o022 != 0 }

// mayConnect reports whether the permissions of a socket and of its directories let this user connect. It does so, too,
// if there is no socket.
func mayConnect(path string) bool { return !errors.Is(unix.Access(path, unix.W_OK), fs.ErrPermission) }

// ours reports whether the file belongs to this user or to root.
func ours(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid())
}
