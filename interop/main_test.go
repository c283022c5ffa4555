//go:build unix

package interop

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/interop/peers"
)

// summary is printed at the end of a run: the measurements and the tests left out. Without -v,
// `go test` shows neither the log of a passed test nor the reason of a skip.
var summary struct {
	mu    sync.Mutex
	lines []string
}

func summarize(line string) {
	summary.mu.Lock()
	defer summary.mu.Unlock()
	summary.lines = append(summary.lines, line)
}

// measured logs a figure of the test, and repeats it in the summary.
func measured(t testing.TB, format string, args ...any) {
	t.Helper()
	t.Logf(format, args...)
	summarize(t.Name() + ": " + fmt.Sprintf(format, args...))
}

// percentiles formats p50, p99 and the largest.
func percentiles(ds []time.Duration) string {
	if len(ds) == 0 {
		return "none"
	}
	ds = slices.Sorted(slices.Values(ds))
	at := func(p int) time.Duration { return ds[(len(ds)-1)*p/100].Round(time.Millisecond) }
	return fmt.Sprintf("p50 %v, p99 %v, max %v of %d", at(50), at(99), at(100), len(ds))
}

// shared is what all tests of a run may use as long as they do not disturb it. The directory is
// removed when the run ends.
var shared struct {
	dir string

	mu     sync.Mutex
	closes []func() error
}

var zookeeperJar = flag.String("zookeeper-jar", "", "start the ZooKeeper of this jar, or of this directory of jars (lib of a release), instead of Debian's")

func TestMain(m *testing.M) {
	if is, err := runCommand(); is {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if *zookeeperJar != "" {
		if err := peers.UseZooKeeper(*zookeeperJar); err != nil {
			fmt.Fprintln(os.Stderr, "-zookeeper-jar:", err)
			return 1
		}
	}
	dir, err := os.MkdirTemp("", "holdfast-interop-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	shared.dir = dir
	code := m.Run()
	for _, close := range shared.closes {
		if err := close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	for _, line := range summary.lines {
		fmt.Fprintln(os.Stderr, line)
	}
	return code
}

// need ends the test if err is not nil. On CI, where everything must run, a missing peer fails
// the test. Elsewhere the test is left out, with one line that says what to install.
func need(t testing.TB, err error) {
	t.Helper()
	var missing *peers.MissingError
	if errors.As(err, &missing) && os.Getenv("CI") != "true" {
		line := fmt.Sprintf("left out %s: %v", t.Name(), missing)
		summarize(line)
		t.Skip(line)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A peer is what the tests need of every server started for them.
type peer interface {
	URL() string
	WriteLogs(io.Writer)
	Close() error
}

// showLogs prints the peer's logs if the test fails.
func showLogs(t testing.TB, p peer) {
	t.Cleanup(func() {
		if t.Failed() {
			var logs strings.Builder
			p.WriteLogs(&logs)
			t.Log(logs.String())
		}
	})
}

// closing stops a peer of this test alone when the test ends.
func closing[P peer](t testing.TB, p P, err error) P {
	t.Helper()
	need(t, err)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	showLogs(t, p) // runs before the peer is closed
	return p
}

// A sharedPeer is started by the first test that needs it and stopped after the last test of the run.
type sharedPeer[P peer] struct {
	start func(ctx context.Context, dir string) (P, error)

	once sync.Once
	peer P
	err  error
}

func (s *sharedPeer[P]) get(t testing.TB) P {
	t.Helper()
	s.once.Do(func() {
		dir, err := os.MkdirTemp(shared.dir, "peer-")
		if err != nil {
			s.err = err
			return
		}
		// Not the test's context: the peer outlives the test that starts it.
		ctx, cancel := context.WithTimeout(context.Background(), peerStart)
		defer cancel()
		if s.peer, s.err = s.start(ctx, dir); s.err == nil {
			shared.mu.Lock()
			shared.closes = append(shared.closes, s.peer.Close)
			shared.mu.Unlock()
		}
	})
	need(t, s.err)
	showLogs(t, s.peer)
	return s.peer
}

var (
	oneZooKeeper = sharedPeer[*peers.ZooKeeper]{start: func(ctx context.Context, dir string) (*peers.ZooKeeper, error) {
		return peers.StartZooKeeper(ctx, dir, peers.ZooKeeperConfig{})
	}}
	ensemble = sharedPeer[*peers.ZooKeeper]{start: func(ctx context.Context, dir string) (*peers.ZooKeeper, error) {
		return peers.StartZooKeeper(ctx, dir, peers.ZooKeeperConfig{Servers: 3})
	}}
	oneHoldfast = sharedPeer[*peers.Holdfast]{start: func(ctx context.Context, dir string) (*peers.Holdfast, error) {
		bin, err := buildOnce()
		if err != nil {
			return nil, err
		}
		return peers.StartHoldfast(ctx, bin, dir)
	}}
)

var buildOnce = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), buildTime)
	defer cancel()
	return peers.BuildHoldfast(ctx, shared.dir)
})

// holdfastBin returns the path of the holdfast command, built once per run.
func holdfastBin(t testing.TB) string {
	t.Helper()
	bin, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

var compileOnce = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), buildTime)
	defer cancel()
	classes := filepath.Join(shared.dir, "classes")
	if err := os.Mkdir(classes, 0o700); err != nil {
		return "", err
	}
	return classes, peers.Javac(ctx, "java", classes)
})

// curatorClasses returns the directory with the compiled programs of interop/java.
func curatorClasses(t testing.TB) string {
	t.Helper()
	need(t, peers.NeedCurator())
	classes, err := compileOnce()
	if err != nil {
		t.Fatal(err)
	}
	return classes
}
