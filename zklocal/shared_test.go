package zklocal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/zkserver"
)

func TestADirectoryOnASharedFileSystemIsRefused(t *testing.T) {
	here := t.TempDir()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	there := filepath.Join(base, "nfs") // the stub below reports it as a mount
	if err := os.Mkdir(there, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(here, "link")
	if err := os.Symlink(there, link); err != nil {
		t.Fatal(err)
	}
	fileSystem = func(dir string) string {
		if real, err := filepath.EvalSymlinks(dir); err != nil {
			t.Errorf("the file system was asked for before the directory existed: %v", err)
		} else if real == there || strings.HasPrefix(real, there+string(filepath.Separator)) {
			return "nfs"
		}
		return ""
	}
	t.Cleanup(func() { fileSystem = sharedFileSystem })
	for _, test := range []struct {
		name, dir string
		shared    bool
	}{
		{"that is there", there, true},
		{"that would be made", filepath.Join(there, "a", "b"), true},
		{"behind a link", link, true},
		{"below a link", filepath.Join(link, "a"), true},
		{"beside it", filepath.Join(here, "a"), false},
		{"with a name that begins alike", there + "2", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			store, openErr := Open(Config{Dir: test.dir})
			if openErr == nil {
				store.Close()
			}
			host, hostErr := OpenHost(zkserver.Config{Dir: test.dir})
			if hostErr == nil {
				host.Close()
			}
			for _, err := range []error{openErr, hostErr} {
				if errors.Is(err, ErrShared) != test.shared || !test.shared && err != nil {
					t.Fatalf("got %v", err)
				}
				if !test.shared {
					continue
				}
				for _, want := range []string{"zklocal: open " + test.dir, "(nfs)", "a local disk", "holdfast serve"} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("got %q; want it to say %q", err, want)
					}
				}
			}
			if entries, err := os.ReadDir(there); err != nil || len(entries) > 0 {
				t.Errorf("files were made there: %v (%v)", entries, err)
			}
			if _, err := os.Stat(test.dir); test.shared && test.dir != there && test.dir != link && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the directory was made on a shared file system (%v)", err)
			}
		})
	}
}
