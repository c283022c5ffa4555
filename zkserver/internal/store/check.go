package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A Summary describes the contents of a store.
type Summary struct {
	Batches uint64 // the number of the last batch
	Bytes   int64  // of the snapshot and the journals, up to the last batch
}

// Check reads the store in dir as a start does, passes its state to visit and changes nothing.
// If another process has the store open, the error wraps ErrInUse: a half-written batch
// would look like damage.
func Check(dir string, visit Visitor) (s Summary, err error) {
	return readStore(filepath.Join(dir, "store"), func(d readDir) (Summary, error) {
		lock, err := d.openFile("LOCK", os.O_RDONLY)
		if err != nil {
			return Summary{}, err
		}
		if err := d.tryLock(lock); err != nil {
			return Summary{}, err
		}
		s, err := check(d, visit)
		return s, errors.Join(err, lock.Close())
	})
}

// readStore calls f with the open directory of a store.
func readStore(path string, f func(readDir) (Summary, error)) (Summary, error) {
	d, err := openDir(path)
	if err != nil {
		return Summary{}, err
	}
	s, err := f(readDir{d})
	return s, errors.Join(err, d.Close())
}

// check reads the store in dir. A store without a batch is an error.
func check(dir FS, visit Visitor) (Summary, error) {
	j := OpenOn(dir, journalRoom)
	_, _, _, err := j.read(visit)
	s := Summary{Batches: j.last, Bytes: j.snapshotSize}
	for _, segment := range j.segments {
		s.Bytes += segment.bytes
	}
	if err == nil && j.last == 0 {
		err = fmt.Errorf("%w: %s has no batches", ErrFormat, dir.Path(""))
	}
	return s, errors.Join(err, j.witness.close())
}

// readDir opens files for reading only.
type readDir struct{ osDir }

func (d readDir) Open(name string) (File, error) {
	f, err := d.openFile(name, os.O_RDONLY)
	if err != nil {
		return nil, err // not a typed nil
	}
	return f, nil
}

// BackUp copies the store in dir to dest, which must not exist and not be in dir. Another process may have the store
// open and keep running. The copy has every batch that was acknowledged when BackUp was called, and
// maybe some later batches. Before BackUp returns, it reads the copy from beginning to end and
// passes its state to visit. If it fails, it removes the copy.
//
// The witness of the store may be ahead of the copy, so the copy has a mark instead (copyMark). BackUp compares
// the witness of the store with the store's files, so it notices a batch that is missing there.
func BackUp(dir, dest string, visit func() Visitor) (s Summary, err error) {
	if err := outside(dir, dest); err != nil {
		return s, err
	}
	if err := os.Mkdir(dest, 0o700); err != nil {
		return s, err
	}
	_, err = readStore(filepath.Join(dir, "store"), func(from readDir) (Summary, error) {
		return Summary{}, backUpAtWork(from, filepath.Join(dest, "store"))
	})
	if err == nil {
		s, err = readStore(filepath.Join(dest, "store"), func(d readDir) (Summary, error) { return check(d, visit()) })
	}
	if err == nil {
		err = errors.Join(syncPath(dest), syncPath(filepath.Dir(dest)))
	}
	if err != nil {
		return s, errors.Join(fmt.Errorf("back up %s: %w", dir, err), os.RemoveAll(dest))
	}
	return s, nil
}

// ErrInside means that a copy would be a part of what it copies.
var ErrInside = errors.New("the copy would be inside the directory of the store")

// outside returns ErrInside if dest would be in dir, whatever names and links lead there.
func outside(dir, dest string) error {
	source, err := os.Stat(dir)
	if err != nil {
		return err
	}
	parent, err := filepath.Abs(filepath.Dir(dest))
	if err != nil {
		return err
	}
	if parent, err = filepath.EvalSymlinks(parent); err != nil {
		return err
	}
	for {
		info, err := os.Stat(parent)
		if err != nil {
			return err
		}
		if os.SameFile(info, source) {
			return fmt.Errorf("%s: %w", dest, ErrInside)
		}
		above := filepath.Dir(parent)
		if above == parent {
			return nil
		}
		parent = above
	}
}

// backUpAtWork copies a store that another process may have open. That process may remove a file
// that is about to be copied, and a half-written batch may look like damage. Neither happens
// often, so backUpAtWork tries several times.
func backUpAtWork(from FS, dest string) (err error) {
	const attempts = 10
	for range attempts {
		if err = backUpTo(from, dest); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrDamaged) {
			break
		}
	}
	return err
}

// backUpTo makes one attempt. It removes dest first, and makes it anew.
func backUpTo(from FS, dest string) error {
	if err := os.RemoveAll(dest); err != nil {
		return err
	}
	if err := os.Mkdir(dest, 0o700); err != nil {
		return err
	}
	to, err := openDir(dest)
	if err != nil {
		return err
	}
	return errors.Join(backUp(from, to), to.Close())
}

// backUp copies the store in from. It copies only parts that are never written again.
func backUp(from, to FS) (err error) {
	j := OpenOn(from, journalRoom)
	_, t, err := j.examine()
	defer func() { err = errors.Join(err, j.witness.close()) }()
	if err != nil {
		return err
	}
	if j.snapshot == 0 && len(j.segments) == 0 {
		return fmt.Errorf("%w: %s has no batches", ErrFormat, from.Path(""))
	}
	if j.snapshot > 0 {
		if err := copyFile(from, to, fileName(kindSnapshot, j.snapshot), j.snapshotSize); err != nil {
			return err
		}
	}
	for _, s := range j.segments {
		// Reserved space may follow the last batch, and no checksum covers it.
		size, err := s.each(from, nil, func(_, _ []byte) error { return nil })
		if err == nil {
			err = copyFile(from, to, fileName(kindJournal, s.number), size)
		}
		if err != nil {
			return err
		}
	}
	if len(j.segments) == 0 { // there must be a journal after a snapshot, maybe without a batch
		if err := copyFile(from, to, t.name, fileHeader); err != nil {
			return err
		}
	}
	if err := writeMark(to, copyMark{last: j.last, at: time.Now()}); err != nil {
		return err
	}
	for _, name := range []string{guard, "LOCK"} { // as a start makes them
		f, err := to.Create(name)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return to.SyncDir()
}

// copyFile copies the first size bytes of a file, and syncs the copy.
func copyFile(from, to FS, name string, size int64) error {
	r, err := from.Open(name)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := to.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.NewOffsetWriter(w, 0), io.NewSectionReader(r, 0, size))
	if err == nil {
		err = w.Sync()
	}
	return errors.Join(err, w.Close())
}
