package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"holdfast/zkserver/internal/store"
)

// A journal reserves its full size in advance. After a crash the rest is zeros, which are no
// damage. Close frees the rest.
func TestJournalHasRoomThatEndsWithIt(t *testing.T) {
	const commits = 20
	dir, crashed := t.TempDir(), t.TempDir()
	j := mustOpen(t, dir)
	mustLoad(t, j)
	for i := range commits {
		mustCommit(t, j, put(fmt.Sprint("/", i), "record"))
	}
	if got := journalSize(t, dir); got != store.JournalRoom {
		t.Errorf("the journal has %d bytes while it is written; want its room, %d", got, store.JournalRoom)
	}
	if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	mustClose(t, j)
	if got := journalSize(t, dir); got > 1<<12 {
		t.Errorf("the closed journal has %d bytes; want only the written ones", got)
	}
	for name, dir := range map[string]string{"closed": dir, "crashed": crashed} {
		j := mustOpen(t, dir)
		if c := mustLoad(t, j); len(c.nodes) != commits || c.meta.Restarted {
			t.Errorf("%s: %d nodes, restarted: %v; want %d", name, len(c.nodes), c.meta.Restarted, commits)
		}
		mustClose(t, j)
	}
}

// For a batch that is longer than the reserved space, the journal reserves more.
func TestJournalMakesRoomForALargeBatch(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir)
	mustLoad(t, j)
	mustCommit(t, j, put("/large", string(make([]byte, store.JournalRoom))))
	if got := journalSize(t, dir); got != 2*store.JournalRoom {
		t.Errorf("the journal has %d bytes; want %d", got, 2*store.JournalRoom)
	}
	mustClose(t, j)
}

func journalSize(t *testing.T, dir string) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, "store", "00000001.journal"))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// Linux has a boot id, and it stays the same.
func TestBootIDOfLinux(t *testing.T) {
	if a, b := store.MachineBoot(), store.MachineBoot(); a == (store.BootID{}) || a != b {
		t.Errorf("boot ids %x and %x", a, b)
	}
}
