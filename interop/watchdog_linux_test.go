package interop

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/interop/peers"
)

var pairs = flag.Int("pairs", 4, "how often the watchdog test makes each fault, on each backend; the shapes of commands take turns")

// A commandShape is a tree of processes that a command may consist of.
type commandShape struct {
	name string
	argv []string
	n    int // minimum number of processes
}

// commandShapes are process trees of commands. Each prints "ready" when all of them run. Some
// ignore TERM, and none ends by itself.
var commandShapes = []commandShape{
	{"direct", sh(`echo ready; exec sleep 1000`), 1},
	{"a; b", sh(`echo ready; sleep 1000; echo b`), 2},
	{"a && b", sh(`sh -c 'echo ready; sleep 1000' && echo b`), 2},
	{"pipe", sh(`(echo ready >&2; sleep 1000) 2>&1 >/dev/null | cat`), 3},
	{"timeout", []string{"timeout", "1000", "sh", "-c", "echo ready; sleep 1000; echo b"}, 3},
	{"subprocess", python(`subprocess.Popen(["sleep", "1000"]); print("ready", flush=True); subprocess.run(["sh", "-c", "sleep 1000; sleep 1000"])`), 4},
	{"setsid", sh(`setsid sh -c 'echo ready; sleep 1000; echo b' & wait; sleep 1000`), 3},
	{"double fork", python(`
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("ready", flush=True)
        time.sleep(1000)
    os._exit(0)
time.sleep(1000)`), 2},
	{"changes its group", python(`os.setpgid(0, os.getpgid(os.getppid())); print("ready", flush=True); time.sleep(1000)`), 1},
	{"changes its user", []string{"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-c", "echo ready; sleep 1000; echo b"}, 2},
	{"ignores TERM", sh(`trap '' TERM HUP INT; sh -c 'echo ready; sleep 1000; sleep 1000'; sleep 1000`), 3},
	{"forks in a loop", sh(`echo ready; n=20000; while test $((n=n-1)) -gt 0; do sleep 0.01 & sleep 0.001; done`), 1},
	{"flees", python(`
print("ready", flush=True)
if os.fork() == 0:
    for i in range(200000):
        if os.fork():
            os._exit(0)
time.sleep(1000)`), 2},
	{"respawns", sh(`sh -c 'for i in 1 2 3 4 5 6 7 8 9; do setsid sleep 1000; done' & echo ready; sleep 1000`), 3},
}

func sh(script string) []string { return []string{"sh", "-c", script} }

func python(script string) []string {
	return []string{"python3", "-c", "import os, subprocess, time\n" + script}
}

// A pairFault happens to a supervisor and its watchdog.
type pairFault struct {
	name string
	sig  syscall.Signal
	on   []int // 0 is the supervisor, 1 the watchdog
}

var pairFaults = []pairFault{
	{"supervisor killed", syscall.SIGKILL, []int{0}},
	{"watchdog killed", syscall.SIGKILL, []int{1}},
	{"both killed", syscall.SIGKILL, []int{0, 1}},
	{"supervisor stopped", syscall.SIGSTOP, []int{0}},
	{"watchdog stopped", syscall.SIGSTOP, []int{1}},
	{"both stopped", syscall.SIGSTOP, []int{0, 1}},
}

// The supervisor and the watchdog of a job are killed or stopped, one or both. No process of the
// job runs any more when the next holder's command begins. If both die at the same moment, and
// there are no cgroups, some processes may be left: the test counts them.
func TestCommandsOfTwoHoldersNeverRunTogether(t *testing.T) {
	shapes := slices.DeleteFunc(slices.Clone(commandShapes), func(s commandShape) bool {
		return s.argv[0] == "setpriv" && os.Geteuid() != 0 // only root can change its user
	})
	watch := newJobWatch(t)
	for _, b := range backends {
		if b.name != "file" && b.name != "Apache ensemble" {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			url := b.url(t)
			for k, f := range pairFaults {
				t.Run(f.name, func(t *testing.T) {
					t.Parallel()
					result := &pairResult{}
					for i := range *pairs {
						// Each fault begins with other shapes.
						s := shapes[(i+k*len(shapes)/len(pairFaults))%len(shapes)]
						name := fmt.Sprintf("%d %s", i, s.name)
						if !t.Run(name, func(t *testing.T) { result.trial(t, watch, url, f, s.argv, s.n) }) {
							break
						}
					}
					measured(t, "%v", result)
				})
			}
		})
	}
}

// pairTimeout is the session timeout: the shortest that both backends grant.
const pairTimeout = 4 * time.Second

// A pairResult is the outcome of one fault.
type pairResult struct {
	trials  int
	margins []time.Duration // from the job's last sign of life to the start of the next holder's command
	left    []time.Duration // when both were killed and a process was left: the time between the two kills
	gone    int             // when one was due to be killed after the other: it had already ended the job and exited
}

func (r *pairResult) String() string {
	if r.trials == 0 {
		return "no trial was finished"
	}
	slices.Sort(r.margins)
	text := fmt.Sprintf("%d times: commands of two holders at one time: 0", r.trials)
	if len(r.margins) > 0 {
		text += fmt.Sprintf("; smallest margin %v, median %v", r.margins[0].Round(time.Millisecond), r.margins[len(r.margins)/2].Round(time.Millisecond))
	}
	if r.gone > 0 {
		text += fmt.Sprintf("; %d times the second process had ended the job and was gone before it could be killed", r.gone)
	}
	if len(r.left) > 0 {
		text += fmt.Sprintf("; after both had died at nearly the same moment, something of the job was left %d times, %v apart", len(r.left), r.left)
	}
	return text
}

func (r *pairResult) trial(t *testing.T, watch *jobWatch, url string, f pairFault, argv []string, n int) {
	ctx, cancel := context.WithTimeout(t.Context(), stepTime)
	defer cancel()
	mark := strings.Map(func(r rune) rune {
		if r == '/' || r == ' ' {
			return '-'
		}
		return r
	}, t.Name()) + strconv.FormatInt(time.Now().UnixNano(), 36)
	lock := "pairs/" + mark
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	must(t, err)
	defer stderr.Close()
	defer func() {
		if t.Failed() {
			text, _ := os.ReadFile(stderr.Name())
			t.Logf("%s%s", text, watch.describe(mark))
		}
	}()
	run := func(env string, command ...string) (*peers.Process, *bufio.Reader) {
		args := []string{"run", "--server", url, "--session-timeout", pairTimeout.String(), "--term-before", "500ms", lock, "--"}
		cmd := exec.Command(holdfastBin(t), append(args, command...)...)
		cmd.Env = append(os.Environ(), env)
		out, w, err := os.Pipe()
		must(t, err)
		t.Cleanup(func() { out.Close() })
		must(t, out.SetReadDeadline(time.Now().Add(stepTime)))
		cmd.Stdout, cmd.Stderr = w, stderr
		p, err := peers.Start(cmd)
		w.Close()
		must(t, err)
		t.Cleanup(func() { must(t, p.Kill()) })
		return p, bufio.NewReader(out)
	}
	supervisor, out := run(jobVariable+"="+mark, argv...)
	t.Cleanup(func() { watch.killAll(mark) })
	if line, err := out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the command says %q, %v", line, err)
	}
	guards := []int{supervisor.Pid(), watchdogOf(t, supervisor.Pid())}
	watch.follow(mark, guards)
	watch.await(ctx, t, mark, func(j jobState) bool { return j.alive >= n })

	caged := false
	for _, pid := range processes() {
		groups, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		caged = caged || hasMark(pid, mark) && bytes.Contains(groups, []byte("/holdfast-job-"))
	}

	self, err := os.Executable()
	must(t, err)
	_, next := run(commandVar+"=witness "+mark, self)
	awaitQueued(ctx, t, url, lock)

	between := time.Duration(0)
	if len(f.on) > 1 {
		between = rand.N(10 * time.Millisecond)
	}
	on := slices.Clone(f.on)
	rand.Shuffle(len(on), func(i, j int) { on[i], on[j] = on[j], on[i] })
	for i, which := range on {
		if i > 0 {
			spin(between)
		}
		err := unix.Kill(guards[which], f.sig)
		if i > 0 && err == unix.ESRCH {
			r.gone++
		} else {
			must(t, err)
		}
	}
	if f.sig == syscall.SIGSTOP && slices.Equal(f.on, []int{1}) {
		// The lock is fine. The job continues until the supervisor is told to kill it, which two INT do.
		// Two that arrive at once count as one.
		again := time.NewTicker(300 * time.Millisecond)
		defer again.Stop()
		go func() {
			for ctx.Err() == nil {
				_ = supervisor.Signal(syscall.SIGINT)
				select {
				case <-again.C:
				case <-ctx.Done():
				}
			}
		}()
	}
	line, err := next.ReadString('\n')
	if err != nil {
		t.Fatalf("the next holder's command: %q, %v", line, err)
	}
	var began int64
	var alive int
	if _, err := fmt.Sscan(line, &began, &alive); err != nil {
		t.Fatalf("the next holder's command says %q", line)
	}
	r.trials++
	switch {
	case alive > 0 && f.name == "both killed" && !caged:
		r.left = append(r.left, between)
	case alive > 0:
		t.Errorf("%d processes of the former holder's command were alive when that of the next began (at %d): %s", alive, began, line)
	default:
		last := watch.state(mark).last
		r.margins = append(r.margins, time.Duration(began)-last)
	}
}

// spin waits without sleeping: a timer's delay would exceed the measured times.
func spin(d time.Duration) {
	for began := time.Now(); time.Since(began) < d; {
	}
}

// watchdogOf returns the watchdog of a supervisor.
func watchdogOf(t *testing.T, supervisor int) int {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", supervisor))
	must(t, err)
	for _, name := range lists {
		list, _ := os.ReadFile(name)
		for _, pid := range strings.Fields(string(list)) {
			comm, _ := os.ReadFile("/proc/" + pid + "/comm")
			if string(comm) == "hf-watchdog\n" {
				n, err := strconv.Atoi(pid)
				must(t, err)
				return n
			}
		}
	}
	t.Fatal("the supervisor has no watchdog")
	return 0
}

// awaitQueued returns when a client waits for the lock.
func awaitQueued(ctx context.Context, t *testing.T, url, lock string) {
	t.Helper()
	for {
		out, err := exec.CommandContext(ctx, holdfastBin(t), "status", "--server", url, "-o", "json", lock).CombinedOutput()
		if err == nil && bytes.Contains(out, []byte(`"position": 1`)) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("no client waits: %v\n%s", err, out)
		case <-time.After(20 * time.Millisecond): // each is a separate process
		}
	}
}

// jobVariable is in the environment of every process of a job, and of its supervisor and
// watchdog.
const jobVariable = "HOLDFAST_INTEROP_JOB"

func init() {
	moreCommands["witness"] = func(mark string) error {
		began := bootTime()
		var alive []string
		for _, pid := range processes() {
			_, start := statOf(pid)
			if !hasMark(pid, mark) || isGuard(pid) {
				continue
			}
			// A guard that has just ended has no command line. So the state comes last.
			if letter, again := statOf(pid); letter != 'Z' && again == start {
				alive = append(alive, describe(pid))
			}
		}
		fmt.Println(int64(began), len(alive), strings.Join(alive, "; "))
		return nil
	}
}

// describe returns the id, state, parent, start, name and command line of a process.
func describe(pid int) string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return fmt.Sprintf("%q %q", stat, bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
}

// isGuard reports whether a process is a holdfast: supervisor or watchdog.
func isGuard(pid int) bool {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	first, _, _ := bytes.Cut(line, []byte{0})
	return strings.HasPrefix(filepath.Base(string(first)), "holdfast")
}

func bootTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(err)
	}
	return time.Duration(now.Nano())
}

func processes() []int {
	d, err := os.Open("/proc")
	if err != nil {
		panic(err)
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func hasMark(pid int, mark string) bool {
	return slices.Contains(environOf(pid), jobVariable+"="+mark)
}

func environOf(pid int) []string {
	environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return strings.Split(string(environ), "\x00")
}

// state returns the letter of /proc/PID/stat, or 'Z' if there is no such process.
func state(pid int) byte {
	letter, _ := statOf(pid)
	return letter
}

// statOf returns the state of a process, and its start time, which distinguishes it from another
// with the same id. The state is 'Z' if there is no such process.
func statOf(pid int) (state byte, start string) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 'Z', ""
	}
	rest := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(rest) < 20 || rest[0][0] == 'X' {
		return 'Z', ""
	}
	return rest[0][0], string(rest[19])
}

// A process is identified by its start, too: tests that fork without end use up the ids.
type process struct {
	pid   int
	start string
}

// A jobWatch knows the live processes of all jobs. One goroutine scans /proc again and again,
// until the test ends.
type jobWatch struct {
	mu   sync.Mutex // guards jobs
	jobs map[string]*jobState
}

type jobState struct {
	guards []int
	alive  int
	last   time.Duration // since boot: start of the last scan that found a live process
	looks  int
}

func newJobWatch(t *testing.T) *jobWatch {
	w := &jobWatch{jobs: make(map[string]*jobState)}
	stop, done := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() {
		close(stop)
		<-done
	})
	go func() {
		defer close(done)
		marks := make(map[process]*marked)
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
				w.look(marks)
			}
		}
	}()
	return w
}

// A marked is what the watch knows of a process.
type marked struct {
	mark string // "": none
	read int    // how often the environment was read
}

// look counts the processes of each job. A process keeps its mark for life, so the environment is not
// read again once it shows the mark. During an exec it may be empty, or lack something. So one without a
// mark is read some more times.
func (w *jobWatch) look(marks map[process]*marked) {
	at := bootTime()
	alive := make(map[string]int)
	seen := make(map[process]bool)
	for _, pid := range processes() {
		letter, start := statOf(pid)
		if letter == 'Z' {
			continue
		}
		p := process{pid, start}
		seen[p] = true
		if marks[p] == nil {
			marks[p] = &marked{}
		}
		if m := marks[p]; m.mark == "" && m.read < 100 {
			m.read++
			for _, e := range environOf(pid) {
				if mark, ok := strings.CutPrefix(e, jobVariable+"="); ok {
					m.mark = mark
				}
			}
		}
		if mark := marks[p].mark; mark != "" {
			w.mu.Lock()
			j := w.jobs[mark]
			w.mu.Unlock()
			if j != nil && !slices.Contains(j.guards, pid) {
				alive[mark]++
			}
		}
	}
	for p := range marks {
		if !seen[p] {
			delete(marks, p)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for mark, j := range w.jobs {
		j.alive = alive[mark]
		j.looks++
		if j.alive > 0 {
			j.last = at
		}
	}
}

func (w *jobWatch) follow(mark string, guards []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jobs[mark] = &jobState{guards: guards}
}

func (w *jobWatch) state(mark string) jobState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *w.jobs[mark]
}

func (w *jobWatch) await(ctx context.Context, t *testing.T, mark string, ok func(jobState) bool) {
	t.Helper()
	for !ok(w.state(mark)) {
		select {
		case <-ctx.Done():
			t.Fatalf("the job is %+v", w.state(mark))
		case <-time.After(time.Millisecond):
		}
	}
}

func (w *jobWatch) describe(mark string) string {
	var lines []string
	for _, pid := range processes() {
		if hasMark(pid, mark) {
			lines = append(lines, describe(pid))
		}
	}
	return strings.Join(lines, "; ")
}

// killAll kills the leftovers of a trial, guards included, and forgets the job.
func (w *jobWatch) killAll(mark string) {
	for found := true; found; {
		found = false
		for _, pid := range processes() {
			if hasMark(pid, mark) && state(pid) != 'Z' {
				_ = unix.Kill(pid, unix.SIGKILL)
				found = true
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.jobs, mark)
}
