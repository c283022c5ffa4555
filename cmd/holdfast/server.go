package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zklocal"
)

// target is the server of the locks, or the directory of their store.
type target struct {
	url string    // for messages
	dir string    // of a file:// store; "" otherwise
	zk  zk.Config // otherwise
}

const serverHint = "want zk://host:port,host:port/chroot, zks://… for TLS, unix:///path/of/socket or file:///directory"

// target parses --server. It also sets the session timeout: from the flag, else from the URL's
// parameter, else from the flag's default.
func (g *globals) target() (target, error) {
	t, err := parseTarget(g.server)
	err = g.blame("server", err)
	if err == nil {
		err = g.secure.apply(&t)
	}
	if t.zk.SessionTimeout != 0 && (!g.timeoutGiven || urlIsCloser(g.from)) {
		g.timeout, g.timeoutGiven = t.zk.SessionTimeout, true
	}
	return t, err
}

// parseTarget parses the value of --server. "" is the default store.
func parseTarget(s string) (target, error) {
	if s == "" {
		dir, err := defaultDir()
		if err != nil {
			return target{}, err
		}
		return fileTarget(dir), nil
	}
	if strings.HasPrefix(s, "file:") {
		u, err := url.Parse(s)
		switch {
		case err != nil:
			return target{}, misconfigured(serverHint, "server %q: %v", s, err)
		case u.Host != "":
			return target{}, misconfigured("write an absolute path with three slashes: file:///directory",
				"server %q: %q is taken for a host, but a directory is on this machine", s, u.Host)
		case u.Opaque != "" || u.Path == "" || u.Path == "/":
			return target{}, misconfigured(serverHint, "server %q: no directory given", s)
		case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
			return target{}, misconfigured("write ? as %3F and # as %23", "server %q: a directory has no parameters", s)
		}
		path := u.Path
		if runtime.GOOS == "windows" {
			path = strings.TrimPrefix(path, "/") // file:///C:/dir
		}
		return fileTarget(filepath.Clean(filepath.FromSlash(path))), nil
	}
	cfg, err := zk.ParseURL(s)
	if err != nil {
		return target{}, misconfigured(serverHint, "%w", err)
	}
	return target{url: s, zk: cfg}, nil
}

func fileTarget(dir string) target {
	path := filepath.ToSlash(dir)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return target{url: (&url.URL{Scheme: "file", Path: path}).String(), dir: dir}
}

// defaultDir returns the directory of the default store by the XDG rules, which ask for an absolute
// path.
func defaultDir() (string, error) {
	const hint = "set HOME or XDG_STATE_HOME to an absolute path, or give --server file:///directory"
	if state := os.Getenv("XDG_STATE_HOME"); state != "" {
		if !filepath.IsAbs(state) {
			return "", misconfigured(hint, "no place for the default store: XDG_STATE_HOME=%q is not an absolute path", state)
		}
		return filepath.Join(state, "holdfast"), nil
	}
	home, err := os.UserHomeDir()
	switch {
	case err != nil:
		return "", misconfigured(hint, "no place for the default store: %w", err)
	case !filepath.IsAbs(home):
		return "", misconfigured(hint, "no place for the default store: HOME=%q is not an absolute path", home)
	}
	return filepath.Join(home, ".local", "state", "holdfast"), nil
}

// connection is a client of the target, with the store of a file:// target.
type connection struct {
	client  *zk.Client
	store   *zklocal.Store // of a file:// target
	contact *contact
	quiet   func() // ends the messages about the contact
}

// connect waits for a session, at most for patience; 0 is no limit. While no server answers, it reports
// so on stderr. The reports go on until the caller calls quiet.
func (g *globals) connect(ctx context.Context, t target, patience time.Duration, say *sayer) (_ *connection, err error) {
	if err := t.admits(ctx); err != nil {
		return nil, err
	}
	c := &connection{contact: newContact(t)}
	cfg := t.zk
	if t.dir != "" {
		if c.store, err = zklocal.Open(zklocal.Config{Dir: t.dir, StartHost: startHost}); err != nil {
			return nil, unfit(err)
		}
		cfg = c.store.Config()
	}
	cfg.SessionTimeout = g.timeout
	cfg.CreateChroot = t.zk.CreateChroot
	cfg.Trace = c.contact.trace()
	c.quiet = c.contact.tell(say)
	if patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, patience, errUnreachable)
		defer cancel()
	}
	if c.client, err = zk.Dial(ctx, cfg); err != nil {
		if errors.Is(err, errUnreachable) {
			err = c.contact.gaveUp(patience)
		}
		c.close()
		return nil, t.unreachable(err)
	}
	if session, err := c.client.Session(ctx); err == nil {
		say.detail("connected to %s (%s): session 0x%x, timeout %v", t.url, g.whence("server"), uint64(session.ID()), session.Timeout())
		if say.log.verbose && t.dir == "" {
			c.identify(ctx, cfg, say)
		}
	}
	return c, nil
}

// identify reports if the connected server says that it is not Apache ZooKeeper.
func (c *connection) identify(ctx context.Context, cfg zk.Config, say *sayer) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	network, addr := "tcp", c.contact.connected()
	if path, ok := strings.CutPrefix(addr, "unix://"); ok {
		network, addr = "unix", path
	}
	nc, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return
	}
	defer nc.Close()
	deadline, _ := ctx.Deadline()
	_ = nc.SetDeadline(deadline)
	if cfg.TLS != nil {
		cfg.TLS = cfg.TLS.Clone()
		if host, _, err := net.SplitHostPort(addr); err == nil && cfg.TLS.ServerName == "" {
			cfg.TLS.ServerName = host
		}
		nc = tls.Client(nc, cfg.TLS)
	}
	if _, err := io.WriteString(nc, "srvr"); err != nil {
		return
	}
	text, _ := io.ReadAll(io.LimitReader(nc, 64<<10))
	if _, other := software(text); other != "" {
		say.line("%s says that it is %s, and not Apache ZooKeeper: how an ensemble proves that a session lives is known for Apache's only", addr, other)
	}
}

// admits returns an error if this user may not connect to the socket of the server. To wait for a permission would be
// to wait for ever. Only a server that starts needs a moment: it makes its socket before it admits a group.
func (t target) admits(ctx context.Context) error {
	for began := time.Now(); ; {
		denied := false
		for _, server := range t.zk.Servers {
			path, ok := strings.CutPrefix(server, "unix://")
			if !ok || mayConnect(path) {
				return nil
			}
			denied = true
		}
		switch {
		case !denied:
			return nil
		case time.Since(began) > time.Second:
			return &fault{exitDenied, fmt.Errorf("cannot reach %s: %w", t.url, fs.ErrPermission), "the socket is for its owner, and for a group if it has one: root adds you with usermod -aG GROUP USER, and you log in again"}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// unfit adds a hint to the error of a directory on a shared file system.
func unfit(err error) error {
	if !errors.Is(err, zklocal.ErrShared) {
		return err
	}
	return misconfigured("on this machine only: --server file:///directory, or XDG_STATE_HOME, on a local disk; between machines: --server zk://host:port", "%w", err)
}

// unreachable adds a hint to err if no server answered, or a certificate was refused.
func (t target) unreachable(err error) error {
	hint := "start a server there, or give another one with --server or HOLDFAST_SERVER"
	if t.dir != "" {
		hint = "see " + filepath.Join(t.dir, hostLogName) + ", or give another server with --server or HOLDFAST_SERVER"
	}
	distrust := certificateFault(err)
	gaveUp, ok := errors.AsType[*unreachable](err)
	switch {
	case ok:
		err = gaveUp // without the name of the operation
	case distrust == "":
		return err
	}
	if distrust != "" {
		hint = distrust
	}
	return &fault{exitUnavailable, fmt.Errorf("cannot reach %s: %w", t.url, err), hint}
}

// watch calls lost when no server has answered for the session timeout. Otherwise an operation would
// wait for ever. watch returns when ctx ends.
func (c *connection) watch(ctx context.Context, timeout time.Duration, lost func(error)) {
	for {
		within, cancel := context.WithTimeoutCause(ctx, timeout, errUnreachable)
		session, err := c.client.Session(within)
		cancel()
		if err != nil {
			if errors.Is(err, errUnreachable) {
				err = c.contact.gaveUp(timeout)
			}
			lost(err)
			return
		}
		select {
		case <-session.Context().Done():
		case <-ctx.Done():
			return
		}
	}
}

// close ends the session and releases its locks.
func (c *connection) close() {
	c.quiet()
	if c.client != nil {
		_ = c.client.Close() // always nil
	}
	if c.store != nil {
		_ = c.store.Close() // the next user of the directory finds the fault
	}
}

// ask runs f with a connection. It is for the subcommands that only read.
func (g *globals) ask(ctx context.Context, f func(context.Context, *zk.Client) error) error {
	t, err := g.target()
	if err != nil {
		return err
	}
	say := g.log.newSayer(os.Stderr)
	defer say.flush()
	c, err := g.connect(ctx, t, g.timeout, say)
	if err != nil {
		return err
	}
	defer c.close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go c.watch(ctx, g.timeout, cancel)
	err = f(ctx, c.client)
	if errors.Is(err, zk.ErrSessionExpired) && !errors.Is(err, holdfast.ErrLost) { // no lock was held
		err = &fault{exitUnavailable, err, "try again"}
	}
	return t.unreachable(err)
}

// software returns the version in an answer to srvr. other is the name and the version of a server that is not Apache
// ZooKeeper, or holdfast serve, which answers as ZooKeeper does.
func software(text []byte) (version, other string) {
	m := versionLine.FindSubmatch(text)
	if m == nil {
		return "", ""
	}
	version, _, _ = strings.Cut(string(m[2]), "--") // then follows the commit
	if name := string(m[1]); name != "Zookeeper" {
		other = name + " " + version
	}
	return version, other
}

var versionLine = regexp.MustCompile(`(?m)^([\w .-]{1,60}) version: ([^\s,]{1,60})`)
