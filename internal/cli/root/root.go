// Package root is the command holdfast: the list of its commands, the help and its topics, and the programs beside it.
package root

import (
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

// New returns the command with its commands. licenses are the licences of all that is linked.
func New(licenses string) *cobra.Command {
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
	for _, client := range clients(g) {
		g.Register(client)
		root.AddCommand(client)
	}
	root.AddCommand(
		newBeside("top", "Show locks and their queues on a screen that is kept up to date"),
		newBeside("ui", "Show locks, queues and deadlocks in a browser"),
		newBeside("tf", "Run Terraform or OpenTofu with its state and its lock here"),
		newBeside("mcp", "Give a coding agent locks over the Model Context Protocol"),
	)
	root.AddCommand(serve.New(), serve.NewCheck(), serve.NewBackup(), newVersion(licenses))
	root.AddCommand(conn.NewConfig(g), newCompletion(), man.New())
	root.AddCommand(newTopics(g)...)
	root.SetHelpCommand(newHelp())
	usage.Install(root, func() { hideMissing(root) })
	root.CompletionOptions.DisableDefaultCmd = true
	complete.Register(g, root)
	return root
}

// clients returns the commands that use locks, with the flags of a connection.
func clients(g *conn.Flags) []*cobra.Command {
	return []*cobra.Command{
		hold.NewRun(g),
		hold.NewLock(g),
		hold.NewUnlock(g),
		elect.New(g),
		shard.New(g),
		ls.New(g),
		status.New(g),
		watch.New(g),
		history.New(g),
		graph.New(g),
		act.NewBreak(g),
		act.NewRevoke(g),
		sessions.New(g),
		doctor.New(g),
		bench.New(g),
	}
}
