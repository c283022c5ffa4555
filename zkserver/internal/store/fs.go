package store

import "io"

// FS is one directory, as far as a [Journal] needs it. Errors name the operation and the
// path, as those of package os do. A missing file is fs.ErrNotExist.
//
// There are two: a directory of the machine ([OpenJournal]), and that of package crashfs,
// which fails and loses power on demand.
type FS interface {
	// Open opens a file that exists for reading and writing.
	Open(name string) (File, error)
	// Create does so too, and makes the file, empty and for its owner only, if it does not
	// exist.
	Create(name string) (File, error)
	// Rename gives a file another name, and takes it from the file that has it.
	Rename(from, to string) error
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
	Size() (int64, error)
	// Allocate makes the file at least so long, with zeros that have room on the disk. It
	// may do nothing.
	Allocate(size int64) error
	Truncate(size int64) error
	// Sync makes the bytes of the file durable, and its size.
	Sync() error
}

// BootID identifies the time from one start of the machine's kernel to the next.
type BootID [16]byte
