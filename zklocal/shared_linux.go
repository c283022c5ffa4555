package zklocal

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// sharedByMagic lists the file systems that several machines can mount, by their numbers in
// statfs(2). Some of them have locks that exclude other machines, but none has a Unix socket
// that reaches another machine. The last line lists those that virtual machines share with
// their host.
var sharedByMagic = map[uint32]string{
	unix.NFS_SUPER_MAGIC: "nfs", unix.SMB_SUPER_MAGIC: "smb", unix.CIFS_SUPER_MAGIC: "cifs", unix.SMB2_SUPER_MAGIC: "smb3",
	unix.V9FS_MAGIC: "9p", unix.CEPH_SUPER_MAGIC: "ceph", unix.AFS_SUPER_MAGIC: "afs", unix.AFS_FS_MAGIC: "afs",
	unix.CODA_SUPER_MAGIC: "coda", unix.NCP_SUPER_MAGIC: "ncpfs", unix.OCFS2_SUPER_MAGIC: "ocfs2",
	0x01161970: "gfs2", 0x0bd00bd0: "lustre", 0x47504653: "gpfs", 0x19830326: "beegfs", 0xaad7aaea: "panfs", 0x20030528: "orangefs",
	0x786f4256: "vboxsf", 0xbacbacbc: "vmhgfs", 0x7c7c6673: "prl_fs",
}

// localFUSE lists the FUSE file systems that are known to be local to one machine. All others
// count as shared, because sshfs and an encrypted directory cannot be told apart otherwise.
var localFUSE = []string{"fuseblk", "fuse.fuse-overlayfs", "fuse.gocryptfs", "fuse.encfs", "fuse.cryfs", "fuse.securefs", "fuse.fuse2fs", "fuse.bindfs"}

// sharedFileSystem returns the name of the file system of a directory if other machines can
// mount it. It returns "" if they cannot, or if that is unknown.
func sharedFileSystem(dir string) string {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return ""
	}
	if uint32(fs.Type) != unix.FUSE_SUPER_MAGIC {
		return sharedByMagic[uint32(fs.Type)]
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return "fuse"
	}
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "fuse"
	}
	defer mounts.Close()
	return sharedFUSE(mounts, uint64(st.Dev))
}

// sharedFUSE does the same as sharedFileSystem for the FUSE file system with the device number
// dev.
func sharedFUSE(mountinfo io.Reader, dev uint64) string {
	name, number := "fuse", fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev))
	for lines := bufio.NewScanner(mountinfo); lines.Scan(); {
		// 34 26 0:30 /root /mount/point rw,… shared:9 - fuse.sshfs user@host: rw,…
		mount, kind, _ := strings.Cut(lines.Text(), " - ")
		if field := strings.Fields(mount); len(field) > 2 && field[2] == number {
			name, _, _ = strings.Cut(kind, " ")
		}
	}
	if slices.Contains(localFUSE, name) {
		return ""
	}
	return name
}
