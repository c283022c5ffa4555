package usage

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// areas are the commands of holdfast for its help without arguments.
var areas = []struct {
	title    string
	commands []brief
}{
	{"Run under a lock", []brief{
		{"run", "run a command under a lock"},
		{"lock", "hold a lock until interrupted"},
		{"unlock", "release a detached lock"},
		{"elect", "run a command as the leader"},
		{"shard", "run a command for each shard"},
		{"tf", "run Terraform with state and lock"},
		{"mcp", "give locks to a coding agent"},
	}},
	{"Look", []brief{
		{"ls", "list locks, holders and waiters"},
		{"status", "show one lock and its queue"},
		{"watch", "print what happens to locks"},
		{"top", "show locks on a live screen"},
		{"ui", "show locks in a browser"},
		{"history", "show a lock's past"},
		{"graph", "show waits, name the deadlocks"},
		{"doctor", "examine servers, store and machine"},
	}},
	{"Act", []brief{
		{"break", "take a lock from its holder"},
		{"revoke", "ask a holder to release"},
		{"sessions", "list or end sessions"},
	}},
	{"Serve and set up", []brief{
		{"serve", "serve a directory to ZooKeeper clients"},
		{"check", "check a directory's store"},
		{"backup", "copy a directory's store"},
		{"bench", "measure locks on the server"},
		{"config", "configuration files and profiles"},
		{"completion", "complete commands in a shell"},
		{"version", "print the version"},
	}},
}

// brief is a command and what it does, in six words at most.
type brief struct{ name, text string }

// overviewOf reports whether root is holdfast: the programs beside it have no list of commands.
func overviewOf(root *cobra.Command) bool { return root.Name() == "holdfast" }

// overview prints the commands, on one screen.
func overview(w io.Writer, root *cobra.Command) {
	var b strings.Builder
	b.WriteString("Usage: holdfast COMMAND [flags] ...\n")
	rest := shown(root)
	for _, area := range areas {
		var lines strings.Builder
		for _, c := range area.commands {
			i := slices.IndexFunc(rest, func(cmd *cobra.Command) bool { return cmd.Name() == c.name })
			if i >= 0 {
				fmt.Fprintf(&lines, "  %-11s %s\n", c.name, c.text)
				rest = slices.Delete(rest, i, i+1)
			}
		}
		if lines.Len() > 0 {
			fmt.Fprintf(&b, "\n%s:\n%s", area.title, &lines)
		}
	}
	for _, cmd := range rest {
		if cmd.Name() != "help" {
			fmt.Fprintf(&b, "  %-11s %s\n", cmd.Name(), cmd.Short)
		}
	}
	b.WriteString("\nLocks are on this machine, or on a ZooKeeper ensemble: --server zk://h1:2181,h2:2181\n")
	b.WriteString("holdfast COMMAND -h: help; that of large commands is short, and --help has everything.\n")
	b.WriteString("holdfast help TOPIC: " + names(topics(root)) + "\n")
	_, _ = io.WriteString(w, b.String()) // a failure cannot be reported anywhere
}
