package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"holdfast/zkserver/internal/store"
)

// filesIn reads all files in a directory.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[name.Name()] = string(b)
	}
	return files
}

// While the store is open, another directory gets the name of the store's directory. The store
// changes nothing in it.
func TestAStoreStaysInTheDirectoryThatItHasOpened(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not rename a directory that is in use")
	}
	large := func(i int) *store.Batch { return put(fmt.Sprint("/", i%10), strings.Repeat("x", 200_000)) }
	const commits = 80 // fills four journals
	for _, tt := range []struct {
		name string
		away func(dir, moved string) error
		lost bool
	}{
		{"renamed", os.Rename, false},
		{"removed", func(dir, _ string) error { return os.RemoveAll(dir) }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parent := t.TempDir()
			dir, moved := filepath.Join(parent, "data"), filepath.Join(parent, "moved")
			first := mustOpen(t, dir)
			mustLoad(t, first)
			mustCommit(t, first, large(0))
			if err := tt.away(dir, moved); err != nil {
				t.Fatal(err)
			}
			second := mustOpen(t, dir)
			mustLoad(t, second)
			mustCommit(t, second, put("/second", "x"))
			before := filesIn(t, filepath.Join(dir, "store"))

			var err error
			snapshots := 0
			for i := 1; i < commits && err == nil; i++ {
				if err = first.Commit(large(i)); first.Compacting() {
					snapshots++
					err = errors.Join(err, first.Settle())
				}
			}
			switch {
			case tt.lost && (!errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), filepath.Join(dir, "store", "00000002.journal.tmp"))):
				t.Errorf("commits in a removed directory: %v; want ErrNotExist with the path of the next journal", err)
			case !tt.lost && (err != nil || snapshots < 2):
				t.Errorf("commits in a renamed directory: %v, %d snapshots", err, snapshots)
			}
			mustClose(t, first)
			if after := filesIn(t, filepath.Join(dir, "store")); !maps.Equal(after, before) {
				t.Error("the other directory has changed")
			}
			mustCommit(t, second, put("/second", "y"))
			mustClose(t, second)
			for dir, want := range map[string]string{dir: "/second", moved: "/9"} {
				if dir == moved && tt.lost {
					continue
				}
				j := mustOpen(t, dir)
				if c := mustLoad(t, j); c.nodes[want] == "" {
					t.Errorf("%s: the committed %s is lost", dir, want)
				}
				mustClose(t, j)
			}
		})
	}
}

// Errors name the operation and the full path of the file.
func TestErrorsOfADirectoryHaveTheWholePath(t *testing.T) {
	path := t.TempDir()
	dir, closeDir, err := store.OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeDir)
	for op, call := range map[string]func(name string) error{
		"open":   func(name string) error { _, err := dir.Open(name); return err },
		"remove": dir.Remove,
		"rename": func(name string) error { return dir.Rename(name, "to") },
	} {
		err := call("gone")
		got, ok := errors.AsType[*fs.PathError](err)
		if want := filepath.Join(path, "gone"); !ok || got.Op != op || got.Path != want || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v; want %s %s: no such file", op, err, op, want)
		}
	}
	f, err := dir.Create("file")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(bytes.Repeat([]byte("x"), 3), 0); err == nil || !strings.Contains(err.Error(), filepath.Join(path, "file")) {
		t.Errorf("write: %v; want the whole path", err)
	}
}
