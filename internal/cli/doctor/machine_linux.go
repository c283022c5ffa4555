package doctor

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/internal/cli/term"
	"holdfast/internal/duration"
	"holdfast/internal/supervise"
	"holdfast/internal/watchdog"
)

// readDisk reads the numbers of a file system and times its syncs.
func readDisk(dir string) (disk, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return disk{}, os.NewSyscallError("statfs", err)
	}
	k := disk{kind: fmt.Sprintf("file system %#x", uint32(st.Type)), free: st.Bavail * uint64(st.Bsize), files: st.Ffree}
	if st.Files == 0 { // btrfs, for example, has no limit
		k.files = ^uint64(0)
	}
	if mounts, err := os.Open("/proc/self/mountinfo"); err == nil {
		defer mounts.Close()
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			if kind := mountedAt(mounts, real); kind != "" {
				k.kind = kind
			}
		}
	}
	var err error
	k.syncs, err = timeSyncs(dir)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENOENT) {
		err = nil // the file system or the kernel has no files without a name
	}
	return k, err
}

// mountedAt returns the kind of the file system of a directory, or "".
func mountedAt(mountinfo io.Reader, dir string) (kind string) {
	best := -1
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for lines := bufio.NewScanner(mountinfo); lines.Scan(); {
		// 34 26 0:30 /root /mount/point rw,… shared:9 - ext4 /dev/sda1 rw
		mount, rest, _ := strings.Cut(lines.Text(), " - ")
		field := strings.Fields(mount)
		if len(field) < 5 {
			continue
		}
		point := strings.TrimSuffix(unescape.Replace(field[4]), "/")
		if (dir == point || strings.HasPrefix(dir, point+"/")) && len(point) >= best { // a later mount covers an earlier one
			best = len(point)
			kind, _, _ = strings.Cut(rest, " ")
		}
	}
	return kind
}

// timeSyncs times syncs of a file without a name, as the store's journal does them: the space is allocated
// before. The kernel removes the file with its descriptor.
func timeSyncs(dir string) (times []time.Duration, err error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	block := make([]byte, 4096)
	for i := range 10 {
		began := time.Now()
		if _, err := unix.Pwrite(fd, block, 0); err != nil {
			return nil, os.NewSyscallError("write", err)
		}
		if err := unix.Fdatasync(fd); err != nil {
			return nil, os.NewSyscallError("fdatasync", err)
		}
		if i > 0 { // the first one allocates
			times = append(times, time.Since(began))
		}
	}
	return times, nil
}

func mayCreate(dir string) error { return unix.Access(dir, unix.W_OK|unix.X_OK) }

// examineWatchdog reports how holdfast run could end a command here. It starts a watchdog without a command.
func examineWatchdog() (f findings) {
	began := time.Now()
	s, err := supervise.Start(watchdog.IsHost)
	if err != nil {
		f.problem("watchdog", "holdfast run cannot guard a command here", "%s", term.Cut(err.Error(), 250))
		return f
	}
	s.Close()
	means := supervise.LookForMeans()
	judgeMeans(&f, means, os.Geteuid(), time.Since(began))
	return f
}

func judgeMeans(f *findings, means supervise.Means, uid int, took time.Duration) {
	started := fmt.Sprintf("it starts in %s; user id %d", duration.Measured(took), uid)
	if means.NoDeathSignal != nil {
		f.warning("watchdog", "if holdfast run and its watchdog are killed at the same moment, the command goes on", "the kernel offers no signal at the death of a parent: %v", means.NoDeathSignal)
	}
	switch {
	case means.Cgroup != "":
		f.ok("watchdog", "%s; a command gets a cgroup in %s, which the kernel can kill as a whole", started, means.Cgroup)
	case uid == 0 && !means.Confined:
		f.ok("watchdog", "%s; no cgroup (%v); as root it finds and kills every descendant", started, means.NoCgroup)
	case uid == 0:
		f.warning("watchdog", "give the container a writable cgroup, or do not change users in commands",
			"%s in a user namespace; no cgroup (%v); descendants that become a user outside of it survive", started, means.NoCgroup)
	default:
		f.warning("watchdog", "start holdfast from a systemd user service, or from a unit with Delegate=yes",
			"%s; no cgroup (%v); descendants that become another user, as by sudo, survive", started, means.NoCgroup)
	}
	if means.Orphans > 0 {
		f.warning("watchdog", "the next holdfast run in this cgroup kills them", "%s of watchdogs that are dead", term.Count(means.Orphans, "job"))
	}
}
