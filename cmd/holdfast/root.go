package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
)

func newRoot() *cobra.Command {
	g := conn.NewFlags()
	var version bool
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Locks for commands, on this machine or on a ZooKeeper ensemble",
		Long: `holdfast runs a command while it holds a lock, and stops the command when the lock is lost.

Without configuration, your processes on this machine share the locks.
To share locks between machines, name a ZooKeeper ensemble: --server zk://h1:2181,h2:2181

All commands that use locks take the flags below. The environment can set them, too (holdfast help
environment), and so can configuration files and their profiles (holdfast help config).`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,

		SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case version && len(args) == 0:
				return printVersion(cmd.OutOrStdout(), false)
			case len(args) == 0:
				return cmd.Help()
			}
			hint := "holdfast --help lists the commands"
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				hint = "did you mean holdfast " + strings.Join(near, ", ") + "?"
			}
			return term.Usage(hint, "unknown command %q", term.Cut(args[0], 100))
		},
	}
	root.Flags().AddFlagSet(g.FlagSet) // for the help, and for --server before a command
	root.Flags().BoolVar(&version, "version", false, "print the version")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return flagFault(g.FlagSet, cmd, err) })
	for _, client := range []*cobra.Command{
		newRun(g),
		newLock(g),
		newUnlock(g),
		newElect(g),
		newShard(g),
		newLs(g),
		newStatus(g),
		newWatch(g),
		newTop(g),
		newHistory(g),
		newGraph(g),
		newUI(g),
		newBreak(g),
		newRevoke(g),
		newSessions(g),
		newDoctor(g),
		newBench(g),
		newMCP(g),
	} {
		g.Register(client)
		root.AddCommand(client)
	}
	root.AddCommand(newTerraform(g))
	root.AddCommand(newServe(), newCheck(), newBackup(), newVersion())
	root.AddCommand(conn.NewConfig(g), newCompletion(), newMan())
	root.AddCommand(newTopics(g)...)
	root.SetHelpCommand(newHelp())
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		hideMissing(root)
		help(cmd, args)
	})
	root.CompletionOptions.DisableDefaultCmd = true
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], cobra.ShellCompRequestCmd) {
		complete(g, root)
	}
	return root
}

// flagFault turns an error of pflag into a usage error, and suggests the flag that was meant. clients are the flags of
// the client commands.
func flagFault(clients *pflag.FlagSet, cmd *cobra.Command, err error) error {
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
	if _, err := term.ParseDuration(value); name == "try" && err == nil {
		return "to wait for some time, give --wait " + term.Cut(value, 40)
	}
	return fmt.Sprintf("give --%s alone, or leave it out", name)
}
