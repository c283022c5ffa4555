package zklocal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrShared is wrapped by the errors of [Open] and [OpenHost] for a directory on a file system
// that other machines can mount.
var ErrShared = errors.New("its file system is shared between machines")

// fileSystem is a variable for tests.
var fileSystem = sharedFileSystem

// checkLocal refuses a directory on a shared file system, also before the directory is made.
// Two machines could host it at once, or one could wait for ever for the other's socket.
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
