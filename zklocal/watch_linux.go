package zklocal

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A watch reports changes that may have removed the directory or its socket. Some reports are
// irrelevant, so the host checks. A file system that is mounted over the directory is not
// reported.
type watch struct {
	changed chan struct{} // holds a token after a report
	f       *os.File      // of inotify
	ended   chan struct{}
}

// newWatch fails if the user has no inotify instance left (fs.inotify.max_user_instances).
func newWatch(dir string) (*watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	w := &watch{changed: make(chan struct{}, 1), f: os.NewFile(uintptr(fd), "inotify"), ended: make(chan struct{})}
	// When the directory is removed with its files, the lock file is removed first. The host
	// has it open, so its removal shows as a change of its link count.
	w.add(filepath.Join(dir, hostLockName), unix.IN_ATTRIB)
	for _, path := range paths(dir) {
		for ; path != filepath.Dir(path); path = filepath.Dir(path) {
			w.add(path, 0)
		}
	}
	go w.run()
	return w, nil
}

// add watches one more file or directory for its removal and for a new name. After an error,
// only the host's regular check detects them.
func (w *watch) add(path string, events uint32) {
	conn, err := w.f.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		_, _ = unix.InotifyAddWatch(int(fd), path, unix.IN_MOVE_SELF|unix.IN_DELETE_SELF|unix.IN_DONT_FOLLOW|events)
	})
}

// addSocket watches the directory's socket, and the note that contains its path.
func (w *watch) addSocket(s *socket) {
	if w != nil {
		w.add(s.path, unix.IN_ATTRIB)
		w.add(filepath.Join(s.dir, socketName), unix.IN_ATTRIB)
	}
}

// run reads reports until close.
func (w *watch) run() {
	defer close(w.ended)
	var events [4096]byte // the content does not matter
	for {
		if _, err := w.f.Read(events[:]); err != nil {
			return
		}
		wake(w.changed)
	}
}

// reports returns the channel of reports. Without a watch it is never ready.
func (w *watch) reports() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.changed
}

func (w *watch) close() {
	if w != nil {
		w.f.Close()
		<-w.ended
	}
}
