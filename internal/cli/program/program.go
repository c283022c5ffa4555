// Package program is what the programs have in common: how they end, what they say about a flag that is wrong, and the help
// and the manual pages of those that holdfast runs by name.
package program

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/internal/cli/complete"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/man"
	"holdfast/internal/cli/term"
	"holdfast/internal/cli/usage"
	"holdfast/internal/duration"
	"holdfast/internal/supervise"
)

// New makes cmd the root of the program holdfast-NAME, which holdfast NAME runs: the help and the messages name it as that.
// The flags of the client commands are g, or nil if it has none.
func New(cmd *cobra.Command, g *conn.Flags) *cobra.Command {
	cmd.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "holdfast " + cmd.Name()}
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SuggestionsMinimumDistance = 2
	cmd.CompletionOptions.DisableDefaultCmd = true
	clients := new(pflag.FlagSet)
	if g != nil {
		clients = g.FlagSet
		g.Register(cmd)
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return FlagFault(clients, cmd, err) })
	cmd.AddCommand(man.New())
	cmd.SetHelpCommand(&cobra.Command{Hidden: true}) // holdfast help NAME
	usage.Install(cmd, nil)
	if g != nil {
		complete.Register(g, cmd)
	}
	return cmd
}

// Main runs the command line of this process and returns its exit code.
func Main(root *cobra.Command) int {
	if conn.IsExecutor() {
		return conn.Execute()
	}
	cmd, err := root.ExecuteC()
	code := term.Report(os.Stderr, FormatOf(cmd), cmd.Name(), err)
	if key, ok := errors.AsType[term.Interrupted](err); ok {
		supervise.Die(key.Signal, key.Group)
	}
	return code
}

// FormatOf returns the format of the message about the end of cmd. The settings may not have been read when
// it failed.
func FormatOf(cmd *cobra.Command) term.LogFormat {
	flag := cmd.Flags().Lookup("log-format")
	if flag == nil {
		return "text"
	}
	if client := cmd.Flags().Lookup("profile") != nil; client && !flag.Changed {
		_ = flag.Value.Set(os.Getenv(conn.EnvName("log-format"))) // if it is wrong, the error says so in text
	}
	return term.LogFormat(flag.Value.String())
}

// FlagFault turns an error of pflag into a usage error, and suggests the flag that was meant. clients are the flags of
// the client commands.
func FlagFault(clients *pflag.FlagSet, cmd *cobra.Command, err error) error {
	hint := fmt.Sprintf("%s --help lists the flags", cmd.CommandPath())
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if clients.Lookup(unknown.GetSpecifiedName()) != nil {
			return term.Usage(hint, "%s: --%s is a flag of the commands that use locks only", cmd.Name(), unknown.GetSpecifiedName())
		}
		if near := term.NearestFlag(cmd.Flags(), unknown.GetSpecifiedName()); near != "" {
			hint = fmt.Sprintf("did you mean --%s?", near)
		}
	}
	text := err.Error()
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedName() == "c" && cmd.Flags().Lookup("shell") != nil {
		hint = fmt.Sprintf("to run a line of the shell: %s --shell LOCK 'LINE'", cmd.CommandPath())
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		if flag := invalid.GetFlag(); flag.Value.Type() == "bool" {
			return term.Usage(hintOfSwitch(flag.Name, invalid.GetValue()), "%s: --%s=%s: --%[2]s takes no value", cmd.Name(), flag.Name, term.Cut(invalid.GetValue(), 100))
		}
		text = strings.Replace(text, invalid.Unwrap().Error(), term.FlagReason(err).Error(), 1)
		text = strings.Replace(text, strconv.Quote(invalid.GetValue()), strconv.Quote(term.Cut(invalid.GetValue(), 100)), 1)
	}
	return term.Usage(hint, "%s: %s", cmd.Name(), text) // report shortens it
}

// hintOfSwitch says what to give instead of a flag without a value that has one.
func hintOfSwitch(name, value string) string {
	if _, err := duration.Parse(value); name == "try" && err == nil {
		return "to wait for some time, give --wait " + term.Cut(value, 40)
	}
	return fmt.Sprintf("give --%s alone, or leave it out", name)
}
