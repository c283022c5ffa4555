package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/act"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/kind"
	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
	"holdfast/internal/deed"
	"holdfast/internal/locks"
	"holdfast/zk"
)

// NewUnlock returns the command unlock.
func NewUnlock(g *conn.Flags) *cobra.Command {
	var id, reason string
	var force bool
	var layout kind.Layout
	cmd := &cobra.Command{
		Use:        "unlock [flags] LOCK",
		SuggestFor: []string{"release"},
		Short:      "Release a detached lock",
		Long: `unlock releases a lock that holdfast lock --detached has acquired. --id is the id that lock printed.
holdfast status LOCK shows it, too.

--force releases a detached lock whatever its id, and leaves an audit line (see holdfast break --help).
It does not touch a lock that a process holds: for that, see holdfast revoke and holdfast break.

Exit codes:
  0   the lock is released
  1   nobody holds the lock
  2   wrong command line
  69  no server answered
  75  the lock is held with another id, or by a process
  77  no permission
  78  wrong configuration`,
		Example: `  claim=$(holdfast lock --detached --expires 2h --why "release 42" deploy) || exit
  eval "$claim"                                    # sets id, token and expires
  trap 'holdfast unlock --id "$id" deploy' EXIT    # also if deploy.sh fails
  trap 'exit 1' HUP INT TERM
  ./deploy.sh`,
		Args: term.Operands("lock"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := g.LockPath(args[0])
			switch {
			case err != nil:
				return err
			case id == "" && !force:
				return term.Usage("give the id that lock --detached printed; holdfast status shows it, too", "unlock: no --id given")
			case id != "" && force:
				return term.Usage("leave out --id to release the lock whatever its id", "--id and --force do not go together")
			case reason != "" && !force:
				return term.Usage("", "--reason needs --force")
			}
			return g.Ask(cmd.Context(), func(ctx context.Context, c *zk.Client) error {
				if force {
					err = unlockForced(ctx, g, cmd, c, args[0], path, reason, layout.Asked())
				} else {
					err = notHeld(args[0], holdfast.NewDetached(c, path, 0, holdfast.WithLayout(layout.Layout)).Unlock(ctx, id))
				}
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "released %s\n", term.Escape(args[0]))
				return err
			})
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "id of the lock, as lock --detached printed it")
	cmd.Flags().BoolVar(&force, "force", false, "release a detached lock whatever its id")
	cmd.Flags().StringVar(&reason, "reason", "", "with --force: reason, for the audit line")
	layout.Register(cmd)
	return cmd
}

// notHeld gives an error of Unlock or Break its exit code: 1 if nobody holds the lock, 75 if somebody else does.
func notHeld(name string, err error) error {
	switch {
	case errors.Is(err, holdfast.ErrLocked):
		return &term.Fault{Code: term.ExitBusy, Err: fmt.Errorf("%s is not held with this id, but by somebody else", term.Cut(name, 80)), Hint: "holdfast status shows the holder, and the id of a detached lock"}
	case errors.Is(err, holdfast.ErrNotHeld):
		return &term.Fault{Code: term.ExitNo, Err: fmt.Errorf("%s is not held", term.Cut(name, 80))}
	case errors.Is(err, holdfast.ErrLayout):
		return term.Usage("", "%w", err)
	}
	return err
}

// unlockForced releases a detached lock whatever its id.
func unlockForced(ctx context.Context, g *conn.Flags, cmd *cobra.Command, c *zk.Client, name, path, reason string, layout *locks.Layout) error {
	spot, err := locks.At(ctx, c, path)
	if err != nil {
		return err
	}
	l := spot.Lock(layout, time.Now())
	queue := l.Queue
	switch {
	case l.Unreadable:
		return fmt.Errorf("%w: the lock %s", zk.ErrNoAuth, path)
	case len(queue) == 0:
		return &term.Fault{Code: term.ExitNo, Err: fmt.Errorf("%s is not held", term.Cut(name, 80))}
	case !queue[0].Detached:
		return &term.Fault{Code: term.ExitBusy, Err: fmt.Errorf("%s is not detached, but held by %s", term.Cut(name, 80), show.Holder(queue[0].Entry, time.Now())),
			Hint: "holdfast revoke asks the holder to release it; holdfast break takes it away"}
	}
	return act.Audited(ctx, g, cmd, c, deed.Entry{Action: "unlock --force"}.Of(path, queue[0].Entry), reason, func() error {
		return notHeld(name, holdfast.Break(ctx, c, l.Dirs[0], queue[0].Token))
	})
}
