package main

import (
	"errors"
	"fmt"
	"os"
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

	timeoutGiven bool // by flag, environment or URL

	flags *pflag.FlagSet // the flags above; every client command has them
}

// envFlags are the flags that the environment can set, as HOLDFAST_<FLAG>. The command line wins.
var envFlags = append([]string{"server", "namespace", "session-timeout"}, secureFlagNames...)

func envName(flag string) string {
	return "HOLDFAST_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func newRoot() *cobra.Command {
	g := newGlobals()
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Locks for commands, on this machine or on a ZooKeeper ensemble",
		Long: `holdfast runs a command while it holds a lock, and stops the command when the lock is lost.

Without configuration, your processes on this machine share the locks.
To share locks between machines, name a ZooKeeper ensemble: --server zk://h1:2181,h2:2181

run, lock, elect, ls and status take the flags below. The environment can set them, too:
HOLDFAST_SERVER, HOLDFAST_NAMESPACE, HOLDFAST_SESSION_TIMEOUT, HOLDFAST_TLS_CA, HOLDFAST_TLS_CERT,
HOLDFAST_TLS_KEY, HOLDFAST_TLS_SERVER_NAME, HOLDFAST_AUTH and HOLDFAST_PASSWORD_FILE.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,

		SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			hint := "holdfast --help lists the commands"
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				hint = "did you mean holdfast " + strings.Join(near, ", ") + "?"
			}
			return usage(hint, "unknown command %q", args[0])
		},
	}
	root.Flags().AddFlagSet(g.flags) // for the help, and for --server before a command
	root.SetFlagErrorFunc(g.flagFault)
	for _, client := range []*cobra.Command{newRun(g), newLock(g), newElect(g), newLs(g), newStatus(g), newWatch(g), newHistory(g)} {
		client.Flags().AddFlagSet(g.flags)
		client.PreRunE = func(cmd *cobra.Command, _ []string) error { return g.fromEnv(cmd.Flags()) }
		root.AddCommand(client)
	}
	root.AddCommand(newServe(), newCheck(), newBackup(), newVersion())
	return root
}

func newGlobals() *globals {
	g := &globals{flags: pflag.NewFlagSet("clients", pflag.ContinueOnError)}
	g.flags.StringVar(&g.server, "server", "", "server of the locks: zk://h1:port,h2:port/chroot, zks://… for TLS, unix:///path or file:///dir (default file://$XDG_STATE_HOME/holdfast)")
	g.flags.StringVar(&g.namespace, "namespace", "/holdfast/locks", "path above all lock names; a lock name that begins with / is a full path")
	durationVar(g.flags, &g.timeout, "session-timeout", "", zk.DefaultSessionTimeout, "how long a lock stays held after its holder crashes or loses the network; at least two ticks of the server (4s on file://)")
	g.secure.register(g.flags)
	return g
}

// fromEnv sets the flags that the command line does not set.
func (g *globals) fromEnv(flags *pflag.FlagSet) error {
	for _, name := range envFlags {
		env := envName(name)
		value := os.Getenv(env)
		if value == "" || flags.Changed(name) {
			continue
		}
		if err := flags.Set(name, value); err != nil {
			return misconfigured("", "environment variable %s=%q: %v", env, value, err)
		}
	}
	g.timeoutGiven = flags.Changed("session-timeout")
	if g.timeout < 100*time.Millisecond || g.timeout > 24*time.Hour {
		return misconfigured("", "session timeout %v is out of range: want 100ms to 24h", g.timeout)
	}
	return nil
}

// flagFault turns an error of pflag into a usage error, and suggests the flag that was meant.
func (g *globals) flagFault(cmd *cobra.Command, err error) error {
	hint := fmt.Sprintf("%s --help lists the flags", cmd.CommandPath())
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if g.flags.Lookup(unknown.GetSpecifiedName()) != nil {
			return usage(hint, "%s: --%s is a flag of run, lock, elect, ls and status only", cmd.Name(), unknown.GetSpecifiedName())
		}
		if near := nearest(cmd.Flags(), unknown.GetSpecifiedName()); near != "" {
			hint = fmt.Sprintf("did you mean --%s?", near)
		}
	}
	return usage(hint, "%s: %v", cmd.Name(), err)
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
			return usage("usage: "+cmd.UseLine(), "%s: unexpected argument %q", cmd.Name(), args[len(names)])
		case len(args) < len(names) && names[len(args)][0] != '[':
			return usage("usage: "+cmd.UseLine(), "%s: no %s given", cmd.Name(), names[len(args)])
		}
		return nil
	}
}
