//go:build unix

package supervise

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestMain lets this test binary run as a watchdog, too, and as the supervisor under test.
func TestMain(m *testing.M) {
	prepareProcess()
	switch {
	case IsWatchdog():
		code, _ := Main(spareInTest)
		os.Exit(code)
	case os.Getenv(superviseVariable) != "":
		os.Unsetenv(superviseVariable)
		superviseMain()
	}
	for sig := syscall.Signal(1); sig <= maxSignal; sig++ {
		if signal.Ignored(sig) {
			// Under nohup, after "&" in a script, or PIPE in a service. The processes of the tests would ignore it too. A signal that is
			// handled is the default again in a new process.
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "8") // jobs mostly sleep
	os.Exit(m.Run())
}

// deadlineVariable has the time until the first deadline; an hour without.
const deadlineVariable = "HOLDFAST_TEST_DEADLINE"

// endingVariable has the Ending; without, only the grace is given.
const endingVariable = "HOLDFAST_TEST_ENDING"

// stoppingVariable, if it is not empty, makes the supervisor say saidStopping at each call of Terms.Stopping.
const (
	stoppingVariable = "HOLDFAST_TEST_STOPPING"
	saidStopping     = "Stopping is called"
)

// willVariable has Terms.Will.
const willVariable = "HOLDFAST_TEST_WILL"

// superviseVariable is set in the environment of a process that must run superviseMain.
const superviseVariable = "HOLDFAST_TEST_SUPERVISE"

// superviseMain runs its arguments under a supervisor. Lines on descriptor 3 drive the hold
// ("deadline 2s" from now, "lose", "suspect true"), and descriptor 4 gets the outcome. It needs its own
// process, because the supervisor adopts and reaps processes.
func superviseMain() {
	grace, err := time.ParseDuration(os.Args[1])
	if err != nil {
		panic(err)
	}
	var deadline atomic.Pointer[time.Time]
	first, err := time.ParseDuration(cmp.Or(os.Getenv(deadlineVariable), "1h"))
	if err != nil {
		panic(err)
	}
	ending := Ending{Grace: grace}
	if text := os.Getenv(endingVariable); text != "" {
		os.Unsetenv(endingVariable)
		if ending, err = parseEnding(text); err != nil {
			panic(err)
		}
	}
	var suspect atomic.Bool
	changed := make(chan struct{}, 1)
	far := time.Now().Add(first)
	deadline.Store(&far)
	asked := make(chan struct{}, 1000) // the supervisor asks for it
	lost := make(chan struct{})
	signals := make(chan os.Signal, 16)
	syscall.CloseOnExec(3)
	syscall.CloseOnExec(4)
	result := os.NewFile(4, "result")
	s, err := Start(spareInTest)
	if err != nil {
		panic(err)
	}
	Notify(signals, StopSignals...)
	Notify(signals, JobSignals...)
	stopping := func() { fmt.Fprintln(os.Stderr, "supervise: "+saidStopping) }
	if os.Getenv(stoppingVariable) == "" {
		stopping = nil
	}
	over := make(chan struct{}) // closed when the job has ended
	var control sync.Mutex      // held while a command of the test is carried out
	go func() {
		for in := bufio.NewScanner(os.NewFile(3, "control")); in.Scan(); {
			control.Lock()
			switch verb, arg, _ := strings.Cut(in.Text(), " "); verb {
			case "deadline":
				d, err := time.ParseDuration(arg)
				if err != nil {
					panic(err)
				}
				t := time.Now().Add(d)
				deadline.Store(&t)
				for len(asked) > 0 {
					<-asked
				}
				// A signal wakes its loop; otherwise it looks again at the old deadline's time. The first look may have
				// begun before. When the third begins, the alarm of the second is set.
				looks := 3
				if d <= 100*time.Millisecond {
					looks = 1 // it may not look again
				}
				for range looks {
					signals <- syscall.SIGWINCH
					select {
					case <-asked:
					case <-over:
					}
				}
			case "lose":
				close(lost)
			case "suspect":
				suspect.Store(arg == "true")
				poke(changed)
			}
			fmt.Fprintln(result, "done")
			control.Unlock()
		}
	}()
	fmt.Fprintln(result, watchdogPID(s))
	file, err := exec.LookPath(os.Args[2])
	if err != nil {
		panic(err)
	}
	out, err := s.Run(Command{Path: file, Args: os.Args[2:], Env: os.Environ()}, Terms{
		Signals: signals, Lost: lost, Ending: ending, Suspect: suspect.Load, Changed: changed,
		Deadline: func() time.Time {
			poke(asked)
			return *deadline.Load()
		},
		Stopping: stopping, Will: os.Getenv(willVariable),
		Warn: func(f string, a ...any) { fmt.Fprintf(os.Stderr, "supervise: "+f+"\n", a...) },
	})
	s.Close()
	close(over)
	control.Lock()
	report := map[string]any{"code": out.Code, "lost": out.Lost, "overdue": out.Overdue}
	if err != nil {
		report["err"] = err.Error()
	}
	_ = json.NewEncoder(result).Encode(report)
	os.Exit(0)
}

var longestWait = flag.Duration("patience", 30*time.Second, "how long the tests wait for what must happen at once")

// supervised is a helper process with its command.
type supervised struct {
	t       *testing.T
	cmd     *exec.Cmd
	control *os.File
	result  *bufio.Reader
	stdout  *bufio.Reader
	stderr  said

	watchdog int // its process id; 0 on systems without one
}

// said returns everything that processes have written to a file, once it is complete.
type said struct{ file *os.File }

func (s said) String() string {
	text, err := os.ReadFile(s.file.Name())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func startSupervised(t *testing.T, killAfter time.Duration, argv ...string) *supervised {
	t.Helper()
	return startSupervisedIn(t, nil, killAfter, argv...)
}

// startSupervisedIn adds to the environment.
func startSupervisedIn(t *testing.T, env []string, killAfter time.Duration, argv ...string) *supervised {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	controlR, controlW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	resultR, resultW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	s := &supervised{t: t, control: controlW, result: bufio.NewReader(resultR), stderr: said{stderr}}
	s.cmd = exec.Command(exe, append([]string{killAfter.String()}, argv...)...)
	// A process with the race detector sleeps for a second before it exits.
	s.cmd.Env = append(os.Environ(), superviseVariable+"=1", "GORACE=atexit_sleep_ms=0")
	s.cmd.Env = append(s.cmd.Env, env...)
	s.cmd.ExtraFiles = []*os.File{controlR, resultW}
	s.cmd.Stderr = stderr
	s.cmd.WaitDelay = time.Second // a process that should have been killed may have it open
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.stdout = bufio.NewReader(out)
	limit := time.Now().Add(*longestWait)
	if err := errors.Join(out.(*os.File).SetReadDeadline(limit), resultR.SetReadDeadline(limit)); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	controlR.Close()
	resultW.Close()
	stderr.Close()
	line, _ := s.result.ReadString('\n') // an incomplete line is no number
	if s.watchdog, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		t.Fatalf("no supervisor: %v; stderr:\n%s", err, s.stderr.String())
	}
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		controlW.Close()
		resultR.Close()
	})
	return s
}

// line waits for a line from the command; "" when its output ends.
func (s *supervised) line() string {
	line, _ := s.stdout.ReadString('\n')
	return strings.TrimSuffix(line, "\n")
}

func (s *supervised) waitFor(line string) {
	s.t.Helper()
	got := s.line()
	if got == "" { // its output has ended: why?
		report, err := s.result.ReadString('\n')
		if err != nil { // it goes on, and would be waited for without end
			_ = s.cmd.Process.Kill()
		}
		s.t.Fatalf("the command said nothing; want %q; the supervisor reports %q, %v, and ends with: %v; stderr:\n%s", line, report, err, s.cmd.Wait(), s.stderr.String())
	}
	if got != line {
		s.t.Fatalf("the command said %q; want %q; stderr:\n%s", got, line, s.stderr.String())
	}
}

func (s *supervised) tell(format string, args ...any) {
	s.t.Helper()
	if _, err := fmt.Fprintf(s.control, format+"\n", args...); err != nil {
		s.t.Fatal(err)
	}
	if line, err := s.result.ReadString('\n'); err != nil || line != "done\n" {
		s.t.Fatalf("control: %q, %v", line, err)
	}
}

func (s *supervised) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// outcome is superviseMain's report.
type outcome struct {
	Code    int
	Lost    bool
	Overdue bool
	Err     string
}

func (s *supervised) outcome() outcome {
	s.t.Helper()
	var r outcome
	line, err := s.result.ReadString('\n')
	if err != nil {
		s.t.Fatalf("no outcome: %v; stderr:\n%s", err, s.stderr.String())
	}
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *supervised) want(want outcome) {
	s.t.Helper()
	if got := s.outcome(); got != want {
		s.t.Errorf("outcome %+v; want %+v; stderr:\n%s", got, want, s.stderr.String())
	}
}

// gone reports whether the process has ended; a zombie has.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return os.IsNotExist(err)
	}
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	return len(rest) > 0 && (rest[0] == 'Z' || rest[0] == 'X')
}

func TestOutcomeIsTheCommandsExit(t *testing.T) {
	for _, tt := range []struct {
		script string
		want   outcome
	}{
		{"exit 0", outcome{Code: 0}},
		{"exit 7", outcome{Code: 7}},
		{"exit 255", outcome{Code: 255}},
		{"kill -TERM $$", outcome{Code: 128 + 15}},
		{"kill -KILL $$", outcome{Code: 128 + 9}},
	} {
		t.Run(tt.script, func(t *testing.T) {
			startSupervised(t, time.Second, "sh", "-c", tt.script).want(tt.want)
		})
	}
}

func TestCommandThatCannotStartIsAnError(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "no-interpreter")
	if err := os.WriteFile(script, []byte("#!/does/not/exist\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := startSupervised(t, time.Second, script).outcome(); got.Err == "" {
		t.Errorf("outcome %+v; want an error", got)
	}
}

// A command is not started if the lock is already lost, or about to be.
func TestCommandIsNotStartedWithoutTheLock(t *testing.T) {
	for _, left := range []string{"-1s", "0s", "200ms"} {
		file := filepath.Join(t.TempDir(), "ran")
		got := startSupervisedIn(t, []string{deadlineVariable + "=" + left}, time.Second, "sh", "-c", ": >"+file).outcome()
		if _, err := os.Stat(file); err == nil || !strings.Contains(got.Err, ErrGuards.Error()) {
			t.Errorf("%v left: outcome %+v, Stat of the command's file: %v", left, got, err)
		}
	}
}

func TestSignalsReachTheWholeGroup(t *testing.T) {
	for _, tt := range []struct {
		sig  syscall.Signal
		name string
	}{
		{syscall.SIGTERM, "TERM"}, {syscall.SIGHUP, "HUP"}, {syscall.SIGINT, "INT"}, {syscall.SIGQUIT, "QUIT"},
		{syscall.SIGUSR1, "USR1"}, {syscall.SIGUSR2, "USR2"}, {syscall.SIGWINCH, "WINCH"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			// Both the shell and its child have the trap: two lines for one signal. (A child in
			// the foreground, as one in the background would ignore INT and QUIT.)
			s := startSupervised(t, time.Second, "sh", "-c", fmt.Sprintf(
				`trap 'echo outer; exit 3' %[1]s
				 sh -c 'trap "echo inner; exit 4" %[1]s; echo ready; while :; do sleep 0.02; done'`, tt.name))
			s.waitFor("ready")
			s.signal(tt.sig)
			s.waitFor("inner")
			s.waitFor("outer")
			s.want(outcome{Code: 3})
		})
	}
}

func TestStopAndContinueAreForwarded(t *testing.T) {
	// Not a loop in the shell: a shell in the middle of vfork is not stopped.
	s := startSupervised(t, time.Second, "sh", "-c", `echo $$; exec sleep 1000`)
	pid, err := strconv.Atoi(s.line())
	if err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGTSTP)
	waitProcess(t, pid, 'T')
	s.signal(syscall.SIGCONT)
	waitProcess(t, pid, 'S')
	s.signal(syscall.SIGTERM)
	s.want(outcome{Code: 128 + 15})
}

// waitProcess polls: the kernel reports no event when another process's child is stopped.
func waitProcess(t *testing.T, pid int, state byte) {
	t.Helper()
	for end := time.Now().Add(*longestWait); time.Now().Before(end); time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		if _, rest, _ := bytes.Cut(stat, []byte(") ")); rest[0] == state {
			return
		}
	}
	t.Fatalf("process %d did not reach state %c", pid, state)
}

func TestSecondInterruptKills(t *testing.T) {
	s := startSupervised(t, time.Second, "sh", "-c", `trap 'echo int' INT; echo ready; while :; do sleep 0.02; done`)
	s.waitFor("ready")
	s.signal(os.Interrupt)
	s.waitFor("int")
	time.Sleep(atOnce(os.Interrupt)) // two at once are one
	s.signal(os.Interrupt)
	s.want(outcome{Code: 128 + 9})
}

func TestDeadlineStopsTheCommandInTime(t *testing.T) {
	s := startSupervised(t, 10*time.Second, "sh", "-c", `trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.02; done`)
	s.waitFor("ready")
	// This is already within kill-after of the deadline, so TERM comes at once.
	s.tell("deadline 10s")
	s.waitFor("told")
	s.want(outcome{Code: 0, Lost: true}) // the command's code never hides the loss
}

func TestDeadlineKillsWhatIgnoresTerm(t *testing.T) {
	// The command says itself how long it has lived: on a busy machine, the outcome comes later.
	alive := filepath.Join(t.TempDir(), "alive")
	s := startSupervised(t, 2500*time.Millisecond, "sh", "-c", `trap 'echo told' TERM; echo ready; while :; do echo >"$0"; sleep 0.02; done`, alive)
	s.waitFor("ready")
	start := time.Now()
	s.tell("deadline 3s")
	s.waitFor("told")
	if d := time.Since(start); d < 450*time.Millisecond {
		t.Errorf("TERM after %v; want it kill-after before the deadline, at 500 ms", d)
	}
	s.want(outcome{Code: 128 + 9, Lost: true})
	last, err := os.Stat(alive)
	if err != nil {
		t.Fatal(err)
	}
	// It writes every 20 ms or so.
	if d := last.ModTime().Sub(start); d > 2950*time.Millisecond {
		t.Errorf("the command last wrote after %v; want it dead before its deadline of 3 s", d)
	}
}

func TestTheDeadlineIsFollowedWhileItMoves(t *testing.T) {
	s := startSupervised(t, 100*time.Millisecond, "sh", "-c", `trap 'exit 0' USR1; echo ready; while :; do sleep 0.02; done`)
	s.waitFor("ready")
	const ahead = 1500 * time.Millisecond
	first := time.Now().Add(ahead)
	s.tell("deadline %v", ahead)
	for time.Now().Before(first.Add(100 * time.Millisecond)) {
		time.Sleep(50 * time.Millisecond)
		s.tell("deadline %v", ahead)
	}
	s.signal(syscall.SIGUSR1)
	s.want(outcome{Code: 0})
}

func TestDeadlineThatMovesOnAfterTermIsStillALoss(t *testing.T) {
	s := startSupervised(t, time.Minute, "sh", "-c", `trap 'echo told' TERM; trap 'exit 0' USR1; echo ready; while :; do sleep 0.02; done`)
	s.waitFor("ready")
	s.tell("deadline 1m")
	s.waitFor("told")
	s.tell("deadline 1h")
	s.signal(syscall.SIGUSR1)
	s.want(outcome{Code: 0, Lost: true})
}

func TestCertainLossKillsTheCommandAtOnce(t *testing.T) {
	s := startSupervised(t, 10*time.Second, "sh", "-c", `trap 'echo told; exit 5' TERM; echo ready; while :; do sleep 0.02; done`)
	s.waitFor("ready")
	s.tell("lose")
	s.want(outcome{Code: 128 + 9, Lost: true})
	if got := s.line(); got != "" {
		t.Errorf("the command said %q; want it killed without TERM", got)
	}
}

func TestLossPastTheDeadlineKillsAtOnce(t *testing.T) {
	s := startSupervised(t, time.Minute, "sh", "-c", `trap 'echo told' TERM; echo ready; while :; do sleep 0.02; done`)
	s.waitFor("ready")
	s.tell("deadline -1s")
	s.tell("lose")
	s.want(outcome{Code: 128 + 9, Lost: true})
	if got := s.line(); got != "" {
		t.Errorf("the command said %q; want it killed without TERM", got)
	}
}

func TestStoppedCommandIsContinuedToHearTerm(t *testing.T) {
	s := startSupervised(t, time.Minute, "sh", "-c", `trap 'echo told; exit 0' TERM; echo $$; while :; do sleep 0.02; done`)
	pid, err := strconv.Atoi(s.line())
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	waitProcess(t, pid, 'T')
	s.tell("deadline 1m")
	s.waitFor("told")
	s.want(outcome{Code: 0, Lost: true})
}

func TestLeftoversInTheGroupAreGoneBeforeTheEnd(t *testing.T) {
	s := startSupervised(t, time.Second, "sh", "-c", `sleep 1000 & echo $!; exit 6`)
	pid, err := strconv.Atoi(s.line())
	if err != nil {
		t.Fatal(err)
	}
	s.want(outcome{Code: 6})
	if !gone(pid) {
		t.Errorf("process %d, left behind in the group, is still there", pid)
	}
}

// outcomeIs fails the test unless ok accepts the outcome.
func (s *supervised) outcomeIs(ok func(outcome) bool) {
	s.t.Helper()
	if o := s.outcome(); !ok(o) {
		s.t.Errorf("outcome %+v; stderr:\n%s", o, s.stderr.String())
	}
}
