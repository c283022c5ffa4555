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
type cgroup struct{ path string }

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
	name, err := jobName(os.Getpid())
	if err != nil {
		return nil, err
	}
	path := filepath.Join(own, name)
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(path, "cgroup.kill")); err != nil {
		_ = os.Remove(path)
		return nil, err
	}
	return &cgroup{path}, nil
}

// jobName returns the name of the cgroup of a watchdog's job. The name identifies the watchdog:
// PID namespace, process id, and start time, because ids are reused.
func jobName(watchdog int) (string, error) {
	space, err := pidSpace()
	if err != nil {
		return "", err
	}
	p, ok := readProcess(watchdog)
	if !ok {
		return "", fs.ErrNotExist
	}
	return fmt.Sprintf("%s%s-%d-%d", jobPrefix, space, watchdog, p.start), nil
}

// pidSpace returns the number of our PID namespace.
var pidSpace = sync.OnceValues(func() (string, error) {
	space, err := os.Readlink("/proc/self/ns/pid") // pid:[4026531836]
	return strings.Trim(strings.TrimPrefix(space, "pid:"), "[]"), err
})

// watchdogOf returns the process id and start time of the watchdog that a job's cgroup is named
// after. It returns 0 for other names, and for those of other PID namespaces, whose processes
// are not visible here.
func watchdogOf(name string) (pid int, start uint64) {
	rest, ok := strings.CutPrefix(name, jobPrefix)
	if !ok {
		return 0, 0
	}
	field := strings.Split(rest, "-")
	mine, err := pidSpace()
	if len(field) != 3 || err != nil || field[0] != mine {
		return 0, 0
	}
	pid, _ = strconv.Atoi(field[1])
	start, err = strconv.ParseUint(field[2], 10, 64)
	if err != nil {
		return 0, 0
	}
	return pid, start
}

// isDead reports whether the watchdog with this id and start time has certainly ended, or is ending. The
// main thread of a Go program ends only with the process. On a busy machine the other threads of a killed
// watchdog may end some milliseconds later.
func isDead(pid int, start uint64) bool {
	p, ok := readProcess(pid)
	if !ok {
		return unix.Kill(pid, 0) == unix.ESRCH // otherwise it is hidden
	}
	return p.ended() || p.headless || p.start != start
}

// endOrphans kills the jobs below the cgroup own whose watchdogs are dead. Their supervisors
// are dead as well, or they would have killed them. So the leftovers of two guards that died at
// the same moment are gone before the next command starts.
func endOrphans(own string) {
	d, err := os.Open(own)
	if err != nil {
		return
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		pid, start := watchdogOf(name)
		if pid == 0 || !isDead(pid, start) {
			continue
		}
		if c := (&cgroup{filepath.Join(own, name)}); c.kill() == nil { // an error: it belongs to another user
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
			_ = unix.Kill(pid, unix.SIGKILL)
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
func (c *cgroup) removeEmpty() bool { return c == nil || unix.Rmdir(c.path) == nil }

// remove removes the cgroup and the cgroups that the job has made below it. Processes that have
// just been killed keep it busy for a moment.
func (c *cgroup) remove(patience time.Duration) {
	if c == nil {
		return
	}
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
