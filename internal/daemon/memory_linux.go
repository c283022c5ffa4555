package daemon

import (
	"fmt"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// memoryLimit returns the least limit of this process's memory, and what sets it; 0 if there is none.
func memoryLimit() (limit int64, by string) {
	limit = math.MaxInt64
	if n := cgroupLimit(os.ReadFile); n < limit {
		limit, by = n, "cgroup"
	}
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &r) == nil && r.Cur < math.MaxInt64 {
		// Go reserves address space that it does not use.
		if n := max(int64(r.Cur)-virtualMemory(), 1); n < limit {
			limit, by = n, "ulimit -v"
		}
	}
	if by == "" {
		return 0, ""
	}
	return limit, by
}

// virtualMemory returns the size of this process's address space in bytes, or 0 if it is unknown.
func virtualMemory() (pages int64) {
	text, _ := os.ReadFile("/proc/self/statm")
	_, _ = fmt.Sscan(string(text), &pages)
	return pages * int64(os.Getpagesize())
}

// cgroupLimit returns the least memory limit of this process's cgroup and the groups above it, or the largest number
// if there is none. read reads a file.
func cgroupLimit(read func(name string) ([]byte, error)) int64 {
	const root = "/sys/fs/cgroup"
	limit := int64(math.MaxInt64)
	groups, _ := read("/proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, path
		if len(fields) < 3 {
			continue
		}
		dir, file := root, "memory.max"
		switch fields[1] {
		case "": // version 2
		case "memory":
			dir, file = root+"/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		// In a container, the path may be that of the host. Then the nearest directory that exists counts.
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			text, _ := read(path.Join(dir, group, file))
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
				limit = min(limit, n)
			}
			if group == "/" {
				break
			}
		}
	}
	if limit > 1<<60 { // version 1 has no word for none
		return math.MaxInt64
	}
	return limit
}
