package zklocal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxSocketPath is the longest socket address that every system allows: 104 bytes with the
// final zero on darwin, 108 on Linux and Windows.
const maxSocketPath = 103

// tempPrefix is the prefix of the temporary directories that hold the sockets of directories
// with long paths, see [listenNoted].
const tempPrefix = "holdfast-socket-"

// A socket is the directory's socket, bound by its host.
type socket struct {
	net.Listener
	dir  string
	path string // in dir, or named in the file "socket" there
	file fs.FileInfo
}

// listenSocket binds the directory's socket. Only the holder of host.lock may call it, because
// it replaces an existing socket, which is that of a dead host.
func listenSocket(dir string) (*socket, error) {
	if err := removeSocket(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, socketName)
	var (
		l   *net.UnixListener
		err error
	)
	if len(path) <= maxSocketPath {
		l, err = listenUnix(path)
	} else {
		l, path, err = listenLong(dir)
	}
	if err != nil {
		return nil, err
	}
	s := &socket{Listener: l, dir: dir, path: path}
	if err = closeToOthers(path); err == nil {
		s.file, err = os.Lstat(path)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return s, nil
}

// reachable reports whether the directory still leads to the socket. If the check fails for
// lack of open files or memory, it returns true, because the socket could not be created again
// either.
func (s *socket) reachable() bool {
	if s.path != filepath.Join(s.dir, socketName) {
		path, err := readNote(s.dir)
		if err != nil {
			return unseen(err)
		}
		if path != s.path {
			return false
		}
	}
	file, err := os.Lstat(s.path)
	if err != nil {
		return unseen(err)
	}
	return os.SameFile(s.file, file)
}

// unseen reports whether err leaves open if a file exists: the system failed for another reason
// than a missing name.
func unseen(err error) bool {
	_, ofSystem := errors.AsType[syscall.Errno](err)
	return ofSystem && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
}

func listenUnix(addr string) (*net.UnixListener, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: addr, Net: "unix"})
	if err != nil {
		return nil, err
	}
	// By default the listener removes the name when it closes. By then the name may be our
	// successor's socket, or an address under /proc that means another directory.
	l.SetUnlinkOnClose(false)
	return l, nil
}

// dialSocket connects to the process that listens on the directory's socket.
func dialSocket(ctx context.Context, dir string) (net.Conn, error) {
	path := filepath.Join(dir, socketName)
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	switch {
	case info.Mode().IsRegular():
		path, err = readNote(dir)
		if err != nil {
			return nil, err
		}
		return dialUnix(ctx, path)
	case len(path) <= maxSocketPath:
		return dialUnix(ctx, path)
	}
	return dialLong(ctx, dir)
}

func dialUnix(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", addr)
}

// removeSocket removes the directory's socket, wherever it is. Only the holder of
// host.lock may call it.
func removeSocket(dir string) error {
	if path, err := readNote(dir); err == nil {
		// Errors are ignored: at worst an empty directory remains, which does no harm.
		os.Remove(path)
		os.Remove(filepath.Dir(path))
	}
	err := os.Remove(filepath.Join(dir, socketName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// listenNoted binds a socket in a temporary directory of its own and writes its path into the
// file "socket".
func listenNoted(dir string) (*net.UnixListener, string, error) {
	temp, err := os.MkdirTemp("", tempPrefix)
	if err != nil {
		return nil, "", err
	}
	path := filepath.Join(temp, socketName)
	if len(path) > maxSocketPath {
		os.Remove(temp)
		return nil, "", fmt.Errorf("the path is too long for a socket (%d bytes, at most %d), and so is that of the directory for temporary files, %s: give a shorter directory, or set TMPDIR to one",
			len(dir)+1+len(socketName), maxSocketPath, os.TempDir())
	}
	l, err := listenUnix(path)
	if err != nil {
		os.Remove(temp)
		return nil, "", err
	}
	note := filepath.Join(dir, socketName)
	if err = os.WriteFile(note, []byte(path+"\n"), 0o600); err == nil {
		err = os.Chmod(note, 0o600)
	}
	if err != nil {
		l.Close()
		os.Remove(path)
		os.Remove(temp)
		return nil, "", err
	}
	return l, path, nil
}

// readNote reads the path that listenNoted wrote. After a reboot or a clean-up of temporary
// files the name may be free again, and any user may have taken it. So readNote refuses a
// directory that is not private to us.
func readNote(dir string) (string, error) {
	note := filepath.Join(dir, socketName)
	if info, err := os.Lstat(note); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s: not a file", note)
	}
	b, err := os.ReadFile(note)
	if err != nil {
		return "", err
	}
	path, complete := strings.CutSuffix(string(b), "\n")
	temp := filepath.Dir(path)
	if !complete || !filepath.IsAbs(path) || !strings.HasPrefix(filepath.Base(temp), tempPrefix) {
		// The note is incomplete: its writer was killed or is still writing.
		return "", fmt.Errorf("%s: does not name a socket: %w", note, fs.ErrNotExist)
	}
	info, err := os.Lstat(temp)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%s, named in %s: not a directory", temp, note)
	}
	if err := checkPrivate(temp, info); err != nil {
		return "", fmt.Errorf("%s names a socket that is not ours: %w", note, err)
	}
	return path, nil
}
