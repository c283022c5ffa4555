package zkserver

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A recordingFS is a directory, in memory, that remembers every change in order. From
// the record it makes what a disk may hold if power had failed at any moment of it.
type recordingFS struct {
	vfs.FS // the directory as the process sees it
	lies   lies

	mu     sync.Mutex
	base   map[string][]byte // what was there at first
	ops    []diskOp
	inodes map[string]int // by name
	next   int

	baseInodes map[string]int
}

// lies are what is wrong with a disk that the check must find out.
type lies struct{ syncLog, syncDir bool }

type diskOpKind int

const (
	diskWrite  diskOpKind = iota
	diskSync              // of one inode
	diskCreate            // name → inode
	diskRemove
	diskRename
	diskSyncDir
)

type diskOp struct {
	kind     diskOpKind
	inode    int
	name, to string
	off      int64
	data     []byte
	from     int // a sync makes durable what stands before this in the record
}

// crashDir is the only directory of a recordingFS.
const crashDir = "d"

func newRecordingFS(files map[string][]byte) *recordingFS {
	r := &recordingFS{FS: vfs.NewMem(), base: files, inodes: make(map[string]int)}
	if err := r.FS.MkdirAll(crashDir, 0o700); err != nil {
		panic(err)
	}
	for name, data := range files {
		f, err := r.FS.Create(path.Join(crashDir, name), vfs.WriteCategoryUnspecified)
		if err == nil {
			_, err = f.Write(append([]byte(nil), data...))
			f.Close()
		}
		if err != nil {
			panic(err)
		}
		r.inodes[name] = r.next
		r.next++
	}
	r.baseInodes = maps.Clone(r.inodes)
	return r
}

// now is the length of the record.
func (r *recordingFS) now() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ops)
}

func (r *recordingFS) add(o diskOp) { r.ops = append(r.ops, o) }

// create gives name a new inode.
func (r *recordingFS) create(name string) int {
	id := r.next
	r.next++
	r.inodes[name] = id
	r.add(diskOp{kind: diskCreate, inode: id, name: name})
	return id
}

func (r *recordingFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := r.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	return &recordingFile{File: f, fs: r, name: name, inode: r.create(path.Base(name))}, nil
}

func (r *recordingFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := r.FS.OpenReadWrite(name, c, opts...)
	if err != nil {
		return nil, err
	}
	id, there := r.inodes[path.Base(name)]
	if !there {
		id = r.create(path.Base(name))
	}
	return &recordingFile{File: f, fs: r, name: name, inode: id}, nil
}

func (r *recordingFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := r.Rename(from, to); err != nil {
		return nil, err
	}
	return r.OpenReadWrite(to, c)
}

func (r *recordingFS) OpenDir(name string) (vfs.File, error) {
	f, err := r.FS.OpenDir(name)
	return &recordingDir{f, r}, err
}

func (r *recordingFS) Rename(from, to string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.FS.Rename(from, to); err != nil {
		return err
	}
	id := r.inodes[path.Base(from)]
	delete(r.inodes, path.Base(from))
	r.inodes[path.Base(to)] = id
	r.add(diskOp{kind: diskRename, inode: id, name: path.Base(from), to: path.Base(to)})
	return nil
}

func (r *recordingFS) Remove(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.FS.Remove(name); err != nil {
		return err
	}
	delete(r.inodes, path.Base(name))
	r.add(diskOp{kind: diskRemove, name: path.Base(name)})
	return nil
}

// What the store does not do would have to be recorded if it did.
func (r *recordingFS) Link(from, to string) error {
	return fmt.Errorf("link %s %s: not recorded", from, to)
}
func (r *recordingFS) RemoveAll(name string) error {
	return fmt.Errorf("remove all %s: not recorded", name)
}
func (r *recordingFS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }
func (r *recordingFS) Unwrap() vfs.FS                 { return nil }

type recordingFile struct {
	vfs.File
	fs    *recordingFS
	name  string
	inode int
	pos   int64
}

func (f *recordingFile) write(b []byte, off int64, do func([]byte) (int, error)) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	data := append([]byte(nil), b...)
	n, err := do(b)
	f.fs.add(diskOp{kind: diskWrite, inode: f.inode, off: off, data: data[:n]})
	return n, err
}

func (f *recordingFile) Write(b []byte) (int, error) {
	n, err := f.write(b, f.pos, f.File.Write)
	f.pos += int64(n)
	return n, err
}

func (f *recordingFile) WriteAt(b []byte, off int64) (int, error) {
	return f.write(b, off, func(b []byte) (int, error) { return f.File.WriteAt(b, off) })
}

func (f *recordingFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if !f.fs.lies.syncLog || path.Ext(f.name) != ".log" {
		f.fs.add(diskOp{kind: diskSync, inode: f.inode, from: len(f.fs.ops)})
	}
	return nil
}

func (f *recordingFile) SyncData() error                { return f.Sync() }
func (f *recordingFile) SyncTo(int64) (bool, error)     { return false, nil } // promises nothing
func (f *recordingFile) Preallocate(int64, int64) error { return nil }

type recordingDir struct {
	vfs.File
	fs *recordingFS
}

func (d *recordingDir) Sync() error {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	if !d.fs.lies.syncDir {
		d.fs.add(diskOp{kind: diskSyncDir, from: len(d.fs.ops)})
	}
	return nil
}

// image is what the disk may hold if power fails behind the first cut changes. What was
// synced is there. Of the rest, random pages are, in no order; so are random changes to
// the directory. Where a page is lost there is what was there before, or nonsense.
func (r *recordingFS) image(cut int, rng *rand.Rand) map[string][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	ops := r.ops[:cut]
	durable := make(map[int]int) // by inode
	durableDir := 0
	for _, o := range ops {
		switch o.kind {
		case diskSync:
			durable[o.inode] = o.from
		case diskSyncDir:
			durableDir = o.from
		}
	}

	// How this disk treats what was not synced.
	chances := []float64{0, 0, 0.1, 0.5, 0.9, 1, 1}
	keepData, keepNames := chances[rng.IntN(len(chances))], chances[rng.IntN(len(chances))]
	unit := []int64{512, 4096}[rng.IntN(2)]
	inOrder := rng.IntN(2) == 0 // a journal keeps names in order
	nonsense := rng.IntN(8) == 0
	sizeFirst := rng.IntN(2) == 0 // the new size is there, the data is not

	names := make(map[string]int)
	for name, id := range r.baseInodes {
		names[name] = id
	}
	journalEnds := false
	for i, o := range ops {
		switch o.kind {
		case diskCreate, diskRemove, diskRename:
		default:
			continue
		}
		if i >= durableDir {
			lost := rng.Float64() >= keepNames
			journalEnds = journalEnds || lost && inOrder
			if lost || journalEnds {
				continue
			}
		}
		switch o.kind {
		case diskCreate:
			names[o.name] = o.inode
		case diskRemove:
			delete(names, o.name)
		case diskRename:
			if names[o.name] == o.inode {
				delete(names, o.name)
			}
			names[o.to] = o.inode
		}
	}

	files := make(map[int][]byte) // by inode
	for name, id := range r.baseInodes {
		files[id] = append([]byte(nil), r.base[name]...)
	}
	alive := make(map[int]bool)
	for _, id := range names {
		alive[id] = true
	}
	grow := func(f []byte, size int64) []byte {
		if have := int64(len(f)); size > have {
			f = append(f, make([]byte, size-have)...)
			for i := have; nonsense && i < size; i++ {
				f[i] = byte(rng.Uint32())
			}
		}
		return f
	}
	for i, o := range ops {
		if o.kind != diskWrite || !alive[o.inode] {
			continue
		}
		f, end := files[o.inode], o.off+int64(len(o.data))
		if i < durable[o.inode] {
			f = grow(f, end)
			copy(f[o.off:], o.data)
			files[o.inode] = f
			continue
		}
		if sizeFirst {
			f = grow(f, end)
		}
		for at := o.off; at < end; {
			next := min(end, (at/unit+1)*unit)
			if rng.Float64() < keepData {
				f = grow(f, next)
				copy(f[at:next], o.data[at-o.off:])
			}
			at = next
		}
		files[o.inode] = f
	}
	image := make(map[string][]byte)
	for name, id := range names {
		image[name] = files[id]
	}
	return image
}
