package store

import "io"

// FS is the part of a directory that a [Journal] needs. Errors name the operation and the
// path, as those of package os do. A missing file is fs.ErrNotExist. Several goroutines may
// use an FS at the same time, each with its own files.
//
// There are two implementations: a directory of the machine ([OpenJournal]), and that of package
// crashfs, which fails and loses power on demand.
type FS interface {
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	// Create opens a file like Open. If the file does not exist, Create makes it, empty and for its
	// owner only.
	Create(name string) (File, error)
	// Rename renames a file. It replaces an existing file of the new name.
	Rename(from, to string) error
	// Remove removes a file.
	Remove(name string) error
	// List returns the names of all files.
	List() ([]string, error)
	// SyncDir makes all changes of names durable.
	SyncDir() error
	// Path returns the path of a file for messages.
	Path(name string) string
	// Boot returns the boot id of the machine, or zeros if it has none.
	Boot() BootID
}

// File is an open file of an FS.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Size returns the length of the file in bytes.
	Size() (int64, error)
	// Allocate extends the file to size bytes of zeros, for which the disk has reserved space. It may
	// do nothing, and never makes the file shorter.
	Allocate(size int64) error
	// Truncate sets the length of the file in bytes.
	Truncate(size int64) error
	// Sync makes the bytes of the file and its size durable.
	Sync() error
}

// BootID identifies the time from one start of the machine's kernel to the next. Zeros are none.
type BootID [16]byte
