//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// notifySocket is a supervisor's end; next waits for the next state that it is told.
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
			t.Fatalf("no word from serve: %v", err)
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
	// Between what is expected, the watchdog may be patted at any time.
	expect := func(want string) {
		t.Helper()
		got := next()
		for want != "WATCHDOG=1" && got == "WATCHDOG=1" {
			got = next()
		}
		if !strings.HasPrefix(got, want) {
			t.Fatalf("told %q; want %q", got, want)
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

// A watchdog that is patted by a timer alone would guard nothing.
func TestWatchdogIsPattedOnlyWhileTheServerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var pats atomic.Int32
		var hang, fail atomic.Bool
		go keepAlive(ctx, time.Second, func(ctx context.Context) error {
			switch {
			case hang.Load():
				<-ctx.Done()
				return ctx.Err()
			case fail.Load():
				return errors.New("closed")
			}
			return nil
		}, func() { pats.Add(1) })
		over := func(d time.Duration) int {
			before := pats.Load()
			time.Sleep(d)
			synctest.Wait()
			return int(pats.Load() - before)
		}
		if n := over(9500 * time.Millisecond); n < 9 {
			t.Errorf("alive: %d in 9.5 s", n)
		}
		hang.Store(true)
		if n := over(10 * time.Second); n != 0 {
			t.Errorf("hanging: patted %d times", n)
		}
		hang.Store(false)
		fail.Store(true)
		over(2 * time.Second) // what was hanging ends
		if n := over(10 * time.Second); n != 0 {
			t.Errorf("failing: patted %d times", n)
		}
		fail.Store(false)
		if n := over(10 * time.Second); n < 9 {
			t.Errorf("alive again: %d in 10 s", n)
		}
	})
}

// Somebody else's watchdog is none of ours.
func TestWatchdogOfAnotherProcessIsLeftAlone(t *testing.T) {
	t.Setenv("WATCHDOG_USEC", "1000")
	t.Setenv("WATCHDOG_PID", "1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // or this test would never end if it failed
	(&notifier{}).watchdog(ctx, func(context.Context) error {
		t.Error("asked whether the server is alive")
		return nil
	})
}
