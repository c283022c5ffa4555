package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Shapes of processes in namespaces, see prepareProcess.
const (
	startsAJob    = "starts a job" // as a watchdog does: it ends orphans, and makes and removes a cgroup
	reusesANumber = "reuses a number"
)

// otherTime is a time namespace in which the machine was booted 1000 s earlier.
var otherTime = []string{"--time", "--boottime", "1000", "--fork"}

// in returns a command of this test binary in new namespaces. On CI, there must be such namespaces.
func in(t *testing.T, namespaces []string, shape string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("unshare", append(slices.Clone(namespaces), "true")...).CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("unshare %s: %v\n%s", strings.Join(namespaces, " "), err, out)
		}
		t.Skipf("no namespaces here: unshare %s: %v\n%s", strings.Join(namespaces, " "), err, out)
	}
	cmd := exec.Command("unshare", append(slices.Clone(namespaces), exe)...)
	cmd.Env = append(os.Environ(), shapeVariable+"="+shape)
	return cmd
}

// ownCgroupOfTest makes a cgroup for the processes of a test, and returns the environment that puts them there. If the
// test fails, it kills no jobs of others.
func ownCgroupOfTest(t *testing.T) (env []string) {
	t.Helper()
	mustHaveCgroups(t)
	own, err := ownCgroup()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(own, "holdfast-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { (&cgroup{path: dir}).remove(removePatience) })
	return []string{cgroupVariable + "=" + dir}
}

// A watchdog sees the start times of processes by the clock of its time namespace. The jobs of watchdogs that live are
// left alone, whatever the namespaces. Those of dead ones end.
func TestJobsOfLiveWatchdogsSurviveWatchdogsOfOtherNamespaces(t *testing.T) {
	env := ownCgroupOfTest(t)
	for _, tt := range []struct {
		name       string
		namespaces []string
	}{
		{"the same", []string{"--fork"}},
		{"time", otherTime},
		{"time, later", []string{"--time", "--boottime", "-1", "--fork"}},
		{"processes", []string{"--pid", "--fork", "--mount-proc"}},
		{"processes and time", append([]string{"--pid", "--mount-proc"}, otherTime...)},
		{"users", []string{"--user", "--map-root-user", "--fork"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, mark := startShapeIn(t, env, shapes(t)[1], true)
			starts := in(t, tt.namespaces, startsAJob)
			starts.Env = append(starts.Env, env...)
			if out, err := starts.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if left := jobProcesses(mark); len(left) != 2 {
				t.Errorf("%d processes of the job are left; want 2", len(left))
			}
			s.signal(syscall.SIGTERM)
			s.want(outcome{Code: 128 + 15})
		})
	}
}

// What two dead guards have left ends before the next command starts, also in other namespaces.
func TestNextJobEndsOrphansOfOtherNamespaces(t *testing.T) {
	mustHaveCgroups(t)
	for _, tt := range []struct {
		name       string
		namespaces []string
	}{
		{"time", otherTime},
		{"processes", []string{"--pid", "--fork", "--mount-proc"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, mark := startShape(t, shapes(t)[7], true) // a double fork
			s.killBoth()
			s.awaitEnd()
			if out, err := in(t, tt.namespaces, startsAJob).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			mustBeGone(t, mark, time.Now(), 0)
		})
	}
}

// awaitEnd waits until the guards have ended, with all their threads.
func (s *supervised) awaitEnd() {
	s.t.Helper()
	_ = s.cmd.Wait()
	s.until("the end of the watchdog", func() bool { return unix.Kill(s.watchdog, 0) == unix.ESRCH })
}

// startJobHere is the process of startsAJob.
func startJobHere() {
	c, err := newCgroup()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	c.remove(removePatience)
	os.Exit(0)
}

// The number of a process that has ended can be another's at once. That one gets no signal.
func TestSignalsNeverReachAProcessThatHasGotTheNumber(t *testing.T) {
	out, err := in(t, []string{"--pid", "--fork", "--mount-proc"}, reusesANumber).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// reuseNumber is that test, in a PID namespace in which nobody else starts processes.
func reuseNumber() {
	check := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	start := func() process {
		// Not package os, which can start another process first. The shell has a child.
		pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", "sleep 1000; true"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setpgid: true}})
		check(err)
		p, ok := readProcess(pid)
		if !ok {
			check(fmt.Errorf("process %d is not in /proc", pid))
		}
		return p
	}
	end := func(p process) {
		check(unix.Kill(-p.pid, unix.SIGKILL))
		for {
			if _, err := waitID(unix.P_ALL, 0, unix.WEXITED); err != nil {
				return // nothing is left, also of its group: a group that is not empty keeps its number
			}
		}
	}
	for _, send := range []struct {
		name string
		do   func(old process)
	}{
		{"signalAll", func(old process) { signalAll([]process{old}, unix.SIGKILL) }},
		{"thaw", func(old process) {
			j := &job{frozen: []process{old}}
			j.thaw()
		}},
		{"a list", func(old process) {
			f := newFamily(func(int) bool { return false })
			all := f.below(func(number int) (found []process) {
				if number == os.Getpid() {
					return []process{old} // read before it ended
				}
				for _, pid := range children(number) {
					if p, ok := readProcess(pid); ok {
						found = append(found, p)
					}
				}
				return found
			})
			if len(all) != 1 || all[0] != old {
				check(fmt.Errorf("a list has %+v; want %+v alone", all, old))
			}
		}},
	} {
		old := start()
		end(old)
		time.Sleep(50 * time.Millisecond) // start times count in ticks of 10 ms
		check(os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(old.pid-1)), 0))
		other := start()
		if other.pid != old.pid || other.start == old.start {
			check(fmt.Errorf("the process %+v is not another with the number of %+v", other, old))
		}
		for len(children(other.pid)) == 0 {
			time.Sleep(time.Millisecond)
		}
		check(unix.Kill(other.pid, unix.SIGSTOP)) // a CONT would be seen as well
		_, err := waitID(unix.P_PID, other.pid, unix.WSTOPPED)
		check(err)
		send.do(old)
		// The kernel wakes a process at once for either signal.
		if now, ok := readProcess(other.pid); !ok || now.state != 'T' {
			fmt.Printf("%s: another process with the number got the signal: %+v\n", send.name, now)
			os.Exit(1)
		}
		end(other)
	}
	os.Exit(0)
}
