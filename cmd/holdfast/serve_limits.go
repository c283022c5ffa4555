package main

import (
	"time"

	"github.com/spf13/pflag"

	"holdfast/zkserver"
)

// serveLimitsFlags are how much a client may ask of serve. Of zkserver's limits those are
// here that depend on who the clients are, and not on what the protocol is.
type serveLimitsFlags struct {
	limits zkserver.Limits
	words  []string
	quota  bool
	quotas bool // whether everybody may set them
	ttl    bool // whether nodes may have a time to live

	containers time.Duration
}

func (l *serveLimitsFlags) register(f *pflag.FlagSet) {
	l.registerLimits(f)
	f.DurationVar(&l.containers, "container-check-interval", time.Minute, "how often to look for empty containers and for nodes whose time to live is over")
	f.BoolVar(&l.ttl, "ttl-nodes", true, "allow nodes with a time to live; Apache ZooKeeper's default is to refuse them")
	f.BoolVar(&l.quota, "enforce-quota", false, "refuse writes that exceed the hard limits of quotas (setquota -N and -B of zkCli.sh)")
	f.BoolVar(&l.quotas, "quota-writable", false, "let every client set quotas, as Apache ZooKeeper does; otherwise only the superuser (--auth-super) may")
	f.StringSliceVar(&l.words, "four-letter-words", nil, `four-letter words that everybody may ask besides srvr, or "*" for all (default ruok,srvr,isro,envi)`)
}

// registerLimits registers the flags that HUP reads again.
func (l *serveLimitsFlags) registerLimits(f *pflag.FlagSet) {
	for _, limit := range []struct {
		field *int
		name  string
		usage string
	}{
		{&l.limits.Connections, "max-connections", "most connections in total (default 20000)"},
		{&l.limits.ConnectionsPerAddress, "max-connections-per-address", "most connections of one IPv4 address or IPv6 /64 (default 1000)"},
		{&l.limits.ConnectionsPerSecond, "max-connects-per-second", "most new connections of one address in a second, in the long run (default 1000)"},
		{&l.limits.FrameBytes, "max-frame-bytes", "greatest length of a request, ZooKeeper's jute.maxbuffer (default 1048575)"},
		{&l.limits.Outstanding, "max-outstanding", "most requests of one connection that wait for an answer; more stay in the network (default 256)"},
		{&l.limits.Watches, "max-watches", "most watches in total (default 1000000)"},
		{&l.limits.WatchesPerConnection, "max-watches-per-connection", "most watches of one connection (default 100000)"},
	} {
		f.IntVar(limit.field, limit.name, 0, limit.usage+"; -1 is no limit")
	}
	f.DurationVar(&l.limits.HandshakeTime, "handshake-timeout", 0, "longest time from connecting, or from the start of TLS, to a complete connect request (default 10s); -1s is no limit")
}

func (l *serveLimitsFlags) apply(cfg *zkserver.Config) error {
	cfg.Limits, cfg.FourLetterWords = l.limits, l.words
	cfg.EnforceQuota, cfg.QuotaWritable = l.quota, l.quotas
	cfg.NoTTLNodes, cfg.ContainerCheckInterval = !l.ttl, l.containers
	if err := cfg.Validate(); err != nil {
		return usage("see holdfast serve --help", "serve: %w", err)
	}
	return nil
}
