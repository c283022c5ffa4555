package conn

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
	"sync"
	"time"

	"holdfast"
	"holdfast/internal/cli/host"
	"holdfast/internal/cli/term"
	"holdfast/zk"
	"holdfast/zklocal"
)

// Target is the server of the locks, or the directory of their store.
type Target struct {
	URL string    // for messages
	Dir string    // of a file:// store; "" otherwise
	ZK  zk.Config // otherwise
}

const serverHint = "want zk://host:port,host:port/chroot, zks://… for TLS, unix:///path/of/socket or file:///directory"

// Target parses --server. It also sets the session timeout: from the flag, else from the URL's
// parameter, else from the flag's default.
func (g *Flags) Target() (Target, error) {
	t, err := parseTarget(g.Server)
	err = g.blame("server", err)
	if err == nil {
		err = g.Secure.apply(&t)
	}
	if t.ZK.SessionTimeout != 0 && (!g.TimeoutGiven || urlIsCloser(g.from)) {
		g.Timeout, g.TimeoutGiven = t.ZK.SessionTimeout, true
	}
	return t, err
}

// parseTarget parses the value of --server. "" is the default store.
func parseTarget(s string) (Target, error) {
	if s == "" {
		dir, err := DefaultDir()
		if err != nil {
			return Target{}, err
		}
		return fileTarget(dir), nil
	}
	if isFile(s) {
		u, err := url.Parse(s)
		switch {
		case err != nil:
			return Target{}, term.Misconfigured(serverHint, "server %q: %v", s, err)
		case u.Host != "":
			return Target{}, term.Misconfigured("write an absolute path with three slashes: file:///directory",
				"server %q: %q is taken for a host, but a directory is on this machine", s, u.Host)
		case u.Opaque != "" || u.Path == "" || u.Path == "/":
			return Target{}, term.Misconfigured(serverHint, "server %q: no directory given", s)
		case u.RawQuery != "" && u.RawQuery != "outlive=true" || u.Fragment != "" || u.ForceQuery:
			return Target{}, term.Misconfigured("write ? as %3F and # as %23", "server %q: a directory has no parameters but outlive=true", s)
		}
		path := u.Path
		if runtime.GOOS == "windows" {
			path = strings.TrimPrefix(path, "/") // file:///C:/dir
		}
		t := fileTarget(filepath.Clean(filepath.FromSlash(path)))
		t.ZK.Outlive = u.RawQuery != ""
		return t, nil
	}
	cfg, err := zk.ParseURL(s)
	if err != nil {
		return Target{}, term.Misconfigured(serverHint, "%w", err)
	}
	return Target{URL: s, ZK: cfg}, nil
}

// isFile reports whether the value of --server is a directory: that of file://, or the default store.
func isFile(server string) bool { return server == "" || strings.HasPrefix(server, "file:") }

func fileTarget(dir string) Target {
	path := filepath.ToSlash(dir)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return Target{URL: (&url.URL{Scheme: "file", Path: path}).String(), Dir: dir}
}

// DefaultDir returns the directory of the default store by the XDG rules, which ask for an absolute
// path.
func DefaultDir() (string, error) {
	const hint = "set HOME or XDG_STATE_HOME to an absolute path, or give --server file:///directory"
	if state := os.Getenv("XDG_STATE_HOME"); state != "" {
		if !filepath.IsAbs(state) {
			return "", term.Misconfigured(hint, "no place for the default store: XDG_STATE_HOME=%q is not an absolute path", state)
		}
		return filepath.Join(state, "holdfast"), nil
	}
	home, err := os.UserHomeDir()
	switch {
	case err != nil:
		return "", term.Misconfigured(hint, "no place for the default store: %w", err)
	case !filepath.IsAbs(home):
		return "", term.Misconfigured(hint, "no place for the default store: HOME=%q is not an absolute path", home)
	}
	return filepath.Join(home, ".local", "state", "holdfast"), nil
}

// Connection is a client of the target, with the store of a file:// target.
type Connection struct {
	Client  *zk.Client
	Store   *zklocal.Store // of a file:// target
	Contact *Contact
	Quiet   func() // ends the messages about the contact

	flags  *Flags
	target Target
}

// Connect waits for a session, at most for patience; 0 is no limit. While no server answers, it reports
// so on stderr. The reports go on until the caller calls Quiet.
func (g *Flags) Connect(ctx context.Context, t Target, patience time.Duration, say *term.Sayer) (_ *Connection, err error) {
	if err := t.admits(ctx); err != nil {
		return nil, err
	}
	c := &Connection{Contact: newContact(t), flags: g, target: t}
	cfg := t.ZK
	if t.Dir != "" {
		if c.Store, err = zklocal.Open(zklocal.Config{Dir: t.Dir, StartHost: host.Start}); err != nil {
			return nil, unfit(err)
		}
		cfg = c.Store.Config()
		cfg.Outlive = t.ZK.Outlive
	}
	cfg.SessionTimeout = g.Timeout
	cfg.CreateChroot = t.ZK.CreateChroot
	cfg.Trace = c.Contact.trace()
	c.Quiet = c.Contact.tell(say)
	if patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, patience, ErrUnreachable)
		defer cancel()
	}
	if c.Client, err = zk.Dial(ctx, cfg); err != nil {
		if errors.Is(err, ErrUnreachable) {
			err = c.Contact.GaveUp(patience)
		}
		c.Close()
		return nil, t.Explain(err)
	}
	if session, err := c.Client.Session(ctx); err == nil {
		say.Detail("connected to %s (%s): session 0x%x, timeout %v", t.URL, g.whence("server"), uint64(session.ID()), session.Timeout())
		if say.Log.Verbose && t.Dir == "" {
			c.identify(ctx, cfg, say)
		}
	}
	return c, nil
}

// Reading returns g for a command that holds no lock. Its session need not outlive its patience for one answer.
func Reading(g *Flags) *Flags {
	reading := *g
	reading.Timeout = g.Patience()
	return &reading
}

// Guard returns a supervise.Terms.Guard. When this process dies, its session goes on until the watchdog has ended the job,
// too. ctx ends when the lock is lost.
func (c *Connection) Guard(ctx context.Context) func(pid int) error {
	return func(pid int) error { return c.Client.Share(ctx, pid) }
}

// identify reports if the connected server says that it is not Apache ZooKeeper.
func (c *Connection) identify(ctx context.Context, cfg zk.Config, say *term.Sayer) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	network, addr := "tcp", c.Contact.connected()
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
	if _, other := Software(text); other != "" {
		say.Line("%s says that it is %s, and not Apache ZooKeeper: how an ensemble proves that a session lives is known for Apache's only", addr, other)
	}
}

// admits returns an error if this user may not connect to the socket of the server. To wait for a permission would be
// to wait for ever. Only a server that starts needs a moment: it makes its socket before it admits a group.
func (t Target) admits(ctx context.Context) error {
	for began := time.Now(); ; {
		denied := false
		for _, server := range t.ZK.Servers {
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
			return &term.Fault{Code: term.ExitDenied, Err: fmt.Errorf("cannot reach %s: %w", t.URL, fs.ErrPermission), Hint: "the socket is for its owner, and for a group if it has one: root adds you with usermod -aG GROUP USER, and you log in again"}
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
	return term.Misconfigured("on this machine only: --server file:///directory, or XDG_STATE_HOME, on a local disk; between machines: --server zk://host:port", "%w", err)
}

// Explain adds a hint to err if no server answered, or a certificate was refused.
func (t Target) Explain(err error) error {
	hint := "start a server there, or give another one with --server or HOLDFAST_SERVER"
	if t.Dir != "" {
		hint = "see " + filepath.Join(t.Dir, host.LogName) + ", or give another server with --server or HOLDFAST_SERVER"
	}
	distrust := CertificateHint(err)
	gaveUp, ok := errors.AsType[*unreachable](err)
	switch {
	case ok:
		err = gaveUp // without the name of the operation
	case distrust == "":
		return err
	}
	switch {
	case distrust != "":
		hint = distrust
	case ok && strings.Contains(gaveUp.Error(), "its port wants TLS"):
		hint = "if the port wants TLS, write zks:// instead of zk://; otherwise " + hint
	}
	return &term.Fault{Code: term.ExitUnavailable, Err: fmt.Errorf("cannot reach %s: %w", t.URL, err), Hint: hint}
}

// Watch calls lost when no server has answered for patience. Otherwise an operation would
// wait for ever. Watch returns when ctx ends.
func (c *Connection) Watch(ctx context.Context, patience time.Duration, lost func(error)) {
	for {
		within, cancel := context.WithTimeoutCause(ctx, patience, ErrUnreachable)
		session, err := c.Client.Session(within)
		cancel()
		if err != nil {
			if errors.Is(err, ErrUnreachable) {
				err = c.Contact.GaveUp(patience)
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

// Close ends the session and releases its locks.
func (c *Connection) Close() {
	c.Quiet()
	if c.Client != nil {
		_ = c.Client.Close() // always nil
	}
	if c.Store != nil {
		_ = c.Store.Close() // the next user of the directory finds the fault
	}
}

// Ask runs f with a connection. It is for the subcommands that only read.
func (g *Flags) Ask(ctx context.Context, f func(context.Context, *zk.Client) error) error {
	t, err := g.Target()
	if err != nil {
		return err
	}
	say := g.Log.NewSayer(os.Stderr)
	defer say.Flush()
	c, err := Reading(g).Connect(ctx, t, g.Patience(), say)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go c.Watch(ctx, g.Patience(), cancel)
	err = f(ctx, c.Client)
	if errors.Is(err, zk.ErrSessionExpired) && !errors.Is(err, holdfast.ErrLost) { // no lock was held
		err = &term.Fault{Code: term.ExitUnavailable, Err: err, Hint: "try again"}
	}
	return t.Explain(err)
}

// Software returns the version in an answer to srvr. other is the name and the version of a server that is not Apache
// ZooKeeper, or holdfast serve, which answers as ZooKeeper does.
func Software(text []byte) (version, other string) {
	m := versionLine().FindSubmatch(text)
	if m == nil {
		return "", ""
	}
	version, _, _ = strings.Cut(string(m[2]), "--") // then follows the commit
	if name := string(m[1]); name != "Zookeeper" {
		other = name + " " + version
	}
	return version, other
}

var versionLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^([\w .-]{1,60}) version: ([^\s,]{1,60})`) })
