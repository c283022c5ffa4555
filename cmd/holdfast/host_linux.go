package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"holdfast/zklocal"
)

// isHost reports whether a process is the host of a file:// store: it serves others too, so
// it is left alone when the job is killed whose command has started it. Its arguments say
// where its directory would be. That it has the directory's lock, the kernel says.
func isHost(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return false
	}
	args := strings.Split(string(line), "\x00")
	i := slices.Index(args, dataDirFlag)
	if i < 0 || i+1 >= len(args) || !filepath.IsAbs(args[i+1]) {
		return false
	}
	var lock syscall.Stat_t
	if err := syscall.Stat(zklocal.HostLock(args[i+1]), &lock); err != nil {
		return false
	}
	return hasLock(pid, lock.Dev, lock.Ino)
}

// hasLock reports whether a process has an exclusive flock on a file.
func hasLock(pid int, dev, ino uint64) bool {
	f, err := os.Open("/proc/locks")
	if err != nil {
		return false
	}
	defer f.Close()
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(dev), unix.Minor(dev), ino)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// 7: FLOCK  ADVISORY  WRITE 4711 fe:00:393235 0 EOF
		field := strings.Fields(lines.Text())
		if len(field) > 5 && field[1] == "FLOCK" && field[3] == "WRITE" && field[4] == fmt.Sprint(pid) && field[5] == file {
			return true
		}
	}
	return false
}
