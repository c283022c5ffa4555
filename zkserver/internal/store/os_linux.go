package store

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Sync makes the bytes and the size durable. It does not sync the file's times, for example.
func (f *osFile) Sync() error { return f.do("sync", func(fd int) error { return unix.Fdatasync(fd) }) }

// Allocate gives the file its size before it is written. So a sync writes the bytes only, and does
// not wait for the file system's journal, which takes half as long again. If there is
// not enough space, or the file system cannot reserve it, the file grows with its writes.
func (f *osFile) Allocate(size int64) error {
	before, err := f.Size()
	if err != nil {
		return err
	}
	err = f.do("allocate", func(fd int) error { return unix.Fallocate(fd, 0, 0, size) })
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		return f.Truncate(before) // some space may have been allocated
	}
	return err
}

// do makes a system call, and repeats it after an interrupt. Its error names op and the path.
func (f *osFile) do(op string, call func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	ctlErr := raw.Control(func(fd uintptr) {
		for err = call(int(fd)); err == unix.EINTR; {
			err = call(int(fd))
		}
	})
	if err == nil {
		err = ctlErr
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: f.Name(), Err: err}
	}
	return nil
}

// bootID returns the kernel's boot id, or zeros if there is none. It reads the id twice, because
// some sandboxes invent a new one for each read.
func bootID() BootID {
	const name = "/proc/sys/kernel/random/boot_id"
	b, err := os.ReadFile(name)
	again, errAgain := os.ReadFile(name)
	if err != nil || errAgain != nil || string(b) != string(again) {
		return BootID{}
	}
	return parseBoot(string(b))
}
