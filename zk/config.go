package zk

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"holdfast/zkproto"
)

// DefaultSessionTimeout is the session timeout if Config does not set one. It is the most that Apache's servers grant by
// default. With it, a command of holdfast run survives 20 s without a leader, and the election. A machine that dies or loses its network keeps its
// locks for as long, and so does a program that is killed, unless its server is on a Unix socket (see Config.Outlive).
const DefaultSessionTimeout = 40 * time.Second

// A Config describes how to reach an ensemble. Only Servers is required.
type Config struct {
	// Servers are tried in random order: "host:port", "host" (port 2181) or "unix:///path". The
	// client looks host names up again at each attempt. If a name has several addresses, it
	// tries each, and each has its own share of the time.
	Servers []string

	// Chroot is put in front of every path. Results and events come without it.
	Chroot string

	// CreateChroot makes Dial create the missing nodes of Chroot, persistent and open to all.
	CreateChroot bool

	// SessionTimeout is the timeout that the client asks for; the server decides
	// (Session.Timeout). Zero is DefaultSessionTimeout.
	SessionTimeout time.Duration

	// Outlive keeps the session for its timeout when this process ends without Close. Without Outlive, a server of
	// holdfast on a Unix socket of this machine ends the session at once when the process is dead. Set it if child processes
	// do the work under a lock and run on when this process is killed. See also Client.Share.
	Outlive bool

	// Lease says what proves a session that has a lease, see Session.Lease. The default depends
	// on the server.
	Lease LeaseMode

	// TickTime is the tickTime of the ensemble, the unit of its proofs. Zero is
	// DefaultTickTime. If the ensemble's is longer, set it here. If it is shorter, setting it
	// allows shorter session timeouts. If it is below 613 ms, it must be set: such an ensemble grants
	// only timeouts that are too short for the default.
	TickTime time.Duration

	// Dial makes the connections. network is "tcp" or "unix", and addr is as in Servers. Nil
	// uses a net.Dialer, once for each address of a host name.
	//
	// A transport can report that the server's sessions have ended, with an error that wraps
	// ErrSessionExpired. If Read or Write of a connection returns such an error, the session
	// ends at once with that error as its cause, and the client asks no other server. The same
	// holds for an error of Dial while the client tries to resume a session. Without a session,
	// the error is like any other, and the client tries the next server.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// TLS is the configuration of TLS on every connection; nil is plain TCP. If ServerName is
	// empty, the host's name in Servers is used. Versions below 1.2 are never used, whatever
	// MinVersion says. With Certificates, a server may accept the client's certificate as its
	// identity (scheme "x509"); that needs no Auth.
	TLS *tls.Config

	// Auth are the client's identities. On every connection, the client authenticates with them
	// in this order before it sends anything else.
	Auth []Auth

	// Trace has hooks for what happens to the client. Nil has none.
	Trace *Trace

	// Logger gets connections, losses and expiries. Nil logs nothing.
	Logger *slog.Logger
}

// ParseURL reads the server part of a Config from
//
//	zk://host1:2181,host2:2181/chroot?timeout=10s&tick=2s&outlive=true
//	zks://host1:2281,host2:2281/chroot?timeout=10s&tick=2s
//	unix:///path/to/socket?outlive=true
//
// The chroot and the parameters are optional: the session timeout, the ensemble's tick time, and Config.Outlive. zks is TLS, for
// servers whose certificates the system trusts unless Config.TLS is changed. With zks, every
// host needs a port.
func ParseURL(s string) (Config, error) {
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		// The part before the @ is not shown, because it may be a password.
		return Config{}, fmt.Errorf("zk: server URL …%q: credentials do not belong in a URL", s[at:])
	}
	bad := func(format string, args ...any) (Config, error) {
		return Config{}, fmt.Errorf("zk: server URL %q: %s", s, fmt.Sprintf(format, args...))
	}
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return bad("no scheme; want zk://host:port,host:port/chroot, zks://… or unix:///path")
	}
	var (
		cfg Config
		err error
	)
	switch scheme {
	case "unix":
		if !strings.HasPrefix(rest, "/") {
			return bad("the socket's path must be absolute: unix:///path")
		}
		cfg.Servers = []string{s}
		if path, outlive, ok := strings.Cut(s, "?outlive="); ok {
			if cfg.Outlive, err = strconv.ParseBool(outlive); err != nil {
				return bad("outlive: want true or false")
			}
			cfg.Servers[0] = path
		}
		return cfg, nil
	case "zk":
	case "zks":
		cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	default:
		hint := ""
		if scheme == "file" {
			hint = "; package holdfast/zklocal opens file://"
		}
		return bad("unknown scheme %q; want zk, zks or unix%s", scheme, hint)
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, chroot, slash := strings.Cut(rest, "/")
	if slash && chroot != "" {
		if cfg.Chroot = "/" + strings.TrimSuffix(chroot, "/"); cfg.Chroot == "/" {
			return bad("the chroot has an empty component")
		}
	}
	for h := range strings.SplitSeq(hosts, ",") {
		if h == "" {
			return bad("an empty host name")
		}
		if _, addr, err := splitServer(h); err == nil && addr != h && scheme == "zks" {
			return bad("%s has no port, and there is no usual one for TLS", h)
		}
		cfg.Servers = append(cfg.Servers, h)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return bad("query: %v", err)
	}
	for key, v := range values {
		if key == "outlive" {
			if cfg.Outlive, err = strconv.ParseBool(v[0]); err != nil {
				return bad("outlive: want true or false")
			}
			continue
		}
		d, err := time.ParseDuration(v[0])
		switch {
		case key != "timeout" && key != "tick":
			return bad("unknown parameter %q; there are timeout, tick and outlive", key)
		case err != nil:
			return bad("%s: %v", key, err)
		case key == "timeout":
			cfg.SessionTimeout = d
		default:
			cfg.TickTime = d
		}
	}
	if err := cfg.check(); err != nil {
		return bad("%v", err)
	}
	return cfg, nil
}

// check returns an error if cfg is invalid.
func (cfg *Config) check() error {
	if len(cfg.Servers) == 0 {
		return errors.New("no servers given")
	}
	for _, s := range cfg.Servers {
		if _, _, err := splitServer(s); err != nil {
			return err
		}
	}
	if cfg.Chroot != "" {
		if err := zkproto.ValidatePath(cfg.Chroot); err != nil {
			return fmt.Errorf("chroot: %w", err)
		}
	}
	if err := cfg.checkTLS(); err != nil {
		return err
	}
	if err := checkAuth(cfg.Auth); err != nil {
		return err
	}
	const maxTimeout = 1<<31*time.Millisecond - time.Millisecond
	if cfg.SessionTimeout < 0 || cfg.SessionTimeout > maxTimeout {
		return fmt.Errorf("session timeout %v is out of range", cfg.SessionTimeout)
	}
	if cfg.TickTime < 0 || cfg.TickTime > time.Hour {
		return fmt.Errorf("tick time %v is out of range", cfg.TickTime)
	}
	return nil
}

// splitServer returns the network and address of an entry of Config.Servers.
func splitServer(s string) (network, addr string, err error) {
	if path, ok := strings.CutPrefix(s, "unix://"); ok {
		if !strings.HasPrefix(path, "/") {
			return "", "", fmt.Errorf("server %q: the socket's path must be absolute", s)
		}
		return "unix", path, nil
	}
	addr = s
	host, port, err := net.SplitHostPort(addr)
	if ae := (*net.AddrError)(nil); errors.As(err, &ae) && ae.Err == "missing port in address" {
		addr = net.JoinHostPort(strings.Trim(s, "[]"), "2181")
		host, port, err = net.SplitHostPort(addr)
	}
	if err != nil {
		return "", "", fmt.Errorf("server %q: %v", s, err)
	}
	if host == "" || port == "" {
		return "", "", fmt.Errorf("server %q: want host:port", s)
	}
	return "tcp", addr, nil
}
