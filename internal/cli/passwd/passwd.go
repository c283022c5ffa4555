package passwd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	xterm "github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"holdfast/internal/cli/term"
	"holdfast/internal/htpasswd"
)

// New returns the command that makes a line for the file of users of a program: "ui" or "tf". If users
// have roles, the line has one, and the first is the default.
func New(program string, roles ...string) *cobra.Command {
	role := ""
	long := `passwd reads a password from the terminal, without showing it, or one line of standard input. It prints a line for
the file of users, NAME:HASH, with a hash of bcrypt, as htpasswd -nB -C 12 NAME does. Other users must not be able to
read that file.
`
	if len(roles) > 0 {
		role = roles[0]
		long += `
The third field of the line is the role. A viewer sees everything. An operator also breaks locks, revokes and ends
sessions. A line without a role is for a viewer.
`
	}
	command := "holdfast " + program + " passwd"
	cmd := &cobra.Command{
		Use:   "passwd [flags] NAME",
		Short: "Print a line for a file of users",
		Long: long + `
Exit codes:
  0   the line is printed
  2   wrong command line, or the password is too short or too long`,
		Example: `  ` + command + ` ann >> users
  pass show holdfast/ann | ` + command + ` ann >> users`,
		Args: term.Operands("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(roles) > 0 && !slices.Contains(roles, role) {
				return term.Usage("", "passwd: %q is no role: want %s", term.Cut(role, 40), strings.Join(roles, " or "))
			}
			password, err := readPassword(cmd.InOrStdin(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			line, err := htpasswd.Line(args[0], role, password, htpasswd.Cost)
			if err != nil {
				return term.Usage("", "passwd: %w", err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), line)
			return err
		},
	}
	if len(roles) > 0 {
		cmd.Flags().StringVar(&role, "role", role, "what the user may do: "+strings.Join(roles, " or "))
	}
	return cmd
}

// readPassword asks for a password twice on a terminal, and otherwise reads one line.
func readPassword(in io.Reader, prompts io.Writer) (string, error) {
	f, ok := in.(*os.File)
	if !ok || !xterm.IsTerminal(f.Fd()) {
		line, err := bufio.NewReader(io.LimitReader(in, 64<<10)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", &term.Fault{Code: term.ExitFailed, Err: fmt.Errorf("passwd: cannot read the password: %w", err), Hint: ""}
		}
		return strings.TrimRight(line, "\r\n"), nil
	}
	var twice [2]string
	for i, prompt := range []string{"Password: ", "Again: "} {
		fmt.Fprint(prompts, prompt)
		text, err := xterm.ReadPassword(f.Fd())
		fmt.Fprintln(prompts)
		if err != nil {
			return "", &term.Fault{Code: term.ExitFailed, Err: fmt.Errorf("passwd: cannot read the password: %w", err), Hint: ""}
		}
		twice[i] = string(text)
	}
	if twice[0] != twice[1] {
		return "", term.Usage("", "passwd: the two passwords differ")
	}
	return twice[0], nil
}
