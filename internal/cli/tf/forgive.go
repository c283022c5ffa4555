package tf

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/act"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/terraform"
	"holdfast/zk"
)

func newForgive(g *conn.Flags) *cobra.Command {
	var act act.Flags
	cmd := &cobra.Command{
		Use:   "forgive [flags] PROJECT/WORKSPACE",
		Short: "Let others lock a workspace although a state was not stored",
		Long: `forgive gives up the state of a run that was refused or not stored. The next run plans on the stored state, and
what the earlier run has created may be unknown to it. So push the state instead if you can:
tofu state push errored.tfstate, or terraform state push errored.tfstate.

forgive asks you to type the name of the workspace. Where standard input is no terminal, it needs --yes. It leaves an
audit line (see holdfast break --help).

Exit codes:
  0   others can lock the workspace
  1   there was nothing to forgive; or not confirmed
  2   wrong command line; or no terminal and no --yes
  69  no server answered
  77  no permission
  78  wrong configuration`,
		Example: `  holdfast tf forgive --reason "nothing was created" network/prod`,
		Args:    term.Operands("project/workspace"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(cmd.Context(), g, "", args[0], func(ctx context.Context, c *zk.Client, b *terraform.Backend, ws terraform.Workspace) error {
				all, err := b.Unstored(ctx, ws)
				switch {
				case err != nil:
					return err
				case len(all) == 0:
					return &term.Fault{Code: term.ExitNo, Err: fmt.Errorf("%s: every run has stored its state", ws)}
				}
				for _, u := range all {
					fmt.Fprintf(cmd.ErrOrStderr(), "%s: the state of run %s by %s was not stored: %s\n", ws, term.Escape(u.ID), term.Escape(u.Who), term.Escape(u.Why))
				}
				if err := act.Confirm(cmd, "give it up", ws.String()); err != nil {
					return err
				}
				err = audited(ctx, g, cmd, c, "tf forgive", b.LockPath(ws), act.Reason, func() error {
					_, err := b.Forgive(ctx, ws)
					return err
				})
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "forgave %s runs=%d\n", ws, len(all))
				return err
			})
		},
	}
	act.Register(cmd)
	return cmd
}
