//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast/zk"
)

// startServe starts serve and waits until it is ready. It returns the lines printed before.
func startServe(t *testing.T, args ...string) (*exec.Cmd, []string) {
	t.Helper()
	return startServeBy(t, exec.Command("holdfast", append([]string{"serve"}, args...)...))
}

// startServeBy is startServe for a command that runs serve.
func startServeBy(t *testing.T, cmd *exec.Cmd) (*exec.Cmd, []string) {
	t.Helper()
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	var lines []string
	for scanner := bufio.NewScanner(out); scanner.Scan(); {
		if scanner.Text() == "ready" {
			go io.Copy(io.Discard, out)
			return cmd, lines
		}
		lines = append(lines, scanner.Text())
	}
	t.Fatalf("%q is not ready", cmd.Args)
	return nil, nil
}

// On TERM, serve answers the requests that it has received. Otherwise nodes would exist whose
// creation was never acknowledged.
func TestServeAnswersWhatItHasTakenBeforeItStops(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dial := func(lines []string, trace *zk.Trace) *zk.Client {
		addr := strings.TrimPrefix(lines[1], "listening tcp ")
		c, err := zk.Dial(ctx, zk.Config{Servers: []string{addr}, SessionTimeout: 30 * time.Second, Trace: trace})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	cmd, lines := startServe(t, "--data-dir", dir, "--listen", "127.0.0.1:0")
	disconnected := make(chan struct{}, 10)
	c := dial(lines, &zk.Trace{Disconnected: func(int64, error) { disconnected <- struct{}{} }})
	defer c.Close()
	var mu sync.Mutex // guards answered
	answered := make(map[string]bool)
	busy := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 32 {
		writers.Go(func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("n%d-%d", w, i)
				if _, _, err := c.Create(ctx, "/"+name, nil, zk.Persistent); err != nil {
					return
				}
				mu.Lock()
				if answered[name] = true; len(answered) == 200 {
					close(busy)
				}
				mu.Unlock()
			}
		})
	}
	select {
	case <-busy:
	case <-ctx.Done():
		t.Fatal("serve did not answer 200 writes")
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("serve: %v", err)
	}
	<-disconnected // all answers have been read
	c.Close()      // writers that wait for the server have sent nothing
	writers.Wait()

	_, lines = startServe(t, "--data-dir", dir, "--listen", "127.0.0.1:0")
	again := dial(lines, nil)
	defer again.Close()
	names, _, err := again.Children(ctx, "/")
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == "zookeeper" })
	slices.Sort(names)
	if want := slices.Sorted(maps.Keys(answered)); !slices.Equal(names, want) {
		t.Errorf("%d nodes exist, but %d creates were answered", len(names), len(want))
	}
}
