// Package root is the command holdfast: the list of its commands, the help and its topics, and the programs beside it.
package root

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/act"
	"holdfast/internal/cli/bench"
	"holdfast/internal/cli/complete"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/doctor"
	"holdfast/internal/cli/graph"
	"holdfast/internal/cli/history"
	"holdfast/internal/cli/hold"
	"holdfast/internal/cli/hold/elect"
	"holdfast/internal/cli/hold/shard"
	"holdfast/internal/cli/ls"
	"holdfast/internal/cli/man"
	"holdfast/internal/cli/program"
	"holdfast/internal/cli/serve"
	"holdfast/internal/cli/sessions"
	"holdfast/internal/cli/status"
	"holdfast/internal/cli/term"
	"holdfast/internal/cli/usage"
	"holdfast/internal/cli/version"
	"holdfast/internal/cli/watch"
)

const about = `holdfast runs a command while it holds a lock, and stops the command when the lock is lost.

Without configuration, your processes on this machine share the locks.
To share locks between machines, name a ZooKeeper ensemble: --server zk://h1:2181,h2:2181

All commands that use locks take the flags below. The environment can set them, too (holdfast help
environment), and so can configuration files and their profiles (holdfast help config).`

// New returns the command for a command line. If args begin with the name of a command that uses locks, the other commands
// are left out: a run of one that is short would spend more on making them. licenses are the licences of all that is linked.
func New(licenses string, args ...string) *cobra.Command {
	g := conn.NewFlags()
	var printVersion bool
	root := &cobra.Command{
		Use:           "holdfast",
		Short:         "Locks for commands, on this machine or on a ZooKeeper ensemble",
		Long:          about,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,

		SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case printVersion && len(args) == 0:
				return version.Print(cmd.OutOrStdout(), false)
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
	root.Flags().BoolVar(&printVersion, "version", false, "print the version")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return program.FlagFault(g.FlagSet, cmd, err) })
	only := slices.IndexFunc(clients, func(c client) bool { return len(args) > 0 && args[0] == c.name })
	for i, c := range clients {
		if only < 0 || i == only {
			cmd := c.make(g)
			g.Register(cmd)
			root.AddCommand(cmd)
		}
	}
	if only < 0 {
		root.AddCommand(
			newBeside("top", "Show locks and their queues on a screen that is kept up to date"),
			newBeside("ui", "Show locks, queues and deadlocks in a browser"),
			newBeside("tf", "Run Terraform or OpenTofu with its state and its lock here"),
			newBeside("mcp", "Give a coding agent locks over the Model Context Protocol"),
		)
		root.AddCommand(serve.New(), serve.NewCheck(), serve.NewBackup(), newVersion(licenses))
		root.AddCommand(conn.NewConfig(g), newCompletion(), man.New())
	}
	root.AddCommand(newTopics(g, only < 0)...) // the short help of each command names them
	root.SetHelpCommand(newHelp())
	usage.Install(root, func() { hideMissing(root) })
	root.CompletionOptions.DisableDefaultCmd = true
	complete.Register(g, root)
	return root
}

// A client is a command that uses locks. It has the flags of a connection.
type client struct {
	name string
	make func(*conn.Flags) *cobra.Command
}

var clients = []client{
	{"run", hold.NewRun},
	{"lock", hold.NewLock},
	{"unlock", hold.NewUnlock},
	{"elect", elect.New},
	{"shard", shard.New},
	{"ls", ls.New},
	{"status", status.New},
	{"watch", watch.New},
	{"history", history.New},
	{"graph", graph.New},
	{"break", act.NewBreak},
	{"revoke", act.NewRevoke},
	{"sessions", sessions.New},
	{"doctor", doctor.New},
	{"bench", bench.New},
}
