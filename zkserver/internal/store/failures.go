package store

import (
	"errors"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// failingFS makes the first change of the disk that fails the last one: it is reported
// with its name to fatal, which does not return. Pebble itself tries some of them again,
// and for some it panics with its locks in such a state that the whole process ends.
// What is in the way of a write once is for an operator to look at.
type failingFS struct {
	vfs.FS
	fatal func(format string, args ...any)
}

func (s failingFS) check(op, name string, err error) error {
	var path *os.PathError
	var link *os.LinkError
	switch {
	case err == nil, errors.Is(err, os.ErrNotExist): // Pebble removes what is not there
		return err
	case errors.As(err, &path), errors.As(err, &link): // has both
		s.fatal("%w", err)
	default:
		s.fatal("%s %s: %w", op, name, err)
	}
	return err
}

func (s failingFS) file(op, name string, f vfs.File, err error) (vfs.File, error) {
	if err := s.check(op, name, err); err != nil {
		return nil, err
	}
	return failingFile{f, s, name}, nil
}

func (s failingFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.Create(name, c)
	return s.file("create", name, f, err)
}

func (s failingFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := s.FS.OpenReadWrite(name, c, opts...)
	return s.file("open", name, f, err)
}

func (s failingFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.ReuseForWrite(from, to, c)
	return s.file("rename", from, f, err)
}

func (s failingFS) OpenDir(name string) (vfs.File, error) {
	f, err := s.FS.OpenDir(name)
	return s.file("open", name, f, err)
}

func (s failingFS) Link(from, to string) error { return s.check("link", from, s.FS.Link(from, to)) }
func (s failingFS) Rename(from, to string) error {
	return s.check("rename", from, s.FS.Rename(from, to))
}
func (s failingFS) Remove(name string) error { return s.check("remove", name, s.FS.Remove(name)) }
func (s failingFS) Unwrap() vfs.FS           { return s.FS }

type failingFile struct {
	vfs.File
	fs   failingFS
	name string
}

func (f failingFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	return n, f.fs.check("write", f.name, err)
}

func (f failingFile) WriteAt(b []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(b, off)
	return n, f.fs.check("write", f.name, err)
}

func (f failingFile) Sync() error     { return f.fs.check("sync", f.name, f.File.Sync()) }
func (f failingFile) SyncData() error { return f.fs.check("sync", f.name, f.File.SyncData()) }

func (f failingFile) SyncTo(length int64) (bool, error) {
	all, err := f.File.SyncTo(length)
	return all, f.fs.check("sync", f.name, err)
}
