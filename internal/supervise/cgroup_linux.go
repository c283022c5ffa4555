package supervise

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// jobPrefix begins the names of the cgroups that jobs run in.
const jobPrefix = "holdfast-job-"

// A cgroup is one of version 2 that a job runs in: none of its processes can leave it without
// the right to write the cgroup above, and cgroup.kill ends all of them at once, whoever they
// have become (Linux 5.14).
type cgroup struct{ path string }

// makeCgroup is newCgroup but in tests.
var makeCgroup = newCgroup

// newCgroup makes a cgroup below our own. It fails where there is no version 2, or where we may
// not write: then the job goes without.
func newCgroup() (*cgroup, error) {
	own, err := ownCgroup()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(own, jobPrefix+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(path, "cgroup.kill")); err != nil {
		_ = os.Remove(path)
		return nil, err
	}
	return &cgroup{path}, nil
}

// open returns the descriptor that a process is started into the cgroup with.
func (c *cgroup) open() (*os.File, error) {
	return os.OpenFile(c.path, unix.O_PATH|unix.O_DIRECTORY, 0)
}

// kill kills all that is in the cgroup, and in those below it. It does not wait for their end.
func (c *cgroup) kill() {
	if c != nil {
		_ = os.WriteFile(filepath.Join(c.path, "cgroup.kill"), []byte("1"), 0)
	}
}

// remove removes the cgroup and what the job has made below it. A process that has just been
// killed keeps it for a moment.
func (c *cgroup) remove() {
	if c == nil {
		return
	}
	for pause := 100 * time.Microsecond; pause < 100*time.Millisecond; pause *= 2 {
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

// ownCgroup is the directory of our cgroup of version 2.
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

// cgroupDir is where the cgroup of that path is mounted.
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

// LeaveJob takes this process out of the cgroup of the job that has started it, for one that is
// to outlive the job. It does nothing where there is none, or where it may not.
func LeaveJob() {
	own, err := ownCgroup()
	if err != nil {
		return
	}
	if i := strings.Index(own, "/"+jobPrefix); i >= 0 {
		_ = os.WriteFile(filepath.Join(own[:i], "cgroup.procs"), []byte("0"), 0)
	}
}
