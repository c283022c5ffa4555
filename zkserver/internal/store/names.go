package store

import (
	"errors"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// namedFS keeps changes of names in order where Pebble relies on that: it replaces the
// marker that names its manifest by creating the new one, removing the old one, and one
// sync of the directory for these two and the manifest itself. A journal keeps that
// order, but POSIX promises none, and with the marker alone or with no marker the store
// does not open any more. So the name of a new file is made durable together with what is
// first synced in it, and nothing is removed while a new name may still be lost.
type namedFS struct{ vfs.FS }

func (n namedFS) Remove(name string) error {
	if err := n.syncDir(n.FS.PathDir(name)); err != nil {
		return err
	}
	return n.FS.Remove(name)
}

func (n namedFS) syncDir(dir string) error {
	d, err := n.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (n namedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := n.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	return &namedFile{File: f, fs: n, dir: n.FS.PathDir(name)}, nil
}

func (n namedFS) Unwrap() vfs.FS { return n.FS }

type namedFile struct {
	vfs.File
	fs    namedFS
	dir   string
	named atomic.Bool
}

func (f *namedFile) Sync() error     { return f.name(f.File.Sync()) }
func (f *namedFile) SyncData() error { return f.name(f.File.SyncData()) }

// name is called behind a sync of the file. Two at the same time may both sync the
// directory, so that none of them returns before it is synced.
func (f *namedFile) name(err error) error {
	if err != nil || f.named.Load() {
		return err
	}
	if err := f.fs.syncDir(f.dir); err != nil {
		return err
	}
	f.named.Store(true)
	return nil
}
