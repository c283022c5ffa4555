//go:build unix

package main

import (
	"io/fs"
	"os"
	"syscall"
)

// writableByOthers reports whether users other than the owner can change the file.
func writableByOthers(info fs.FileInfo) bool { return info.Mode().Perm()&0o022 != 0 }

// ownGroup returns the group of a file, or -1.
func ownGroup(path string) int {
	if info, err := os.Lstat(path); err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			return int(stat.Gid)
		}
	}
	return -1
}

// ours reports whether the file belongs to this user or to root.
func ours(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid())
}
