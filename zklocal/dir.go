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

// The names that this package uses in the directory. None of them can be the name
// of a file of the store, which has a directory of its own.
const (
	hostLockName  = "host.lock"
	startLockName = "start.lock"
	hostPIDName   = "host.pid"
	socketName    = "socket"
)

// HostLock is the path of the file whose lock makes a process the host of the directory dir.
func HostLock(dir string) string { return filepath.Join(dir, hostLockName) }

// prepareDir makes the directory if there is none, checks that it is ours alone and
// that we can write in it, and returns its absolute path.
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
	// The lock file is needed anyway, and creating it here tells at once, and not in
	// the middle of a reconnect, that the directory cannot be written.
	f, err := openLockFile(filepath.Join(dir, hostLockName))
	if err != nil {
		return "", explain("open", dir, err)
	}
	return dir, f.Close()
}

// removalPatience is how long a directory that is being removed is left alone.
const removalPatience = time.Second

// halfRemoved reports whether the directory has files but no host.lock, as while rm -rf is at
// work. A file that is made there at this moment would let rm fail, and half a store remain.
func halfRemoved(dir string) bool {
	if _, err := os.Lstat(filepath.Join(dir, hostLockName)); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) > 0
}

// makeDir makes a directory, and its parents if need be. Each new name is durable when makeDir
// returns, since the store makes its own names durable below them only.
func makeDir(dir string) (fs.FileInfo, error) {
	parent := filepath.Dir(dir)
	if _, err := os.Stat(parent); errors.Is(err, fs.ErrNotExist) {
		if _, err := makeDir(parent); err != nil {
			return nil, err
		}
	}
	switch err := os.Mkdir(dir, 0o700); {
	case err == nil:
		// A umask cannot widen the mode, but it can take our own rights away.
		if err := os.Chmod(dir, 0o700); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrExist): // else: another process was quicker, which is fine
		return nil, err
	}
	if err := syncDir(parent); err != nil {
		return nil, err
	}
	return os.Stat(dir)
}

// explain adds to an error of the operating system what its user can do about it.
func explain(op, dir string, err error) error {
	// The paths of *fs.PathError are files of ours inside dir, or dir again; dir is
	// what the user knows.
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

// writePID notes this process in host.pid. Only the holder of host.lock calls it.
func writePID(dir string) error {
	name := filepath.Join(dir, hostPIDName)
	if err := os.WriteFile(name, strconv.AppendInt(nil, int64(os.Getpid()), 10), 0o600); err != nil {
		return err
	}
	return os.Chmod(name, 0o600)
}

// hostName is what messages call the present host: its process id, if it is known.
func hostName(dir string) string {
	b, err := os.ReadFile(filepath.Join(dir, hostPIDName))
	pid, convErr := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || convErr != nil {
		// The file is written just after the lock is taken, and removed just before it
		// is given back.
		return "pid not known yet"
	}
	return "pid " + strconv.Itoa(pid)
}
