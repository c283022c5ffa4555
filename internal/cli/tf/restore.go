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

func newRestore(g *conn.Flags) *cobra.Command {
	var stateDir string
	var act act.Flags
	cmd := &cobra.Command{
		Use:   "restore [flags] PROJECT/WORKSPACE VERSION",
		Short: "Make an old version of a state the present one",
		Long: `restore stores an old version of a workspace's state again, with a serial above all others, so that clients take it
for the newest. It takes the lock for that time. Nothing is lost: the version that was present until then
stays in the history. restore does not change what the state describes.

restore asks you to type the name of the workspace. Where standard input is no terminal, it needs --yes. It leaves
an audit line (see holdfast break --help).

Exit codes:
  0   the version is the present one
  1   there is no such version; or not confirmed
  2   wrong command line; or no terminal and no --yes
  69  no server answered
  75  somebody holds the lock
  77  no permission
  78  wrong configuration`,
		Example: `  holdfast tf history network/prod
  holdfast tf restore network/prod 41`,
		Args: term.Operands("project/workspace", "version"),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := parseVersion(args[1])
			if err != nil {
				return err
			}
			return ask(cmd.Context(), g, stateDir, args[0], func(ctx context.Context, c *zk.Client, b *terraform.Backend, ws terraform.Workspace) error {
				if err := act.Confirm(cmd, fmt.Sprintf("restore version %d", number), ws.String()); err != nil {
					return err
				}
				var v terraform.Version
				err := audited(ctx, g, cmd, c, "tf restore", b.LockPath(ws), act.Reason, func() (err error) {
					v, err = b.Restore(ctx, ws, number, conn.Owner())
					return err
				})
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "restored %s version=%d serial=%d\n", ws, v.Number, v.Serial)
				return err
			})
		},
	}
	act.Register(cmd)
	cmd.Flags().StringVar(&stateDir, "state-dir", "", "directory of the states, if the backend has one")
	return cmd
}
