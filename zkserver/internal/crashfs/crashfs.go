// Package crashfs has a directory in memory, for tests of a store's files. It records every
// change in order. From the record it makes the files that a disk may have if power fails at
// any moment. It also makes the files that the next process finds if this one is killed. A test can
// make any call fail.
package crashfs

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sync"

	"holdfast/zkserver/internal/store"
)

// Dir is the name of the directory in paths and errors.
const Dir = "d"

// FS is a directory. It implements store.FS. Its methods are safe for concurrent use; its fields
// must not be set while a call is under way.
type FS struct {
	// Fail, if not nil, is called before every call, by several goroutines. If it returns an
	// error, the call fails. A failed write has written the first keep bytes, and a failed allocate
	// has allocated keep bytes.
	Fail func(Call) (keep int, err error)
	// Lies are the faults of this disk.
	Lies Lies
	// BootID is what Boot returns.
	BootID store.BootID
	// NoRoom is a file system that cannot reserve room: Allocate does nothing.
	NoRoom bool

	mu     sync.Mutex
	base   map[string][]byte // the initial files
	names  map[string]*inode
	record []change
	inodes int
	closed int
	opened int
}

// A Call is a call of the file system or of a file in it.
type Call struct {
	Op   string // open, create, rename, remove, list, syncdir, read, write, allocate, truncate, sync, close
	Name string // of the file; "" for the directory
}

// Changes reports whether the call changes the disk.
func (c Call) Changes() bool {
	switch c.Op {
	case "open", "list", "read", "close":
		return false
	}
	return true
}

// Lies names the calls that report success and do nothing.
type Lies struct {
	Sync    bool // of journals
	SyncDir bool // of the directory
}

type inode struct {
	id   int
	name string // the last one
	data []byte
}

type kind int

const (
	write    kind = iota
	resize        // allocate and truncate
	syncData      // of one inode
	create        // name → inode
	remove
	rename
	syncNames
)

type change struct {
	kind     kind
	inode    int
	name, to string
	off      int64
	data     []byte
	size     int64
	from     int  // a sync makes the changes before this index of the record durable
	lost     bool // after a failed sync, no later sync makes it durable
}

// New returns a directory with these files, by name. They are durable.
func New(files map[string][]byte) *FS {
	f := &FS{base: files, names: make(map[string]*inode), BootID: store.BootID{1}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f.names[name] = f.newInode(name, slices.Clone(files[name]))
	}
	return f
}

func (f *FS) newInode(name string, data []byte) *inode {
	f.inodes++
	return &inode{f.inodes, name, data}
}

// Now returns the number of changes so far.
func (f *FS) Now() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.record)
}

// Syncs returns the numbers of the changes that are syncs.
func (f *FS) Syncs() (at []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, c := range f.record {
		if c.kind == syncData || c.kind == syncNames {
			at = append(at, i)
		}
	}
	return at
}

// StillOpen returns how many files have not been closed.
func (f *FS) StillOpen() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.opened - f.closed
}

func (f *FS) fail(op, name string) (keep int, err error) {
	if f.Fail == nil {
		return 0, nil
	}
	if keep, err = f.Fail(Call{op, name}); err != nil {
		err = &fs.PathError{Op: op, Path: f.Path(name), Err: err}
	}
	return keep, err
}

// Open implements store.FS.
func (f *FS) Open(name string) (store.File, error) {
	if _, err := f.fail("open", name); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.names[name]
	if n == nil {
		return nil, &fs.PathError{Op: "open", Path: f.Path(name), Err: fs.ErrNotExist}
	}
	f.opened++
	return &file{f, n}, nil
}

// Create implements store.FS.
func (f *FS) Create(name string) (store.File, error) {
	if _, err := f.fail("create", name); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.names[name]
	if n == nil {
		n = f.newInode(name, nil)
		f.names[name] = n
		f.record = append(f.record, change{kind: create, inode: n.id, name: name})
	}
	f.opened++
	return &file{f, n}, nil
}

// Rename implements store.FS.
func (f *FS) Rename(from, to string) error {
	if _, err := f.fail("rename", from); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.names[from]
	if n == nil {
		return &fs.PathError{Op: "rename", Path: f.Path(from), Err: fs.ErrNotExist}
	}
	delete(f.names, from)
	f.names[to], n.name = n, to
	f.record = append(f.record, change{kind: rename, inode: n.id, name: from, to: to})
	return nil
}

// Remove implements store.FS.
func (f *FS) Remove(name string) error {
	if _, err := f.fail("remove", name); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.names[name] == nil {
		return &fs.PathError{Op: "remove", Path: f.Path(name), Err: fs.ErrNotExist}
	}
	delete(f.names, name)
	f.record = append(f.record, change{kind: remove, name: name})
	return nil
}

// List implements store.FS.
func (f *FS) List() ([]string, error) {
	if _, err := f.fail("list", ""); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.names)), nil
}

// SyncDir implements store.FS.
func (f *FS) SyncDir() error {
	if _, err := f.fail("syncdir", ""); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.Lies.SyncDir {
		f.record = append(f.record, change{kind: syncNames, from: len(f.record)})
	}
	return nil
}

// Path implements store.FS.
func (f *FS) Path(name string) string { return path.Join(Dir, name) }

// Boot implements store.FS.
func (f *FS) Boot() store.BootID { return f.BootID }

type file struct {
	fs   *FS
	node *inode
}

// fail is FS.fail for a call of this file, by its present name.
func (f *file) fail(op string) (keep int, err error) {
	f.fs.mu.Lock()
	name := f.node.name
	f.fs.mu.Unlock()
	return f.fs.fail(op, name)
}

func (f *file) ReadAt(b []byte, off int64) (int, error) {
	if _, err := f.fail("read"); err != nil {
		return 0, err
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if off >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.node.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(b []byte, off int64) (int, error) {
	keep, err := f.fail("write")
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err != nil {
		b = b[:min(keep, len(b))]
	}
	if len(b) > 0 {
		f.node.data = grow(f.node.data, off+int64(len(b)), nil)
		copy(f.node.data[off:], b)
		f.fs.record = append(f.fs.record, change{kind: write, inode: f.node.id, off: off, data: slices.Clone(b)})
	}
	return len(b), err
}

func (f *file) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return int64(len(f.node.data)), nil
}

func (f *file) Allocate(size int64) error {
	keep, err := f.fail("allocate")
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	have := int64(len(f.node.data))
	if err != nil {
		size = min(size, have+int64(keep))
	}
	if size > have && !f.fs.NoRoom {
		f.resize(size)
	}
	return err
}

func (f *file) Truncate(size int64) error {
	if _, err := f.fail("truncate"); err != nil {
		return err
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.resize(size)
	return nil
}

func (f *file) resize(size int64) {
	f.node.data = grow(f.node.data, size, nil)[:size]
	f.fs.record = append(f.fs.record, change{kind: resize, inode: f.node.id, size: size})
}

// Sync makes all written bytes durable. If it fails, the kernel may have dropped these bytes. No
// later sync makes them durable; they must be written again.
func (f *file) Sync() error {
	_, err := f.fail("sync")
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if errors.Is(err, ErrKilled) {
		return err
	}
	if err != nil {
		durable := 0
		for _, c := range f.fs.record {
			if c.kind == syncData && c.inode == f.node.id {
				durable = c.from
			}
		}
		for i := durable; i < len(f.fs.record); i++ {
			if c := &f.fs.record[i]; c.inode == f.node.id && c.kind == write {
				c.lost = true
			}
		}
		return err
	}
	if !f.fs.Lies.Sync || path.Ext(f.node.name) != ".journal" {
		f.fs.record = append(f.fs.record, change{kind: syncData, inode: f.node.id, from: len(f.fs.record)})
	}
	return nil
}

func (f *file) Close() error {
	_, err := f.fail("close")
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.fs.closed++
	return err
}

// Errors for Fail to return.
var (
	ErrInjected = errors.New("input/output error")

	// ErrKilled means that the process has been killed before this call. Fail returns it for all
	// later calls, until the next process begins.
	ErrKilled = errors.New("killed")
)
