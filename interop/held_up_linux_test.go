package interop

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast"
	"holdfast/interop/peers"
	"holdfast/zk"
)

var (
	heldUpJobs = flag.Int("held-up-jobs", 5, "how many jobs run while the election of an ensemble is held up")
	heldUp     = flag.Duration("held-up", 20*time.Second, "how long the election of an ensemble is held up")
)

// The leader of an ensemble is killed, and for 20 seconds there are too few servers to elect another one. With the default
// timeouts, no job is stopped, and no waiter gets a lock while its job runs. -held-up-jobs 50 for more.
func TestJobsOutliveAnElectionThatIsHeldUp(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute+*heldUp)
	defer cancel()
	z, err := peers.StartZooKeeper(ctx, t.TempDir(), peers.ZooKeeperConfig{Servers: 3, TickTime: 2 * time.Second})
	closing(t, z, err)
	waiters := dialURL(t, z.URL())
	var overlaps, handed atomic.Int32
	jobs := make([]*heldUpJob, *heldUpJobs)
	for i := range jobs {
		jobs[i] = startHeldUpJob(ctx, t, z.URL(), fmt.Sprint("job-", i))
	}
	for _, j := range jobs {
		must(t, j.begun(ctx))
		go func() {
			h, err := holdfast.NewMutex(waiters, "/holdfast/locks/"+j.name).Lock(ctx)
			if err != nil {
				return // the test is over
			}
			if j.runs() {
				overlaps.Add(1)
			}
			handed.Add(1)
			_ = h.Unlock()
		}()
		awaitPlaces(ctx, t, waiters, "/holdfast/locks/"+j.name, 2)
	}

	leader, err := z.AwaitLeader(ctx)
	must(t, err)
	other := (leader + 1) % 3
	must(t, z.Kill(other)) // before the death of the leader: the two others would elect one at once
	began := time.Now()
	must(t, z.Kill(leader))
	time.Sleep(*heldUp)
	must(t, z.Restart(ctx, other))
	outage := time.Since(began)
	must(t, waiters.Sync(ctx, "/"))
	time.Sleep(8 * time.Second) // more than a job without a new proof would have left

	var stopped int
	for _, j := range jobs {
		if !j.runs() {
			stopped++
			_ = j.end()
			t.Errorf("%s was stopped:\n%s", j.name, j.stderr)
		}
	}
	if n := handed.Load(); n > 0 {
		t.Errorf("%d locks have their next holder, and no job has ended by itself", n)
	}
	for _, j := range jobs {
		must(t, j.end())
	}
	for int(handed.Load()) < len(jobs) && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	if handed.Load() != int32(len(jobs)) || overlaps.Load() != 0 {
		t.Errorf("%d of %d locks were handed on, %d of them while their job ran", handed.Load(), len(jobs), overlaps.Load())
	}
	measured(t, "no leader for %v: %d of %d jobs stopped, %d overlaps", outage.Round(100*time.Millisecond), stopped, len(jobs), overlaps.Load())
}

// awaitPlaces returns when so many are in a queue.
func awaitPlaces(ctx context.Context, t *testing.T, c *zk.Client, path string, n int) {
	t.Helper()
	for {
		names, _, err := c.Children(ctx, path)
		if len(names) == n {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%s has %d places: %v", path, len(names), err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A heldUpJob is a `holdfast run` whose command locks a file while it runs.
type heldUpJob struct {
	name, file string
	cmd        *exec.Cmd
	stderr     *bytes.Buffer // read when the command has ended
}

func startHeldUpJob(ctx context.Context, t *testing.T, url, name string) *heldUpJob {
	t.Helper()
	j := &heldUpJob{name: name, file: filepath.Join(t.TempDir(), "witness"), stderr: new(bytes.Buffer)}
	must(t, os.WriteFile(j.file, nil, 0o600))
	j.cmd = exec.CommandContext(ctx, holdfastBin(t), "run", "--server", url, name, "--", "flock", "--exclusive", j.file, "sleep", "600")
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "HOLDFAST_") {
			j.cmd.Env = append(j.cmd.Env, v)
		}
	}
	j.cmd.Stderr = j.stderr
	must(t, j.cmd.Start())
	t.Cleanup(func() { _ = j.end() })
	return j
}

// runs reports whether the job's command runs.
func (j *heldUpJob) runs() bool {
	f, err := os.Open(j.file)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// begun returns when the job's command runs.
func (j *heldUpJob) begun(ctx context.Context) error {
	for !j.runs() {
		if ctx.Err() != nil {
			return fmt.Errorf("%s has not begun: %w", j.name, context.Cause(ctx))
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

// end ends the job. It may have ended.
func (j *heldUpJob) end() error {
	if j.cmd.ProcessState != nil {
		return nil
	}
	if err := j.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	_ = j.cmd.Wait() // it ends by the signal
	return nil
}
