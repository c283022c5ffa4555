package store_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"holdfast/zkserver/internal/crashfs"
	"holdfast/zkserver/internal/store"
)

// The disk is full, and a snapshot that an earlier process could not complete has the rest of it. A start removes that
// file before it needs room.
func TestLeftoversAreRemovedBeforeAnythingElseIsWritten(t *testing.T) {
	fs := crashfs.New(nil)
	j := store.OpenOn(fs, 1<<10)
	mustLoad(t, j)
	mustCommit(t, j, put("/a", "x"))
	mustClose(t, j)
	files := fs.Killed(fs.Now())
	files["00000001.snapshot.tmp"] = make([]byte, 4<<20)
	fs = crashfs.New(files)
	var first string
	fs.Fail = func(c crashfs.Call) (int, error) {
		if !c.Changes() || c.Op == "remove" || c.Op == "syncdir" {
			return 0, nil
		}
		if names, _ := fs.List(); slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, ".snapshot.tmp") }) {
			first = c.Op + " " + c.Name
			return 0, syscall.ENOSPC
		}
		return 0, nil
	}
	j = store.OpenOn(fs, 1<<10)
	if c, err := load(j); err != nil || c.nodes["/a"] != "x" {
		t.Fatalf("%v; the first call was %s", err, first)
	}
	mustClose(t, j)
}
