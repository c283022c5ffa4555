//go:build unix

package zklocal

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A host that takes its socket for removed removes it and makes it again. Without file
// descriptors the second step would fail, and the directory would have no socket.
func TestASocketIsReachableUnlessItIsGone(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		happen func(t *testing.T, dir string, s *socket)
		want   bool
	}{
		{"nothing happens", func(*testing.T, string, *socket) {}, true},
		{"no open files", func(t *testing.T, _ string, _ *socket) {
			none := limit
			none.Cur = 0
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"the note is removed", func(t *testing.T, dir string, _ *socket) { remove(t, filepath.Join(dir, socketName)) }, false},
		{"the socket is removed", func(t *testing.T, _ string, s *socket) { remove(t, s.path) }, false},
		{"a directory in place of the note", func(t *testing.T, dir string, _ *socket) {
			remove(t, filepath.Join(dir, socketName))
			if err := os.Mkdir(filepath.Join(dir, socketName), 0o700); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"a file in place of the directory", func(t *testing.T, dir string, _ *socket) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(dir, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir, err := prepareDir(newDir(t))
			if err != nil {
				t.Fatal(err)
			}
			l, path, err := listenNoted(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(filepath.Dir(path))
			defer l.Close()
			s := &socket{Listener: l, dir: dir, path: path}
			if s.file, err = os.Lstat(path); err != nil {
				t.Fatal(err)
			}
			defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
			test.happen(t, dir, s)
			got := s.reachable()
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("reachable: %v; want %v", got, test.want)
			}
		})
	}
}

func remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
}
