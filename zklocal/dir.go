package zklocal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The names that this package uses in the directory. None can clash with a file of the store,
// which has its own directory.
const (
	hostLockName  = "host.lock"
	startLockName = "start.lock"
	hostPIDName   = "host.pid"
	socketName    = "socket"
)

// HostLock returns the path of the file whose lock makes a process the host of the directory
// dir.
func HostLock(dir string) string { return filepath.Join(dir, hostLockName) }

// prepareDir creates the directory if necessary, checks that it is private to us and writable,
// and returns its absolute path.
func prepareDir(name string) (string, error) {
	if name == "" {
		return "", errors.New("zklocal: open: no directory given")
	}
	dir, err := filepath.Abs(name)
	if err != nil {
		return "", explain("open", name, err)
	}
	if strings.ContainsRune(dir, 0) {
		return "", fmt.Errorf("zklocal: open %q: a path cannot contain a zero byte", dir)
	}
	if err := checkLocal(dir); err != nil {
		return "", err
	}
	for wait := (backoff{}); halfRemoved(dir) && wait.total < removalPatience; {
		wait.pause(context.Background())
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		info, err = makeDir(dir)
	}
	if err != nil {
		return "", explain("open", dir, err)
	}
	if !info.IsDir() {
		return "", explain("open", dir, syscall.ENOTDIR)
	}
	if err := checkPrivate(dir, info); err != nil {
		return "", err
	}
	// The lock file is needed anyway. To create it here reports an unwritable directory at
	// once, and not during a reconnect.
	f, err := openLockFile(filepath.Join(dir, hostLockName))
	if err != nil {
		return "", explain("open", dir, err)
	}
	return dir, f.Close()
}

// removalPatience is the time for which a directory that is being removed is left alone.
const removalPatience = time.Second

// halfRemoved reports whether the directory has files but no host.lock, as during rm -rf. If we
// created a file there then, rm would fail, and half a store would remain.
func halfRemoved(dir string) bool {
	if _, err := os.Lstat(filepath.Join(dir, hostLockName)); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) > 0
}

// makeDir creates a directory, and its parents if necessary. Each new name is durable when
// makeDir returns, because the store syncs only the names below it.
func makeDir(dir string) (fs.FileInfo, error) {
	parent := filepath.Dir(dir)
	if _, err := os.Stat(parent); errors.Is(err, fs.ErrNotExist) {
		if _, err := makeDir(parent); err != nil {
			return nil, err
		}
	}
	switch err := os.Mkdir(dir, 0o700); {
	case err == nil:
		// A umask cannot widen the mode, but it can remove our own permissions.
		if err := os.Chmod(dir, 0o700); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrExist): // otherwise another process was quicker, which is fine
		return nil, err
	}
	if err := syncDir(parent); err != nil {
		return nil, err
	}
	return os.Stat(dir)
}

// explain adds a hint for the user to an error of the operating system.
func explain(op, dir string, err error) error {
	// The path of an *fs.PathError is dir, or one of our files in it. The user knows only dir.
	reason := err
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		reason = path.Err
	}
	var hint string
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		hint = "file:// takes a directory that holdfast may fill; give another path"
	case errors.Is(err, syscall.EROFS):
		hint = "give a directory on a file system that can be written"
	case errors.Is(err, fs.ErrPermission):
		hint = "give a directory that belongs to you, or make it and its parents accessible to you (chmod u+rwx)"
	case noRoom(err):
		hint = fmt.Sprintf("make room on its file system (df %s)", dir)
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.ENOLCK):
		hint = "that file system has no file locks; give a directory on a local disk"
	default:
		return fmt.Errorf("zklocal: %s %s: %w", op, dir, reason)
	}
	return fmt.Errorf("zklocal: %s %s: %w: %s", op, dir, reason, hint)
}

func noRoom(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, errQuota) }

// writePID writes our process id to host.pid. Only the holder of host.lock calls it.
func writePID(dir string) error {
	name := filepath.Join(dir, hostPIDName)
	if err := os.WriteFile(name, strconv.AppendInt(nil, int64(os.Getpid()), 10), 0o600); err != nil {
		return err
	}
	return os.Chmod(name, 0o600)
}

// hostName returns the name of the current host for messages: its process id, if known.
func hostName(dir string) string {
	b, err := os.ReadFile(filepath.Join(dir, hostPIDName))
	pid, convErr := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || convErr != nil {
		// The file is written just after the lock is acquired, and removed just before it is
		// released.
		return "pid not known yet"
	}
	return "pid " + strconv.Itoa(pid)
}
