//go:build unix

package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/zkserver/internal/store"
)

// A named pipe in place of a file or directory of the store is an error. Opening it would wait for its other end.
func TestAPipeIsNoStore(t *testing.T) {
	for _, name := range []string{".", "store", "store/00000001.journal", "store/committed", "store/LOCK", "store/copied", "store/00000001.snapshot"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			j := mustOpen(t, dir)
			mustLoad(t, j)
			mustCommit(t, j, put("/a", "x"))
			mustClose(t, j)
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
				t.Fatal(err)
			}
			for what, f := range map[string]func() error{
				"backup": func() error {
					_, err := store.BackUp(dir, filepath.Join(t.TempDir(), "copy"), func() store.Visitor { return counting(new(int)) })
					return err
				},
				"check": func() error {
					_, err := store.Check(dir, counting(new(int)))
					return err
				},
				"start": func() error {
					j, err := store.OpenJournal(dir)
					if err != nil {
						return err
					}
					defer j.Close()
					_, err = load(j)
					return err
				},
			} {
				done := make(chan error, 1)
				go func() { done <- f() }()
				select {
				case err := <-done:
					lock := what == "backup" && name == "store/LOCK" // it needs no lock
					if err == nil != lock || err != nil && !strings.Contains(err.Error(), dir) {
						t.Errorf("%s: %v; want an error with the path", what, err)
					}
				case <-time.After(10 * time.Second):
					t.Fatalf("%s hangs", what)
				}
			}
		})
	}
}
