package zklocal

import "golang.org/x/sys/unix"

// sharedFileSystem returns the name of the file system of a directory if other machines can
// mount it. It returns "" if they cannot, or if that is unknown.
func sharedFileSystem(dir string) string {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil || fs.Flags&unix.MNT_LOCAL != 0 {
		return ""
	}
	return unix.ByteSliceToString(fs.Fstypename[:])
}
