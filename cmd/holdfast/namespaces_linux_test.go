package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/supervise"
)

// A run in another time namespace sees other start times of processes. It leaves the jobs of others in its cgroup alone.
func TestRunInAnotherTimeNamespaceEndsNoOtherJob(t *testing.T) {
	t.Parallel()
	mustBe := t.Skipf
	if os.Getenv("CI") == "true" {
		mustBe = t.Fatalf
	}
	unshare := []string{"unshare", "--time", "--boottime", "1000", "--fork"}
	if out, err := exec.Command(unshare[0], append(unshare[1:], "true")...).CombinedOutput(); err != nil {
		mustBe("no time namespaces here: %v\n%s", err, out)
	}
	means := supervise.LookForMeans()
	if means.NoCgroup != nil {
		mustBe("no cgroups here: %v", means.NoCgroup)
	}
	cgroup, err := os.MkdirTemp(means.Cgroup, "holdfast-test-") // of this test alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the kernel needs a moment to forget the last process
		for end := time.Now().Add(patience); os.Remove(cgroup) != nil && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
	})
	dir := t.TempDir()
	t.Cleanup(func() { killHosts(dir) })
	in := func(args ...string) *exec.Cmd {
		cmd := exec.Command("sh", append([]string{"-c", `echo 0 > "$0/cgroup.procs" && exec "$@"`, cgroup}, args...)...)
		cmd.Env = append(os.Environ(), "HOLDFAST_SERVER=file://"+filepath.Join(dir, "store"))
		return cmd
	}
	job := in("holdfast", "run", "a", "--", "sh", "-c", `trap 'exit 3' TERM; echo ready; while :; do sleep 0.02; done`)
	out, err := job.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	job.Stderr = &said
	if err := job.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Errorf("the job said %q, %v", line, err)
	}
	if out, err := in(append(unshare, "holdfast", "run", "b", "--", "echo", "ran")...).CombinedOutput(); err != nil || string(out) != "ran\n" {
		t.Errorf("run in another time namespace: %v, %q", err, out)
	}
	_ = job.Process.Signal(syscall.SIGTERM)
	if err := job.Wait(); exitStatus(err) != 3 {
		t.Errorf("the job ended with %d; want 3, as it does after TERM\n%s", exitStatus(err), said.String())
	}
}
