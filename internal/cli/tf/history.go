package tf

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/terraform"
	"holdfast/zk"
)

func newHistory(g *conn.Flags) *cobra.Command {
	return &cobra.Command{
		Use:   "history [flags] PROJECT/WORKSPACE",
		Short: "List the kept versions of a state",
		Long: `history lists the versions of a workspace's state that are kept, the oldest first, and the runs whose state
was not stored. It prints no state.

Exit codes:
  0   there are versions
  1   there are none
  2   wrong command line
  69  no server answered
  77  no permission
  78  wrong configuration`,
		Example: `  holdfast tf history network/prod`,
		Args:    term.Operands("project/workspace"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(cmd.Context(), g, "", args[0], func(ctx context.Context, _ *zk.Client, b *terraform.Backend, ws terraform.Workspace) error {
				versions, err := b.History(ctx, ws)
				if err != nil {
					return err
				}
				unstored, err := b.Unstored(ctx, ws)
				if err != nil {
					return err
				}
				for _, u := range unstored {
					g.Log.Warn(cmd, "the state of run %s by %s was not stored: %s", term.Escape(u.ID), term.Escape(u.Who), term.Escape(u.Why))
				}
				if len(versions) == 0 {
					return &term.Fault{Code: term.ExitNo, Err: fmt.Errorf("%s has no versions", ws)}
				}
				rows := [][]string{{"VERSION", "SERIAL", "BYTES", "AT", "WHO", "NOTE"}}
				for _, v := range versions {
					note := ""
					if v.Current {
						note = "present"
					}
					if v.From > 0 {
						note = fmt.Sprintf("%s (restored from %d)", note, v.From)
					}
					rows = append(rows, []string{
						strconv.FormatInt(v.Number, 10), strconv.FormatInt(v.Serial, 10), strconv.FormatInt(v.Size, 10),
						v.At.UTC().Format(time.RFC3339), term.Escape(v.Who), note,
					})
				}
				return term.Table(cmd.OutOrStdout(), rows)
			})
		},
	}
}
