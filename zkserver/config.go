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

// A Config says how a server is to run. The zero value is a server in memory.
type Config struct {
	// Dir holds the store; it is made if it is not there, and one server at a time has
	// it open. Empty keeps everything in memory.
	Dir string

	// Memory holds the store if Dir is empty; nil is a fresh one. Given to one Open
	// after the other, it makes a restart without a disk.
	Memory *Memory

	// TickTime is ZooKeeper's unit of time; 0 is 2 s. Sessions expire within one tick
	// of their timeout.
	TickTime time.Duration

	// What a client asks for as session timeout is brought into these limits; 0 is 2
	// and 20 ticks.
	MinSessionTimeout, MaxSessionTimeout time.Duration

	// Linger, if above 0, shuts the server down once no client has been connected for
	// that long, and no session lives. A session without a client lives for its timeout.
	Linger time.Duration

	// OneMachine says that all clients are processes of this machine. Changes of sessions and
	// ephemeral nodes are then written before they are answered, and not synced. They survive
	// the end of this process. A power failure may undo them, but it ends all clients, too: when
	// the machine has restarted, Open ends the sessions that were made under OneMachine. All
	// other changes are synced before they are answered.
	//
	// Everything is synced once [Server.Serve] has had a listener other than a Unix socket, and
	// on systems that do not tell whether they have restarted (Linux and macOS do).
	OneMachine bool

	// Users may authenticate by SASL DIGEST-MD5, and have a password each. Without users
	// SASL gets the answer of a ZooKeeper without a JAAS file. The server keeps hashes. See
	// ParseUsers for a file. Who overhears a client can try passwords against what it said,
	// and all that follows is in the clear: use TLS.
	Users map[string]string

	// SuperDigest is user:base64(sha1(user:password)), as ZooKeeper's superDigest: who
	// authenticates so, by the scheme digest, may do everything whatever ACLs say. Empty:
	// nobody.
	SuperDigest string

	// RequireAuth names the schemes digest, sasl and x509, by one of which a client must
	// have authenticated before it can do anything but ping and close its session; or as
	// superuser. Empty requires nothing. By itself digest takes every password; where it is
	// required, only those of Users.
	RequireAuth []string

	// FourLetterWords are those that anybody who can connect may ask; "*" stands for all, and
	// blanks around a word do not count. nil is ruok, srvr, isro and envi. As in Apache's
	// server, srvr is always allowed. The others tell of other clients, and some of them
	// take the longer the more there is to tell; they end at 4 MiB.
	FourLetterWords []string

	// Limits keep clients from harming each other; the zero value has a default for each.
	Limits Limits

	// EnforceQuota refuses creates and sets that exceed the hard limits of a quota (zkCli's
	// setquota -N and -B). Otherwise, as with soft limits, they are only counted and logged.
	EnforceQuota bool

	// QuotaWritable lets clients write below /zookeeper/quota, as Apache's server does. The ACLs
	// there still count; they permit everybody unless a client changes them. Without
	// QuotaWritable only the superuser may set quotas (see SuperDigest), and others get -102
	// NoAuth.
	QuotaWritable bool

	// NoTTLNodes refuses new nodes with a time to live. The answer is -6 Unimplemented, as that
	// of Apache's server without zookeeper.extendedTypesEnabled. Nodes that exist keep their time
	// to live.
	NoTTLNodes bool

	// ContainerCheckInterval is how often the server looks for nodes to remove: containers that
	// are empty again, and nodes whose time to live is over. 0 is a minute, as in Apache's
	// znode.container.checkIntervalMs; the least is 1 ms.
	ContainerCheckInterval time.Duration

	// Logger hears of what an operator may want to know; nil is silent.
	Logger *slog.Logger
}

// Memory is a store for servers that follow each other in one process.
type Memory struct{ store *store.Memory }

// NewMemory returns an empty store.
func NewMemory() *Memory { return &Memory{store.NewMemory()} }

// Validate says what is wrong with c, as Open does, but opens nothing.
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
