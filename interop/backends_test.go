//go:build unix

package interop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Every kind of server or store that the holdfast command can use.
var backends = []struct {
	name string
	url  func(testing.TB) string
}{
	{"file", func(t testing.TB) string { return "file://" + newDirectory(t) }},
	{"holdfast serve", func(t testing.TB) string { return oneHoldfast.get(t).URL() }},
	{"Apache ZooKeeper", func(t testing.TB) string { return oneZooKeeper.get(t).URL() }},
	{"Apache ensemble", func(t testing.TB) string {
		z := ensemble.get(t)
		return fmt.Sprintf("%s?tick=%v", z.URL(), z.Tick())
	}},
}

// newDirectory returns a directory for file://, whose host ends with the test.
func newDirectory(t testing.TB) string {
	t.Helper()
	bin, dir := holdfastBin(t), filepath.Join(t.TempDir(), "state")
	t.Cleanup(func() {
		// The host that the command has started lingers. It would write into a directory that is being
		// removed.
		if _, err := killHost(bin, dir); err != nil && !errors.Is(err, errNoHost) {
			t.Error(err)
		}
	})
	return dir
}

var errNoHost = errors.New("no process hosts the directory")

// killHost kills the process that hosts dir with SIGKILL, and returns its pid once it is gone.
func killHost(bin, dir string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, "host.pid"))
	if errors.Is(err, os.ErrNotExist) || len(text) == 0 { // the file is about to be written
		return 0, errNoHost
	}
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("host.pid: %w", err)
	}
	// From here on p is this very process (a pidfd, on Linux), even if its number is reused. So check its
	// identity after this, not before.
	p, err := os.FindProcess(pid)
	if err != nil {
		return 0, err
	}
	defer p.Release()
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if errors.Is(err, os.ErrNotExist) {
		return 0, errNoHost // the file names a host that was killed
	}
	if err != nil {
		return 0, err
	}
	if exe != bin {
		return 0, errNoHost
	}
	if err := p.Kill(); err != nil {
		if errors.Is(err, os.ErrProcessDone) {
			return 0, errNoHost
		}
		return 0, err
	}
	// It is not our child, so we cannot wait for it. Where nobody reaps orphans, its number
	// stays, but not its program.
	for {
		if _, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil {
			return pid, nil
		}
		time.Sleep(time.Millisecond)
	}
}

// underLock returns `holdfast run` of one of our commands (see commandVar), with more flags
// before the name of the lock.
func underLock(ctx context.Context, t testing.TB, url, lock, command string, flags ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"run", "--server", url}, flags...)
	cmd := exec.CommandContext(ctx, holdfastBin(t), append(args, lock, "--", self)...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "HOLDFAST_") { // otherwise the test would use the caller's settings
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, command)
	return cmd
}
