//go:build unix

package zklocal

import (
	"errors"
	"os"
	"syscall"
)

// errQuota: the user's quota is used up, though the disk may have room.
const errQuota = syscall.EDQUOT

// lockFile uses flock and not fcntl. Locks of fcntl belong to the process, so two stores in one
// process would both get them, and closing any descriptor of the file would release them.
func lockFile(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errHeld
		case err != nil:
			return &os.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
		return nil
	}
}
