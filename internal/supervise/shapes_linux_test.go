package supervise

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Variables of the environment of test processes.
const (
	noCgroupVariable = "HOLDFAST_TEST_NO_CGROUP" // makes no cgroup for the job
	shapeVariable    = "HOLDFAST_TEST_SHAPE"     // selects this helper of a shape, see prepareProcess
	jobVariable      = "HOLDFAST_TEST_JOB"       // marks all processes of one job, and no others
	slowVariable     = "HOLDFAST_TEST_SLOW"      // delays the start of a command by this time
	orderVariable    = "HOLDFAST_TEST_ORDER"     // a file to be made when that time begins
	cgroupVariable   = "HOLDFAST_TEST_CGROUP"    // the cgroup of the process
)

const (
	mainThreadEnds      = "main thread ends"
	forksWhileLookedFor = "forks while looked for"
	leavesMany          = "leaves many ended children"
)

func init() {
	if os.Getenv(shapeVariable) == mainThreadEnds {
		runtime.LockOSThread() // main stays on the main thread
	}
}

// prepareProcess turns this process into the one that its environment describes.
func prepareProcess() {
	if dir := os.Getenv(cgroupVariable); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0); err != nil {
			panic(err)
		}
	}
	if os.Getenv(noCgroupVariable) != "" {
		makeCgroup = func() (*cgroup, error) { return nil, errors.ErrUnsupported }
	}
	if d, err := time.ParseDuration(os.Getenv(slowVariable)); err == nil {
		makeCgroup = func() (*cgroup, error) {
			if err := os.WriteFile(os.Getenv(orderVariable), nil, 0o600); err != nil {
				panic(err)
			}
			time.Sleep(d)
			return nil, errors.ErrUnsupported
		}
	}
	switch os.Getenv(shapeVariable) {
	case "":
		return
	case forksWhileLookedFor:
		endWhatForksWhileLookedFor()
	case leavesMany:
		strikeAmongEnded()
	case startsAJob:
		startJobHere()
	case saysIgnored:
		sayIgnored()
	case reusesANumber:
		reuseNumber()
	case mainThreadEnds:
		go func() {
			fmt.Println("ready")
			time.Sleep(time.Hour)
		}()
		_, _ = io.Copy(io.Discard, os.Stdin) // until then it is whole
		_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
	case "join group":
		group, err := unix.Getpgid(os.Getppid())
		if err == nil {
			err = unix.Setpgid(0, group)
		}
		if err != nil {
			panic(err)
		}
	case "change user":
		if err := syscall.Setreuid(nobody, nobody); err != nil {
			panic(err)
		}
	}
	fmt.Println("ready")
	time.Sleep(time.Hour)
}

const nobody = 65534

// A shape is a tree of processes that a command may consist of.
type shape struct {
	name string
	argv []string
	env  []string
	n    int // processes at least, after it has printed "ready"
}

func sh(script string) []string { return []string{"sh", "-c", script} }

// chain starts a process that starts the next and ends, again and again. It ends after a while, so that a
// failed test does not leave it behind.
func chain(shell string) string {
	return `export N=3000 CHAIN='N=$((N-1)); test $N = 0 && exit; ` + shell + ` -c "$CHAIN" & exit'; sh -c "$CHAIN" & `
}

// shapes returns process trees from issue trackers and our own. Each prints "ready" when all of it runs.
func shapes(t *testing.T) []shape {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	all := []shape{
		{name: "direct", argv: sh(`echo ready; exec sleep 1000`), n: 1},
		{name: "a; b", argv: sh(`echo ready; sleep 1000; echo b`), n: 2},
		{name: "a && b", argv: sh(`sh -c 'echo ready; sleep 1000' && echo b`), n: 2},
		{name: "pipe", argv: sh(`(echo ready >&2; sleep 1000) 2>&1 >/dev/null | cat`), n: 3},
		{name: "timeout", argv: []string{"timeout", "1000", "sh", "-c", "echo ready; sleep 1000; echo b"}, n: 3},
		{name: "background", argv: sh(`sleep 1000 & sleep 1000 & echo ready; wait`), n: 3},
		{name: "setsid", argv: sh(`setsid sh -c 'echo ready; sleep 1000; echo b' & wait; sleep 1000`), n: 3},
		{name: "double fork", argv: sh(`(setsid sh -c 'sleep 1000; echo b' & ) ; echo ready; sleep 1000`), n: 3},
		{name: "joins its parent's group", argv: []string{exe}, env: []string{shapeVariable + "=join group"}, n: 1},
		{name: "ignores TERM", argv: sh(`trap '' TERM HUP INT; sh -c 'echo ready; sleep 1000; sleep 1000'; sleep 1000`), n: 3},
		{name: "stopped", argv: sh(`sleep 1000 & kill -STOP $!; echo ready; kill -STOP $$; sleep 1000`), n: 2},
		{name: "forks", argv: sh(`echo ready; n=20000; while test $((n=n-1)) -gt 0; do sleep 0.01 & sleep 0.001; done`), n: 1},
		{name: "chain", argv: sh(chain("sh") + `echo ready; sleep 1000`), n: 2},
		{name: "chain of sessions", argv: sh(chain("setsid sh") + `echo ready; sleep 1000`), n: 2},
		{name: "respawns", argv: sh(`sh -c 'for i in 1 2 3 4 5 6 7 8 9; do setsid sleep 1000; done' & echo ready; sleep 1000`), n: 3},
	}
	// Here it leads a session, since the kernel itself waits for the command.
	all = append(all, shape{
		name: "main thread ends", argv: sh(`setsid ` + exe + ` & exec sleep 1000`), env: []string{shapeVariable + "=" + mainThreadEnds}, n: 2,
	})
	if os.Geteuid() == 0 {
		all = append(all, shape{name: "changes its user", argv: []string{exe}, env: []string{shapeVariable + "=change user"}, n: 1})
	}
	return all
}

// chains returns chains that are much faster than those of shells: lists of processes rarely
// show them. They do not suit tests in which nobody reaps for a while, since they would fill
// the process table.
func chains(t *testing.T) []shape {
	if _, err := exec.LookPath("perl"); err != nil && os.Getenv("CI") != "true" {
		t.Log("no perl")
		return nil
	}
	hop := `for (1 .. 3000) { fork and exit; }`
	return []shape{
		{name: "fast chain", argv: sh(`perl -e '` + hop + `' & echo ready; exec sleep 1000`), n: 1},
		{name: "fast chains in sessions", argv: sh(`for i in 1 2 3 4 5; do setsid perl -e '` + hop + `' & done; echo ready; exec sleep 1000`), n: 1},
	}
}

// environ returns the environment of a process. If its main thread has ended, the other threads
// still have it.
func environ(pid int) []string {
	dir := "/proc/" + strconv.Itoa(pid)
	text, _ := os.ReadFile(dir + "/environ")
	if len(text) == 0 {
		for _, thread := range numbers(dir + "/task") {
			if text, _ = os.ReadFile(dir + "/task/" + strconv.Itoa(thread) + "/environ"); len(text) > 0 {
				break
			}
		}
	}
	return strings.Split(string(text), "\x00")
}

// jobProcesses returns the live processes with that mark in their environment.
func jobProcesses(mark string) []process {
	var found []process
	for _, pid := range numbers("/proc") {
		if !slices.Contains(environ(pid), jobVariable+"="+mark) {
			continue
		}
		if p, ok := readProcess(pid); ok && lives(pid) {
			found = append(found, p)
		}
	}
	return found
}

// lives reports whether a thread of the process lives.
func lives(pid int) bool {
	dir := fmt.Sprintf("/proc/%d/task/", pid)
	return slices.ContainsFunc(numbers(dir), func(thread int) bool {
		stat, err := os.ReadFile(dir + strconv.Itoa(thread) + "/stat")
		_, rest, _ := bytes.Cut(stat, []byte(") "))
		return err == nil && len(rest) > 0 && rest[0] != 'Z' && rest[0] != 'X'
	})
}

// anyOf looks for processes of a job several times. One list of all processes can miss a chain,
// each of whose processes lives only for a moment.
func anyOf(mark string) []process {
	looks := 2
	if strings.Contains(mark, "chain") { // the mark contains the shape's name
		looks = 15
	}
	for range looks {
		if found := jobProcesses(mark); len(found) > 0 {
			return found
		}
	}
	return nil
}

// killMarked kills a job's leftover processes, even if they start new ones meanwhile.
func killMarked(mark string) {
	for left := anyOf(mark); len(left) > 0; left = anyOf(mark) {
		for _, p := range left {
			if p.group > 1 && p.group != unix.Getpgrp() {
				_ = unix.Kill(-p.group, unix.SIGKILL) // hits a chain in it for certain
			}
		}
		signalAll(left, unix.SIGKILL)
	}
}

// startShape starts a shape under a supervisor, and waits until all of it runs.
func startShape(t *testing.T, sh shape, cgroup bool) (s *supervised, mark string) {
	t.Helper()
	return startShapeIn(t, nil, sh, cgroup)
}

// startShapeIn adds to the environment of supervisor and watchdog.
func startShapeIn(t *testing.T, env []string, sh shape, cgroup bool) (s *supervised, mark string) {
	t.Helper()
	mark = strings.ReplaceAll(t.Name(), "/", ".") + strconv.FormatInt(time.Now().UnixNano(), 36)
	env = slices.Clone(env)
	if !cgroup {
		env = append(env, noCgroupVariable+"=1")
	}
	// env precedes the command: the mark is not for supervisor and watchdog.
	argv := append([]string{"env", jobVariable + "=" + mark}, sh.env...)
	s = startSupervisedIn(t, env, testGrace, append(argv, sh.argv...)...)
	t.Cleanup(func() { killMarked(mark) })
	s.waitFor("ready")
	runs := func() bool {
		all := jobProcesses(mark)
		return len(all) >= sh.n && (sh.name != mainThreadEnds || slices.ContainsFunc(all, func(p process) bool { return p.headless }))
	}
	for end := time.Now().Add(*longestWait); !runs(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("processes of the job: %+v; want %d, as %q", jobProcesses(mark), sh.n, sh.name)
		}
	}
	return s, mark
}

// mustBeGone waits for the end of the job's processes, and returns how long that took.
func mustBeGone(t *testing.T, mark string, since time.Time, within time.Duration) time.Duration {
	t.Helper()
	for {
		left := jobProcesses(mark)
		took := time.Since(since)
		if len(left) == 0 {
			if left = anyOf(mark); len(left) == 0 {
				return took
			}
		}
		exiting := !slices.ContainsFunc(left, func(p process) bool { return p.state != 'Z' }) && took < within+100*time.Millisecond
		if took > within && !exiting { // if a main thread has ended, the other threads may still be leaving the kernel
			var commands []string
			for _, p := range left {
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
				commands = append(commands, fmt.Sprintf("%d %c %q", p.pid, p.state, bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
			}
			t.Fatalf("after %v these processes of the job are still alive: %v", took, commands)
		}
		time.Sleep(time.Millisecond)
	}
}

// haveCgroups reports whether jobs run in cgroups on this machine. On CI they must.
func haveCgroups(t *testing.T) bool {
	t.Helper()
	c, err := newCgroup()
	if err != nil && os.Getenv("CI") == "true" {
		t.Errorf("no cgroup can be made: %v", err)
	}
	c.remove(removePatience)
	return err == nil
}

func mustHaveCgroups(t *testing.T) {
	t.Helper()
	if !haveCgroups(t) {
		t.Skip("needs the right to make cgroups of version 2")
	}
}

// withAndWithoutCgroup runs f for every shape without a cgroup, and with one where cgroups are available.
func withAndWithoutCgroup(t *testing.T, all []shape, f func(t *testing.T, sh shape, cgroup bool)) {
	ways := map[string]bool{"walk": false}
	if haveCgroups(t) {
		ways["cgroup"] = true
	}
	for way, cgroup := range ways {
		for _, sh := range all {
			if testing.Short() && !slices.Contains([]string{"direct", "a; b", "double fork", "ignores TERM"}, sh.name) {
				continue
			}
			t.Run(way+"/"+sh.name, func(t *testing.T) {
				t.Parallel()
				f(t, sh, cgroup)
			})
		}
	}
}

// testGrace is the time from TERM to the deadline; KILL comes a quarter of a second before the deadline.
const testGrace = 500 * time.Millisecond

// The job ends when the supervisor dies, by kill -9 or by a crash.
func TestJobDiesWithItsSupervisor(t *testing.T) {
	withAndWithoutCgroup(t, slices.Concat(shapes(t), chains(t)), func(t *testing.T, sh shape, cgroup bool) {
		for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSEGV} {
			s, mark := startShape(t, sh, cgroup)
			s.signal(sig)
			mustBeGone(t, mark, time.Now(), *longestWait)
		}
	})
}

func TestJobDiesWithItsWatchdog(t *testing.T) {
	withAndWithoutCgroup(t, slices.Concat(shapes(t), chains(t)), func(t *testing.T, sh shape, cgroup bool) {
		s, mark := startShape(t, sh, cgroup)
		if err := unix.Kill(s.watchdog, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		// The outcome comes when all processes are gone.
		if got := s.outcome(); got.Code != 128+9 || got.Lost {
			t.Errorf("outcome %+v; want the code of a killed command, and no loss", got)
		}
		mustBeGone(t, mark, time.Now(), 0)
	})
}

// The watchdog can be delayed between the order and the start of the command. If the lock is
// about to be lost by then, or the supervisor has died, nothing is started.
func TestCommandIsNotStartedTooLate(t *testing.T) {
	for _, tt := range []struct {
		name       string
		left, slow time.Duration
		kill       bool
	}{
		{"the lock is about to be lost", 2 * time.Second, 2*time.Second - KillMargin/2, false},
		{"the supervisor was killed", time.Hour, time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			command, ordered := filepath.Join(dir, "command"), filepath.Join(dir, "ordered")
			if err := os.WriteFile(command, []byte("#!/bin/sh\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			started := watchOpens(t, command)
			env := []string{deadlineVariable + "=" + tt.left.String(), slowVariable + "=" + tt.slow.String(), orderVariable + "=" + ordered}
			s := startSupervisedIn(t, env, time.Second, command)
			await := func(what string, is func() bool) {
				for end := time.Now().Add(*longestWait); !is(); time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						t.Fatal("this did not happen in time: " + what)
					}
				}
			}
			if tt.kill {
				await("the order", func() bool { _, err := os.Stat(ordered); return err == nil })
				s.signal(syscall.SIGKILL)
			} else if got := s.outcome(); !strings.Contains(got.Err, ErrGuards.Error()) {
				t.Errorf("outcome %+v", got)
			}
			await("the end of the watchdog", func() bool { return gone(s.watchdog) })
			if started() {
				t.Error("the command was started")
			}
		})
	}
}

// A process forks after its children were listed, and before any signal. The new child ends, too.
func TestEndFindsWhatIsForkedWhileItLooks(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), shapeVariable+"="+forksWhileLookedFor)
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "forked\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// endWhatForksWhileLookedFor is the parent of that process. It exits with 0 if nothing is left.
func endWhatForksWhileLookedFor() {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	cmd := exec.Command("sh", "-c", `sleep 1000 & sleep 1000 & echo ready; while read x; do sleep 1000 & echo forked; done`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		panic(fmt.Sprint(line, err))
	}
	asked := false
	f := newFamily(func(pid int) bool {
		if pid != cmd.Process.Pid && !asked { // a child of the shell: the shell's children are being listed
			asked = true
			fmt.Fprintln(in, "now")
			line, _ := lines.ReadString('\n')
			fmt.Print(line)
		}
		return false
	})
	f.end(func(format string, args ...any) { fmt.Printf(format+"\n", args...) })
	if left := f.everybody(); len(left) > 0 {
		signalAll(left, unix.SIGKILL)
		fmt.Println("left:", left)
		os.Exit(1)
	}
	os.Exit(0)
}

// A command that forks and ends again and again leaves thousands of ended children. They are reaped
// before each list, or each list takes longer than the one before.
func TestEndedChildrenDoNotMakeTheListsLonger(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), shapeVariable+"="+leavesMany)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// strikeAmongEnded is that process. It exits with 0 if the strike has reaped the ended children.
func strikeAmongEnded() {
	r, w, err := os.Pipe() // its other end is closed when all of them have ended
	if err != nil {
		panic(err)
	}
	ended := make(map[int]bool)
	for range 50 {
		pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", "exit 0"}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2, w.Fd()}})
		if err != nil {
			panic(err)
		}
		ended[pid] = true
	}
	w.Close()
	if _, err := io.ReadAll(r); err != nil {
		panic(err)
	}
	living := exec.Command("sleep", "1000")
	living.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := living.Start(); err != nil {
		panic(err)
	}
	f := newFamily(func(int) bool { return false })
	f.over = true
	for range ended {
		f.strike() // a process closes its files a moment before it has ended
		left := slices.DeleteFunc(children(os.Getpid()), func(pid int) bool { return !ended[pid] })
		if len(left) == 0 {
			os.Exit(0)
		}
	}
	fmt.Println("not reaped:", children(os.Getpid()))
	os.Exit(1)
}

// A command asks for the terminal before it has it, and is stopped. ctrl-Z comes then. The
// continue that follows must not discard the key. After ctrl-Z itself, a second press is discarded,
// as in a shell.
func TestStopKeyIsNotLostWhileTheCommandAsksForTheTerminal(t *testing.T) {
	for _, tt := range []struct {
		by      unix.Signal
		stopped bool // stopped again
	}{{unix.SIGTTIN, true}, {unix.SIGTTOU, true}, {unix.SIGTSTP, false}} {
		t.Run(tt.by.String(), func(t *testing.T) {
			cmd := exec.Command("sh", "-c", "echo ready; read line; exit 3")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			j := &job{pid: cmd.Process.Pid}
			defer func() {
				_ = unix.Kill(-j.pid, unix.SIGKILL)
				_ = cmd.Wait()
			}()
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
				t.Fatalf("%q, %v", line, err)
			}
			event := func() childEvent {
				e, err := waitID(unix.P_PID, j.pid, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT)
				if err == nil && e.code == cldStopped {
					_, err = waitID(unix.P_PID, j.pid, unix.WSTOPPED)
				}
				if err != nil {
					t.Fatal(err)
				}
				return e
			}
			j.signal(tt.by)
			if e := event(); e.code != cldStopped || e.status != int(tt.by) {
				t.Fatalf("%+v", e)
			}
			j.signal(unix.SIGTSTP) // the key
			j.resume(tt.by)
			fmt.Fprintln(in, "go on")
			switch e := event(); {
			case tt.stopped && (e.code != cldStopped || e.status != int(unix.SIGTSTP)):
				t.Errorf("%+v; want a stop by ctrl-Z", e)
			case !tt.stopped && (e.code != cldExited || e.status != 3):
				t.Errorf("%+v; want the exit", e)
			}
		})
	}
}

// watchOpens returns a function that reports whether the file has been opened, which execve(2)
// does. A command that is killed at once may leave no other trace.
func watchOpens(t *testing.T, path string) (opened func() bool) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	seen := false
	return func() bool {
		n, err := unix.Read(fd, make([]byte, 4096))
		if err != nil && err != unix.EAGAIN {
			t.Fatal(err)
		}
		seen = seen || n > 0
		return seen
	}
}

// A watchdog that died during the wait for the lock is replaced. A stopped watchdog is continued.
func TestWatchdogThatIsNotThereAtTheStart(t *testing.T) {
	// Start makes this process a subreaper. It must not remain one: it would get the thousands
	// of orphans of other tests, and would never reap them.
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		s, err := Start(spareInTest)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.watchdog.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if sig == syscall.SIGKILL {
			<-s.dead
		}
		got, err := s.Run(Command{Path: "/bin/sh", Args: []string{"sh", "-c", "exit 3"}}, Terms{
			Ending: Ending{Grace: time.Second}, Deadline: func() time.Time { return time.Now().Add(time.Hour) }, Warn: t.Logf,
		})
		if err != nil || got != (Outcome{Code: 3}) {
			t.Errorf("%v: %+v, %v", sig, got, err)
		}
		s.Close()
	}
}

// A stopped supervisor does not publish a later deadline, so the watchdog uses the last one.
func TestJobOfAStoppedSupervisorEndsInTime(t *testing.T) {
	withAndWithoutCgroup(t, shapes(t), func(t *testing.T, sh shape, cgroup bool) {
		s, mark := startShape(t, sh, cgroup)
		began := time.Now()
		s.tell("deadline %v", testGrace+time.Second) // and the supervisor publishes it
		s.signal(syscall.SIGSTOP)
		inTime := time.Since(began) < time.Second // otherwise its alarm may have rung before
		took := mustBeGone(t, mark, began, *longestWait)
		if took < 900*time.Millisecond {
			t.Errorf("the job was ended after %v; want TERM after 1s", took)
		}
		if !inTime {
			s.signal(syscall.SIGCONT)
		}
		s.outcomeIs(func(o outcome) bool { return o.Lost }) // the supervisor is continued at its deadline, too
		// Only the watchdog says this. On a busy machine, it may get a processor too late for TERM.
		if said := s.stderr.String(); inTime && sh.name == "direct" && !strings.Contains(said, "no contact with the server") {
			t.Errorf("the watchdog did not end the command: %s", said)
		}
	})
}

// A kernel timer continues stopped processes.
func TestJobOfAStoppedPairEndsInTime(t *testing.T) {
	withAndWithoutCgroup(t, shapes(t), func(t *testing.T, sh shape, cgroup bool) {
		s, mark := startShape(t, sh, cgroup)
		began := time.Now()
		s.tell("deadline %v", testGrace+time.Second) // and the supervisor publishes it
		if err := errors.Join(unix.Kill(s.watchdog, unix.SIGSTOP), s.cmd.Process.Signal(syscall.SIGSTOP)); err != nil {
			t.Fatal(err)
		}
		mustBeGone(t, mark, began, *longestWait)
		s.outcomeIs(func(o outcome) bool { return o.Lost })
	})
}

// The supervisor does not wait for a hanging watchdog. A tracer has stopped it here: then only
// KILL has any effect, and it cannot be reaped either.
func TestJobOfAWatchdogThatHangsIsEnded(t *testing.T) {
	withAndWithoutCgroup(t, shapes(t), func(t *testing.T, sh shape, cgroup bool) {
		s, mark := startShape(t, sh, cgroup)
		runtime.LockOSThread() // the tracer is a thread
		defer runtime.UnlockOSThread()
		for _, thread := range numbers(fmt.Sprintf("/proc/%d/task", s.watchdog)) {
			if err := unix.PtraceAttach(thread); err != nil {
				t.Fatal(err)
			}
			if _, err := unix.Wait4(thread, nil, unix.WALL, nil); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		s.tell("lose")
		mustBeGone(t, mark, began, *longestWait)
		s.outcomeIs(func(o outcome) bool { return o.Lost })
	})
}

// killBoth kills supervisor and watchdog at the same moment: both are stopped first, so neither
// sees the other die.
func (s *supervised) killBoth() {
	s.t.Helper()
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		if err := errors.Join(unix.Kill(s.watchdog, sig), s.cmd.Process.Signal(sig)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// If both die at the same moment, the kernel kills the command itself, unless the command has
// changed its user.
func TestCommandDiesWithBoth(t *testing.T) {
	s, mark := startShape(t, shapes(t)[0], false)
	s.killBoth()
	mustBeGone(t, mark, time.Now(), *longestWait)
}

// Then the processes that the command has started are left. If they ran in a cgroup, the next
// job kills them before it begins.
func TestNextJobEndsWhatTwoDeadGuardsHaveLeft(t *testing.T) {
	mustHaveCgroups(t)
	for _, sh := range shapes(t) {
		if testing.Short() && sh.name != "double fork" {
			continue
		}
		t.Run(sh.name, func(t *testing.T) {
			s, mark := startShape(t, sh, true)
			bystander, other := startShape(t, shapes(t)[1], true)
			s.killBoth()
			for !gone(s.watchdog) {
				time.Sleep(time.Millisecond)
			}
			next := startSupervised(t, testGrace, "sh", "-c", "echo begun; exec sleep 1000")
			next.waitFor("begun")
			mustBeGone(t, mark, time.Now(), 0)
			if len(jobProcesses(other)) != 2 {
				t.Error("another job was ended, too")
			}
			bystander.signal(syscall.SIGTERM)
			bystander.outcome()
		})
	}
}

// The other threads of a killed watchdog may end later than its main thread. Nobody may wait for them.
func TestWatchdogThatIsEndingCountsAsDead(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), shapeVariable+"="+mainThreadEnds)
	goOn, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	pid := cmd.Process.Pid
	if isEnding(pid) {
		t.Error("a process that runs counts as dead")
	}
	goOn.Close()
	for end := time.Now().Add(*longestWait); ; time.Sleep(time.Millisecond) {
		if p, ok := readProcess(pid); ok && p.headless {
			break
		}
		if time.Now().After(end) {
			t.Fatal("its main thread does not end")
		}
	}
	if !isEnding(pid) {
		t.Error("a process whose main thread has ended does not count as dead")
	}
}

func TestSignalsReachACommandThatHasLeftItsGroup(t *testing.T) {
	for _, sh := range shapes(t) {
		if sh.name == "joins its parent's group" {
			s, mark := startShape(t, sh, false)
			s.signal(syscall.SIGHUP)
			s.want(outcome{Code: 128 + 1})
			mustBeGone(t, mark, time.Now(), 0)
			return
		}
	}
	t.Fatal("no such shape")
}

// A spared process lives on, with everything it has started. It has left the command's process
// group, like the host of a file:// store.
func TestSparedProcessesOutliveTheJob(t *testing.T) {
	mark := "spared" + strconv.FormatInt(time.Now().UnixNano(), 36)
	t.Cleanup(func() { killMarked(mark) })
	s := startSupervisedIn(t, []string{noCgroupVariable + "=1"}, testGrace, "env", jobVariable+"="+mark,
		"sh", "-c", `setsid sh -c 'sleep 1000; '"$0" & until test "$(cat /proc/$!/task/*/children)"; do sleep 0.01; done; sleep 1000 & exit 4`, sparedArgument)
	s.want(outcome{Code: 4})
	if left := jobProcesses(mark); len(left) != 2 {
		t.Errorf("%d processes are left; want the spared one and its child: %+v", len(left), left)
	}
}
