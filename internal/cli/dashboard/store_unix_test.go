//go:build unix

package dashboard

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// On a file:// store without a host, the program starts holdfast as the host, so that its own end takes the store from
// nobody.
func TestHoldfastHostsTheStoreOfThePage(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two programs")
	}
	t.Parallel()
	bin, dir := t.TempDir(), t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "holdfast/cmd/holdfast", "holdfast/cmd/holdfast-ui").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// In a directory of its own, so that the host is found in the PATH; then beside it.
	lone := filepath.Join(t.TempDir(), "holdfast-ui")
	if err := os.Link(filepath.Join(bin, "holdfast-ui"), lone); err != nil {
		t.Skip(err)
	}
	for name, program := range map[string]string{"beside": filepath.Join(bin, "holdfast-ui"), "PATH": lone} {
		store := filepath.Join(dir, name)
		cmd := exec.CommandContext(t.Context(), program, "--listen", "127.0.0.1:0", "--server", "file://"+store)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOLDFAST_CONFIG=/dev/null", "HOME="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = 10 * time.Second
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "http://127.0.0.1:") {
			t.Errorf("%s: %q, %v", name, line, err)
		}
		log, err := os.ReadFile(filepath.Join(store, "host.log"))
		if err != nil || !strings.Contains(string(log), "this process hosts the directory") {
			t.Errorf("%s: no holdfast hosts the store: %s %v", name, log, err)
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
