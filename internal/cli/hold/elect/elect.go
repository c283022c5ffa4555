// Package elect is the command elect: a run whose lock is an election, and a page about it.
package elect

import (
	"context"
	"fmt"
	"os"
	"syscall"

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

// New returns the command elect.
func New(g *conn.Flags) *cobra.Command {
	var wait hold.WaitFlags
	var kind hold.KindFlags
	var ends job.Flags
	var page httpFlag
	var metrics hold.MetricsFlag
	var who who.Flags
	var codes hold.CodeFlags
	var value string
	var observe, once bool
	cmd := &cobra.Command{
		Use:   "elect [flags] NAME [--] COMMAND [ARG...]",
		Short: "Run a command while this process is the leader",
		Long: `elect waits until it is the leader, and runs the command while it leads. Signals and environment are as
with run: see holdfast run --help. --value is the text that observers read, such as the leader's
address. Use it instead of --why and --label: ls and status show it. elect does not wait for the time of run --min-hold.

Of the flags of run, elect has --who, -E, --lost-exit-code and those for the wait, for the layout and for the end of
the command. It has no -q and --status-file, and it runs no job once per period or key.

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

` + hold.MetricsHelp,
		Example: `  holdfast elect --value 10.0.0.5:8080 scheduler -- ./scheduler
  holdfast elect --try scheduler -- ./scheduler      # exit 75 if somebody else leads
  holdfast elect --http 4040 scheduler -- ./scheduler
  holdfast elect --observe scheduler
  holdfast elect --observe --once scheduler`,
		Args: func(cmd *cobra.Command, args []string) error {
			given := func(name string) bool { return cmd.Flags().Changed(name) }
			switch {
			case len(args) == 0:
				return term.Usage("usage: "+cmd.UseLine(), "elect: no name given")
			case observe && len(args) > 1:
				return term.Usage("leave the command out: holdfast elect --observe "+term.Cut(args[0], 80), "elect: --observe runs no command")
			case observe && firstGiven(cmd, candidateFlags...) != "":
				return term.Usage("to print the leader and exit, give --observe --once",
					"elect: --observe does not run for leader, so --%s means nothing", firstGiven(cmd, candidateFlags...))
			case once && !observe:
				return term.Usage("give --observe --once to print the leader and exit", "elect: --once needs --observe")
			case once && given("http"):
				return term.Usage("leave out --once or --http", "elect: --once and --http do not go together")
			case given("http") && page.addr == "":
				return term.Usage("give a port of 127.0.0.1 or host:port, or leave --http out", "elect: --http is empty")
			case observe && given("metrics"):
				return term.Usage("leave out --metrics, or --observe", "elect: --observe takes no lock, so --metrics means nothing")
			case given("why"), given("label"):
				return term.Usage("put the text into --value, which ls and status show, and observers read",
					"elect: an election has no --%s: the node of a candidate has its value alone", firstGiven(cmd, "why", "label"))
			case !observe && len(job.Dashless(args)) == 0:
				return term.Usage("usage: "+cmd.UseLine(), "elect: no command given after the name, %q", term.Cut(args[0], 80))
			}
			return hold.MisplacedFlag(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := hold.NewTaker(g, cmd, &wait, &kind, args[0])
			if err != nil {
				return err
			}
			ending, err := ends.Ending(cmd, g)
			if err != nil {
				return err
			}
			for _, check := range []func() error{func() (err error) { k.Who, k.Labels, err = who.Read(); return err }, codes.Check} {
				if err := check(); err != nil {
					return err
				}
			}
			p, err := page.open(args[0])
			if err != nil {
				return err
			}
			defer p.close()
			if k.Metrics, err = metrics.Open(cmd, nil); err != nil {
				return err
			}
			defer k.Metrics.Close()
			k.Metrics.Expect(k.Path)
			if observe {
				return observer{k, p}.observe(cmd, once)
			}
			if !cmd.Flags().Changed("value") {
				value = k.Who
			}
			k.Campaign = func(c *zk.Client) holdfast.Locker { return candidate{electionOf(k, c, k.Metrics.Observed()), value} }
			k.Steps = p.steps(k, value)
			return codes.End(k.Run(ends.Command(args), ending, syscall.Signal(ends.Signal)))
		},
	}
	wait.RegisterTry(cmd, "another candidate is ahead.")
	term.DurationVar(cmd.Flags(), &wait.Wait, "wait", "w", 0, "wait at most this long to lead, then exit 75; 0 is --try (default: no limit, not even if no server answers)")
	cmd.Flags().StringVar(&wait.Why, "why", "", "") // only to refuse it with a hint
	who.RegisterName(cmd, "name of the candidate: the default of --value, and HOLDFAST_OWNER of the command")
	cmd.Flags().StringArray("label", nil, "") // only to refuse it with a hint
	for _, refused := range []string{"why", "label"} {
		_ = cmd.Flags().MarkHidden(refused)
	}
	codes.RegisterBusy(cmd, "another candidate is ahead or the wait timed out")
	codes.RegisterLost(cmd)
	kind.Layout.Register(cmd)
	ends.Register(cmd)
	page.register(cmd)
	metrics.Register(cmd)
	cmd.Flags().StringVar(&value, "value", "", "value that others read from the leader (default: that of --who)")
	cmd.Flags().BoolVar(&observe, "observe", false, "print the leader and each change; do not run for leader")
	cmd.Flags().BoolVar(&once, "once", false, "with --observe: print the leader and exit, with 1 if nobody leads")
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// candidateFlags are the flags that mean nothing without a candidate.
var candidateFlags = []string{"try", "wait", "who", "busy-exit-code", "lost-exit-code"}

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

// electionOf returns the election of the command line.
func electionOf(k *hold.Taker, c *zk.Client, opts ...holdfast.Option) *holdfast.Election {
	return holdfast.NewElection(c, k.Path, append(opts, holdfast.WithLayout(k.Kind.Layout.Layout))...)
}

// steps keep the page about a candidate with the value up to date.
func (p *page) steps(k *hold.Taker, value string) hold.Steps {
	return hold.Steps{
		OnBegin:   p.announce,
		OnConnect: func(c *conn.Connection) { p.follow(c, electionOf(k, c.Client)) },
		OnHold:    func(h *holdfast.Hold, ends supervise.Ending) { p.lead(h, value, ends.Grace) },
		OnStop:    p.resign,
	}
}

// An observer prints the leaders of an election, and shows them on a page if there is one.
type observer struct {
	*hold.Taker
	page *page
}

// observe prints each leader until a signal ends it or no server answers any more. With --http it waits for
// a server, and the page says that it has none. With once it prints the current leader only.
func (k observer) observe(cmd *cobra.Command, once bool) error {
	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	say := k.Log.NewSayer(os.Stderr)
	defer say.Flush()
	k.page.announce(say)
	patience := k.Timeout
	if k.page != nil {
		patience = 0
	}
	c, err := k.Connect(ctx, k.Target, patience, say)
	if err != nil {
		return err
	}
	defer c.Close()
	k.page.follow(c, electionOf(k.Taker, c.Client))
	if k.page == nil {
		go c.Watch(ctx, k.Timeout, cancel)
	}
	return k.print(ctx, cmd, c.Client, once)
}

func (k observer) print(ctx context.Context, cmd *cobra.Command, c *zk.Client, once bool) error {
	for l, err := range electionOf(k.Taker, c).Leaders(ctx) {
		if err != nil {
			return k.Target.Explain(err)
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
