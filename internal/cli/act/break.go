package act

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/kind"
	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
	"holdfast/internal/deed"
	"holdfast/internal/locks"
	"holdfast/zk"
)

// NewBreak returns the command break.
func NewBreak(g *conn.Flags) *cobra.Command {
	return newAction(g, deed.Breaking, &cobra.Command{
		Use:        "break [flags] LOCK",
		SuggestFor: []string{"kill"},
		Short:      "Take a lock away from its holder, or let a job run again",
		Long: `break removes the holder with the given token from the lock, or a waiter from its queue. If the holder has
changed since you looked, break does nothing.

break shows the holder, the clients that wait and the next one, and asks you to type the lock's name. Where
standard input is no terminal, it needs --yes.

The holder is told that it has lost the lock: holdfast run kills its command. But the next client acquires the lock
at once, perhaps while the command still runs. So break a lock only if its holder is stuck, and let the guarded
resource check tokens. A waiter that was removed queues again, at the back, if its program still runs.

break also ends the time of run --min-hold, if the holder with the token has given it. The holder itself may have
ended: holdfast status shows the token. The next waiter acquires the lock within 2 seconds.

With --once-per or --once-key, break removes the record of a job instead: that of the last run --once-per, or of the
run with that key. Then the job can run again. It needs no --token, and does not touch the lock.

break, revoke, unlock --force and sessions end leave an audit line: on stderr, and in the node
/holdfast/audit of the server, which keeps the last 500 lines. A client that may write that node can
change them.

Exit codes:
  0   the lock is broken, or the record is removed
  1   nobody holds the lock; or there is no such record; or not confirmed
  2   wrong command line; or no terminal and no --yes
  69  no server answered
  75  somebody else holds the lock now; or another run is recorded now
  77  no permission
  78  wrong configuration`,
		Example: `  holdfast status db/migrate                  # shows the token
  holdfast break --token 4294967311 --reason "host is gone" db/migrate
  holdfast break --token 4294967311 --yes db/migrate
  holdfast break --once-key 2026-11-23 daily  # the job of that date can run again`,
	})
}

// NewRevoke returns the command revoke.
func NewRevoke(g *conn.Flags) *cobra.Command {
	return newAction(g, deed.Revoking, &cobra.Command{
		Use:   "revoke [flags] LOCK",
		Short: "Ask the holder of a lock to release it",
		Long: `revoke asks the holder with the given token, or a waiter, to release the lock. It returns once the request is
written, and does not wait for the release. If the holder has changed since you looked, revoke does nothing.

A program that uses holdfast's Go package sees the request as Hold.Revoked, and a program that uses Curator if its
lock is revocable. holdfast elect stops its command, and the next candidate leads. All others ignore it: so do holdfast
run and lock, and there is no process that could see it for a detached lock. To end a detached lock, see holdfast unlock.

With --to, the leader of an election hands over to the candidate with that token, and candidates in between step behind it.
The new leader leads until it resigns, whoever is preferred (elect --prefer). The former one stops its command when the
new one is next in line and has answered. If the new one leaves before that, nothing happens. The leader, the candidate and
those in between must be of holdfast elect, or of programs with WithPreference.

revoke shows the holder, the clients that wait and the next one, and asks you to type the lock's name. Where
standard input is no terminal, it needs --yes. It leaves an audit line (see holdfast break --help).

Exit codes:
  0   the request is written
  1   nobody holds the lock; or the candidate of --to cannot lead next; or not confirmed
  2   wrong command line; or no terminal and no --yes
  69  no server answered
  75  somebody else holds the lock now
  77  no permission
  78  wrong configuration`,
		Example: `  holdfast status db/migrate                  # shows the token
  holdfast revoke --token 4294967311 --reason "maintenance at 12:00" db/migrate
  holdfast revoke --to 4294967342 scheduler   # that candidate leads next`,
	})
}

// newAction adds to cmd what break and revoke have in common.
func newAction(g *conn.Flags, a deed.Action, cmd *cobra.Command) *cobra.Command {
	var token, to string
	var act Flags
	var layout kind.Layout
	var forget forgetFlags
	cmd.Args = term.Operands("lock")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, err := g.LockPath(args[0])
		if err != nil {
			return err
		}
		if used, err := forget.used(cmd); err != nil {
			return err
		} else if used {
			return g.Ask(cmd.Context(), func(ctx context.Context, c *zk.Client) error {
				return forgetRun(ctx, g, cmd, c, forget, act, args[0], path, layout.Layout)
			})
		}
		var n, next int64
		if cmd.Flags().Changed("to") {
			if next, err = parseToken(a.Name, "to", to, args[0]); err != nil {
				return err
			}
		}
		if next == 0 || cmd.Flags().Changed("token") {
			if n, err = parseToken(a.Name, "token", token, args[0]); err != nil {
				return err
			}
		}
		return g.Ask(cmd.Context(), func(ctx context.Context, c *zk.Client) error {
			p, err := look(ctx, c, a, path, layout.Asked(), n, next)
			if err != nil {
				return Changed(args[0], err)
			}
			return perform(ctx, g, cmd, c, p, act, args[0])
		})
	}
	cmd.Flags().StringVar(&token, "token", "", "token of the holder, as holdfast status shows it")
	act.Register(cmd)
	layout.Register(cmd)
	if a.Ends {
		forget.register(cmd)
	} else {
		cmd.Flags().StringVar(&to, "to", "", "of an election: token of the candidate that is to lead next, as holdfast status shows it. Needs no --token")
	}
	return cmd
}

// parseToken reads a flag such as --token.
func parseToken(command, flag, text, name string) (int64, error) {
	hint := "holdfast status " + term.Cut(name, 80) + " shows the tokens"
	if text == "" {
		return 0, term.Usage(hint, "%s: no --%s given", command, flag)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		return 0, term.Usage(hint, "--%s %q is no token: want a number above 0", flag, term.Cut(text, 40))
	}
	return n, nil
}

// look returns the plan to do a to the holder with the token, or to ask the leader to hand over to the candidate with the
// token next. Without next, it is 0; with next, token can be 0.
func look(ctx context.Context, c *zk.Client, a deed.Action, path string, layout *locks.Layout, token, next int64) (*deed.Plan, error) {
	if next != 0 {
		return deed.LookHandover(ctx, c, path, layout, token, next)
	}
	return deed.Look(ctx, c, a, path, layout, token)
}

// perform shows what the plan does to whom, asks, and does it.
func perform(ctx context.Context, g *conn.Flags, cmd *cobra.Command, c *zk.Client, p *deed.Plan, f Flags, name string) error {
	if len(p.Places) > 0 {
		ShowQueue(cmd.ErrOrStderr(), name, p, time.Now())
		fmt.Fprintln(cmd.ErrOrStderr(), term.Escape(p.Action.Does))
	}
	if p.Reserved != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s, token %d\nIt ends this time. The next client acquires the lock within 2 seconds.\n",
			term.Escape(name), term.Escape(show.Reservation(p.Reserved)), p.Token)
	}
	if err := f.Confirm(cmd, cmd.Name()+" it", name); err != nil {
		return err
	}
	if err := CarryOut(ctx, g, cmd, c, p, name, f.Reason); err != nil {
		return err
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s token=%d\n", p.Action.Done, term.Escape(name), p.Token)
	return err
}
