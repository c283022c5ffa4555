package zklocal

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFileSystemsOfThisMachineAreNotShared(t *testing.T) {
	for _, dir := range []string{t.TempDir(), "/dev/shm", "/proc"} {
		if name := sharedFileSystem(dir); name != "" {
			t.Errorf("%s is taken for a shared file system, %s", dir, name)
		}
	}
}

// Only the list of mounts has the kind of a FUSE file system.
func TestFUSEIsSharedUnlessItIsKnownToBeLocal(t *testing.T) {
	const mountinfo = `22 1 254:0 / / rw,relatime - ext4 /dev/root rw
31 22 0:50 / /mnt/far rw,nosuid,nodev,relatime shared:1 - fuse.sshfs me@far: rw,user_id=0
32 22 0:51 / /mnt/win rw,relatime shared:2 master:3 - fuseblk /dev/sdb1 rw
33 22 0:52 / /mnt/vm rw,relatime - virtiofs share rw
34 22 0:53 / /home/me/vault rw,relatime - fuse.gocryptfs /home/me/.vault rw
35 22 0:54 / /mnt/a\040b rw - fuse thing rw
36 22 0:53 /sub /mnt/bound rw,relatime - fuse.gocryptfs /home/me/.vault rw
`
	for minor, want := range map[uint32]string{50: "fuse.sshfs", 51: "", 52: "virtiofs", 53: "", 54: "fuse", 99: "fuse"} {
		if got := sharedFUSE(strings.NewReader(mountinfo), unix.Mkdev(0, minor)); got != want {
			t.Errorf("0:%d: got %q; want %q", minor, got, want)
		}
	}
}

func TestNetworkFileSystemsAreShared(t *testing.T) {
	for magic, want := range map[uint32]string{ // from statfs(2)
		0x6969: "nfs", 0x01021997: "9p", 0xff534d42: "cifs", 0xfe534d42: "smb3", 0x00c36400: "ceph",
		0xef53: "", 0x01021994: "", 0x58465342: "", 0x9123683e: "", 0x794c7630: "", // ext4, tmpfs, xfs, btrfs, overlay
	} {
		if got := sharedByMagic[magic]; got != want {
			t.Errorf("%#x: got %q; want %q", magic, got, want)
		}
	}
}
