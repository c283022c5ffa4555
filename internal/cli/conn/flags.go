package conn

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/internal/cli/term"
	"holdfast/zk"
)

// Flags are the flags of the commands that connect to a server. They are not persistent flags
// of the root, because serve has flags of its own with the same names.
type Flags struct {
	Server    string        // as it was given: Target parses it
	Namespace string        // the path above all lock names
	Timeout   time.Duration // of the session
	Secure    SecureFlags
	Log       term.LogFlags

	profile string // in the configuration files

	TimeoutGiven bool // by flag, environment, configuration or URL

	FlagSet    *pflag.FlagSet    // the flags above; every client command has them
	SystemFile string            // the system's configuration file
	from       map[string]origin // of the values of the flags
	files      []*configFile
}

// NewFlags returns the flags with their defaults. Register gives them to commands.
func NewFlags() *Flags {
	g := &Flags{FlagSet: pflag.NewFlagSet("clients", pflag.ContinueOnError), SystemFile: systemConfig}
	g.FlagSet.StringVar(&g.Server, "server", "", "server of the locks: zk://h1:port,h2:port/chroot, zks://… for TLS, unix:///path or file:///dir (default file://$XDG_STATE_HOME/holdfast)")
	g.FlagSet.StringVar(&g.Namespace, "namespace", "/holdfast/locks", "path above all lock names; a lock name that begins with / is a full path")
	term.DurationVar(g.FlagSet, &g.Timeout, "session-timeout", "", zk.DefaultSessionTimeout, "how long a lock lasts without contact: a command survives longer outages with a longer one, and a machine that dies or loses its network keeps its locks for that long, as does (not on Linux) a holder that is killed. At least two ticks of the server; on file://, at least 4s, and the default is 1m")
	g.FlagSet.StringVar(&g.profile, "profile", "", "use the settings of this profile in the configuration files: see holdfast help config")
	g.Secure.register(g.FlagSet)
	g.Log.Register(g.FlagSet)
	return g
}

// Register gives a command the flags of the client commands, and their values before it runs.
func (g *Flags) Register(cmd *cobra.Command) {
	cmd.Flags().AddFlagSet(g.FlagSet)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		err := g.Settle(cmd.Flags())
		warnUnknown(g.FlagSet, &g.Log, cmd)
		return err
	}
}
