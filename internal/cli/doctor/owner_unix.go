//go:build unix

package doctor

import (
	"io/fs"
	"syscall"
)

// ownerID returns the user id of a file's owner.
func ownerID(info fs.FileInfo) (int, bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}
