package zklocal

import (
	"errors"
	"os"
)

// errHeld: another open file, usually of another process, holds the lock.
var errHeld = errors.New("the lock is held")

// A fileLock is a lock on a file. The operating system releases it when the process ends,
// however it ends.
//
// The lock belongs to the open file and not to the process, so two of them in one process
// exclude each other. For the same reason, a child that inherited the file would keep the lock
// of a dead parent. os.OpenFile rules that out: it opens with O_CLOEXEC (on Windows, a handle
// that is not inherited).
//
// The file is never deleted. Otherwise one process could lock the deleted file and another the
// new one of the same name.
type fileLock struct {
	f *os.File
}

// tryLock acquires the lock on the named file, or returns errHeld at once.
func tryLock(name string) (*fileLock, error) {
	for {
		f, err := openLockFile(name)
		if err != nil {
			return nil, err
		}
		if err := lockFile(f); err != nil {
			f.Close()
			return nil, err
		}
		l := &fileLock{f: f}
		if l.current() {
			return l, nil
		}
		// The directory was removed between our open and our lock.
		l.unlock()
	}
}

func openLockFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.Mode().Perm() != 0o600 {
		f.Chmod(0o600) // a strict umask took the owner's rights; if this fails we still have the file
	}
	return f, nil
}

// current reports whether the lock's name still leads to the locked file. If not, the directory
// was removed or replaced, and the lock guards nothing.
func (l *fileLock) current() bool { return leadsTo(l.f) }

// unlock releases the lock. Closing is enough: no other descriptor shares the file.
func (l *fileLock) unlock() { l.f.Close() }
