// Package elect is the command elect: a run whose lock is an election, and a page about it.
package elect

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/hold"
	"holdfast/internal/cli/job"
	"holdfast/internal/cli/term"
	"holdfast/internal/cli/who"
	"holdfast/internal/supervise"
	"holdfast/zk"
)

// flags are those of elect.
type flags struct {
	wait          hold.WaitFlags
	kind          hold.KindFlags
	ends          job.Flags
	page          httpFlag
	metrics       hold.MetricsFlag
	who           who.Flags
	codes         hold.CodeFlags
	value         string
	observe, once bool
	prefer        int
	failback      time.Duration
}

// New returns the command elect.
func New(g *conn.Flags) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:     "elect [flags] NAME [--] COMMAND [ARG...]",
		Short:   "Run a command while this process is the leader",
		Long:    help + hold.MetricsHelp,
		Example: examples,
		Args:    func(cmd *cobra.Command, args []string) error { return f.check(cmd, args) },
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(g, cmd, args) },
	}
	f.register(cmd)
	return cmd
}

func (f *flags) register(cmd *cobra.Command) {
	f.wait.RegisterTry(cmd, "another candidate is ahead.")
	term.DurationVar(cmd.Flags(), &f.wait.Wait, "wait", "w", 0, "wait at most this long to lead, then exit 75; 0 is --try (default: no limit, not even if no server answers)")
	cmd.Flags().StringVar(&f.wait.Why, "why", "", "") // only to refuse it with a hint
	f.who.RegisterName(cmd, "name of the candidate: the default of --value, and HOLDFAST_OWNER of the command")
	cmd.Flags().StringArray("label", nil, "") // only to refuse it with a hint
	cmd.Flags().String("on-deadlock", "", "") // the same
	for _, refused := range []string{"why", "label", "on-deadlock"} {
		_ = cmd.Flags().MarkHidden(refused)
	}
	f.codes.RegisterBusy(cmd, "another candidate is ahead or the wait timed out")
	f.codes.RegisterLost(cmd)
	f.kind.Layout.Register(cmd)
	f.ends.Register(cmd)
	f.page.register(cmd)
	f.metrics.Register(cmd)
	cmd.Flags().StringVar(&f.value, "value", "", "value that others read from the leader (default: that of --who)")
	cmd.Flags().IntVar(&f.prefer, "prefer", 0, "lead before candidates with a smaller number")
	term.DurationVar(cmd.Flags(), &f.failback, "failback-after", "", defaultFailback, "hand over to a preferred candidate when it has been in line for this long; give all candidates the same")
	cmd.Flags().BoolVar(&f.observe, "observe", false, "print the leader and each change; do not run for leader")
	cmd.Flags().BoolVar(&f.once, "once", false, "with --observe: print the leader and exit, with 1 if nobody leads")
	cmd.Flags().SetInterspersed(false)
}

// mostPreferred is the largest preference.
const mostPreferred = 1_000_000

// defaultFailback is the default of --failback-after: a candidate that restarts again and again does not move the leader.
const defaultFailback = 10 * time.Second

// check refuses flags that do not go together.
func (f *flags) check(cmd *cobra.Command, args []string) error {
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	switch {
	case len(args) == 0:
		return term.Usage("usage: "+cmd.UseLine(), "elect: no name given")
	case f.observe && len(args) > 1:
		return term.Usage("leave the command out: holdfast elect --observe "+term.Cut(args[0], 80), "elect: --observe runs no command")
	case f.observe && firstGiven(cmd, candidateFlags...) != "":
		return term.Usage("to print the leader and exit, give --observe --once",
			"elect: --observe does not run for leader, so --%s means nothing", firstGiven(cmd, candidateFlags...))
	case f.prefer < 0 || f.prefer > mostPreferred:
		return term.Usage("give a larger number to the candidates that are preferred, and none to the others", "elect: --prefer %d: want 0 to %d", f.prefer, mostPreferred)
	case f.failback < 0:
		return term.Usage("give a time such as 30s, or 0 to hand over at once", "elect: --failback-after %v is negative", f.failback)
	case f.once && !f.observe:
		return term.Usage("give --observe --once to print the leader and exit", "elect: --once needs --observe")
	case f.once && given("http"):
		return term.Usage("leave out --once or --http", "elect: --once and --http do not go together")
	case given("http") && f.page.addr == "":
		return term.Usage("give a port of 127.0.0.1 or host:port, or leave --http out", "elect: --http is empty")
	case f.observe && given("metrics"):
		return term.Usage("leave out --metrics, or --observe", "elect: --observe takes no lock, so --metrics means nothing")
	case given("why"), given("label"):
		return term.Usage("put the text into --value, which ls and status show, and observers read",
			"elect: an election has no --%s: the node of a candidate has its value alone", firstGiven(cmd, "why", "label"))
	case given("on-deadlock"):
		return term.Usage("hold no lock around elect: let the command acquire it, with holdfast run --on-deadlock fail",
			"elect: a candidate has no --on-deadlock: it waits as long as others lead, and its node does not say what its process holds")
	case !f.observe && len(job.Dashless(args)) == 0:
		return term.Usage("usage: "+cmd.UseLine(), "elect: no command given after the name, %q", term.Cut(args[0], 80))
	}
	return hold.MisplacedFlag(cmd, args)
}

// run is the command. Its flags are checked by check.
func (f *flags) run(g *conn.Flags, cmd *cobra.Command, args []string) error {
	plan, err := hold.NewPlan(g, cmd, &f.wait, &f.kind, args[0])
	if err != nil {
		return err
	}
	ending, err := f.ends.Ending(cmd, g)
	if err != nil {
		return err
	}
	if plan.Who, plan.Labels, err = f.who.Read(); err != nil {
		return err
	}
	if err := f.codes.Check(); err != nil {
		return err
	}
	p, err := f.page.open(args[0])
	if err != nil {
		return err
	}
	defer p.close()
	if plan.Metrics, err = f.metrics.Open(cmd, nil); err != nil {
		return err
	}
	defer plan.Metrics.Close()
	plan.Metrics.Expect(plan.Path)
	e := election{plan, holdfast.WithLayout(f.kind.Layout.Layout), p}
	if f.observe {
		return e.observe(cmd, f.once)
	}
	value := f.value
	if !cmd.Flags().Changed("value") {
		value = plan.Who
	}
	prefer := holdfast.WithPreference(f.prefer, f.failback)
	plan.Locker = func(c *zk.Client) holdfast.Locker {
		return candidate{e.on(c, append(hold.OfProcess(), plan.Metrics.Observed(), prefer)...), value}
	}
	r := hold.Runner{Plan: plan, Command: f.ends.Command(args), Ending: ending, Stop: syscall.Signal(f.ends.Signal), Steps: e.steps(value), HandsOver: true}
	return f.codes.End(r.Run())
}

// candidateFlags are the flags that mean nothing without a candidate.
var candidateFlags = []string{"try", "wait", "who", "prefer", "failback-after", "busy-exit-code", "lost-exit-code"}

// firstGiven returns the first of the flags that the command line has, or "".
func firstGiven(cmd *cobra.Command, names ...string) string {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

// candidate is a Locker for the campaign of an election.
type candidate struct {
	*holdfast.Election
	value string
}

func (c candidate) Lock(ctx context.Context) (*holdfast.Hold, error) {
	return c.Campaign(ctx, []byte(c.value))
}

func (c candidate) TryLock(ctx context.Context) (*holdfast.Hold, error) {
	return c.TryCampaign(ctx, []byte(c.value))
}

// An election is that of the command line, with the page about it, if there is one.
type election struct {
	plan   *hold.Plan
	layout holdfast.Option
	page   *page
}

// on returns the election on a server.
func (e election) on(c *zk.Client, opts ...holdfast.Option) *holdfast.Election {
	return holdfast.NewElection(c, e.plan.Path, append(opts, e.layout)...)
}

// steps keep the page about a candidate with the value up to date.
func (e election) steps(value string) hold.Steps {
	return hold.Steps{
		OnBegin:   e.page.announce,
		OnConnect: func(c *conn.Connection) { e.page.follow(c, e.on(c.Client)) },
		OnHold:    func(h *holdfast.Hold, ends supervise.Ending) { e.page.lead(h, value, ends.Grace) },
		OnStop:    e.page.resign,
	}
}

// observe prints each leader until a signal ends it or no server answers any more. With --http it waits for
// a server, and the page says that it has none. With once it prints the current leader only.
func (e election) observe(cmd *cobra.Command, once bool) error {
	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	say := e.plan.Flags.Log.NewSayer(os.Stderr)
	defer say.Flush()
	e.page.announce(say)
	patience := e.plan.Flags.Patience()
	if e.page != nil {
		patience = 0
	}
	c, err := conn.Reading(e.plan.Flags).Connect(ctx, e.plan.Target, patience, say)
	if err != nil {
		return err
	}
	defer c.Close()
	e.page.follow(c, e.on(c.Client))
	if e.page == nil {
		go c.Watch(ctx, e.plan.Flags.Patience(), cancel)
	}
	return e.print(ctx, cmd, c.Client, once)
}

func (e election) print(ctx context.Context, cmd *cobra.Command, c *zk.Client, once bool) error {
	for l, err := range e.on(c).Leaders(ctx) {
		if err != nil {
			return e.plan.Target.Explain(err)
		}
		line := "no leader"
		if l.Term != 0 {
			line = fmt.Sprintf("leader %d %s", l.Term, term.Escape(string(l.Value)))
		}
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), line); err != nil {
			return fmt.Errorf("elect: %w", err)
		}
		switch {
		case once && l.Term == 0:
			return term.ExitCode(term.ExitNo)
		case once:
			return nil
		}
	}
	return nil
}

const help = `elect waits until it is the leader, and runs the command while it leads. Signals and environment are as
with run: see holdfast run --help. --value is the text that observers read, such as the leader's
address. Use it instead of --why and --label: ls and status show it. elect does not wait for the time of run --min-hold.

Of the flags of run, elect has --who, -E, --lost-exit-code and those for the wait, for the layout and for the end of
the command. It has no -q and --status-file, and it runs no job once per period or key. It has no --on-deadlock: a candidate
waits as long as others lead. So hold no lock around elect: let the command acquire it, with holdfast run --on-deadlock fail.

With --prefer N, a candidate leads before those with a smaller number; without it, N is 0. If a less preferred candidate
leads, it hands over when the preferred one has been in line for the time of --failback-after. The leader's setting counts,
so give all candidates the same. A handover stops the command as a TERM does (--kill-signal, --kill-after), and then elect
waits to lead again. With --try or --wait, it exits with the command's own code instead. So a candidate that comes and goes
does not move the leader. The leader resigns only when the next candidate has just answered. A candidate of another library
has the number 0. It neither hands over nor lets a preferred one pass. holdfast revoke asks a leader to hand over to the next
in line, and with --to to a candidate that you name.

With --observe, elect does not run for leader. It prints one line for the current leader, and one
whenever the leader or its value changes: "leader TERM VALUE" or "no leader". TERM grows from leader
to leader, and is HOLDFAST_TOKEN of the leader's command. With --once it prints the current leader and
exits.

Exit codes:
  the command's own, or 128+N if signal N killed it
  75   busy: somebody else leads or is ahead (--try), or the wait timed out (--wait); the command did not run.
       -E chooses another code
  79   the lock was lost while the command ran, whatever the command's own code. --lost-exit-code chooses another
       code
  124  the command was stopped after --max-hold, whatever its own code
  125  holdfast failed, no server answered (--try, --wait), or the command line or the configuration is wrong;
       the command did not run
  126  the command cannot be executed
  127  the command was not found
  128+N  signal N arrived during the wait; the command did not run

Exit codes with --observe --once:
  0    there is a leader
  1    nobody leads
  125  no server answered, or the command line is wrong

With --http ADDRESS, elect answers HTTP requests while it waits, leads or observes. A port alone, such
as 4040, is a port of 127.0.0.1. Name a host to answer other machines: 0.0.0.0:4040.
  GET /leader   200 if this process leads, else 503. It is for the probes of load balancers and of
                Kubernetes
  GET /         the leader: {"name": VALUE, "token": TERM, "is_leader": …, "connected": …, "as_of_ms": …}
  GET /events   the same as server-sent events, one for each change

The answers come from this process alone. /leader never says 200 after the lock has expired. It says 503
while there is no connection to a server, and 200 again if the connection returns in time. It says 503 for
good when the command is asked to stop: without contact (--term-before), after --max-hold, or by a signal
to holdfast. A HUP counts only with --kill-after. / says 503 while there is no connection.
as_of_ms is the age of the answer: the milliseconds since a server last confirmed the session.
name is empty if nobody leads or the leader is not known.

`

const examples = `  holdfast elect --value 10.0.0.5:8080 scheduler -- ./scheduler
  holdfast elect --try scheduler -- ./scheduler      # exit 75 if somebody else leads
  holdfast elect --prefer 1 scheduler -- ./scheduler # leads when it is there
  holdfast elect --http 4040 scheduler -- ./scheduler
  holdfast elect --observe scheduler
  holdfast elect --observe --once scheduler`
