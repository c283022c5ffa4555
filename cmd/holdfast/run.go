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

// defaultKillAfter is the time from TERM to the end of the lock, as long as the session timeout has
// room for it.
const defaultKillAfter = 5 * time.Second

func newRun(g *globals) *cobra.Command {
	var wait waitFlags
	var kind kindFlags
	var kill killFlag
	cmd := &cobra.Command{
		Use:   "run [flags] LOCK [--] COMMAND [ARG...]",
		Short: "Run a command while holding a lock",
		Long: `run waits for the lock, runs the command, and releases the lock when the command and everything
that it has started are gone.

If holdfast cannot prove that it still holds the lock, it stops the command before anybody else can
get the lock: TERM first, KILL 250ms before the lock is gone. After a certain loss (the lock's node
was deleted, the session has expired, the store's directory was removed) it kills the command at once.

A watchdog process is the command's parent. It ends the command if holdfast run is killed, crashes or
is stopped; holdfast run ends the command if the watchdog does. All descendants of the command are
ended, whatever process group, session or user they belong to. This takes Linux. On other systems
the command goes on if holdfast run is killed or stopped, and processes that have left the command's
process group are not found. In lists of processes the watchdog is hf-watchdog.

ctrl-Z stops the command and holdfast run. fg continues both if it comes before the session timeout
has passed. After that the lock is lost, and the command is killed (exit code 79).

To find the descendants that have become another user, holdfast needs root, or a cgroup of its own: a
systemd user service, or Delegate=yes in a unit.

Flags stand before LOCK; the command's own flags follow COMMAND.

Exit codes:
  the command's own, or 128+N if signal N killed it
  75   busy: --try, or --wait ended; the command did not run
  79   the lock was lost while the command ran, whatever the command's own code
  125  holdfast failed, or no server answered within --wait; the command did not run
  126  the command cannot be executed
  127  the command was not found
  128+N  signal N came during the wait; the command did not run

The command's environment has HOLDFAST_LOCK (the name), HOLDFAST_TOKEN (the fencing token, a number
that grows from holder to holder) and HOLDFAST_SESSION. With --also, that token is LOCK's; HOLDFAST_TOKENS
has it and then those of the others, in the order of the command line, with blanks between.`,
		Example: `  holdfast run nightly -- ./backup.sh
  holdfast run --wait 30s --why "schema 42" db/migrate -- ./migrate --all
  holdfast run -s catalogue -- ./export              # beside other readers
  holdfast run --of 3 crawler -- ./crawl             # three at a time
  holdfast run --also db/b db/a -- ./copy a b        # both locks, or none`,
		Args: func(cmd *cobra.Command, args []string) error {
			command := dashless(args)
			switch {
			case len(args) == 0:
				return usage("usage: "+cmd.UseLine(), "run: no lock given")
			case len(command) == 0:
				return usage("usage: "+cmd.UseLine(), "run: no command given after the lock's name, %q", args[0])
			case len(command) == len(args)-1 && strings.HasPrefix(command[0], "-"):
				return usage("a command of that name goes behind --", "run: %s stands behind the lock's name: flags of run stand before it", command[0])
			}
			return nil
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
	cmd.Flags().SetInterspersed(false) // the command's flags are not ours
	return cmd
}

// killFlag is the flag of the commands that run another.
type killFlag struct{ after time.Duration }

func (f *killFlag) register(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.after, "kill-after", defaultKillAfter, "how long before the lock is gone the command gets TERM; KILL follows 250ms before, so with 250ms or less there is no TERM. Must be less than half of the session timeout")
}

// grace is the time to allow for under a session timeout, which has to leave room for it.
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
			return 0, usage("a longer --session-timeout leaves room for it",
				"--kill-after %v is not less than half of the session timeout, %v: the command might not be gone before the lock is", f.after, timeout)
		}
		return f.after, nil
	}
	_, err := grace(g.timeout)
	return grace, err
}

// dashless is the command in run's arguments: what follows the lock's name and a --.
func dashless(args []string) []string {
	if len(args) > 1 && args[1] == "--" {
		return args[2:]
	}
	return args[min(1, len(args)):]
}

// run is the subcommand, from a checked command line on.
func (k *taker) run(command []string, grace func(time.Duration) (time.Duration, error)) error {
	// Before the wait, which may be long, and for nothing.
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
				"session timeout %v is too short: a command is killed %v before its lock is gone", s.Timeout(), supervise.KillMargin)
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
	k.say = newSayer(os.Stderr)
	defer k.say.flush()
	t, err := k.take(signals)
	if err != nil {
		return err
	}
	defer t.close()

	supervise.Notify(signals, supervise.JobSignals...)
	warn := func(format string, args ...any) { k.say.line("%s: %s", escape(k.name), fmt.Sprintf(format, args...)) }
	out, startErr := sup.Run(
		supervise.Command{Path: file, Args: command, Env: append(os.Environ(), k.environment(t.hold)...)},
		supervise.Terms{Lost: t.hold.Lost(), Deadline: t.hold.Deadline, Grace: killAfter, Signals: signals, Warn: warn},
	)
	unlockErr := t.hold.Unlock()
	switch {
	case errors.Is(startErr, supervise.ErrGuards):
		return &fault{exitFailed, fmt.Errorf("%s: %w", k.name, startErr), ""}
	case startErr != nil:
		return cannotRun(command[0], startErr)
	case out.Lost || errors.Is(unlockErr, holdfast.ErrLost):
		return &fault{exitLost, fmt.Errorf("%s: the lock was lost while the command ran (it ended with code %d)", k.name, out.Code), ""}
	case unlockErr != nil:
		warn("the lock could not be released and ends with its session, in %v at most: %v", k.timeout, unlockErr)
	}
	return exitCode(out.Code)
}

// environment is what the command is told; it goes behind the inherited one, where the
// last value of a name counts.
func (k *taker) environment(h *holdfast.Hold) []string {
	return []string{
		"HOLDFAST_LOCK=" + k.name,
		"HOLDFAST_TOKEN=" + strconv.FormatInt(k.token(h), 10),
		"HOLDFAST_TOKENS=" + k.tokens(h),
		fmt.Sprintf("HOLDFAST_SESSION=0x%x", uint64(h.Session())),
		"HOLDFAST_HELD=" + k.heldText(),
	}
}

// token is that of LOCK itself, also where others were taken with it.
func (k *taker) token(h *holdfast.Hold) int64 { return tokenOf(h, k.path) }

// tokenOf is the token of the lock at path, among those that h holds.
func tokenOf(h *holdfast.Hold, path string) int64 {
	for _, t := range h.Tokens() {
		if t.Path == path {
			return t.Token
		}
	}
	return h.Token()
}

// tokens are that of LOCK and those of the locks taken with it, in the order given.
func (k *taker) tokens(h *holdfast.Hold) string {
	var text []string
	for _, path := range k.paths() {
		text = append(text, strconv.FormatInt(tokenOf(h, path), 10))
	}
	return strings.Join(text, " ")
}

// cannotRun says why the command was not started: 127 if it is not there, else 126.
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
			f.code, f.hint = exitCannotExec, "the interpreter in its first line does not exist"
		}
	case errors.Is(err, syscall.ENOEXEC):
		f.hint = "a script needs a first line such as #!/bin/sh"
	case errors.Is(err, exec.ErrDot):
		f.hint = "to run a file of this directory, write ./" + name
	}
	return f
}
