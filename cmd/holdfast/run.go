package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/supervise"
	"holdfast/internal/watchdog"
	"holdfast/zk"
)

// defaultKillAfter is the time from TERM to the end of the lock. A short session timeout shortens it.
const defaultKillAfter = 5 * time.Second

func newRun(g *globals) *cobra.Command {
	var wait waitFlags
	var kind kindFlags
	var kill killFlag
	cmd := &cobra.Command{
		Use:   "run [flags] LOCK [--] COMMAND [ARG...]",
		Short: "Run a command while holding a lock",
		Long: `run waits for the lock and runs the command. It releases the lock when the command and all processes
that it started have ended.

Flags of run go before LOCK. Flags of the command follow COMMAND.

If holdfast cannot prove that it still holds the lock, it stops the command before another client can
acquire the lock. It sends TERM first, and KILL 250ms before the lock expires. If the lock is certainly
lost, it kills the command at once. This is so when the lock's node was deleted, the session has
expired, or the store's directory was removed.

On Linux, a watchdog process (hf-watchdog in process lists) is the command's parent. It ends the
command if holdfast run is killed, crashes or is stopped. holdfast run ends the command if the
watchdog dies. Both also end all descendants of the command, whatever process group, session or user
they belong to. To kill descendants that run as another user, holdfast needs root or its own cgroup:
a systemd user service, or Delegate=yes in a unit.

On other systems, the command keeps running if holdfast run is killed or stopped. Processes that
have left the command's process group are not found.

ctrl-Z stops the command and holdfast run. fg continues both, if you type it before the session
timeout has passed. After that the lock is lost, and the command is killed (exit code 79).

Exit codes:
  the command's own, or 128+N if signal N killed it
  75   busy: the lock was held (--try), or the wait timed out (--wait); the command did not run
  79   the lock was lost while the command ran, whatever the command's own code
  125  holdfast failed, or no server answered within --wait; the command did not run
  126  the command cannot be executed
  127  the command was not found
  128+N  signal N arrived during the wait; the command did not run

The command's environment has HOLDFAST_LOCK (the name), HOLDFAST_TOKEN (the fencing token, a number
that grows from holder to holder) and HOLDFAST_SESSION. With --also, HOLDFAST_TOKEN is the token of
LOCK. HOLDFAST_TOKENS has the tokens of all locks in the order of the command line, separated by spaces.`,
		Example: `  holdfast run nightly -- ./backup.sh
  holdfast run --wait 30s --why "schema 42" db/migrate -- ./migrate --all
  holdfast run -s catalogue -- ./export              # together with other readers
  holdfast run --of 3 crawler -- ./crawl             # three at a time
  holdfast run --also db/b db/a -- ./copy a b        # both locks or neither`,
		Args: func(cmd *cobra.Command, args []string) error {
			command := dashless(args)
			switch {
			case len(args) == 0:
				return usage("usage: "+cmd.UseLine(), "run: no lock given")
			case len(command) == 0:
				return usage("usage: "+cmd.UseLine(), "run: no command given after the lock's name, %q", args[0])
			}
			return misplacedFlag(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := g.newTaker(cmd, &wait, &kind, args[0])
			if err != nil {
				return err
			}
			grace, err := kill.grace(cmd, g)
			if err != nil {
				return err
			}
			return k.run(dashless(args), grace)
		},
	}
	wait.register(cmd)
	kind.register(cmd)
	kill.register(cmd)
	cmd.Flags().SetInterspersed(false) // the command's flags are not for holdfast
	return cmd
}

// killFlag is --kill-after, a flag of the subcommands that run a command.
type killFlag struct{ after time.Duration }

func (f *killFlag) register(cmd *cobra.Command) {
	durationVar(cmd.Flags(), &f.after, "kill-after", "", defaultKillAfter, "send TERM this long before the lock expires; must be less than half of the session timeout. KILL follows 250ms before the lock expires, so 250ms or less sends no TERM")
}

// grace returns a function from the session timeout to the time between TERM and the end of the lock.
// It fails if the timeout is too short for --kill-after.
func (f *killFlag) grace(cmd *cobra.Command, g *globals) (func(timeout time.Duration) (time.Duration, error), error) {
	given := cmd.Flags().Changed("kill-after")
	if given && f.after < 0 {
		return nil, usage("", "--kill-after %v is negative", f.after)
	}
	grace := func(timeout time.Duration) (time.Duration, error) {
		if !given {
			return min(defaultKillAfter, timeout/3), nil
		}
		if f.after >= timeout/2 {
			return 0, usage("give a shorter --kill-after or a longer --session-timeout",
				"--kill-after %v must be less than half of the session timeout, %v, or the command might outlive the lock", f.after, timeout)
		}
		return f.after, nil
	}
	_, err := grace(g.timeout)
	return grace, err
}

// dashless returns the command in run's arguments: everything after the lock's name and an
// optional --.
func dashless(args []string) []string {
	if len(args) > 1 && args[1] == "--" {
		return args[2:]
	}
	return args[min(1, len(args)):]
}

// misplacedFlag refuses a command that begins with - without -- before it. Most likely it is a flag
// that belongs before the name. The hint has the corrected command line.
func misplacedFlag(cmd *cobra.Command, args []string) error {
	if len(args) < 2 || args[1] == "--" || !strings.HasPrefix(args[1], "-") {
		return nil
	}
	err := func(hint string) error {
		return usage(hint, "%s: %s comes after the name %q, where the command begins", cmd.Name(), args[1], args[0])
	}
	name, _, inline := strings.Cut(strings.TrimLeft(args[1], "-"), "=")
	flag := cmd.Flags().Lookup(name)
	if flag == nil && len(name) == 1 {
		flag = cmd.Flags().ShorthandLookup(name)
	}
	if flag == nil {
		return err(fmt.Sprintf("if it is the command, put -- before it: %s %s -- %s", cmd.CommandPath(), args[0], strings.Join(args[1:], " ")))
	}
	given, command := args[1], args[2:]
	if flag.NoOptDefVal == "" && !inline {
		if len(command) == 0 {
			command = []string{"VALUE"}
		}
		given, command = given+" "+command[0], command[1:]
	}
	line := fmt.Sprintf("%s %s %s", cmd.CommandPath(), given, args[0])
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	switch {
	case len(command) > 0:
		line += " -- " + strings.Join(command, " ")
	case flag.Name != "observe": // which takes no command
		line += " -- CMD"
	}
	return err(fmt.Sprintf("put %s before the name: %s", args[1], line))
}

// run implements the subcommand. The command line is checked.
func (k *taker) run(command []string, grace func(time.Duration) (time.Duration, error)) error {
	// Look the command up before the wait, which may be long.
	file, err := exec.LookPath(command[0])
	if err != nil {
		return cannotRun(command[0], err)
	}
	if err := k.deadlock(); err != nil {
		return err
	}
	var killAfter time.Duration
	k.check = func(s *zk.Session) (err error) {
		// The server may have granted less than was asked for.
		if least := 2 * supervise.KillMargin; s.Timeout() < least {
			return usage(fmt.Sprintf("give --session-timeout %v or more", least),
				"session timeout %v is too short: holdfast kills a command %v before its lock expires", s.Timeout(), supervise.KillMargin)
		}
		killAfter, err = grace(s.Timeout())
		return err
	}
	// The watchdog starts up while we connect.
	sup, err := supervise.Start(watchdog.IsHost)
	if err != nil {
		return &fault{exitFailed, err, ""}
	}
	defer sup.Close()
	signals := make(chan os.Signal, 64)
	supervise.SurviveBrokenPipe()
	supervise.Notify(signals, supervise.StopSignals...)
	k.say = newLiveSayer(os.Stderr)
	defer k.say.flush()
	k.page.announce(k.say)
	t, err := k.take(signals)
	if err != nil {
		return err
	}
	defer t.close()
	k.page.lead(t.hold, k.value, killAfter)

	supervise.Notify(signals, supervise.JobSignals...)
	warn := func(format string, args ...any) { k.say.line("%s: %s", escape(k.name), fmt.Sprintf(format, args...)) }
	out, startErr := sup.Run(
		supervise.Command{Path: file, Args: command, Env: append(os.Environ(), k.environment(t.hold)...)},
		supervise.Terms{Lost: t.hold.Lost(), Deadline: t.hold.Deadline, Grace: killAfter, Signals: signals, Warn: warn},
	)
	k.page.resign()
	unlockErr := t.hold.Unlock()
	switch {
	case errors.Is(startErr, supervise.ErrGuards):
		return &fault{exitFailed, fmt.Errorf("%s: %w", k.name, startErr), ""}
	case startErr != nil:
		return cannotRun(command[0], startErr)
	case out.Lost || errors.Is(unlockErr, holdfast.ErrLost):
		return &fault{exitLost, fmt.Errorf("%s: the lock was lost while the command ran (it ended with code %d)", k.name, out.Code), ""}
	case unlockErr != nil:
		warn("cannot release the lock; it ends with its session, in at most %v: %v", k.timeout, unlockErr)
	}
	return exitCode(out.Code)
}

// environment returns the variables that holdfast adds to the command's environment. They come after
// the inherited variables, since the last value of a name wins.
func (k *taker) environment(h *holdfast.Hold) []string {
	return []string{
		"HOLDFAST_LOCK=" + k.name,
		"HOLDFAST_TOKEN=" + strconv.FormatInt(k.token(h), 10),
		"HOLDFAST_TOKENS=" + k.tokens(h),
		fmt.Sprintf("HOLDFAST_SESSION=0x%x", uint64(h.SessionID())),
		"HOLDFAST_HELD=" + k.heldText(),
	}
}

// token returns the token of LOCK itself, also with --also.
func (k *taker) token(h *holdfast.Hold) int64 { return tokenOf(h, k.path) }

// tokenOf returns the token of the lock at path, one of the locks that h holds.
func tokenOf(h *holdfast.Hold, path string) int64 {
	for _, t := range h.Tokens() {
		if t.Path == path {
			return t.Token
		}
	}
	return h.Token()
}

// tokens returns the tokens of all locks in the order of the command line.
func (k *taker) tokens(h *holdfast.Hold) string {
	var text []string
	for _, path := range k.paths() {
		text = append(text, strconv.FormatInt(tokenOf(h, path), 10))
	}
	return strings.Join(text, " ")
}

// cannotRun returns the fault of a command that did not start: 127 if it does not exist, else 126.
func cannotRun(name string, err error) error {
	reason := err
	if e, ok := errors.AsType[*exec.Error](err); ok {
		reason = e.Err
	} else if e, ok := errors.AsType[*fs.PathError](err); ok {
		reason = e.Err
	}
	f := &fault{exitCannotExec, fmt.Errorf("run %s: %w", name, reason), ""}
	switch {
	case errors.Is(err, exec.ErrNotFound):
		f.code, f.err = exitNotFound, fmt.Errorf("run %s: command not found", name)
	case errors.Is(err, fs.ErrNotExist):
		f.code = exitNotFound
		if _, statErr := os.Stat(name); statErr == nil {
			f.code, f.hint = exitCannotExec, "the interpreter in its first line (#!) does not exist: install it, or correct the line"
		}
	case errors.Is(err, syscall.ENOEXEC):
		f.hint = "if it is a script, begin it with a line such as #!/bin/sh"
	case errors.Is(err, exec.ErrDot):
		f.hint = "to run the file in this directory, write ./" + name
	}
	return f
}
