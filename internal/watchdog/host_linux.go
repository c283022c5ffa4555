package watchdog

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// hostLock is the name that zklocal.HostLock gives. This package does not import zklocal, because
// that imports the client and the server.
const hostLock = "host.lock"

// IsHost reports whether a process is the detached host of a file:// store: it serves others
// too, so it is left alone when the job is killed whose command has started it. The kernel
// says which file it has locked. Its arguments say where its directory would be; they are read
// last, because a process that hangs in the kernel can hold up the reader of its arguments.
func IsHost(pid int) bool {
	locked := lockedBy(pid)
	if len(locked) == 0 {
		return false
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return false
	}
	args := strings.Split(string(line), "\x00")
	i := slices.Index(args, DataDirFlag)
	if i < 0 || i+1 >= len(args) || !filepath.IsAbs(args[i+1]) || !slices.Contains(args, DetachedFlag) {
		return false
	}
	var lock syscall.Stat_t
	if err := syscall.Stat(filepath.Join(args[i+1], hostLock), &lock); err != nil {
		return false
	}
	return slices.Contains(locked, lock.Ino)
}

// lockedBy lists the inodes of the files that a process has an exclusive flock on. Their devices
// are left out: on btrfs, and on some overlays, the kernel does not list what stat(2) says.
func lockedBy(pid int) (inodes []uint64) {
	f, err := os.Open("/proc/locks")
	if err != nil {
		return nil
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// 7: FLOCK  ADVISORY  WRITE 4711 fe:00:393235 0 EOF
		field := strings.Fields(lines.Text())
		if len(field) < 6 || field[1] != "FLOCK" || field[3] != "WRITE" || field[4] != strconv.Itoa(pid) {
			continue
		}
		file := field[5]
		if ino, err := strconv.ParseUint(file[strings.LastIndexByte(file, ':')+1:], 10, 64); err == nil {
			inodes = append(inodes, ino)
		}
	}
	return inodes
}
