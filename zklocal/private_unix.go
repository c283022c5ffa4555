//go:build unix

package zklocal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// checkPrivate returns an error unless dir is ours and closed to other users. It never changes
// an existing directory, because access for others may be intended.
func checkPrivate(dir string, info fs.FileInfo) error {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("zklocal: open %s: it belongs to user id %d and this process runs as %d: run as that user, or give a directory of your own",
			dir, stat.Uid, os.Geteuid())
	}
	switch mode := info.Mode().Perm(); {
	case mode&0o077 != 0:
		return fmt.Errorf("zklocal: open %s: its mode %04o lets other users in, and who can enter can take and break every lock: run chmod 700 %[1]s, or give another directory",
			dir, mode)
	case mode != 0o700:
		return fmt.Errorf("zklocal: open %s: its mode %04o does not let its owner read, write and enter: run chmod 700 %[1]s", dir, mode)
	}
	return nil
}

// closeToOthers sets the mode of a socket to 0600, whatever the umask was.
func closeToOthers(socket string) error { return os.Chmod(socket, 0o600) }

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
