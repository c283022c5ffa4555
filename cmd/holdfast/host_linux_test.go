package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"holdfast/internal/watchdog"
	"holdfast/zklocal"
)

// A process is spared when a job is killed because it has the lock of a directory, not because its
// arguments say so.
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
	// The same arguments, and a directory that has a host: only the lock is missing.
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
			t.Errorf("%q passes for a host", impostor.Args)
		}
	}
	// Nor is a process that has the lock and was not detached: the command may run a server for itself.
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
		t.Error("a process that was not detached passes for a host")
	}
	if watchdog.IsHost(os.Getpid()) {
		t.Error("this process passes for a host")
	}
	if _, err := os.Stat(zklocal.HostLock(dir)); err != nil {
		t.Error(err)
	}
}
