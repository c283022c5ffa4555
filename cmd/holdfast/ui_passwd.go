package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	xterm "github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"holdfast/internal/cli/term"
	"holdfast/ui"
)

func newUIPasswd() *cobra.Command {
	role := string(ui.Viewer)
	cmd := &cobra.Command{
		Use:   "passwd [flags] NAME",
		Short: "Print a line for the file of users of the page",
		Long: `passwd reads a password from the terminal, without showing it, or one line of standard input. It prints a line with
the name, the role and a hash of the password, for the file of holdfast ui --users. Other users must not be able to
read that file.

A viewer sees everything. An operator also breaks locks, revokes and ends sessions.

Exit codes:
  0   the line is printed
  2   wrong command line, or the password is too short or too long`,
		Example: `  holdfast ui passwd --role operator ann >> users
  pass show holdfast/ann | holdfast ui passwd ann >> users`,
		Args: term.Operands("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			password, err := readPassword(cmd.InOrStdin(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			line, err := ui.HashPassword(args[0], ui.Role(role), password)
			if err != nil {
				return term.Usage("", "ui passwd: %w", err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), line)
			return err
		},
	}
	cmd.Flags().StringVar(&role, "role", role, "what the user may do: viewer or operator")
	return cmd
}

// readPassword asks for a password twice on a terminal, and otherwise reads one line.
func readPassword(in io.Reader, prompts io.Writer) (string, error) {
	f, ok := in.(*os.File)
	if !ok || !xterm.IsTerminal(f.Fd()) {
		line, err := bufio.NewReader(io.LimitReader(in, 64<<10)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", &term.Fault{Code: term.ExitFailed, Err: fmt.Errorf("ui passwd: cannot read the password: %w", err)}
		}
		return strings.TrimRight(line, "\r\n"), nil
	}
	var twice [2]string
	for i, prompt := range []string{"Password: ", "Again: "} {
		fmt.Fprint(prompts, prompt)
		text, err := xterm.ReadPassword(f.Fd())
		fmt.Fprintln(prompts)
		if err != nil {
			return "", &term.Fault{Code: term.ExitFailed, Err: fmt.Errorf("ui passwd: cannot read the password: %w", err)}
		}
		twice[i] = string(text)
	}
	if twice[0] != twice[1] {
		return "", term.Usage("", "ui passwd: the two passwords differ")
	}
	return twice[0], nil
}
