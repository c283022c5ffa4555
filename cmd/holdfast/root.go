package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/zk"
)

// globals are the flags of the commands that connect to a server. They are not persistent flags
// of the root, because serve has flags of its own with the same names.
type globals struct {
	server    string
	namespace string
	timeout   time.Duration // of the session
	secure    secureFlags
	log       clientLogFlags

	profile string // in the configuration files

	timeoutGiven bool // by flag, environment, configuration or URL

	flags      *pflag.FlagSet    // the flags above; every client command has them
	from       map[string]origin // of their values
	files      []*configFile
	systemFile string
}

// envName returns the environment variable that sets a flag. The command line wins.
func envName(flag string) string {
	return "HOLDFAST_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func newRoot() *cobra.Command {
	g := newGlobals()
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
			return usage(hint, "unknown command %q", cut(args[0], 100))
		},
	}
	root.Flags().AddFlagSet(g.flags) // for the help, and for --server before a command
	root.Flags().BoolVar(&version, "version", false, "print the version")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return flagFault(g.flags, cmd, err) })
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
		g.client(client)
		root.AddCommand(client)
	}
	root.AddCommand(newTerraform(g))
	root.AddCommand(newServe(), newCheck(), newBackup(), newVersion())
	root.AddCommand(newConfig(g), newCompletion(), newMan())
	root.AddCommand(newTopics(g)...)
	root.SetHelpCommand(newHelp())
	root.CompletionOptions.DisableDefaultCmd = true
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], cobra.ShellCompRequestCmd) {
		g.complete(root)
	}
	return root
}

// client gives a command the flags of the client commands, and their values before it runs.
func (g *globals) client(cmd *cobra.Command) {
	cmd.Flags().AddFlagSet(g.flags)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return g.settle(cmd.Flags()) }
}

func newGlobals() *globals {
	g := &globals{flags: pflag.NewFlagSet("clients", pflag.ContinueOnError), systemFile: systemConfig}
	g.flags.StringVar(&g.server, "server", "", "server of the locks: zk://h1:port,h2:port/chroot, zks://… for TLS, unix:///path or file:///dir (default file://$XDG_STATE_HOME/holdfast)")
	g.flags.StringVar(&g.namespace, "namespace", "/holdfast/locks", "path above all lock names; a lock name that begins with / is a full path")
	durationVar(g.flags, &g.timeout, "session-timeout", "", zk.DefaultSessionTimeout, "how long a lock stays held after its holder crashes or loses the network; at least two ticks of the server (4s on file://)")
	g.flags.StringVar(&g.profile, "profile", "", "use the settings of this profile in the configuration files: see holdfast help config")
	g.secure.register(g.flags)
	g.log.register(g.flags)
	return g
}

// flagFault turns an error of pflag into a usage error, and suggests the flag that was meant. clients are the flags of
// the client commands.
func flagFault(clients *pflag.FlagSet, cmd *cobra.Command, err error) error {
	hint := fmt.Sprintf("%s --help lists the flags", cmd.CommandPath())
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if clients.Lookup(unknown.GetSpecifiedName()) != nil {
			return usage(hint, "%s: --%s is a flag of the commands that use locks only", cmd.Name(), unknown.GetSpecifiedName())
		}
		if near := nearest(cmd.Flags(), unknown.GetSpecifiedName()); near != "" {
			hint = fmt.Sprintf("did you mean --%s?", near)
		}
	}
	text := err.Error()
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedName() == "c" && cmd.Flags().Lookup("shell") != nil {
		hint = fmt.Sprintf("to run a line of the shell: %s --shell LOCK 'LINE'", cmd.CommandPath())
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		if flag := invalid.GetFlag(); flag.Value.Type() == "bool" {
			return usage(hintOfSwitch(flag.Name, invalid.GetValue()), "%s: --%s=%s: --%[2]s takes no value", cmd.Name(), flag.Name, cut(invalid.GetValue(), 100))
		}
		text = strings.Replace(text, invalid.Unwrap().Error(), reasonOf(err).Error(), 1)
		text = strings.Replace(text, strconv.Quote(invalid.GetValue()), strconv.Quote(cut(invalid.GetValue(), 100)), 1)
	}
	return usage(hint, "%s: %s", cmd.Name(), text) // report shortens it
}

// hintOfSwitch says what to give instead of a flag without a value that has one.
func hintOfSwitch(name, value string) string {
	if _, err := parseDuration(value); name == "try" && err == nil {
		return "to wait for some time, give --wait " + cut(value, 40)
	}
	return fmt.Sprintf("give --%s alone, or leave it out", name)
}

// nearest returns the flag whose name is most like name, or "" if none is close.
func nearest(flags *pflag.FlagSet, name string) (near string) {
	best := min(3, len(name)) // more than two changes, or as many as letters, make another word
	flags.VisitAll(func(f *pflag.Flag) {
		if d := distance(name, f.Name); d < best && !f.Hidden {
			best, near = d, f.Name
		}
	})
	return near
}

// distance returns how many letters must be added, removed or changed to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// operands checks a subcommand's arguments and names one that is missing or unexpected. A name in
// brackets is optional.
func operands(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > len(names):
			return usage("usage: "+cmd.UseLine(), "%s: unexpected argument %q", cmd.Name(), cut(args[len(names)], 100))
		case len(args) < len(names) && names[len(args)][0] != '[':
			return usage("usage: "+cmd.UseLine(), "%s: no %s given", cmd.Name(), names[len(args)])
		}
		return nil
	}
}
