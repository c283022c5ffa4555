package zklocal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holdfast/zkserver"
)

func TestADirectoryIsMadeWithItsParentsForItsOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b", "c")
	newStore(t, Config{Dir: dir})
	if _, err := os.Stat(filepath.Join(dir, hostLockName)); err != nil {
		t.Error(err)
	}
}

func TestARelativeDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	store := newStore(t, Config{Dir: "state"})
	if !filepath.IsAbs(store.dir) {
		t.Errorf("got %q; want an absolute path", store.dir)
	}
	newHost(t, zkserver.Config{Dir: "state"})
}

func TestABadDirectoryIsRefusedWithAWayOut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, dir string
		is        error
		want      []string
	}{
		{"no name", "", nil, []string{"no directory given"}},
		{"a zero byte", "a\x00b", nil, []string{"zero byte"}},
		{"a file", file, syscall.ENOTDIR, []string{file, "give another path"}},
		{"below a file", filepath.Join(file, "x"), syscall.ENOTDIR, []string{filepath.Join(file, "x")}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, openErr := Open(Config{Dir: test.dir})
			_, hostErr := OpenHost(zkserver.Config{Dir: test.dir})
			for _, err := range []error{openErr, hostErr} {
				if err == nil {
					t.Fatal("got no error for a directory that cannot be used")
				}
				if test.is != nil && !errors.Is(err, test.is) {
					t.Errorf("got %v; want it to be %v", err, test.is)
				}
				for _, want := range append(test.want, "zklocal: open") {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("got %q; want it to say %q", err, want)
					}
				}
			}
		})
	}
}

func TestErrorsOfTheSystemSayWhatToDo(t *testing.T) {
	for err, want := range map[error]string{
		syscall.EROFS:                      "read-only file system: give a directory on a file system that can be written",
		syscall.EACCES:                     "permission denied: give a directory that belongs to you",
		syscall.ENOSPC:                     "make room",
		syscall.ENOLCK:                     "on a local disk",
		syscall.ENOTSUP:                    "on a local disk",
		errors.New("something unheard of"): "zklocal: open /d: something unheard of",
	} {
		for _, err := range []error{err, &fs.PathError{Op: "openat", Path: "/d/host.lock", Err: err}} {
			got := explain("open", "/d", err)
			if !strings.HasPrefix(got.Error(), "zklocal: open /d: ") || !strings.Contains(got.Error(), want) {
				t.Errorf("got %q; want it to say %q", got, want)
			}
			if reason := errors.Unwrap(got); !errors.Is(err, reason) {
				t.Errorf("%q does not wrap %v", got, err)
			}
		}
	}
}
