package store

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

const noWait = 0

func tryLock(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, new(windows.Overlapped))
}

func lockedElsewhere(err error) bool { return errors.Is(err, windows.ERROR_LOCK_VIOLATION) }

func openSelf(*os.Root) (*os.File, error) { return nil, nil }

// syncDir does nothing: NTFS journals names, and a directory cannot be flushed.
func syncDir(*os.File) error { return nil }
