package zklocal

import (
	"errors"
	"os"
)

// errHeld: another open file, usually of another process, holds the lock.
var errHeld = errors.New("the lock is held")

// fileLock is a lock on a file. The operating system gives it back when the process
// ends, however it ends.
//
// It belongs to the open file and not to the process, so two of them in one process
// exclude each other. For the same reason a child that inherited the file would keep
// the lock of a dead parent: os.OpenFile opens with O_CLOEXEC (a handle that is not
// inherited, on Windows), which rules that out.
//
// The file is never deleted. Were it deleted, one process could lock the file that
// is gone and another the new one of the same name.
type fileLock struct {
	f *os.File
}

// tryLock takes the lock on the named file, or answers errHeld at once.
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
		// Somebody removed the directory between our open and our lock.
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

// current reports whether the lock's name still leads to the file that is locked. If not,
// somebody removed or replaced the directory, and the lock guards nothing.
func (l *fileLock) current() bool { return leadsTo(l.f) }

// unlock gives the lock back. Closing is enough: no other descriptor shares the file.
func (l *fileLock) unlock() { l.f.Close() }
