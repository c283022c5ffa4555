//go:build unix

package store

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// noWait opens a pipe without waiting for its other end.
const noWait = unix.O_NONBLOCK

func tryLock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

func lockedElsewhere(err error) bool { return errors.Is(err, unix.EWOULDBLOCK) }

// openSelf opens the directory itself for syncDir.
func openSelf(root *os.Root) (*os.File, error) { return root.Open(".") }

// syncDir makes the names in a directory durable.
func syncDir(self *os.File) error { return self.Sync() }
