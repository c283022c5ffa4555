package tf

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/terraform"
	"holdfast/zk"
)

func newShow(g *conn.Flags) *cobra.Command {
	var stateDir, out string
	cmd := &cobra.Command{
		Use:   "show [flags] PROJECT/WORKSPACE [VERSION]",
		Short: "Describe one version of a state, or write it to a file",
		Long: `show describes the present version of a workspace's state, or the one with the number VERSION. It prints no
state, since states hold secrets. --out writes the state to a new file that only you can read; --out - prints it.

Exit codes:
  0   there is such a version
  1   there is none
  2   wrong command line
  69  no server answered
  77  no permission
  78  wrong configuration`,
		Example: `  holdfast tf show network/prod
  holdfast tf show --out old.tfstate network/prod 41`,
		Args: term.Operands("project/workspace", "[version]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			number := int64(0)
			if len(args) == 2 {
				n, err := parseVersion(args[1])
				if err != nil {
					return err
				}
				number = n
			}
			return ask(cmd.Context(), g, stateDir, args[0], func(ctx context.Context, _ *zk.Client, b *terraform.Backend, ws terraform.Workspace) error {
				state, v, err := b.Read(ctx, ws, number)
				if err != nil {
					return err
				}
				switch out {
				case "":
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s version %d serial=%d lineage=%s bytes=%d md5=%s\n", ws, v.Number, v.Serial, term.Escape(v.Lineage), v.Size, v.MD5)
				case "-":
					_, err = cmd.OutOrStdout().Write(state)
				default:
					err = writeNew(out, state)
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "new file for the state; - is standard output")
	cmd.Flags().StringVar(&stateDir, "state-dir", "", "directory of the states, if the backend has one")
	return cmd
}

func parseVersion(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, term.Usage("holdfast tf history lists the versions", "tf: %q is no version: want a number above 0", term.Cut(text, 40))
	}
	return n, nil
}

// writeNew writes a file that did not exist, for this user alone.
func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(filepath.Clean(path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return &term.Fault{Code: term.ExitNo, Err: fmt.Errorf("--out: %w", err)}
	}
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return &term.Fault{Code: term.ExitNo, Err: fmt.Errorf("--out: %w", err)}
	}
	return nil
}
