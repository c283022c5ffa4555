package hold

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/job"
	"holdfast/internal/cli/term"
	"holdfast/internal/cli/who"
	"holdfast/internal/supervise"
)

// runFlags are those of run.
type runFlags struct {
	wait    WaitFlags
	kind    KindFlags
	ends    job.Flags
	who     who.Flags
	tell    tellFlags
	once    onceFlags
	minHold minHoldFlag
	room    roomFlags
}

// NewRun returns the command run.
func NewRun(g *conn.Flags) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:        "run [flags] LOCK [--] COMMAND [ARG...]",
		SuggestFor: []string{"acquire"},
		Short:      "Run a command while holding a lock",
		Long:       runHelp + term.RunExitCodes() + runFilesHelp,
		Example:    runExamples,
		Args: func(cmd *cobra.Command, args []string) error {
			command := job.Dashless(args)
			switch {
			case len(args) == 0:
				return term.Usage("usage: "+cmd.UseLine(), "run: no lock given")
			case len(command) == 0:
				return term.Usage("usage: "+cmd.UseLine(), "run: no command given after the lock's name, %q", args[0])
			}
			return MisplacedFlag(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(g, cmd, args) },
	}
	f.wait.register(cmd)
	f.kind.register(cmd)
	f.ends.Register(cmd)
	f.who.Register(cmd)
	f.tell.register(cmd)
	f.once.register(cmd)
	f.minHold.register(cmd)
	f.room.register(cmd)
	cmd.Flags().SetInterspersed(false) // the command's flags are not for holdfast
	return cmd
}

// run is the command. Its arguments are checked.
func (f *runFlags) run(g *conn.Flags, cmd *cobra.Command, args []string) error {
	p, err := NewPlan(g, cmd, &f.wait, &f.kind, args[0])
	if err != nil {
		return err
	}
	ending, err := f.ends.Ending(cmd, g)
	if err != nil {
		return err
	}
	for _, check := range []func() error{
		func() (err error) { p.Who, p.Labels, err = f.who.Read(); return err },
		func() error { return f.once.check(cmd) },
		func() error { return f.minHold.check(cmd) },
		func() error { return f.room.check(cmd, p.try) },
		func() error { return f.tell.metrics.check(cmd) },
		f.tell.check, // the last: it removes an older status file
	} {
		if err := check(); err != nil {
			return err
		}
	}
	p.once, p.minHold, p.room = f.once, f.minHold.least, f.room
	r := Runner{Plan: p, Command: f.ends.Command(args), Ending: ending, Stop: syscall.Signal(f.ends.Signal), quiet: f.tell.quiet}
	r.Steps.OnHold = func(*holdfast.Hold, supervise.Ending) {
		f.tell.metrics.warnOf(f.tell.metrics.held(p.Path, f.tell.status.start, r.record.acquired))
	}
	return f.tell.end(p, &r.record, r.Run())
}

// MisplacedFlag refuses a command that begins with - without -- before it. Most likely it is a flag
// that belongs before the name. The hint has the corrected command line.
func MisplacedFlag(cmd *cobra.Command, args []string) error {
	if len(args) < 2 || args[1] == "--" || !strings.HasPrefix(args[1], "-") {
		return nil
	}
	err := func(hint string) error {
		return term.Usage(hint, "%s: %s comes after the name %q, where the command begins", cmd.Name(), args[1], args[0])
	}
	name, _, inline := strings.Cut(strings.TrimLeft(args[1], "-"), "=")
	flag := cmd.Flags().Lookup(name)
	if flag == nil && len(name) == 1 {
		flag = cmd.Flags().ShorthandLookup(name)
	}
	if args[1] == "-c" && flag == nil && cmd.Flags().Lookup("shell") != nil {
		return err(fmt.Sprintf("to run a line of the shell: %s --shell %s '%s'", cmd.CommandPath(), args[0], strings.Join(args[2:], " ")))
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

const runHelp = `run waits for the lock and runs the command. It releases the lock when the command and all processes
that it started have ended.

Flags of run go before LOCK. Flags of the command follow COMMAND.

run waits without limit, also while no server answers. --try and --wait limit the wait. Without --server, the
locks are in your home directory: holdfast run and sudo holdfast run have different locks if their homes differ.

A run in the command of another one, and a run with --also, can wait in a circle with others. Within two
seconds, it says who waits for whom, and what to type to end it. With --on-deadlock fail, the wait can be the
victim: of the waits in the circle that have fail, the youngest gives up within three seconds, and exits with
35. The others go on when the command around the victim has ended. Nobody gives up if no wait has fail, or if
a client in the circle waits for several locks at a time: that circle may end by itself. Clients of other
libraries never give up.

If holdfast cannot prove that it still holds the lock, it stops the command before another client can
acquire the lock. It sends TERM first (--kill-signal, --term-before), and KILL 250ms before the lock
expires. If the lock is certainly lost, it kills the command at once. This is so when the lock's node
was deleted, the session has expired, or the store's directory was removed. --on-lost and --on-suspect
change what happens to the command then.

holdfast forwards signals to the command. A second INT within two seconds kills the command. With
--kill-after 10s, KILL follows 10s after a TERM, INT, HUP or QUIT. Leave --kill-after out if HUP makes the
command read its files again: KILL would follow. The command ignores the signals that the caller ignores.

On Linux, a watchdog process (hf-watchdog in process lists) is the command's parent. It ends the
command if holdfast run is killed, crashes or is stopped. holdfast run ends the command if the
watchdog dies. Both also end all descendants of the command, whatever process group, session or user
they belong to. To kill descendants that run as another user, holdfast needs root or its own cgroup:
a systemd user service, or Delegate=yes in a unit. A unit with Type=notify also needs NotifyAccess=all,
because the command that reports its readiness is not the main process of the unit.

On other systems, the command keeps running if holdfast run is killed or stopped. Processes that
have left the command's process group are not found.

The command can use the terminal: a prompt for a password, an editor. If INT (ctrl-C) or QUIT kills the
command, or arrives during the wait, holdfast run ends by the same signal, and so does the script or the loop
around it. If the command handles the signal and exits, the script goes on.

ctrl-Z stops the command and holdfast run. fg continues both, if you type it before the session
timeout has passed. After that the lock is lost, and the command is killed (exit code 79).

When the command ends, processes that it left behind are killed, and holdfast says which (not with -q). With
--leftovers wait, holdfast holds the lock until they have ended. With --leftovers ignore, it releases the lock
while they run, and leaves them to themselves: the next holder's command can run beside them. If holdfast had
to stop the command because of the lock, it kills them in any case.

--min-hold keeps the lock after a short command, so that another host whose clock is late does not run the
same job again. The time counts from the start of the command, by the server's clock. It goes on if the
command fails, or if holdfast or this host dies. holdfast run and holdfast lock wait for the end of that
time. These do not see it, and acquire the lock when the command ends: run --tree, lock --tree, lock
--detached, elect, shard, other libraries, and programs that use the Go package without reserve.Locker.

--once-per and --once-key do not repeat a job that is done, on whatever host. Done means that the command
ended with code 0 while the lock was held. After a command that failed, was killed or lost the lock, the next
one runs. --once-per compares the times at which the two runs joined the queue of the lock. So it does not
matter how long the job takes.

With clocks that differ by less than a minute, a job of every hour needs --once-per 59m, or --try and
--min-hold 59m. --min-hold also counts runs that failed.

--supersede is for jobs of which only the newest counts, such as deploys of a branch. A run with it takes the
place of the runs with it that wait already. They exit 75 (--superseded-exit-code) and say who has their
place. So while one runs, one waits, and it is the newest: no older run starts after a newer one. --queue-max
N lets at most N wait. Neither touches a run that holds the lock, a waiter without the option, or one of
another library.

`

const runFilesHelp = `

The command's environment has HOLDFAST_LOCK (the name), HOLDFAST_TOKEN (the fencing token, a number that grows
from holder to holder), HOLDFAST_SESSION, HOLDFAST_OWNER (see --who), HOLDFAST_SERVER (the server of the lock,
which a holdfast in the command uses, too), and with --slot HOLDFAST_SLOTS (the numbers, separated by spaces)
and HOLDFAST_SLOT (the lowest of them). The command also inherits variables of an outer holdfast that this one
does not set, such as HOLDFAST_SLOT. With --also, HOLDFAST_TOKEN is the token of LOCK. HOLDFAST_TOKENS has the
tokens of all locks in the order of the command line, separated by spaces.

HOLDFAST_LOST_FD is the number of a descriptor that the command and its children inherit (not on
Windows). Nothing is written to it. It ends (end of file) when holdfast asks the command to stop because
the lock is lost or in doubt, and when holdfast is gone. It also ends when the lock is released.

Status file: with --status-file, run writes a JSON object when it ends. It appears complete or not at all. It
tells an exit code of the command (exit_code_from is command) from the same code of holdfast. ran is true if
the command was started. outcome is one of
  exited        the command has exited; command.exit_code is its code
  killed        a signal has killed the command; command.signal is its number
  lost          the lock was lost while the command ran
  not-recorded  the command has succeeded, and the job is not recorded as done (--once-per, --once-key)
  uncertain     the command has succeeded, but it is not certain that this is recorded
  overdue       the command was stopped after --max-hold
  busy          the lock was held, or the wait timed out
  deadlock      the run was the victim of a deadlock (--on-deadlock fail)
  superseded    a newer run has taken the place of this one (--supersede); superseded_by says which
  queue-full    too many wait (--queue-max); superseded_by says for whom this run has made room, if it did
  already-done  --once-per or --once-key: the job is done
  interrupted   a signal ended the wait; signal is its number
  cannot-start  the command was not found, or cannot be executed
  failed        holdfast failed
token, session, waited_ms and held_ms tell about the lock. If holdfast itself is killed, there is no file. After a
wrong command line, there is none either, and an older file stays. Give each run a file of its own.

Metrics file: with --metrics-file, run writes metrics for node_exporter when it holds the lock, and again when
it ends. The file then stays, so the result of a short run is there for the next scrape. The label lock is the
path of LOCK. holdfast_held is 1 while the lock is held. holdfast_run_wait_seconds, holdfast_run_hold_seconds,
holdfast_run_exit_code, holdfast_run_lost and holdfast_run_outcome tell about the last run. A run whose
outcome is busy, deadlock, superseded, queue-full or interrupted leaves the file alone, since another run may
still hold the lock. If holdfast itself is killed, holdfast_held stays 1 until the next run. Give runs that
can hold locks at the same time a file each.`

const runExamples = `  holdfast run nightly -- ./backup.sh
  holdfast run --wait 30s --why "schema 42" db/migrate -- ./migrate --all
  holdfast run -s catalogue -- ./export              # together with other readers
  holdfast run --of 3 crawler -- ./crawl             # three at a time
  holdfast run -q -n --once-per 59m hourly -- ./job        # in the crontab of several hosts
  holdfast run --once-key "$(date +%F)" daily -- ./report  # once a day; in a crontab, write \%F
  holdfast run --slot --of 4 worker -- sh -c 'exec ./worker --id $HOLDFAST_SLOT'
  holdfast run --slot --of 8 --permits 2 gpu -- ./train    # two of eight devices: HOLDFAST_SLOTS is "0 1"
  holdfast run --tree db/orders -- ./migrate         # excludes db, and not db/users
  holdfast run --also db/b db/a -- ./copy a b        # both locks or neither
  holdfast run --supersede --why "$CI_COMMIT" deploy/main -- ./deploy  # of those that wait, the newest
  holdfast run --max-hold 1h --kill-after 30s nightly -- ./backup.sh
  holdfast run --shell report './collect | ./send'   # by sh -c`
