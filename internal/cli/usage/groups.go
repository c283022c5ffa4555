package usage

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A Group is the flags of a command that have to do with one thing.
type Group struct {
	Title string
	Flags []*pflag.Flag
}

// Other is the title of the flags that are in no group.
const Other = "Flags"

// groups are the groups of the flags of the commands that use locks, and of serve, by the names of the flags.
var (
	groups = []table{
		{"Waiting and repeating", []string{
			"try", "wait", "on-deadlock", "busy-exit-code", "once-per", "once-key", "min-hold", "supersede", "superseded-exit-code", "queue-max", "queue-full",
		}},
		{"Which lock", []string{
			"also", "count", "detached", "exclusive", "expires", "layout", "node", "of", "permits", "prefer-slots", "resize", "shared", "slot", "stdin", "tree",
		}},
		{"The election", []string{"observe", "once", "value", "prefer", "failback-after", "http"}},
		{"Which locks", []string{"held", "older-than", "owner", "waiting"}},
		{"The command", []string{"kill-after", "kill-signal", "leftovers", "max-hold", "shell"}},
		{"When the lock is lost", []string{"lost-exit-code", "on-lost", "on-suspect", "session-timeout", "term-before"}},
		{"Telling", []string{
			"color", "label", "log-format", "metrics", "metrics-file", "no-headers", "output", "quiet", "sort", "status-file", "verbose", "watch", "who", "why",
		}},
		{"Connection", []string{
			"auth", "namespace", "password-file", "profile", "server", "tls-ca", "tls-cert", "tls-key", "tls-server-name",
		}},
	}
	serveGroups = []table{
		{"The store", []string{"config", "container-check-interval", "data-dir", "enforce-quota", "linger", "quota-writable", "tick", "ttl-nodes"}},
		{"Addresses", []string{"admin", "four-letter-words", "insecure", "listen", "listen-tls", "unix", "unix-group"}},
		{"Logins and certificates", []string{
			"auth-required", "auth-super", "auth-users", "tls-cert", "tls-client-auth", "tls-client-ca", "tls-key",
		}},
		{"Limits", []string{
			"handshake-timeout", "max-connections", "max-connections-per-address", "max-connects-per-second", "max-frame-bytes", "max-outstanding",
			"max-watches", "max-watches-per-connection",
		}},
		{"Telling", []string{"log-format", "log-level"}},
	}
)

// table is a row of the table of groups.
type table struct {
	title string
	names []string
}

// Groups returns the flags of a command in groups. The first group has those of no group. Help flags are not listed.
func Groups(cmd *cobra.Command) []Group {
	rows := groups
	if cmd.Name() == "serve" {
		rows = serveGroups
	}
	all := make([]Group, 1+len(rows))
	all[0].Title = Other
	for i, row := range rows {
		all[1+i].Title = row.title
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			at := 1 + slices.IndexFunc(rows, func(row table) bool { return slices.Contains(row.names, f.Name) })
			all[at].Flags = append(all[at].Flags, f)
		}
	})
	return slices.DeleteFunc(all, func(g Group) bool { return len(g.Flags) == 0 })
}

func (g Group) set() *pflag.FlagSet {
	set := pflag.NewFlagSet(g.Title, pflag.ContinueOnError)
	for _, f := range g.Flags {
		set.AddFlag(f)
	}
	return set
}
