package zkserver

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"holdfast/zkserver/internal/store"
)

// A Config configures a server. The zero value is a server in memory.
type Config struct {
	// Dir is the directory of the store. Open makes it if it does not exist. One server at a time
	// can have it open. If Dir is empty, everything is kept in memory.
	Dir string

	// Memory is the store if Dir is empty. nil is a fresh store. A Memory that is passed to one Open
	// after another simulates a restart without a disk.
	Memory *Memory

	// TickTime is ZooKeeper's unit of time; 0 is 2 s. Sessions expire within one tick
	// of their timeout.
	TickTime time.Duration

	// MinSessionTimeout and MaxSessionTimeout bound the session timeout that a client asks for. 0 is
	// 2 ticks and 20 ticks.
	MinSessionTimeout, MaxSessionTimeout time.Duration

	// Linger, if above 0, shuts the server down when no client has been connected for
	// that long and no session lives. A session without a client lives for its timeout.
	Linger time.Duration

	// OneMachine says that all clients are processes of this machine. Changes of sessions and
	// ephemeral nodes are then written before they are answered, and not synced. They survive
	// the end of this process. A power failure may undo them, but it ends all clients, too: after
	// a restart of the machine, Open ends the sessions that were made under OneMachine. All
	// other changes are synced before they are answered.
	//
	// Everything is synced as soon as [Server.Serve] has had a listener other than a Unix socket.
	// The same holds on systems that do not report restarts. Linux and macOS do.
	OneMachine bool

	// Users are the users that may authenticate by SASL DIGEST-MD5, with their passwords. Without
	// users, SASL gets the answer of a ZooKeeper without a JAAS file. The server keeps hashes. See
	// ParseUsers for a file. Use TLS: an attacker who overhears a login can try passwords against it,
	// and reads all later traffic in the clear.
	Users map[string]string

	// SuperDigest is user:base64(sha1(user:password)), as ZooKeeper's superDigest. A client that
	// authenticates as this user by the scheme digest may do everything, whatever ACLs say. Empty:
	// there is no superuser.
	SuperDigest string

	// RequireAuth names schemes among digest, sasl and x509. A client must authenticate by one of
	// them, or as superuser, before it can do anything but ping and close its session. Empty requires
	// nothing. The scheme digest takes every password, unless it is required: then it takes only
	// the passwords of Users.
	RequireAuth []string

	// FourLetterWords are the four-letter words that are allowed to anybody who can connect. "*"
	// stands for all, and blanks around a word are ignored. nil is ruok, srvr, isro and envi. As in
	// Apache's server, srvr is always allowed. The others reveal other clients. Some of them take
	// longer the more there is to list; their answers end at 4 MiB.
	FourLetterWords []string

	// Limits keep clients from harming each other. The zero value has a default for each.
	Limits Limits

	// EnforceQuota refuses creates and sets that exceed the hard limits of a quota (zkCli's
	// setquota -N and -B). Without it, hard limits are only counted and logged, as soft limits are.
	EnforceQuota bool

	// QuotaWritable lets clients write below /zookeeper/quota, as Apache's server does. The ACLs
	// there still count; they permit everybody unless a client changes them. Without
	// QuotaWritable only the superuser may set quotas (see SuperDigest), and other clients get -102
	// NoAuth.
	QuotaWritable bool

	// NoTTLNodes refuses new nodes with a time to live. The answer is -6 Unimplemented, as from
	// Apache's server without zookeeper.extendedTypesEnabled. Existing nodes keep their time to live.
	NoTTLNodes bool

	// ContainerCheckInterval is how often the server looks for nodes to remove: containers that
	// became empty, and nodes whose time to live is over. 0 is a minute, as in Apache's
	// znode.container.checkIntervalMs; the least is 1 ms.
	ContainerCheckInterval time.Duration

	// Logger gets the messages for operators. nil is silent.
	Logger *slog.Logger
}

// Memory is a store for servers that run one after the other in one process.
type Memory struct{ store *store.Memory }

// NewMemory returns an empty store.
func NewMemory() *Memory { return &Memory{store.NewMemory()} }

// Validate returns the error that Open would return for c, and opens nothing.
func (c Config) Validate() error {
	if _, err := c.withDefaults(); err != nil {
		return err
	}
	_, err := newUsers(c)
	return err
}

func (c Config) withDefaults() (Config, error) {
	c.TickTime = cmp.Or(c.TickTime, 2*time.Second)
	c.MinSessionTimeout = cmp.Or(c.MinSessionTimeout, 2*c.TickTime)
	c.MaxSessionTimeout = cmp.Or(c.MaxSessionTimeout, max(20*c.TickTime, c.MinSessionTimeout))
	c.ContainerCheckInterval = cmp.Or(c.ContainerCheckInterval, time.Minute)
	c.Limits = c.Limits.withDefaults()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	const longest = math.MaxInt32 * time.Millisecond // the protocol's field
	switch {
	case c.TickTime < time.Millisecond:
		return c, fmt.Errorf("zkserver: tick time %v: must be at least 1 ms", c.TickTime)
	case c.MinSessionTimeout < time.Millisecond, c.MaxSessionTimeout < c.MinSessionTimeout, c.MaxSessionTimeout > longest:
		return c, fmt.Errorf("zkserver: session timeouts from %v to %v: must be at least 1 ms, in order, and at most %v",
			c.MinSessionTimeout, c.MaxSessionTimeout, longest)
	case c.ContainerCheckInterval < time.Millisecond:
		return c, fmt.Errorf("zkserver: container check interval %v: must be at least 1 ms", c.ContainerCheckInterval)
	case c.Linger < 0:
		return c, fmt.Errorf("zkserver: linger %v: must not be negative", c.Linger)
	case c.Dir != "" && c.Memory != nil:
		return c, errors.New("zkserver: Dir and Memory are both set; a server has one store")
	}
	_, err := allowedWords(c.FourLetterWords)
	return c, err
}

func openStore(cfg Config) (store.Store, error) {
	switch {
	case cfg.Dir != "":
		j, err := store.OpenJournal(cfg.Dir)
		if err != nil {
			return nil, err // not a typed nil
		}
		return j, nil
	case cfg.Memory != nil:
		return cfg.Memory.store, nil
	}
	return store.NewMemory(), nil
}
