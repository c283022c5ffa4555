package root

import (
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/term"
)

func newCompletion() *cobra.Command {
	shells := map[string]func(root *cobra.Command, w io.Writer) error{
		"bash":       func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"zsh":        (*cobra.Command).GenZshCompletion,
		"fish":       func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
		"powershell": (*cobra.Command).GenPowerShellCompletionWithDesc,
	}
	names := slices.Sorted(maps.Keys(shells))
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a script that completes holdfast commands in a shell",
		Long: `completion prints a script for bash, zsh, fish or powershell. With it, the TAB key completes commands,
flags and their values, and the names of locks on the server that the command line and the settings
name. A name is offered only if a shell takes it literally, so a name with a space or $ is not. TAB waits
half a second for the server at most, and it never starts a server for a directory.

bash (needs the package bash-completion), for all new shells:
  holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast

zsh, in a directory of $fpath, before compinit runs:
  holdfast completion zsh > "${fpath[1]}/_holdfast"

fish:
  holdfast completion fish > ~/.config/fish/completions/holdfast.fish

PowerShell, in the profile:
  holdfast completion powershell | Out-String | Invoke-Expression

Exit codes:
  0   the script is printed
  2   wrong command line`,
		Example: `  source <(holdfast completion bash)
  source <(holdfast completion zsh)`,
		Args:      term.Operands("SHELL"),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			write := shells[args[0]]
			if write == nil {
				return term.Usage("give one of "+strings.Join(names, ", "), "completion: no script for %q", term.Cut(args[0], 40))
			}
			return write(cmd.Root(), cmd.OutOrStdout())
		},
	}
}
