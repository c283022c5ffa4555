//go:build unix

package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startEnding starts a command that ends as e says.
func startEnding(t *testing.T, e Ending, argv ...string) *supervised {
	t.Helper()
	s := startSupervisedIn(t, []string{endingVariable + "=" + e.String()}, e.Grace, argv...)
	t.Cleanup(func() {
		if t.Failed() && s.watchdog != 0 { // otherwise a job that goes on without its lock would be left
			_ = syscall.Kill(s.watchdog, syscall.SIGKILL)
		}
	})
	return s
}

// until waits until is returns true. It polls, because the events are in other processes.
func (s *supervised) until(what string, is func() bool) {
	s.t.Helper()
	for end := time.Now().Add(*longestWait); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("waited %v for %q; stderr:\n%s", *longestWait, what, s.stderr.String())
		}
	}
}

// waitSaid waits until the supervisor has said the text n times.
func (s *supervised) waitSaid(text string, n int) {
	s.t.Helper()
	s.until(text, func() bool { return strings.Count(s.stderr.String(), text) >= n })
}

// pid reads a process id from the command's output.
func (s *supervised) pid() int {
	s.t.Helper()
	pid, err := strconv.Atoi(s.line())
	if err != nil {
		s.t.Fatalf("%v; stderr:\n%s", err, s.stderr.String())
	}
	return pid
}

// endless prints ready and runs until USR1.
const endless = `trap 'exit 3' USR1; echo ready; while :; do sleep 0.02; done`

func TestParseSignal(t *testing.T) {
	for text, want := range map[string]syscall.Signal{
		"TERM": syscall.SIGTERM, "SIGTERM": syscall.SIGTERM, "term": syscall.SIGTERM, "sigHup": syscall.SIGHUP, "2": syscall.SIGINT, "64": 64,
	} {
		if got, err := ParseSignal(text); got != want || err != nil {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "65", "99999999999999999999", "SIG", "SIGSIGTERM", "TERM ", "NONE", "1.5"} {
		if got, err := ParseSignal(text); err == nil {
			t.Errorf("%q: %v; want an error", text, got)
		}
	}
}

func TestCanAsk(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGCONT, syscall.SIGCHLD, syscall.SIGPIPE, syscall.SIGURG} {
		if CanAsk(sig) {
			t.Errorf("%v can ask", sig)
		}
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGALRM, syscall.SIGWINCH, 34, 64} {
		if !CanAsk(sig) {
			t.Errorf("%v cannot ask", sig)
		}
	}
}

// KILL follows a signal by which the user asks the command to stop.
func TestKillFollowsAForwardedSignal(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR2} {
		t.Run(SignalName(sig), func(t *testing.T) {
			t.Parallel()
			e := Ending{Grace: time.Second, Signal: syscall.SIGUSR2, KillAfter: 200 * time.Millisecond}
			s := startEnding(t, e, "sh", "-c", fmt.Sprintf("trap 'echo told' %s; ", SignalName(sig))+endless)
			s.waitFor("ready")
			began := time.Now()
			s.signal(sig)
			s.waitFor("told")
			s.want(outcome{Code: 128 + 9})
			if took := time.Since(began); took < e.KillAfter {
				t.Errorf("killed after %v; want %v", took, e.KillAfter)
			}
		})
	}
}

// Other signals are not requests to stop, and without KillAfter no KILL follows.
func TestNoKillFollows(t *testing.T) {
	for _, tt := range []struct {
		sig   syscall.Signal
		after time.Duration
	}{{syscall.SIGUSR2, 50 * time.Millisecond}, {syscall.SIGWINCH, 50 * time.Millisecond}, {syscall.SIGTERM, 0}, {syscall.SIGHUP, 0}} {
		t.Run(SignalName(tt.sig), func(t *testing.T) {
			t.Parallel()
			s := startEnding(t, Ending{Grace: time.Second, KillAfter: tt.after}, "sh", "-c", fmt.Sprintf("trap 'sleep 0.3; echo told' %s; ", SignalName(tt.sig))+endless)
			s.waitFor("ready")
			s.signal(tt.sig)
			s.waitFor("told")
			s.signal(syscall.SIGUSR1)
			s.want(outcome{Code: 3})
		})
	}
}

func TestDeadlineSendsTheSignalOfTheEnding(t *testing.T) {
	s := startEnding(t, Ending{Grace: 10 * time.Second, Signal: syscall.SIGINT}, "sh", "-c", `trap 'echo int; exit 0' INT; `+endless)
	s.waitFor("ready")
	s.tell("deadline 10s")
	s.waitFor("int")
	s.want(outcome{Code: 0, Lost: true})
}

// However long KILL may follow a signal, it comes before the deadline.
func TestKillAfterDoesNotMoveTheDeadline(t *testing.T) {
	// On a busy machine the watchdog can get a processor so late that the supervisor kills the command. That
	// proves nothing of the watchdog, so the test begins again.
	for range 5 {
		alive := filepath.Join(t.TempDir(), "alive")
		s := startEnding(t, Ending{Grace: 500 * time.Millisecond, KillAfter: time.Hour},
			"sh", "-c", `trap 'echo told' TERM; echo ready; while :; do echo >"$0"; sleep 0.02; done`, alive)
		s.waitFor("ready")
		s.signal(syscall.SIGTERM)
		s.waitFor("told")
		start := time.Now()
		s.tell("deadline 1s")
		s.want(outcome{Code: 128 + 9, Lost: true})
		last, err := os.Stat(alive)
		if err != nil {
			t.Fatal(err)
		}
		if d := last.ModTime().Sub(start); d > 950*time.Millisecond {
			t.Errorf("the command last wrote after %v; want it dead before its deadline of 1 s", d)
		}
		if strings.Contains(s.stderr.String(), sayKilled) {
			return
		}
	}
	t.Error("the supervisor had to kill the command each time")
}

func TestMaxHold(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		end          Ending
		want         outcome
	}{
		{"stops", `trap 'echo told; exit 0' TERM; `, Ending{MaxHold: 300 * time.Millisecond}, outcome{Code: 0, Overdue: true}},
		{"is killed", `trap 'echo told' TERM; `, Ending{MaxHold: 300 * time.Millisecond, MaxHoldKill: time.Second}, outcome{Code: 128 + 9, Overdue: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.end.Grace = time.Second
			began := time.Now()
			s := startEnding(t, tt.end, "sh", "-c", tt.script+endless)
			s.waitFor("ready")
			s.waitFor("told")
			if took := time.Since(began); took < tt.end.MaxHold {
				t.Errorf("told after %v; want %v", took, tt.end.MaxHold)
			}
			s.want(tt.want)
			if said := s.stderr.String(); !strings.Contains(said, "the lock has been held for 300ms; stopping the command (TERM") {
				t.Errorf("it said %q", said)
			}
		})
	}
	t.Run("is in time", func(t *testing.T) {
		t.Parallel()
		startEnding(t, Ending{Grace: time.Second, MaxHold: time.Hour}, "sh", "-c", "exit 7").want(outcome{Code: 7})
	})
	t.Run("without KILL", func(t *testing.T) {
		t.Parallel()
		s := startEnding(t, Ending{Grace: time.Second, MaxHold: 100 * time.Millisecond}, "sh", "-c", `trap 'sleep 0.3; echo told' TERM; `+endless)
		s.waitFor("ready")
		s.waitFor("told")
		s.signal(syscall.SIGUSR1)
		s.want(outcome{Code: 3, Overdue: true})
	})
}

// Stopping is called when the job is asked to stop, and not before.
func TestStoppingIsCalled(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*supervised)
		e    Ending
		yes  bool
	}{
		{"a deadline that moves on later", func(s *supervised) {
			s.tell("deadline 10s")
			s.waitFor("TERM")
			s.tell("deadline 1h")
		}, Ending{Grace: 9 * time.Second}, true},
		{"max hold", func(s *supervised) { s.waitFor("TERM") }, Ending{MaxHold: 300 * time.Millisecond}, true},
		{"a signal", func(s *supervised) { s.signal(syscall.SIGTERM); s.waitFor("TERM") }, Ending{}, true},
		{"HUP, and KILL follows", func(s *supervised) { s.signal(syscall.SIGHUP); s.waitFor("HUP") }, Ending{KillAfter: time.Hour}, true},
		{"HUP", func(s *supervised) { s.signal(syscall.SIGHUP); s.waitFor("HUP") }, Ending{}, false},
		{"HUP asks", func(s *supervised) { s.signal(syscall.SIGHUP); s.waitFor("HUP") }, Ending{Signal: syscall.SIGHUP}, true},
		{"another signal", func(s *supervised) { s.signal(syscall.SIGUSR2); s.waitFor("USR2") }, Ending{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.e.Grace == 0 {
				tt.e.Grace = time.Second
			}
			s := startSupervisedIn(t, []string{endingVariable + "=" + tt.e.String(), stoppingVariable + "=1"}, tt.e.Grace,
				"sh", "-c", `trap 'echo TERM' TERM; trap 'echo HUP' HUP; trap 'echo USR2' USR2; `+endless)
			s.waitFor("ready")
			if said := s.stderr.String(); strings.Contains(said, saidStopping) && tt.e.MaxHold == 0 {
				t.Errorf("at the start it said %q", said)
			}
			tt.end(s)
			if tt.yes {
				s.waitSaid(saidStopping, 1)
			}
			s.signal(syscall.SIGUSR1)
			s.outcome()
			if said := s.stderr.String(); strings.Contains(said, saidStopping) != tt.yes {
				t.Errorf("it said %q; want a call: %v", said, tt.yes)
			}
		})
	}
}

// leave is a command that leaves a process behind, which prints its id and runs until TERM.
const leave = `sh -c 'trap "echo told; exit" TERM; echo $$; while :; do sleep 0.02; done' & exit 5`

func TestLeftoversAreAwaited(t *testing.T) {
	s := startEnding(t, Ending{Grace: time.Second, Leftovers: LeftoversAwaited}, "sh", "-c", leave)
	pid := s.pid()
	s.waitSaid(sayWaiting, 1)
	if gone(pid) {
		t.Fatal("the leftover process has ended")
	}
	// Once only: its handler runs once.
	s.signal(syscall.SIGTERM)
	s.waitFor("told")
	s.want(outcome{Code: 5})
	if got := s.line(); got != "" {
		t.Errorf("it said %q more", got)
	}
}

func TestNoLeftoversNeedNoWait(t *testing.T) {
	s := startEnding(t, Ending{Grace: time.Second, Leftovers: LeftoversAwaited}, "sh", "-c", "sleep 0.1 & wait; exit 4")
	s.want(outcome{Code: 4})
	if said := s.stderr.String(); said != "" {
		t.Errorf("it said %q", said)
	}
}

// The lock's deadline, a loss, MaxHold and a second interrupt end leftover processes that are awaited.
func TestAwaitedLeftoversEndInTime(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*supervised)
		want outcome
	}{
		{"deadline", func(s *supervised) { s.tell("deadline 1s"); s.waitFor("told") }, outcome{Code: 5, Lost: true}},
		{"loss", func(s *supervised) { s.tell("lose") }, outcome{Code: 5, Lost: true}},
		{"second interrupt", func(s *supervised) {
			s.until("the end", func() bool { return s.cmd.Process.Signal(os.Interrupt) != nil || ended(s) }) // two at once may be one
		}, outcome{Code: 5}},
		{"max hold", func(s *supervised) { s.waitFor("told") }, outcome{Code: 5, Overdue: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := Ending{Grace: 700 * time.Millisecond, Leftovers: LeftoversAwaited}
			if tt.want.Overdue {
				e.MaxHold = 500 * time.Millisecond
			}
			s := startEnding(t, e, "sh", "-c", leave)
			pid := s.pid()
			s.waitSaid(sayWaiting, 1)
			tt.end(s)
			s.want(tt.want)
			if !gone(pid) {
				t.Error("the leftover process is still there")
			}
		})
	}
}

// ended reports whether the supervisor has reported the outcome.
func ended(s *supervised) bool {
	return s.result.Buffered() > 0 || gone(s.cmd.Process.Pid)
}

func TestLeftoversAreIgnored(t *testing.T) {
	s := startEnding(t, Ending{Grace: time.Second, Leftovers: LeftoversIgnored}, "sh", "-c", leave)
	pid := s.pid()
	s.want(outcome{Code: 5})
	if err := s.cmd.Wait(); err != nil && !strings.Contains(err.Error(), "WaitDelay") { // the leftover process has its stdout
		t.Error(err)
	}
	// The next job's watchdog kills leftovers of dead watchdogs, but not these.
	startSupervised(t, time.Second, "sh", "-c", "exit 0").want(outcome{})
	if gone(pid) {
		t.Fatal("the leftover process was ended")
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

// A command that was stopped by holdfast leaves nothing behind, whatever the ending says of leftovers.
func TestLeftoversOfAStoppedCommandAreKilled(t *testing.T) {
	const stubborn = `trap 'exit 5' TERM; sh -c 'trap "" TERM; echo $$; exec sleep 1000' & while :; do sleep 0.02; done`
	for _, left := range []Leftovers{LeftoversAwaited, LeftoversIgnored} {
		s := startEnding(t, Ending{Grace: 10 * time.Second, Leftovers: left}, "sh", "-c", stubborn)
		pid := s.pid()
		s.tell("deadline 10s")
		s.want(outcome{Code: 5, Lost: true})
		if !gone(pid) {
			t.Errorf("%v: the leftover process is still there", left)
		}
	}
}

// reader waits for the end of the descriptor in a child of a child.
const reader = `sh -c 'sh -c "read x <&\$HOLDFAST_LOST_FD; echo end"' & `

func TestDescriptorEndsWhenTheLockIsInDoubt(t *testing.T) {
	for _, on := range []OnLost{LostKills, LostSignals, LostIgnored} {
		for _, what := range []string{"deadline 10s", "deadline -1s", "lose"} {
			if on == LostKills && what != "deadline 10s" {
				continue // killed at once
			}
			t.Run(fmt.Sprint(on, " ", what), func(t *testing.T) {
				t.Parallel()
				s := startEnding(t, Ending{Grace: 10 * time.Second, OnLost: on, LostSignal: syscall.SIGWINCH}, "sh", "-c", `trap '' TERM; `+reader+endless)
				s.waitFor("ready")
				s.tell("%s", what)
				s.waitFor("end")
				s.signal(syscall.SIGUSR1)
				s.outcomeIs(func(o outcome) bool { return o.Code == 3 && (o.Lost || what == "deadline 10s") })
			})
		}
	}
}

func TestDescriptorDoesNotEndBefore(t *testing.T) {
	s := startEnding(t, Ending{Grace: time.Second}, "sh", "-c", reader+endless)
	s.waitFor("ready")
	s.tell("suspect true")
	s.signal(syscall.SIGUSR1)
	s.want(outcome{Code: 3})
	if got := s.line(); got != "" {
		t.Errorf("it said %q", got)
	}
}

func TestJobThatGoesOn(t *testing.T) {
	for _, tt := range []struct {
		name string
		on   OnLost
		what string
		said []string
	}{
		{"signal at the loss", LostSignals, "lose", []string{sayWithout, "HUP was sent"}},
		{"signal before the deadline", LostSignals, "deadline 700ms", []string{"the lock ends in", "HUP was sent", sayWithout}},
		{"ignored loss", LostIgnored, "lose", []string{sayWithout}},
		{"ignored deadline", LostIgnored, "deadline 700ms", []string{"the lock ends in", sayWithout}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := startEnding(t, Ending{Grace: 500 * time.Millisecond, OnLost: tt.on, LostSignal: syscall.SIGHUP},
				"sh", "-c", `trap 'echo hup' HUP; trap 'echo told' TERM; `+endless)
			s.waitFor("ready")
			s.tell("%s", tt.what)
			if tt.on == LostSignals {
				s.waitFor("hup")
			}
			s.waitSaid(sayWithout, 1)
			s.signal(syscall.SIGUSR1)
			s.want(outcome{Code: 3, Lost: true})
			if got := s.line(); got != "" {
				t.Errorf("the command said %q", got)
			}
			rest := s.stderr.String()
			for _, text := range tt.said {
				var found bool
				if _, rest, found = strings.Cut(rest, text); !found {
					t.Errorf("no %q in order in\n%s", text, s.stderr.String())
				}
			}
			if n := strings.Count(s.stderr.String(), "HUP was sent"); n > 1 {
				t.Errorf("HUP was sent %d times", n)
			}
		})
	}
}

// A doubt that ends in time is no loss. The next one is reported again.
func TestDoubtThatEnds(t *testing.T) {
	s := startEnding(t, Ending{Grace: 10 * time.Second, OnLost: LostSignals, LostSignal: syscall.SIGHUP}, "sh", "-c", `trap 'echo hup' HUP; `+endless)
	s.waitFor("ready")
	for round := range 2 {
		s.tell("deadline 9s")
		s.waitFor("hup")
		s.tell("deadline 1h")
		s.waitSaid(sayAgain, round+1)
	}
	s.signal(syscall.SIGUSR1)
	s.want(outcome{Code: 3})
}

// withProcesses is a command with a child in another session, and a process that it has stopped. It
// prints their ids and its own.
const withProcesses = `setsid sleep 1000 & echo $!; sleep 1000 & kill -STOP $!; echo $!; sleep 1000 & echo $!; trap 'echo told; exit 3' TERM; echo $$; while :; do wait; done`

func TestSuspectJobIsSuspended(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("needs /proc")
	}
	start := func(t *testing.T, e Ending) (s *supervised, other, stopped, child, command int) {
		s = startEnding(t, e, "sh", "-c", withProcesses)
		other, stopped, child, command = s.pid(), s.pid(), s.pid(), s.pid()
		for _, pid := range []int{other, child} { // a shell in the middle of vfork is not stopped
			waitProcess(t, pid, 'S')
			s.until("sleep", func() bool {
				comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
				return err == nil && string(comm) == "sleep\n"
			})
		}
		waitProcess(t, stopped, 'T')
		return s, other, stopped, child, command
	}
	e := Ending{Grace: 500 * time.Millisecond, Freeze: time.Second}
	t.Run("while no server is connected", func(t *testing.T) {
		t.Parallel()
		s, other, stopped, child, command := start(t, e)
		for range 3 {
			s.tell("suspect true")
			for _, pid := range []int{other, stopped, child, command} {
				waitProcess(t, pid, 'T')
			}
			s.tell("suspect false")
			for _, pid := range []int{other, child, command} {
				waitProcess(t, pid, 'S')
			}
			waitProcess(t, stopped, 'T')
		}
		s.signal(syscall.SIGTERM)
		s.waitFor("told")
		s.want(outcome{Code: 3})
	})
	t.Run("while the deadline is near", func(t *testing.T) {
		t.Parallel()
		s, other, _, _, command := start(t, Ending{Grace: time.Second, Freeze: 10 * time.Second})
		s.tell("deadline 9s")
		waitProcess(t, command, 'T')
		waitProcess(t, other, 'T')
		s.tell("deadline 1h")
		waitProcess(t, command, 'S')
		waitProcess(t, other, 'S')
		s.signal(syscall.SIGTERM)
		s.waitFor("told")
		s.want(outcome{Code: 3})
	})
	t.Run("and the deadline still ends it", func(t *testing.T) {
		t.Parallel()
		s, _, _, _, command := start(t, e)
		s.tell("suspect true")
		waitProcess(t, command, 'T')
		s.tell("deadline 1s")
		s.waitFor("told") // the signal reaches it
		s.want(outcome{Code: 3, Lost: true})
	})
	t.Run("and a loss kills it", func(t *testing.T) {
		t.Parallel()
		s, _, _, _, command := start(t, e)
		s.tell("suspect true")
		waitProcess(t, command, 'T')
		s.tell("lose")
		s.want(outcome{Code: 128 + 9, Lost: true})
	})
	t.Run("and the user can stop it", func(t *testing.T) {
		t.Parallel()
		s, _, _, _, command := start(t, e)
		s.tell("suspect true")
		waitProcess(t, command, 'T')
		s.signal(syscall.SIGTERM)
		s.waitFor("told")
		s.want(outcome{Code: 3})
	})
	t.Run("and the user cannot continue it", func(t *testing.T) {
		t.Parallel()
		s, _, _, _, command := start(t, e)
		s.tell("suspect true")
		waitProcess(t, command, 'T')
		s.signal(syscall.SIGCONT)
		s.signal(syscall.SIGWINCH)
		time.Sleep(50 * time.Millisecond)
		waitProcess(t, command, 'T')
		s.tell("suspect false")
		waitProcess(t, command, 'S')
		s.signal(syscall.SIGTERM)
		s.want(outcome{Code: 3})
	})
	t.Run("and a command that the user has stopped before continues at the end", func(t *testing.T) {
		t.Parallel()
		s, other, _, _, command := start(t, e)
		_ = syscall.Kill(command, syscall.SIGSTOP)
		waitProcess(t, command, 'T')
		s.tell("suspect true")
		waitProcess(t, other, 'T')
		s.waitSaid(sayFrozen, 1)
		s.signal(syscall.SIGCONT)
		s.signal(syscall.SIGWINCH) // handled after the CONT
		time.Sleep(50 * time.Millisecond)
		waitProcess(t, command, 'T')
		s.tell("suspect false")
		waitProcess(t, command, 'S')
		waitProcess(t, other, 'S')
		s.signal(syscall.SIGTERM)
		s.want(outcome{Code: 3})
	})
	t.Run("and processes that it leaves continue", func(t *testing.T) {
		t.Parallel()
		s, other, _, _, command := start(t, Ending{Grace: e.Grace, Freeze: e.Freeze, Leftovers: LeftoversIgnored})
		t.Cleanup(func() { _ = syscall.Kill(other, syscall.SIGKILL) })
		s.tell("suspect true")
		waitProcess(t, other, 'T')
		s.waitSaid(sayFrozen, 1)
		_ = syscall.Kill(command, syscall.SIGKILL)
		s.want(outcome{Code: 128 + 9})
		// The others are in the command's process group. When the supervisor ends, the kernel sends them HUP, since the
		// group is an orphan with a member that is stopped.
		waitProcess(t, other, 'S')
	})
}
