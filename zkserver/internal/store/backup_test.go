package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/zkserver/internal/crashfs"
	"holdfast/zkserver/internal/store"
)

// counting returns a Visitor that counts nodes.
func counting(nodes *int) store.Visitor {
	return store.Visitor{
		Node:    func(string, byte, []byte) error { *nodes++; return nil },
		Session: func(int64, []byte) error { return nil },
	}
}

// A server writes two batches while a backup looks for the end of the journal. The second batch
// says that the first is durable, but the backup has not seen the first. That is no damage.
func TestBackUpOfAJournalThatGrows(t *testing.T) {
	fs := crashfs.New(nil)
	j := store.OpenOn(fs, 1<<20)
	mustLoad(t, j)
	for i := range 10 {
		mustCommit(t, j, put(fmt.Sprint("/", i), strings.Repeat("x", 100)))
	}
	for at := 1; ; at++ { // the server writes before this read of the journal
		reads, written := 0, false
		fs.Fail = func(c crashfs.Call) (int, error) {
			if c.Op == "read" && strings.HasSuffix(c.Name, ".journal") && !written {
				if reads++; reads == at {
					written = true
					for i := range 2 {
						mustCommit(t, j, put(fmt.Sprint("/during", at, i), "y"))
					}
				}
			}
			return 0, nil
		}
		dest := crashfs.New(nil)
		if err := store.Copy(fs, dest); err != nil {
			t.Fatalf("two commits before read %d: %v", at, err)
		}
		if _, err := store.CheckFS(dest, counting(new(int))); err != nil {
			t.Fatalf("two commits before read %d: the copy: %v", at, err)
		}
		if !written {
			break
		}
	}
	fs.Fail = nil
	mustClose(t, j)
}

// A store that has lost its end is not copied as if it were complete. A start without a commit
// leaves an empty journal after the damaged one.
func TestBackUpRefusesAStoreThatHasLostItsEnd(t *testing.T) {
	for _, starts := range []int{1, 2} {
		t.Run(fmt.Sprint(starts, " starts"), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			j := mustOpen(t, dir)
			mustLoad(t, j)
			mustCommit(t, j, put("/a", "x"))
			mustCommit(t, j, put("/b", "x"))
			mustClose(t, j)
			for range starts - 1 {
				j := mustOpen(t, dir)
				mustLoad(t, j)
				mustClose(t, j)
			}
			name := filepath.Join(dir, "store", "00000001.journal")
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(name, info.Size()-5); err != nil {
				t.Fatal(err)
			}
			dest := filepath.Join(t.TempDir(), "copy")
			if _, err := store.BackUp(dir, dest, func() store.Visitor { return counting(new(int)) }); !errors.Is(err, store.ErrDamaged) {
				t.Errorf("%v; want ErrDamaged", err)
			}
			if _, err := os.Stat(dest); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the refused backup left a copy: %v", err)
			}
		})
	}
}

// After a power failure, the journal after a snapshot may have no batch yet.
func TestBackUpOfASnapshotWithAnEmptyJournal(t *testing.T) {
	disk := crashfs.New(nil)
	j := store.OpenOn(disk, 1<<10)
	mustLoad(t, j)
	n := 0
	for ; !j.Compacting(); n++ {
		mustCommit(t, j, put(fmt.Sprint("/", n), strings.Repeat("a", 100)))
	}
	if err := j.Settle(); err != nil {
		t.Fatal(err)
	}
	files := disk.Killed(disk.Now())
	mustClose(t, j)
	delete(files, store.WitnessFile)
	cut := 0
	for name, b := range files {
		if strings.HasSuffix(name, ".journal") {
			files[name], cut = b[:store.FileHeader], cut+1
		}
	}
	if cut != 1 {
		t.Fatalf("%d journals; want 1", cut)
	}
	dest := crashfs.New(nil)
	if err := store.Copy(crashfs.New(files), dest); err != nil {
		t.Fatal(err)
	}
	found := 0
	_, err := store.CheckFS(dest, counting(&found))
	if err != nil || found < n-1 {
		t.Errorf("%v; %d nodes of %d", err, found, n)
	}
}
