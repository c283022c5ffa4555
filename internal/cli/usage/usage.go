// Package usage prints the help of commands: on one screen with -h, and all of it with --help. Its tables say which flags
// the short help shows, and to which group each flag belongs.
package usage

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Width is how wide the help is at most, in columns.
const Width = 100

// Install sets the help of root and of the commands below it. holdfast and the commands of the table get a short help.
// before is called before a help is printed; it can be nil.
func Install(root *cobra.Command, before func()) {
	if overviewOf(root) {
		splitHelp(root)
		for name := range screens {
			if cmd, _, err := root.Find([]string{name}); err == nil && cmd != root { // Commands would sort them
				splitHelp(cmd)
			}
		}
	}
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		if before != nil {
			before()
		}
		Print(cmd.OutOrStdout(), cmd)
	})
}

// Print writes the help that the command line asks for.
func Print(w io.Writer, cmd *cobra.Command) {
	switch short := cmd.Flags().Lookup(shortFlag); {
	case short != nil && !cmd.HasParent() && (short.Changed || !cmd.Flags().Changed("help")):
		overview(w, cmd)
	case short != nil && short.Changed:
		screens[cmd.Name()].print(w, cmd)
	default:
		long(w, cmd)
	}
}

// shortFlag is the hidden flag of -h. A Value does not learn by which name it was given.
const shortFlag = "h"

// splitHelp gives cmd the flags -h and --help. Cobra prints a help if --help is set.
func splitHelp(cmd *cobra.Command) {
	cmd.Flags().Bool("help", false, "all about this command; -h is short")
	f := cmd.Flags().VarPF(askedFor{cmd.Flags()}, shortFlag, shortFlag, "")
	f.NoOptDefVal, f.Hidden = "true", true
}

// askedFor is the value of -h. It sets --help.
type askedFor struct{ flags *pflag.FlagSet }

func (a askedFor) Set(text string) error {
	_, err := strconv.ParseBool(text)
	if err == nil {
		err = a.flags.Lookup("help").Value.Set(text)
	}
	return err
}
func (askedFor) String() string { return "false" }
func (askedFor) Type() string   { return "bool" }

// long prints everything about a command: first how to call it, and last its flags, which the end of a terminal shows.
func long(w io.Writer, cmd *cobra.Command) {
	var b strings.Builder
	if cmd.Runnable() {
		fmt.Fprintf(&b, "Usage:\n  %s\n\n", line(cmd))
	}
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(&b, "Aliases:\n  %s\n\n", cmd.NameAndAliases())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "Examples:\n%s\n\n", cmd.Example)
	}
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	b.WriteString(fill(strings.TrimSpace(text)) + "\n")
	if commands := shown(cmd); len(commands) > 0 {
		b.WriteString("\nCommands:\n")
		for _, sub := range commands {
			fmt.Fprintf(&b, "  %-11s %s\n", sub.Name(), sub.Short)
		}
	}
	for _, g := range Groups(cmd) {
		fmt.Fprintf(&b, "\n%s:\n%s", g.Title, g.set().FlagUsagesWrapped(Width))
	}
	if topics := topics(cmd); len(topics) > 0 {
		fmt.Fprintf(&b, "\nMore help:\n")
		for _, topic := range topics {
			fmt.Fprintf(&b, "  %s help %-11s %s\n", cmd.Root().CommandPath(), topic.Name(), topic.Short)
		}
	}
	_, _ = io.WriteString(w, b.String()) // a failure cannot be reported anywhere
}
