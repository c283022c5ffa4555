// Package shard is the command shard: one command for each shard that this process has.
package shard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/hold"
	"holdfast/internal/cli/host"
	"holdfast/internal/cli/job"
	"holdfast/internal/cli/term"
	"holdfast/internal/cli/who"
	"holdfast/internal/duration"
	"holdfast/internal/supervise"
	"holdfast/internal/watchdog"
	"holdfast/shards"
)

const (
	// defaultStopTime is the time from TERM to KILL when a shard moves.
	defaultStopTime = 10 * time.Second
	// A command that fails runs again after a pause. The pause doubles, and starts anew after a command
	// that has run for a long time.
	firstPause = time.Second
	mostPause  = time.Minute
	// mostShards is the largest number of shards.
	mostShards = 1 << 16
)

// flags are those of shard.
type flags struct {
	count     int
	killAfter time.Duration
	wait      hold.WaitFlags
	metrics   hold.MetricsFlag
	who       who.Flags
	codes     hold.CodeFlags
}

// New returns the command shard.
func New(g *conn.Flags) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:     "shard [flags] --count N NAME [--] COMMAND [ARG...]",
		Short:   "Run one command for each shard that this process has",
		Long:    help + hold.MetricsHelp + helpEnd,
		Example: examples,
		Args:    func(cmd *cobra.Command, args []string) error { return f.check(cmd, args) },
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(g, cmd, args) },
	}
	f.register(cmd)
	return cmd
}

func (f *flags) register(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.count, "count", 0, "number of shards, 1 to 65536; all processes must give the same number")
	f.metrics.Register(cmd)
	cmd.Flags().StringVar(&f.wait.Why, "why", "", "reason for holding the shards, shown in ls and status")
	f.wait.RegisterTry(cmd, "there are as many other processes as shards.")
	f.who.Register(cmd)
	f.codes.RegisterBusy(cmd, "--try finds no shard")
	term.DurationVar(cmd.Flags(), &f.killAfter, "kill-after", "", defaultStopTime, "time from TERM to KILL when a shard moves, or a signal ends shard; 0 sends KILL at once")
	cmd.Flags().String("on-deadlock", "", "") // only to refuse it with a hint
	_ = cmd.Flags().MarkHidden("on-deadlock")
	cmd.Flags().SetInterspersed(false)
}

// check refuses flags that do not go together.
func (f *flags) check(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return term.Usage("usage: "+cmd.UseLine(), "shard: no name given")
	case !cmd.Flags().Changed("count"):
		return term.Usage("usage: "+cmd.UseLine(), "shard: no --count given")
	case f.count < 1 || f.count > mostShards:
		return term.Usage("", "--count %d: want 1 to %d shards", f.count, mostShards)
	case f.killAfter < 0:
		return term.Usage("", "--kill-after %v is negative", f.killAfter)
	case f.killAfter > term.MaxDuration:
		return term.Usage("give a shorter time", "--kill-after %v: want at most %v", f.killAfter, term.MaxDuration)
	case cmd.Flags().Changed("busy-exit-code") && !f.wait.Try:
		return term.Usage("add --try, or leave it out", "shard: --busy-exit-code needs --try: otherwise shard waits for its shards")
	case cmd.Flags().Changed("on-deadlock"):
		return term.Usage("give it to the holdfast run in the command, which waits for a lock", "shard: a worker has no --on-deadlock: it goes on with its other shards while it waits for one")
	case len(job.Dashless(args)) == 0:
		return term.Usage("usage: "+cmd.UseLine(), "shard: no command given after the name, %q", term.Cut(args[0], 80))
	}
	return hold.MisplacedFlag(cmd, args)
}

// run is the command. Its flags are checked by check.
func (f *flags) run(g *conn.Flags, cmd *cobra.Command, args []string) error {
	path, err := g.PlainPath(args[0])
	if err != nil {
		return err
	}
	t, err := g.Target()
	if err != nil {
		return err
	}
	owner, labels, err := f.who.Read()
	if err == nil {
		err = f.codes.Check()
	}
	if err != nil {
		return err
	}
	command := job.Dashless(args)
	file, err := exec.LookPath(command[0])
	if err != nil {
		return job.CannotRun(command[0], err)
	}
	w := &sharder{
		plan:  hold.Plan{Flags: g, Target: t, Command: cmd.Name(), Name: args[0], Path: path, Who: owner, Labels: labels},
		count: f.count, file: file, command: command, killAfter: f.killAfter, why: f.wait.Why, try: f.wait.Try,
		say: g.Log.NewSayer(os.Stderr), hurry: make(chan struct{}), crew: newCrew(),
	}
	if w.plan.Metrics, err = f.metrics.Open(cmd, shardLabel(path)); err != nil {
		return err
	}
	defer w.plan.Metrics.Close()
	w.plan.Metrics.Expect(path + "/shards/{*}")
	return f.codes.End(w.run())
}

// A sharder is one process of the subcommand shard.
type sharder struct {
	plan      hold.Plan
	count     int
	why       string
	try       bool
	file      string // of the command
	command   []string
	killAfter time.Duration
	grace     time.Duration // from TERM to the end of the lock, if no server answers
	say       *term.Sayer
	heir      *supervise.Supervisor // without a command: its watchdog closes the session if this process dies between two commands
	hurry     chan struct{}         // closed when the commands must be killed
	crew      *crew
	server    *conn.Connection
}

// errTold is the cause of a context that a signal has ended.
var errTold = errors.New("a signal ended the work")

// run implements the subcommand. The command line is checked.
func (w *sharder) run() error {
	defer w.say.Flush()
	w.plan.Metrics.Announce(w.say)
	// If there can be no watchdog, find out before the first shard.
	var err error
	if w.heir, err = supervise.Start(watchdog.IsHost); err != nil {
		return &term.Fault{Code: term.ExitFailed, Err: err}
	}
	signals := make(chan os.Signal, 16)
	supervise.SurviveBrokenPipe()
	supervise.Notify(signals, supervise.StopSignals...)
	host.ForgetStdin()
	ctx, end := context.WithCancelCause(context.Background())
	defer end(nil)
	ended := make(chan error, 1)
	go func() { ended <- w.work(ctx) }()
	var told os.Signal
	var idle <-chan struct{} // after a second signal
	for {
		select {
		case sig := <-signals:
			switch {
			case told == nil:
				told = sig
				w.crew.dismiss()
				end(errTold)
			case idle == nil:
				close(w.hurry)
				idle = w.crew.idle
			}
		case err := <-ended:
			return w.outcome(told, err)
		case <-idle: // do not wait for the server; the shards end with the session
			return w.outcome(told, errTold)
		}
	}
}

// outcome returns the exit code of shard. err is the error of its work, which always ends with one.
func (w *sharder) outcome(told os.Signal, err error) error {
	if told == nil {
		return w.failed(err)
	}
	if !errors.Is(err, errTold) {
		w.say.Line("%s: %v", term.Escape(w.plan.Name), term.Escape(err.Error()))
	}
	if told == syscall.SIGTERM {
		return nil
	}
	return term.EndedBy(told)
}

// failed turns an error of the shards into one with a hint.
func (w *sharder) failed(err error) error {
	if f, ok := errors.AsType[*term.Fault](err); ok {
		return f
	}
	reason := err
	for lock, ok := errors.AsType[*holdfast.Error](reason); ok; lock, ok = errors.AsType[*holdfast.Error](reason) {
		reason = lock.Err
	}
	switch {
	case errors.Is(err, shards.ErrCount):
		return term.Misconfigured("give the same --count as the other processes, or stop all of them before the number changes", "%s: %w", w.plan.Name, reason)
	case errors.Is(err, holdfast.ErrKind):
		return term.Misconfigured("", "%s: %w", w.plan.Name, reason) // the error says what to do
	}
	return w.plan.Target.Explain(err)
}

// work has shards until ctx ends or something fails.
func (w *sharder) work(ctx context.Context) error {
	disinherit := sync.OnceFunc(w.heir.Close)
	defer disinherit()
	var patience time.Duration // for ever
	if w.try {
		patience = w.plan.Flags.Patience()
	}
	c, err := w.plan.Flags.Connect(ctx, w.plan.Target, patience, w.say)
	if err != nil {
		return err
	}
	defer c.Close()
	w.server = c
	w.plan.Metrics.Connected(c.Contact)
	session, err := c.Client.Session(ctx)
	if err == nil {
		err = conn.Granted(w.plan.Flags, session.Timeout())
	}
	if err != nil {
		return err
	}
	if err := hold.LongEnough(session); err != nil {
		return err
	}
	if will := c.Will(session.ID()); will == "" {
		disinherit()
	} else {
		w.heir.Bequeath(will)
	}
	w.grace = job.GraceOf(session.Timeout())
	// A command that the kernel cannot kill keeps its shard, as with run.
	const never = time.Duration(math.MaxInt64)
	set := shards.New(c.Client, w.plan.Path, w.count, shards.WithMoveLimit(never),
		shards.WithLock(holdfast.WithOwner(w.plan.Who), holdfast.WithReason(w.why), holdfast.WithLabels(w.plan.Labels), w.plan.Metrics.Observed()),
		shards.WithLock(hold.OfProcess()...))
	if w.try {
		if err := w.vacant(ctx, set); err != nil {
			return err
		}
	}
	return set.Run(ctx, func(ctx context.Context, s shards.Shard) error { return w.keep(ctx, set.Path(s.Number), s) })
}

// vacant fails if other processes leave no shard for this one.
func (w *sharder) vacant(ctx context.Context, set *shards.Shards) error {
	ctx, stop := context.WithTimeoutCause(ctx, hold.TryPatience*w.plan.Flags.Patience(), hold.ErrUndecided)
	defer stop()
	workers, err := set.Assignment(ctx)
	if err != nil {
		return err
	}
	var present []string
	for _, worker := range workers {
		if worker.Session != 0 && worker.Weight > 0 {
			present = append(present, worker.Owner)
		}
	}
	if len(present) < w.count {
		return nil
	}
	return &term.Fault{Code: term.ExitBusy, Err: fmt.Errorf("%s: every shard has a process: %s", w.plan.Name, term.Cut(strings.Join(present, ", "), 200))}
}

// keep runs the command of a shard until the command has ended with code 0 or ctx ends.
func (w *sharder) keep(ctx context.Context, path string, s shards.Shard) error {
	warn := func(format string, args ...any) {
		w.say.Line("%s: shard %d: %s", term.Escape(w.plan.Name), s.Number, term.Escape(fmt.Sprintf(format, duration.InMessage(args)...)))
	}
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		if ctx.Err() != nil || !w.crew.enter() {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		began := time.Now()
		out, err := w.once(ctx, path, s, warn)
		w.crew.leave()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Since(began) >= mostPause {
			pause = firstPause
		}
		switch {
		case err != nil && neverRuns(err):
			return job.CannotRun(w.command[0], err)
		case err != nil:
			warn("%v; trying again in %v", err, pause)
		case out.Lost:
			warn("the command was stopped, but this process still has the shard; running the command again in %v", pause)
		case out.Code == 0:
			return nil
		default:
			warn("the command ended with code %d; running it again in %v", out.Code, pause)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// neverRuns reports whether the command does not start at a later attempt either. Others may succeed: there was no memory
// for a process, for example, or the file was being replaced.
func neverRuns(err error) bool {
	return slices.ContainsFunc([]error{syscall.ENOENT, syscall.EACCES, syscall.ENOEXEC}, func(e error) bool { return errors.Is(err, e) })
}

// once runs the command of a shard once. It stops the command when ctx ends.
func (w *sharder) once(ctx context.Context, path string, s shards.Shard, warn func(string, ...any)) (supervise.Outcome, error) {
	sup, err := supervise.Start(watchdog.IsHost)
	if err != nil {
		return supervise.Outcome{}, fmt.Errorf("%w: %w", supervise.ErrGuards, err)
	}
	defer sup.Close()
	signals, kill, over := make(chan os.Signal, 2), make(chan struct{}), make(chan struct{})
	defer close(over)
	go w.stop(ctx, s, signals, kill, over, warn)
	plan := w.plan
	plan.Path = path
	will := w.server.Will(s.Hold.SessionID())
	w.heir.Bequeath(will) // the session may be a new one
	return sup.Run(
		supervise.Command{Path: w.file, Args: w.command, Env: job.Environ(append(plan.Environment(s.Hold),
			"HOLDFAST_SHARD="+strconv.Itoa(s.Number),
			"HOLDFAST_SHARDS="+strconv.Itoa(w.count),
		))},
		supervise.Terms{Lost: kill, Deadline: s.Hold.Deadline, Ending: supervise.Ending{Grace: w.grace}, Signals: signals, Background: true, Guard: w.server.Guard(s.Hold.Context()), Will: will, Warn: func(format string, args ...any) {
			if s.Hold.Err() != nil || ctx.Err() == nil { // otherwise stop has said why
				warn(format, args...)
			}
		}},
	)
}

// stop sends TERM when ctx ends, and closes kill after the grace or when the shard is lost. It returns when
// over is closed.
func (w *sharder) stop(ctx context.Context, s shards.Shard, signals chan<- os.Signal, kill, over chan struct{}, warn func(string, ...any)) {
	ended := ctx.Done()
	var late <-chan time.Time
	for {
		select {
		case <-s.Hold.Lost():
			close(kill)
			return
		case <-ended:
			ended = nil
			select {
			case <-s.Hold.Lost(): // that ends ctx, too: no TERM
				continue
			default:
			}
			signals <- syscall.SIGTERM
			resume(signals) // a stopped process would not handle the TERM
			timer := time.NewTimer(w.killAfter)
			defer timer.Stop()
			late = timer.C
			continue
		case <-late:
			warn("the command did not stop within %v; killing it", w.killAfter)
		case <-w.hurry:
			warn("killing the command")
		case <-over:
			return
		}
		close(kill)
		return
	}
}

// A crew counts the commands that run. It is safe for concurrent use.
type crew struct {
	idle chan struct{} // closed when the crew is dismissed and no command runs

	mu        sync.Mutex // guards the fields below
	running   int
	dismissed bool
}

func newCrew() *crew { return &crew{idle: make(chan struct{})} }

// enter reports whether another command may start. If so, the caller calls leave when it has ended.
func (c *crew) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dismissed {
		return false
	}
	c.running++
	return true
}

func (c *crew) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running--; c.running == 0 && c.dismissed {
		close(c.idle)
	}
}

// dismiss refuses further commands. It is called once.
func (c *crew) dismiss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dismissed = true; c.running == 0 {
		close(c.idle)
	}
}

// shardLabel returns the label of the shards at path. They share one, since there can be many.
func shardLabel(path string) func(string) string {
	return func(lock string) string {
		if strings.HasPrefix(lock, path+"/shards/") {
			return path + "/shards/{*}"
		}
		return lock
	}
}

const help = `shard spreads N numbered shards over all processes that call it with the same NAME, and runs the
command once for each shard that this process has. Each shard is a lock with a fencing token, so no two
processes have the same shard at a time. The processes share the shards evenly, to within one. A join or
a leave moves few shards, and counts after a second. All processes must give the same N.

If a shard moves to another process, its command gets TERM, and KILL after --kill-after. The shard is
released only when the command and all processes that it started have ended.

A command that ends with code 0 is done: it does not run again until the shard has moved or was lost and
comes back. A command that ends with another code runs again while this process has the shard, after a
pause of one second. The pause doubles up to a minute. The token stays the same.

If holdfast cannot prove that it still has a shard, it stops the command before another process can have
the shard: TERM five seconds before the lock expires, or a third of the session timeout if that is less,
and KILL 250ms before. The guarantees for a command are those of run: see holdfast run --help. If the
shard is still due to this process afterwards, shard acquires it again.

A signal such as INT (ctrl-C) or TERM stops all commands as above, releases the shards and ends shard. A
second signal kills the commands. The commands read nothing from stdin, and they never get the terminal:
ctrl-Z stops only shard, and the commands end when the session timeout has passed. For each command there
is a watchdog process.

The command's environment has HOLDFAST_SHARD (its number, from 0), HOLDFAST_SHARDS (N), HOLDFAST_LOCK
(NAME), HOLDFAST_TOKEN (the fencing token, a number that grows from holder to holder of the shard),
HOLDFAST_TOKENS (the same), HOLDFAST_SESSION, HOLDFAST_OWNER (the holder's name in ls and status) and
HOLDFAST_SERVER (the server of the locks, which a holdfast in the command uses, too). The locks of the
shards are NAME/shards/0000 and so on, for ls and status.

Of the flags of run, shard has --why, --who, --label, --kill-after, -n and -E. With -n, shard does not join if the
other processes have all shards.

`

const helpEnd = ` All shards
share the value NAME/shards/{*}.

Exit codes:
  0      TERM ended shard
  75     busy: the other processes have all shards (--try); no command ran. -E chooses another code
  125    holdfast failed, other processes have another N, or the command line is wrong
  126    the command cannot be executed
  127    the command was not found
  128+N  signal N, other than TERM, ended shard. After INT (ctrl-C) or QUIT, shard ends by that signal, and so does
         the script or the loop around it`

const examples = `  holdfast shard --count 16 orders -- ./consume
  holdfast shard --count 4 mail -- sh -c './send --part "$HOLDFAST_SHARD"'`
