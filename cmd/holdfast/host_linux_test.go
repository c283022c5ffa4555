package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/internal/cli/host"
	"holdfast/internal/watchdog"
	"holdfast/zklocal"
)

// When a job is killed, a host is spared because it has the lock of a directory, not because of its
// arguments.
func TestHostIsKnownByItsLock(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	host := exec.Command("holdfast", "serve", watchdog.DetachedFlag, watchdog.DataDirFlag, dir)
	start := func(c *exec.Cmd) {
		t.Helper()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		})
	}
	start(host)
	for end := time.Now().Add(patience); !watchdog.IsHost(host.Process.Pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the host is not recognised")
		}
	}
	// The same arguments, in a directory that has a host: only the lock is missing.
	for _, args := range [][]string{{watchdog.DataDirFlag, dir}, {watchdog.DataDirFlag, filepath.Join(dir, "none")}, {watchdog.DataDirFlag}, {watchdog.DataDirFlag, "relative"}, {}} {
		impostor := exec.Command("sh", append([]string{"-c", "echo; read x", "serve", watchdog.DetachedFlag}, args...)...)
		in, err := impostor.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		out, err := impostor.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		start(impostor)
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if watchdog.IsHost(impostor.Process.Pid) {
			t.Errorf("%q is taken for a host", impostor.Args)
		}
	}
	// A process that has the lock but was not detached is no host: the command may run its own server.
	own := t.TempDir()
	server := exec.Command("flock", zklocal.HostLock(own), "sh", "-c", "echo; read x", "serve", watchdog.DataDirFlag, own)
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	locked, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(server)
	if _, err := locked.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if watchdog.IsHost(server.Process.Pid) {
		t.Error("a process that was not detached is taken for a host")
	}
	if watchdog.IsHost(os.Getpid()) {
		t.Error("this process is taken for a host")
	}
	if _, err := os.Stat(zklocal.HostLock(dir)); err != nil {
		t.Error(err)
	}
}

// startedBy starts a host through a job, and returns the host's directory and process id.
// before is put in front of the job's command, as shell words. The host ends with the test.
func startedBy(t *testing.T, before string) (dir string, pid int) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	t.Cleanup(func() { killHosts(dir) })
	cmd := exec.Command("sh", "-c", before+` holdfast run --server "file://$0" job -- true`, dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", before, err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "host.pid"))
	if err != nil {
		t.Fatal(err)
	}
	if pid, err = strconv.Atoi(string(text)); err != nil {
		t.Fatal(err)
	}
	return dir, pid
}

// threadsOf returns one value for each thread of a process, as command shows it.
func threadsOf(t *testing.T, pid int, command ...string) (values []string) {
	t.Helper()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		out, err := exec.Command(command[0], append(command[1:], task.Name())...).CombinedOutput()
		if err != nil {
			continue // the thread has ended
		}
		_, value, found := strings.Cut(string(out), ": ")
		if !found {
			value = string(out)
		}
		values = append(values, strings.TrimSpace(value))
	}
	if len(values) == 0 {
		t.Fatalf("%v prints no values", command)
	}
	return values
}

func TestAHostHasNothingOfTheJobThatStartedIt(t *testing.T) {
	// In a container, root without the privilege may do no more than other users.
	mayRaise := exec.Command("nice", "-n", "5", "sh", "-c", "renice -n 0 -p $$").Run() == nil
	nice, policy := "0", "SCHED_OTHER"
	if !mayRaise {
		nice = "19"
	}
	for _, test := range []struct {
		before  string
		command []string // prints the value of a thread
		want    string
	}{
		{"exec nice -n 19", []string{"sh", "-c", `cut -d' ' -f19 "/proc/$0/stat"`}, nice},
		{"exec chrt -b 0", []string{"sh", "-c", `chrt -p "$0" | grep policy`}, policy},
		{"exec ionice -c 3", []string{"ionice", "-p"}, "prio 0"},
		{"exec taskset -c 0", []string{"sh", "-c", `taskset -p "$0"`}, affinity(t)},
		{"umask 0; exec", []string{"sh", "-c", `grep Umask "/proc/$0/status" | sed 's/.*\t/: /'`}, "0077"},
		{"echo 500 > /proc/self/oom_score_adj; exec", []string{"sh", "-c", `cat "/proc/$0/oom_score_adj"`}, "0"},
		{"trap '' HUP INT QUIT TERM USR1; exec", []string{"sh", "-c", `grep SigIgn "/proc/$0/status" | sed 's/.*\t/: /'`}, "0000000000000000"},
		{"cd /tmp; exec", []string{"sh", "-c", `readlink "/proc/$0/cwd"`}, "/"},
	} {
		t.Run(test.before, func(t *testing.T) {
			t.Parallel()
			_, pid := startedBy(t, test.before)
			for _, got := range threadsOf(t, pid, test.command...) {
				if got != test.want {
					t.Errorf("a thread has %q; want %q", got, test.want)
				}
			}
		})
	}
}

// affinity returns the processors that this process may run on.
func affinity(t *testing.T) string {
	t.Helper()
	return threadsOf(t, os.Getpid(), "sh", "-c", `taskset -p "$0"`)[0]
}

func TestAHostHasNoLimitOfTheJobThatStartedIt(t *testing.T) {
	small := map[string]string{"fsize": "8000000", "as": "8000000000", "data": "8000000000", "rss": "8000000000", "cpu": "60", "nofile": "100", "nproc": "500"}
	for option, name := range map[string]string{
		"fsize": "Max file size", "as": "Max address space", "data": "Max data size", "rss": "Max resident set",
		"cpu": "Max cpu time", "nofile": "Max open files", "nproc": "Max processes",
	} {
		t.Run(option, func(t *testing.T) {
			t.Parallel()
			_, pid := startedBy(t, "exec prlimit --"+option+"="+small[option]+":")
			limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
			if err != nil {
				t.Fatal(err)
			}
			_, rest, found := strings.Cut(string(limits), name)
			field := strings.Fields(rest)
			if !found || len(field) < 2 {
				t.Fatalf("no %q in\n%s", name, limits)
			}
			if soft, hard := field[0], field[1]; soft != hard {
				t.Errorf("%s: soft %s, hard %s", name, soft, hard)
			}
		})
	}
}

// Without privileges, the host keeps its niceness and hard limits, and logs them.
func TestAHostSaysWhatItKeeps(t *testing.T) {
	drop := ""
	if os.Geteuid() == 0 {
		drop = "setpriv --bounding-set=-sys_resource,-sys_nice"
	}
	dir, pid := startedBy(t, "exec chrt -o 0 nice -n 19 prlimit --as=7000000000:8000000000 --core=0:0 "+drop)
	log, err := os.ReadFile(filepath.Join(dir, host.LogName))
	if err != nil {
		t.Fatal(err)
	}
	const want = `kept="address space limited to 8000000000, nice 19"`
	if !strings.Contains(string(log), want) {
		t.Errorf("got %q; want it to say %s", log, want)
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(limits), "Max address space")
	if field := strings.Fields(rest); len(field) < 2 || field[0] != "8000000000" || field[1] != field[0] {
		t.Errorf("the soft limit was not raised to the hard one:\n%s", limits)
	}
}
