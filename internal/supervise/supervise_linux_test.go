package supervise

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"
)

func watchdogPID(s *Supervisor) int { return s.watchdog.Pid }

// sparedArgument ends the arguments of processes that must not be killed.
const sparedArgument = ": spare me"

func spareInTest(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && bytes.HasSuffix(line, []byte(sparedArgument+"\x00")) && bytes.HasPrefix(line, []byte("sh\x00-c\x00sleep"))
}

func TestLeftoversThatLeftTheGroupAreGoneBeforeTheEnd(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Fatal(err)
	}
	// A daemon with its own child, in its own session.
	s := startSupervised(t, time.Second, "sh", "-c", `setsid sh -c 'sleep 1000 & echo $!; wait' & exec 1>&-; sleep 0.2; exit 6`)
	pid, err := strconv.Atoi(s.line())
	if err != nil {
		t.Fatal(err)
	}
	s.want(outcome{Code: 6})
	if !gone(pid) {
		t.Errorf("process %d, left behind in another session, is still there", pid)
	}
}

func TestOrphansAreReapedWhileTheCommandRuns(t *testing.T) {
	// The subshell's child outlives it, comes to the supervisor, and ends.
	s := startSupervised(t, time.Second, "sh", "-c", `(sleep 0.1 & echo $!); trap 'exit 0' USR1; while :; do sleep 0.02; done`)
	pid, err := strconv.Atoi(s.line())
	if err != nil {
		t.Fatal(err)
	}
	waitReaped(t, pid)
	s.signal(usr1)
	s.want(outcome{Code: 0})
}

const usr1 = syscall.SIGUSR1

func init() {
	if os.Getenv(willVariable) != "" {
		closePatience = time.Minute // a watchdog that waits to carry out the will is not killed
	}
}

// A supervisor that has its outcome is not gone before its job: the watchdog ends at once, and does not wait to carry out a
// will. The fault needs a watchdog that loses the processor right after its last message, so there are many.
func TestAWillDoesNotDelayTheEnd(t *testing.T) {
	for range 8 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for range 25 {
				s := startSupervisedIn(t, []string{willVariable + "=a will"}, time.Second, "true")
				began := time.Now()
				if s.want(outcome{Code: 0}); time.Since(began) > willPatience {
					t.Fatalf("the end takes %v", time.Since(began))
				}
			}
		})
	}
}

// waitReaped polls: another process's orphans cause no events.
func waitReaped(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); syscall.Kill(pid, 0) != syscall.ESRCH; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d is still there, perhaps as a zombie", pid)
		}
	}
}
