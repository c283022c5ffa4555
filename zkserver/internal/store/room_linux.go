package store

import (
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// withRoom gives a file of the log its size before it is written. Pebble reserves its
// blocks, but lets the size grow with each write, so that each sync has to wait for the
// file system's journal too, which takes half as long again. A reader takes zeros behind
// the last record for the end, as after a power failure.
func withRoom(name string, f vfs.File) vfs.File {
	if filepath.Ext(name) != ".log" {
		return f
	}
	return &roomyFile{File: f}
}

type roomyFile struct {
	vfs.File
	written int64
	size    int64 // what Preallocate has made it
}

// Preallocate implements vfs.File. Its error matters to nobody: the file grows with its
// writes then, as it would have.
func (f *roomyFile) Preallocate(offset, length int64) error {
	if err := unix.Fallocate(int(f.Fd()), 0, offset, length); err != nil {
		return err
	}
	f.size = offset + length
	return nil
}

func (f *roomyFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	f.written += int64(n)
	return n, err
}

// Close takes back what was not needed, lest directories at rest be megabytes of zeros.
// It does not matter if that fails or is lost.
func (f *roomyFile) Close() error {
	if f.written < f.size {
		unix.Ftruncate(int(f.Fd()), f.written)
	}
	return f.File.Close()
}
