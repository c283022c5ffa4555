package supervise

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// jobPrefix is the prefix of the names of jobs' cgroups.
const jobPrefix = "holdfast-job-"

// A cgroup is a job's cgroup, of version 2. No process can leave it without write access to the
// parent cgroup. cgroup.kill (Linux 5.14) ends all of its processes at once, also those of
// other users.
//
// As long as a watchdog lives, it has a lock (flock) on the file cgroup.kill of its job's cgroup. So others can tell
// whether it lives, in whatever namespaces they are. Process ids and start times would not do: they differ between
// namespaces, and after a restore from a checkpoint. Other users cannot take the lock, since they cannot open the file.
type cgroup struct {
	path string
	lock int // cgroup.kill with our lock; 0 if it is not ours. Not an os.File, which the collector could close
}

// makeCgroup is newCgroup, except in tests.
var makeCgroup = newCgroup

// newCgroup creates a cgroup below our own. It fails if there is no version 2, or without write
// access. Then the job runs without a cgroup.
func newCgroup() (*cgroup, error) {
	own, err := ownCgroup()
	if err != nil {
		return nil, err
	}
	endOrphans(own)
	name, err := jobName()
	if err != nil {
		return nil, err
	}
	c := &cgroup{path: filepath.Join(own, name)}
	if err := os.Mkdir(c.path, 0o755); err != nil {
		return nil, err
	}
	if err := c.claim(); err != nil {
		c.removeEmpty()
		return nil, err
	}
	return c, nil
}

// jobName returns a new name for the cgroup of this watchdog's job. It has the PID namespace and the process id, so
// that others can see a watchdog that is ending.
func jobName() (string, error) {
	space, err := pidSpace()
	return fmt.Sprintf("%s%s.%d.%d", jobPrefix, space, os.Getpid(), clock()), err
}

// pidSpace returns the number of our PID namespace.
var pidSpace = sync.OnceValues(func() (string, error) {
	space, err := os.Readlink("/proc/self/ns/pid") // pid:[4026531836]
	return strings.Trim(strings.TrimPrefix(space, "pid:"), "[]"), err
})

// isJob reports whether name is that of a job's cgroup. It returns the process id of the watchdog, or 0 if the watchdog
// is in another PID namespace, where it is not visible.
func isJob(name string) (watchdog int, ok bool) {
	rest, ok := strings.CutPrefix(name, jobPrefix)
	field := strings.Split(rest, ".")
	if !ok || len(field) != 3 {
		return 0, false
	}
	if mine, err := pidSpace(); err == nil && field[0] == mine {
		watchdog, _ = strconv.Atoi(field[1])
	}
	return watchdog, true
}

// claimPatience is the time to wait for others that have just looked at our new cgroup.
const claimPatience = 100 * time.Millisecond

// claim locks the cgroup for as long as this process lives. It fails if the kernel has no cgroup.kill.
func (c *cgroup) claim() error {
	fd, err := c.openKill()
	if err != nil {
		return err
	}
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			c.lock = fd
			return nil
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR || time.Since(began) > claimPatience {
			_ = unix.Close(fd)
			return os.NewSyscallError("flock", err)
		}
	}
}

func (c *cgroup) openKill() (fd int, err error) {
	return unix.Open(filepath.Join(c.path, "cgroup.kill"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
}

// isOrphan reports whether the watchdog has certainly ended, or is ending. watchdog is its process id, or 0.
func (c *cgroup) isOrphan(watchdog int) bool {
	fd, err := c.openKill()
	if err != nil {
		return false // it is gone, or belongs to another user, and then we cannot end it either
	}
	defer unix.Close(fd)
	if unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) != nil {
		return watchdog != 0 && isEnding(watchdog)
	}
	events, err := os.ReadFile(filepath.Join(c.path, "cgroup.events"))
	if err != nil || strings.Contains(string(events), "populated 1") {
		return err == nil
	}
	// If it is new, its watchdog has perhaps not locked it yet.
	var info unix.Stat_t
	return unix.Fstat(fd, &info) == nil && time.Since(time.Unix(info.Mtim.Unix())) > time.Minute
}

// isEnding reports whether a process has certainly ended, or is ending. The main thread of a Go program ends only with
// the process. On a busy machine the other threads of a killed watchdog may end some milliseconds later.
func isEnding(pid int) bool {
	p, ok := readProcess(pid)
	if !ok {
		return unix.Kill(pid, 0) == unix.ESRCH // otherwise it is hidden
	}
	return p.ended() || p.headless
}

// orphans returns the cgroups below own of jobs whose watchdogs are dead. Their supervisors are dead as well, or they
// would have killed the jobs.
func orphans(own string) (all []*cgroup) {
	for _, name := range names(own) {
		c := &cgroup{path: filepath.Join(own, name)}
		if watchdog, ok := isJob(name); ok && c.isOrphan(watchdog) {
			all = append(all, c)
		}
	}
	return all
}

// endOrphans kills orphans. So the leftovers of two guards that died at the same moment are gone before the next command
// starts.
func endOrphans(own string) {
	for _, c := range orphans(own) {
		if c.kill() == nil {
			c.remove(orphanPatience)
		}
	}
}

// open returns the descriptor with which a process is started in the cgroup.
func (c *cgroup) open() (*os.File, error) {
	return os.OpenFile(c.path, unix.O_PATH|unix.O_DIRECTORY, 0)
}

// kill kills all processes in the cgroup and in those below it. It does not wait for their end.
func (c *cgroup) kill() error {
	if c == nil {
		return nil
	}
	if err := os.WriteFile(filepath.Join(c.path, "cgroup.kill"), []byte("1"), 0); err != nil {
		return err
	}
	killHeadless(c.path)
	return nil
}

// killHeadless kills the processes in a cgroup, and in those below it, whose main threads have
// ended. cgroup.kill misses those, because it signals only the main thread (__cgroup_kill).
func killHeadless(path string) {
	list, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
	for _, field := range strings.Fields(string(list)) {
		pid, _ := strconv.Atoi(field)
		if p, ok := readProcess(pid); ok && p.headless {
			_ = p.signal(unix.SIGKILL)
		}
	}
	entries, _ := os.ReadDir(path)
	for _, e := range entries {
		if e.IsDir() {
			killHeadless(filepath.Join(path, e.Name()))
		}
	}
}

// removePatience is the time to wait for the end of killed processes. A process that the kernel
// cannot kill (state D) runs no more code of its program. orphanPatience is shorter, because
// the lock is held meanwhile.
const (
	removePatience = 5 * time.Second
	orphanPatience = time.Second
)

// removeEmpty removes the cgroup if it has no processes and no cgroups below it. It reports
// whether the cgroup is gone.
func (c *cgroup) removeEmpty() bool {
	if c == nil {
		return true
	}
	err := unix.Rmdir(c.path)
	if err == nil {
		c.unlock()
	}
	return err == nil
}

func (c *cgroup) unlock() {
	if c.lock != 0 {
		_ = unix.Close(c.lock)
		c.lock = 0
	}
}

// remove removes the cgroup and the cgroups that the job has made below it. Processes that have
// just been killed keep it busy for a moment.
func (c *cgroup) remove(patience time.Duration) {
	if c == nil {
		return
	}
	defer c.unlock()
	began := time.Now()
	for pause := 50 * time.Microsecond; time.Since(began) < patience; pause = min(2*pause, 20*time.Millisecond) {
		err := removeCgroup(c.path)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
		time.Sleep(pause)
	}
}

func removeCgroup(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeCgroup(filepath.Join(path, e.Name())); err != nil {
				return err
			}
		}
	}
	return unix.Rmdir(path)
}

// ownCgroup returns the directory of our cgroup of version 2.
func ownCgroup() (string, error) {
	list, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(list)) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return cgroupDir(path)
		}
	}
	return "", fs.ErrNotExist
}

// cgroupDir returns the directory at which the cgroup of that path is mounted.
func cgroupDir(path string) (string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// 34 26 0:30 /root /mount/point rw,… shared:9 - cgroup2 cgroup2 rw
		mount, kind, _ := strings.Cut(lines.Text(), " - ")
		field := strings.Fields(mount)
		if len(field) < 5 || !strings.HasPrefix(kind, "cgroup2 ") {
			continue
		}
		root := strings.TrimSuffix(field[3], "/")
		if rest, ok := strings.CutPrefix(path, root); ok && (rest == "" || rest[0] == '/') {
			return filepath.Join(field[4], rest), nil
		}
	}
	return "", fs.ErrNotExist
}

// LeaveJob moves this process out of the cgroup of the job that started it, so that it can
// outlive the job. It does nothing if there is no such cgroup, or without write access.
func LeaveJob() {
	own, err := ownCgroup()
	if err != nil {
		return
	}
	if i := strings.Index(own, "/"+jobPrefix); i >= 0 {
		_ = os.WriteFile(filepath.Join(own[:i], "cgroup.procs"), []byte("0"), 0)
	}
}
