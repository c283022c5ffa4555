//go:build unix

package kubernetesholdfast_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	"holdfast/contrib/kubernetesholdfast"
	"holdfast/zk"
	"holdfast/zkserver"
)

const (
	shortLease    = 3 * time.Second
	shortDeadline = 2 * time.Second
	shortRetry    = 500 * time.Millisecond
)

// TestMain is also the main function of a leader that a test pauses.
func TestMain(m *testing.M) {
	if server := os.Getenv("LEADER_SERVER"); server != "" {
		c, err := zk.Dial(context.Background(), zk.Config{Servers: []string{server}})
		if err != nil {
			panic(err)
		}
		lead(context.Background(), c, "first", func() { fmt.Println("leading") }, func() { fmt.Println("stopped") })
		return
	}
	os.Exit(m.Run())
}

func lead(ctx context.Context, c *zk.Client, identity string, started, stopped func()) {
	l, err := kubernetesholdfast.New(c, "/leaders/controller", identity)
	if err != nil {
		panic(err)
	}
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: l, LeaseDuration: shortLease, RenewDeadline: shortDeadline, RetryPeriod: shortRetry,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { started() }, OnStoppedLeading: stopped},
	})
}

// A leader that was paused goes on beside the next one, but not for longer than the README says.
func TestAPausedLeaderGoesOnForRenewDeadline(t *testing.T) {
	srv, err := zkserver.Open(zkserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	dir, err := os.MkdirTemp("", "") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	server := "unix://" + filepath.Join(dir, "zk")
	l, err := net.Listen("unix", filepath.Join(dir, "zk"))
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l)
	first := exec.Command(os.Args[0])
	first.Stderr, first.Env = os.Stderr, append(os.Environ(), "LEADER_SERVER="+server)
	out, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	defer first.Wait()
	defer first.Process.Kill()
	says := bufio.NewScanner(out)
	if !says.Scan() || says.Text() != "leading" {
		t.Fatalf("the first leader says %q", says.Text())
	}
	c, err := zk.Dial(t.Context(), zk.Config{Servers: []string{server}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := first.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	second, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		lead(ctx, c, "second", func() { close(second) }, func() {})
	}()
	defer func() { cancel(); <-ended }()
	select {
	case <-second:
	case <-time.After(30 * time.Second):
		t.Fatal("nobody leads after the first was paused")
	}
	resumed := time.Now()
	if err := first.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if !says.Scan() || says.Text() != "stopped" {
		t.Fatalf("the first leader says %q", says.Text())
	}
	const slack = 8 * time.Second // of a busy machine
	took := time.Since(resumed)
	t.Logf("the first leader went on for %v", took)
	if took > shortDeadline+slack {
		t.Errorf("the first leader went on for %v; the README says RenewDeadline, %v", took, shortDeadline)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil || !strings.Contains(string(readme), "goes on for up to `RenewDeadline`") {
		t.Errorf("the README does not say how long a paused leader goes on (%v)", err)
	}
}
