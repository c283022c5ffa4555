package root

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/term"
	"holdfast/internal/cli/version"
)

func newVersion(licenses string) *cobra.Command {
	var format term.Format
	var showLicenses bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `version prints the version of holdfast. -o wide adds the commit and its date, and -o name prints the version
alone. -o json and -o jsonl print one Version: see docs/reference/json.md. --licenses prints the licences of
holdfast, and of the libraries in it and in the programs beside it.

Exit codes:
  0  the version is printed
  2  wrong command line`,
		Args: term.Operands(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, w := version.Info(), cmd.OutOrStdout()
			if showLicenses {
				if cmd.Flags().Changed("output") {
					return term.Usage("leave out one of them", "version: --licenses has no --output: the licences are text")
				}
				_, err := io.WriteString(w, licenses)
				return err
			}
			switch format {
			case "json":
				return term.JSON(w, v)
			case "jsonl":
				return term.JSONLine(w, v)
			case "name":
				_, err := fmt.Fprintln(w, v.Version)
				return err
			}
			return version.Print(w, format == "wide")
		},
	}
	cmd.Flags().BoolVar(&showLicenses, "licenses", false, "print the licences of holdfast, and of the libraries in it and in the programs beside it")
	format.Register(cmd, term.AllFormats...)
	return cmd
}
