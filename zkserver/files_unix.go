//go:build unix

package zkserver

import (
	"os"
	"syscall"
)

// openFiles returns how many files this process has open and may have. -1 is unknown.
func openFiles() (open, most int64) {
	open, most = -1, -1
	if d, err := os.Open("/dev/fd"); err == nil {
		defer d.Close()
		if names, err := d.Readdirnames(-1); err == nil {
			open = int64(len(names)) - 1 // d itself does not count
		}
	}
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		most = int64(limit.Cur) // negative if there is no limit
	}
	return open, most
}

// shortages are the errors of Accept that mean a lack of files, buffers or memory. A later call may
// succeed.
var shortages = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM}
