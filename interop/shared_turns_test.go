//go:build unix

package interop

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast"
	"holdfast/interop/peers"
	"holdfast/zk"
)

var (
	sharedTurns     = flag.Int("shared-turns", 10, "turns that each process takes on each lock that it shares with other libraries")
	sharedProcesses = flag.Int("shared-processes", 1, "processes of each library that share locks")
)

// sharedPermits is the limit of the semaphores that are shared.
const sharedPermits = 3

// sharedLocks are the locks that we share with other libraries: in whose layout, by which
// of their recipes, and what we take for our i-th turn.
var sharedLocks = []struct {
	name         string
	java, python string // their recipes, in SharedTurns and shared_turns.py; "" takes no part
	layout       holdfast.Layout
	ours         func(c *zk.Client, path string, layout holdfast.Option, i int) (holdfast.Locker, string)
}{
	{"Mutex and InterProcessMutex", "mutex", "", holdfast.LayoutCurator, exclusive},
	{"RWMutex and InterProcessReadWriteLock", "rwlock", "", holdfast.LayoutCurator, readersAndWriters},
	{"Semaphore and InterProcessSemaphoreV2", "semaphore", "", holdfast.LayoutCurator, onePermit},
	{"Election and LeaderSelector", "selector", "", holdfast.LayoutCurator, campaign},
	{"Election and LeaderLatch", "latch", "", holdfast.LayoutLeaderLatch, campaign},
	{"Mutex and ZooKeeper's WriteLock", "writelock", "", holdfast.LayoutWriteLock, exclusive},
	{"Mutex and kazoo's Lock", "", "lock", holdfast.LayoutKazoo, exclusive},
	// With extra_lock_patterns, kazoo respects nodes of go-zookeeper's form, and that layout
	// respects kazoo's. (Curator's does not, as Curator does not.)
	{"Mutex among go-zookeeper's and kazoo's Lock", "", "mixed", holdfast.LayoutGoZookeeper, exclusive},
	// kazoo 2.8.0's readers wait for writers behind them (kazoo #649), so its own readers
	// and writers deadlock; ours and its writers do not.
	{"RWMutex and kazoo's WriteLock", "", "writer", holdfast.LayoutKazoo, readersAndWriters},
	{"Semaphore and kazoo's", "", "semaphore", holdfast.LayoutKazoo, onePermit},
	{"Election and kazoo's", "", "election", holdfast.LayoutKazoo, campaign},
}

func exclusive(c *zk.Client, path string, layout holdfast.Option, _ int) (holdfast.Locker, string) {
	return holdfast.NewMutex(c, path, layout), "W"
}

func readersAndWriters(c *zk.Client, path string, layout holdfast.Option, i int) (holdfast.Locker, string) {
	m := holdfast.NewRWMutex(c, path, layout)
	if i%3 == 0 {
		return m, "W"
	}
	return m.RLocker(), "R"
}

func onePermit(c *zk.Client, path string, layout holdfast.Option, _ int) (holdfast.Locker, string) {
	return holdfast.NewSemaphore(c, path, sharedPermits, layout).Locker(), "P"
}

func campaign(c *zk.Client, path string, layout holdfast.Option, i int) (holdfast.Locker, string) {
	return candidate{holdfast.NewElection(c, path, layout), strconv.Itoa(i)}, "W"
}

// Ours and theirs take turns on the same locks, in several processes, at the same time.
// Whoever holds one says so in a file, and looks who else does.
func TestRecipesShareTheirLocksWithCuratorAndKazoo(t *testing.T) {
	need(t, peers.NeedKazoo())
	classes, addr := curatorClasses(t), oneZooKeeper.get(t).Addrs()[0]
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+time.Duration(*sharedTurns**sharedProcesses)*time.Second)
	defer cancel()
	turns := strconv.Itoa(*sharedTurns)
	java, python := []string{addr, turns}, []string{addr, turns}
	dirs := make([]string, len(sharedLocks))
	root := fmt.Sprintf("/shared-turns-%d", time.Now().UnixNano()) // with -count, a new one
	path := func(i int) string { return fmt.Sprintf("%s/%d", root, i) }
	for i, l := range sharedLocks {
		dirs[i] = t.TempDir()
		if l.java != "" {
			java = append(java, l.java, path(i), dirs[i])
		}
		if l.python != "" {
			python = append(python, l.python, path(i), dirs[i])
		}
	}
	admin := dialURL(t, "zk://"+addr)
	_, _, err := admin.Create(ctx, root, nil, zk.Persistent) // WriteLock makes no parents
	must(t, err)
	var theirs []*turnTaker
	for range *sharedProcesses {
		theirs = append(theirs,
			startTurnTaker(t, peers.Curator(ctx, classes, "SharedTurns", java...)),
			startTurnTaker(t, peers.Kazoo(ctx, filepath.Join("py", "shared_turns.py"), python...)))
	}
	for _, p := range theirs {
		must(t, p.begin())
	}
	var ours sync.WaitGroup
	for i, l := range sharedLocks {
		for range 2 * *sharedProcesses {
			c := dialURL(t, "zk://"+addr)
			ours.Go(func() {
				for turn := range *sharedTurns {
					locker, mode := l.ours(c, path(i), holdfast.WithLayout(l.layout), turn)
					err := holdfast.Do(ctx, locker, func(context.Context) error { return holdAmong(dirs[i], mode) })
					if err != nil {
						t.Errorf("%s, turn %d: %v", l.name, turn, err)
						return
					}
				}
			})
		}
	}
	ours.Wait()
	for _, p := range theirs {
		if err := p.end(); err != nil {
			t.Error(err)
		}
	}
	for i, l := range sharedLocks {
		entries, err := holdfast.List(ctx, admin, path(i), holdfast.WithLayout(l.layout))
		must(t, err)
		if len(entries) > 0 {
			t.Errorf("%s: left behind: %+v", l.name, entries)
		}
	}
	measured(t, "%d locks shared by %d processes of each library, %d turns each", len(sharedLocks), *sharedProcesses, *sharedTurns)
}

// holdAmong says in the directory that we hold the lock, and looks who else does. W is
// alone, R is beside R only, and P beside less than so many others.
func holdAmong(dir, mode string) error {
	f, err := os.CreateTemp(dir, mode+"-go-*")
	if err != nil {
		return err
	}
	f.Close()
	defer os.Remove(f.Name())
	entries, err := os.ReadDir(dir)
	var others []string
	fine := true
	for _, e := range entries {
		if e.Name() != filepath.Base(f.Name()) {
			others = append(others, e.Name())
			fine = fine && (mode == "P" || mode == "R" && strings.HasPrefix(e.Name(), "R"))
		}
	}
	if !fine || len(others) >= sharedPermits && mode == "P" {
		return errors.Join(err, fmt.Errorf("%s holds beside %v", mode, others))
	}
	time.Sleep(time.Millisecond) // the turn lasts a moment, for the others to see
	return err
}

// turnTaker is a running program of another library that takes turns.
type turnTaker struct {
	name   string
	stdin  io.Writer
	lines  lineWriter
	stderr bytes.Buffer
	ended  <-chan struct{}
}

// lineWriter takes what a program prints. (A pipe would be closed when the program has
// ended, also before its last line was read.)
type lineWriter struct {
	rest []byte
	ch   chan string // with room for all lines
}

func (w *lineWriter) Write(b []byte) (int, error) {
	w.rest = append(w.rest, b...)
	for {
		line, rest, ok := bytes.Cut(w.rest, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		w.ch <- string(line)
		w.rest = rest
	}
}

// startTurnTaker starts the program and returns when it is connected.
func startTurnTaker(t *testing.T, cmd *exec.Cmd) *turnTaker {
	p := &turnTaker{name: filepath.Base(cmd.Path), lines: lineWriter{ch: make(chan string, 16)}}
	cmd.Stdout, cmd.Stderr = &p.lines, &p.stderr
	var err error
	p.stdin, err = cmd.StdinPipe()
	must(t, err)
	process, err := peers.Start(cmd)
	must(t, err)
	p.ended = process.Done()
	t.Cleanup(func() {
		if err := process.Kill(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("%s: %v\n%s", p.name, process.Err(), &p.stderr)
		}
	})
	must(t, p.expect("ready"))
	return p
}

func (p *turnTaker) expect(want string) error {
	var got string
	select {
	case got = <-p.lines.ch:
	case <-p.ended:
		select {
		case got = <-p.lines.ch:
		default:
		}
	}
	if got != want {
		return fmt.Errorf("%s printed %q; want %q", p.name, got, want)
	}
	return nil
}

func (p *turnTaker) begin() error { _, err := p.stdin.Write([]byte("\n")); return err }
func (p *turnTaker) end() error   { return p.expect("ok turns") }
