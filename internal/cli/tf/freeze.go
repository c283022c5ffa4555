package tf

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/terraform"
	"holdfast/zk"
)

func newFreeze(g *conn.Flags) *cobra.Command {
	var end bool
	cmd := &cobra.Command{
		Use:   "freeze [flags] PROJECT/WORKSPACE [REASON]",
		Short: "Let nobody lock a workspace or a project, or end that",
		Long: `freeze refuses the lock of a workspace from now on, or of all workspaces of a project if you give no workspace. The
clients show REASON. A run that holds the lock can finish and store its state. Plans without a lock
(-lock=false) and reads go on.

--end ends it. Both leave an audit line (see holdfast break --help).

Exit codes:
  0   it is frozen; with --end, it is not frozen any more
  1   with --end: it was not frozen
  2   wrong command line
  69  no server answered
  77  no permission
  78  wrong configuration`,
		Example: `  holdfast tf freeze network "release 9"
  holdfast tf freeze --end network`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := term.Operands("project/workspace", "[reason]")(cmd, args); err != nil {
				return err
			}
			switch {
			case end && len(args) == 2:
				return term.Usage("leave out the reason", "freeze: --end takes no reason")
			case !end && (len(args) < 2 || strings.TrimSpace(args[1]) == ""):
				return term.Usage("say why: holdfast tf freeze "+term.Cut(args[0], 80)+` "release 9"`, "freeze: no reason given")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(cmd.Context(), g, "", args[0], func(ctx context.Context, c *zk.Client, b *terraform.Backend, ws terraform.Workspace) error {
				if !strings.Contains(args[0], "/") {
					ws.Name = ""
				}
				path := strings.TrimSuffix("/tf/"+ws.String(), "/")
				if end {
					return thaw(ctx, g, cmd, c, b, ws, args[0], path)
				}
				f := terraform.Freeze{Reason: args[1], By: conn.Owner(), At: time.Now().UTC().Truncate(time.Second)}
				err := audited(ctx, g, cmd, c, "tf freeze", path, args[1], func() error { return b.Freeze(ctx, ws, f) })
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "frozen %s\n", args[0])
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&end, "end", false, "end the freeze")
	return cmd
}

// thaw ends a freeze. name is as the user has typed it.
func thaw(ctx context.Context, g *conn.Flags, cmd *cobra.Command, c *zk.Client, b *terraform.Backend, ws terraform.Workspace, name, path string) error {
	was := false
	err := audited(ctx, g, cmd, c, "tf freeze --end", path, "", func() (err error) {
		was, err = b.Thaw(ctx, ws)
		return err
	})
	switch {
	case err != nil:
		return err
	case !was:
		return &term.Fault{Code: term.ExitNo, Err: fmt.Errorf("%s is not frozen", name)}
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "thawed %s\n", name)
	return err
}
