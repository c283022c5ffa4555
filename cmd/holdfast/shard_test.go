package main

import (
	"io/fs"
	"syscall"
	"testing"
)

// shard starts a command again later, unless it can never start.
func TestCommandsThatNeverRun(t *testing.T) {
	for err, want := range map[error]bool{
		&fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.ENOENT}:  true,
		&fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.EACCES}:  true,
		&fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.ENOEXEC}: true,
		&fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.EAGAIN}:  false,
		&fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.ENOMEM}:  false,
		&fs.PathError{Op: "fork/exec", Path: "x", Err: syscall.EMFILE}:  false,
	} {
		if got := neverRuns(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}
