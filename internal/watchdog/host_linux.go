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

// hostLock is the name in zklocal.HostLock. This package does not import zklocal, because that
// imports the client and the server.
const hostLock = "host.lock"

// IsHost reports whether a process is the detached host of a file:// store. A host also serves
// other programs, so it is left alone when the job that started it is killed. The kernel knows
// which file the host has locked. The host's arguments name its directory. They are read last,
// because a process that hangs in the kernel can block the reader of its arguments.
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

// lockedBy lists the inodes of the files on which a process has an exclusive flock. It ignores
// their devices: on btrfs, and on some overlays, the kernel lists other numbers than stat(2)
// returns.
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
