package serve

import (
	"time"

	"github.com/spf13/pflag"

	"holdfast/internal/cli/term"
	"holdfast/zkserver"
)

// limitsFlags are the limits for clients: the limits of zkserver that depend on the clients, and
// not on the protocol.
type limitsFlags struct {
	limits zkserver.Limits
	words  []string
	quota  bool
	quotas bool // whether all clients may set quotas
	ttl    bool // whether nodes may have a TTL

	containers time.Duration
}

func (l *limitsFlags) register(f *pflag.FlagSet) {
	l.registerLimits(f)
	term.DurationVar(f, &l.containers, "container-check-interval", "", time.Minute, "how often to remove empty containers and nodes whose TTL has expired")
	f.BoolVar(&l.ttl, "ttl-nodes", true, "allow nodes with a TTL, which Apache ZooKeeper refuses by default")
	f.BoolVar(&l.quota, "enforce-quota", false, "refuse writes that exceed hard quotas (setquota -N and -B of zkCli.sh)")
	f.BoolVar(&l.quotas, "quota-writable", false, "let all clients set quotas, as Apache ZooKeeper does, and not only the superuser (--auth-super)")
	f.StringSliceVar(&l.words, "four-letter-words", nil, `four-letter words to answer besides srvr, or "*" for all (default ruok,srvr,isro,envi)`)
}

// registerLimits registers the flags that HUP reloads.
func (l *limitsFlags) registerLimits(f *pflag.FlagSet) {
	for _, limit := range []struct {
		field *int
		name  string
		usage string
	}{
		{&l.limits.Connections, "max-connections", "maximum number of connections (default 20000)"},
		{&l.limits.ConnectionsPerAddress, "max-connections-per-address", "maximum number of connections from one IPv4 address or IPv6 /64 (default 1000)"},
		{&l.limits.ConnectionsPerSecond, "max-connects-per-second", "maximum number of new connections per second from one address, on average (default 1000)"},
		{&l.limits.FrameBytes, "max-frame-bytes", "maximum size of a request, ZooKeeper's jute.maxbuffer (default 1048575)"},
		{&l.limits.Outstanding, "max-outstanding", "maximum number of unanswered requests of one connection; the server does not read further ones (default 256)"},
		{&l.limits.Watches, "max-watches", "maximum number of watches (default 1000000)"},
		{&l.limits.WatchesPerConnection, "max-watches-per-connection", "maximum number of watches of one connection (default 100000)"},
	} {
		f.IntVar(limit.field, limit.name, 0, limit.usage+"; -1 is no limit")
	}
	term.DurationVar(f, &l.limits.HandshakeTime, "handshake-timeout", "", 0, "maximum time from the connect, or from the start of TLS, to a complete connect request (default 10s); -1s is no limit")
}

func (l *limitsFlags) apply(cfg *zkserver.Config) error {
	cfg.Limits, cfg.FourLetterWords = l.limits, l.words
	cfg.EnforceQuota, cfg.QuotaWritable = l.quota, l.quotas
	cfg.NoTTLNodes, cfg.ContainerCheckInterval = !l.ttl, l.containers
	if err := cfg.Validate(); err != nil {
		return term.Usage("see holdfast serve --help", "serve: %w", err)
	}
	return nil
}
