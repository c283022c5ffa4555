//go:build unix

package main

import (
	"bufio"
	"context"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Nobody else can connect between the creation of the socket and the change of its mode, whatever the umask is.
func TestSocketIsPrivateFromTheFirstMoment(t *testing.T) {
	t.Parallel()
	for range 10 {
		socket := filepath.Join(t.TempDir(), "s")
		cmd := exec.Command("sh", "-c", `umask 0; exec holdfast serve --data-dir "$1/data" --unix "$1/s"`, "sh", filepath.Dir(socket))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var ready atomic.Bool
		go func() {
			lines := bufio.NewScanner(out)
			for lines.Scan() && lines.Text() != "ready" {
			}
			ready.Store(true)
		}()
		for !ready.Load() {
			if info, err := os.Lstat(socket); err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("mode %o", info.Mode().Perm())
				break
			}
		}
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			return
		}
	}
}

// A user who may not connect to the socket is told so, instead of waiting for ever. Root may connect to every socket, so
// the command runs as another user then.
func TestASocketOfOthersIsNoServerToWaitFor(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "holdfast")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	program, err := exec.LookPath("holdfast")
	if err != nil {
		t.Fatal(err)
	}
	// Another process copies it: a program that this process has open for writing cannot be run.
	if out, err := exec.Command("cp", program, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program = filepath.Join(dir, filepath.Base(program))
	for path, mode := range map[string]fs.FileMode{dir: 0o755, program: 0o755, socket: 0} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		args []string
		code int
	}{
		{[]string{"run", "job", "--", "true"}, 125},
		{[]string{"lock", "job"}, 77},
		{[]string{"ls"}, 77},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, program, append([]string{"--server", "unix://" + socket}, tt.args...)...)
		cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		began := time.Now()
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != tt.code || !strings.Contains(string(out), "permission denied") || !strings.Contains(string(out), "usermod -aG") {
			t.Fatalf("%v after %v: exit code %d; want %d:\n%s", tt.args, time.Since(began), code, tt.code, out)
		}
	}
}
