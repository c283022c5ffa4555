package zklocal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrShared is wrapped by the errors of [Open] and [OpenHost] if other machines can mount the
// file system of the directory.
var ErrShared = errors.New("its file system is shared between machines")

// fileSystem is sharedFileSystem; tests replace it.
var fileSystem = sharedFileSystem

// checkLocal refuses a directory on a shared file system. If the directory does not exist yet,
// it checks the nearest existing parent. Two machines could host such a directory at once, or
// one could wait for ever for the other's socket.
func checkLocal(dir string) error {
	at := dir
	for {
		if _, err := os.Stat(at); err == nil || at == filepath.Dir(at) {
			break
		}
		at = filepath.Dir(at)
	}
	if name := fileSystem(at); name != "" {
		return fmt.Errorf("zklocal: open %s: %w (%s), where its locks may not exclude other machines: give a directory on a local disk, or run holdfast serve on one machine and connect to that",
			dir, ErrShared, name)
	}
	return nil
}
