//go:build unix

package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// notifySocket returns the socket of a supervisor. next waits for the next state.
func notifySocket(t *testing.T) (path string, next func() string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "n") // short: a socket's path has about 100 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path = filepath.Join(dir, "s")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return path, func() string {
		t.Helper()
		buf := make([]byte, 4096)
		c.SetReadDeadline(time.Now().Add(patience))
		n, err := c.Read(buf)
		if err != nil {
			t.Fatalf("no message: %v", err)
		}
		return string(buf[:n])
	}
}

func TestServeTellsItsSupervisor(t *testing.T) {
	t.Parallel()
	socket, next := notifySocket(t)
	cmd := exec.Command("holdfast", "serve", "--data-dir", filepath.Join(t.TempDir(), "data"), "--max-connections", "50")
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=20000")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	// WATCHDOG=1 may come at any time.
	expect := func(want string) {
		t.Helper()
		got := next()
		for want != "WATCHDOG=1" && got == "WATCHDOG=1" {
			got = next()
		}
		if !strings.HasPrefix(got, want) {
			t.Fatalf("serve reported %q; want %q", got, want)
		}
	}
	expect("READY=1")
	expect("WATCHDOG=1")
	expect("WATCHDOG=1")
	cmd.Process.Signal(syscall.SIGHUP)
	expect("RELOADING=1\nMONOTONIC_USEC=")
	expect("READY=1")
	expect("WATCHDOG=1")
	cmd.Process.Signal(syscall.SIGTERM)
	expect("STOPPING=1")
	if err := cmd.Wait(); err != nil || strings.Contains(stderr.String(), "level=WARN") {
		t.Errorf("%v, stderr %q", err, stderr.String())
	}
}

// The supervisor hears that the page can be opened when its URL has been printed.
func TestUITellsItsSupervisor(t *testing.T) {
	t.Parallel()
	socket, next := notifySocket(t)
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command("holdfast", "ui", "--listen", "127.0.0.1:0", "--server", "file://"+filepath.Join(t.TempDir(), "store"))
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket)
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	if got := next(); got != "READY=1" {
		t.Errorf("ui reported %q", got)
	}
	if url, err := os.ReadFile(out.Name()); err != nil || !strings.Contains(string(url), "http://127.0.0.1:") {
		t.Errorf("printed %q, %v", url, err)
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if got := next(); got != "STOPPING=1" {
		t.Errorf("ui reported %q", got)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestServeGoesOnWithoutItsSupervisor(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("holdfast", "serve", "--data-dir", filepath.Join(t.TempDir(), "data"), "--linger", "10ms", "--max-connections", "50")
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(t.TempDir(), "none"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil || !strings.Contains(stderr.String(), "cannot notify the supervisor") {
		t.Errorf("%v, stderr %q", err, stderr.String())
	}
}
