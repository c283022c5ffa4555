package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/zk"
)

func newElect(g *globals) *cobra.Command {
	var kind kindFlags
	var ends endFlags
	var value string
	var observe bool
	cmd := &cobra.Command{
		Use:   "elect [flags] NAME [--] COMMAND [ARG...]",
		Short: "Run a command while this process is the leader",
		Long: `elect waits until it is the leader, and runs the command while it leads. Exit codes, signals and
environment are as with run: see holdfast run --help. --value is the value that others read from
the leader, such as an address.

With --observe, elect does not run for leader. It prints one line for the current leader, and one
whenever the leader or its value changes: "leader TERM VALUE" or "no leader". TERM grows from leader
to leader, and is HOLDFAST_TOKEN of the leader's command.`,
		Example: `  holdfast elect --value 10.0.0.5:8080 scheduler -- ./scheduler
  holdfast elect --observe scheduler`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usage("usage: "+cmd.UseLine(), "elect: no name given")
			case observe && len(args) > 1:
				return usage("leave the command out: holdfast elect --observe "+args[0], "elect: --observe runs no command")
			case !observe && len(dashless(args)) == 0:
				return usage("usage: "+cmd.UseLine(), "elect: no command given after the name, %q", args[0])
			}
			return misplacedFlag(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := g.newTaker(cmd, &waitFlags{}, &kind, args[0])
			if err != nil {
				return err
			}
			if observe {
				return k.observe(cmd)
			}
			ending, err := ends.ending(cmd, g)
			if err != nil {
				return err
			}
			k.campaign, k.value = true, value
			if !cmd.Flags().Changed("value") {
				k.value = owner()
			}
			return k.run(ends.command(args), ending)
		},
	}
	kind.layout.register(cmd)
	ends.register(cmd)
	cmd.Flags().StringVar(&value, "value", "", "value that others read from the leader (default: user@host:pid)")
	cmd.Flags().BoolVar(&observe, "observe", false, "print the leader and each change; do not run for leader")
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// observe prints each leader until a signal ends it or no server answers any more.
func (k *taker) observe(cmd *cobra.Command) error {
	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	say := k.newSayer(os.Stderr)
	defer say.flush()
	c, err := k.connect(ctx, k.target, k.timeout, say)
	if err != nil {
		return err
	}
	defer c.close()
	go c.watch(ctx, k.timeout, cancel)
	return printLeaders(ctx, cmd, c.client, k)
}

func printLeaders(ctx context.Context, cmd *cobra.Command, c *zk.Client, k *taker) error {
	for l, err := range holdfast.NewElection(c, k.path, holdfast.WithLayout(k.kind.layout.Layout)).Leaders(ctx) {
		if err != nil {
			return k.target.unreachable(err)
		}
		line := "no leader"
		if l.Term != 0 {
			line = fmt.Sprintf("leader %d %s", l.Term, escape(string(l.Value)))
		}
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), line); err != nil {
			return fmt.Errorf("elect: %w", err)
		}
	}
	return nil
}
