package main

import (
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

// client gives a command the flags of the client commands, and their values before it runs.
func (g *globals) client(cmd *cobra.Command) {
	cmd.Flags().AddFlagSet(g.flags)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return g.settle(cmd.Flags()) }
}

// envName returns the environment variable that sets a flag. The command line wins.
func envName(flag string) string {
	return "HOLDFAST_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}
