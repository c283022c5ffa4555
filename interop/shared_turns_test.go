//go:build unix

package interop

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"holdfast"
	"holdfast/interop/peers"
	"holdfast/zk"
)

var (
	sharedTurns     = flag.Int("shared-turns", 100, "turns that each process takes on each lock that it shares with other libraries")
	sharedProcesses = flag.Int("shared-processes", 2, "processes of each library that share locks")
)

// sharedPermits is the limit of the shared semaphores.
const sharedPermits = 3

// sharedLocks are the locks that we share with other libraries: the layout, our recipe, and
// theirs in SharedTurns, shared_turns.py and turnsProgram; "" takes no part. docs/reference/peers.md says
// what holds for each pair, and what breaks it.
var sharedLocks = []struct {
	name                       string
	layout                     string
	ours, java, python, golang string
}{
	{"Mutex and InterProcessMutex", "curator", "mutex", "mutex", "", ""},
	{"Mutex among InterProcessMutex and go-zookeeper's Lock", "curator", "mutex", "mutex", "", "go-zookeeper"},
	{"RWMutex and InterProcessReadWriteLock", "curator", "rwmutex", "rwlock", "", ""},
	{"Semaphore and InterProcessSemaphoreV2", "curator", "semaphore", "semaphore", "", ""},
	{"Election and LeaderSelector", "curator", "election", "selector", "", ""},
	{"Election and LeaderLatch", "leaderlatch", "election", "latch", "", ""},
	{"Election with preferences and LeaderLatch", "leaderlatch", "preferred", "latch", "", ""},
	{"Mutex and ZooKeeper's WriteLock", "writelock", "mutex", "writelock", "", ""},
	{"Mutex and kazoo's Lock", "kazoo", "mutex", "", "lock", ""},
	{"Mutex and go-zookeeper's Lock", "go-zookeeper", "mutex", "", "", "go-zookeeper"},
	// With extra_lock_patterns, kazoo respects nodes of go-zookeeper's form, and that layout
	// and go-zookeeper respect kazoo's. (Curator's does not, as Curator does not.)
	{"Mutex among go-zookeeper's and kazoo's Lock", "go-zookeeper", "mutex", "", "mixed", "go-zookeeper"},
	{"RWMutex and kazoo's WriteLock", "kazoo", "rwmutex", "", "writer", ""},
	// Readers of kazoo 2.8.0 wait for writers behind them (kazoo #649), for ever: see
	// TestPeersBreakAsTheyDoAlone. Here they give up soon and retry.
	{"RWMutex and kazoo's ReadLock, which gives up, and WriteLock", "kazoo", "rwmutex", "", "rwlock", ""},
	{"Semaphore and kazoo's", "kazoo", "semaphore", "", "semaphore", ""},
	{"Election and kazoo's", "kazoo", "election", "", "election", ""},
	{"Election with preferences and kazoo's", "kazoo", "preferred", "", "election", ""},
}

// Our locks and the peers' take turns on the same nodes, in several processes at the same time.
// A number that only holders may change loses no update, and grants follow the numbers of the
// nodes: see checkTurns.
func TestRecipesShareTheirLocksInTheOrderOfTheirNodes(t *testing.T) {
	need(t, peers.NeedKazoo())
	classes, addr := curatorClasses(t), oneZooKeeper.get(t).Addrs()[0]
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+time.Duration(*sharedTurns**sharedProcesses)*time.Second)
	defer cancel()
	self, err := os.Executable()
	must(t, err)
	turns := strconv.Itoa(*sharedTurns)
	java, python, ours, golang := []string{addr, turns}, []string{addr, turns}, []string{addr, turns}, []string{addr, turns}
	dirs, stats := make([]string, len(sharedLocks)), make([]zk.Stat, len(sharedLocks))
	root := fmt.Sprintf("/shared-turns-%d", time.Now().UnixNano()) // a new one for each run of -count
	path := func(i int) string { return fmt.Sprintf("%s/%d", root, i) }
	admin := dialURL(t, "zk://"+addr)
	_, _, err = admin.Create(ctx, root, nil, zk.Persistent)
	must(t, err)
	for i, l := range sharedLocks {
		dirs[i] = t.TempDir()
		must(t, os.WriteFile(filepath.Join(dirs[i], numberFile), []byte("0"), 0o600))
		// An empty directory must not be removed: its numbers would start again.
		for _, below := range []string{"", "/locks", "/leases"} {
			if below == "" || l.java == "semaphore" {
				_, stat, err := admin.Create(ctx, path(i)+below, []byte{}, zk.Persistent) // kazoo fails on null
				must(t, err)
				if below == "" {
					stats[i] = stat
				}
			}
		}
		ours = append(ours, l.ours, l.layout, path(i), dirs[i])
		if l.java != "" {
			java = append(java, l.java, path(i), dirs[i])
		}
		if l.python != "" {
			python = append(python, l.python, path(i), dirs[i])
		}
		if l.golang != "" {
			golang = append(golang, l.golang, l.layout, path(i), dirs[i])
		}
	}
	program := func(args []string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, self, args...)
		cmd.Env = append(os.Environ(), commandVar+"=turns")
		return cmd
	}
	var all []*turnTaker
	for range *sharedProcesses {
		all = append(all,
			startTurnTaker(t, peers.Curator(ctx, classes, "SharedTurns", java...)),
			startTurnTaker(t, peers.Kazoo(ctx, filepath.Join("py", "shared_turns.py"), python...)),
			startTurnTaker(t, program(golang)), startTurnTaker(t, program(ours)))
	}
	begin := time.Now()
	for _, p := range all {
		must(t, p.begin())
	}
	for _, p := range all {
		if err := p.end(); err != nil {
			t.Error(err)
		}
	}
	took := time.Since(begin)
	for i, l := range sharedLocks {
		t.Run(l.name, func(t *testing.T) {
			layout, err := holdfast.ParseLayout(l.layout)
			must(t, err)
			entries, err := holdfast.List(ctx, admin, path(i), layout)
			must(t, err)
			if len(entries) > 0 {
				t.Errorf("left behind: %+v", entries)
			}
			stat, ok, err := admin.Exists(ctx, path(i))
			must(t, err)
			if !ok || stat.Czxid != stats[i].Czxid {
				t.Error("the directory was made again: the numbers prove nothing")
			}
			takers := *sharedProcesses
			for _, recipe := range []string{l.java, l.python, l.golang} {
				if recipe != "" {
					takers += *sharedProcesses
				}
			}
			checkBook(t, dirs[i], takers**sharedTurns, begin)
		})
	}
	measured(t, "%d locks shared by %d processes of each library, %d turns each, %.1f s", len(sharedLocks), *sharedProcesses, *sharedTurns, took.Seconds())
}

// checkBook checks the records of one lock's holders.
func checkBook(t *testing.T, dir string, want int, begin time.Time) {
	file := filepath.Join(dir, turnsFile)
	text, err := os.ReadFile(file)
	must(t, err)
	turns, err := parseTurns(string(text))
	must(t, err)
	if err := checkTurns(turns, sharedPermits); err != nil {
		t.Error(err)
	}
	if len(turns) != want {
		t.Errorf("%d turns; want %d", len(turns), want)
	}
	writes := 0
	for _, turn := range turns {
		if turn.mode == "W" {
			writes++
		}
	}
	number, err := readNumber(filepath.Join(dir, numberFile))
	must(t, err)
	if number != writes {
		t.Errorf("the number is %d after %d turns of mode W: updates were lost", number, writes)
	}
	last, err := os.Stat(file)
	must(t, err)
	t.Logf("%d turns, %.1f s", len(turns), last.ModTime().Sub(begin).Seconds())
}

// turnTaker is a running program of another library that takes turns.
type turnTaker struct {
	name   string
	stdin  io.Writer
	lines  lineWriter
	stderr bytes.Buffer
	ended  <-chan struct{}
}

// lineWriter receives a program's output. (A pipe would be closed when the program has ended,
// even before its last line was read.)
type lineWriter struct {
	rest []byte
	ch   chan string // has room for all lines
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
	p := &turnTaker{name: filepath.Base(cmd.Path), lines: lineWriter{ch: make(chan string, 1024)}}
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
