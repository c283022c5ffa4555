package store

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// After a power failure that takes all that was not synced, a file that was synced has its
// name, and a name that was there before another was removed is there.
func TestNamesAreDurableInOrder(t *testing.T) {
	for _, sync := range []func(vfs.File) error{vfs.File.Sync, vfs.File.SyncData} {
		disk := vfs.NewCrashableMem()
		fs := namedFS{disk}
		file := func(name string) vfs.File {
			t.Helper()
			f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		old := file("old")
		if err := sync(old); err != nil {
			t.Fatal(err)
		}
		after := disk.CrashClone(vfs.CrashCloneCfg{})
		if _, err := after.Stat("old"); err != nil {
			t.Errorf("a synced file: %v", err)
		}
		renewed := file("new")
		if err := fs.Remove("old"); err != nil {
			t.Fatal(err)
		}
		after = disk.CrashClone(vfs.CrashCloneCfg{})
		if _, err := after.Stat("new"); err != nil {
			t.Errorf("the name that was made before another was removed: %v", err)
		}
		for _, f := range []vfs.File{old, renewed} {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
