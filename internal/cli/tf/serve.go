package tf

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/internal/cli/certs"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/host"
	"holdfast/internal/cli/term"
	"holdfast/internal/daemon"
	"holdfast/internal/deed"
	"holdfast/internal/htpasswd"
	"holdfast/internal/supervise"
	"holdfast/terraform"
	"holdfast/zk"
)

const (
	// defaultAddress is where tf serve listens without --listen and --listen-tls.
	defaultAddress = "127.0.0.1:7482"
	// mostConnections is how many connections all addresses of tf serve have open at most. A request for a held lock keeps one.
	mostConnections = 2048
	// patience is how long tf serve answers the requests that it has received, before it stops.
	patience = 5 * time.Second
)

// serveFlags are the flags of tf serve.
type serveFlags struct {
	listen, listenTLS   []string
	cert, key, clientCA string // files
	users, tokens       string // files
	stateDir            string
	locksOnly           bool
	versions            int
	force               term.Choice
	insecure            bool
}

func newServe(g *conn.Flags) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Serve a backend for Terraform and OpenTofu",
		Long: `serve is an HTTP backend for Terraform and OpenTofu. It keeps their states and locks on the server that --server
names, as a client of this server. It prints one line for each of its addresses on stdout, then ready. The clients need

  TF_HTTP_ADDRESS=http://127.0.0.1:7482/tf/PROJECT/WORKSPACE
  TF_HTTP_LOCK_ADDRESS=http://127.0.0.1:7482/tf/PROJECT/WORKSPACE/lock
  TF_HTTP_UNLOCK_ADDRESS=http://127.0.0.1:7482/tf/PROJECT/WORKSPACE/lock

The locks outlive serve, its session and the clients.

An address that other machines can reach needs TLS, and a login: --users, --tokens or --https-client-ca. serve reads
these files and the certificates again after a change, and after HUP. Requests of removed users end. If a file is not
valid, the present users stay.

Connections without a login have a quarter of all, and the oldest gives way. If there are too many others, or too many
states on their way, the user or address with the most gives way. A body has to arrive at 8 KiB a second. Wrong
passwords and tokens have to wait: an address has five attempts at once, and then 1 s, 2 s, 4 s, up to 5 minutes between
two. It forgets one every 5 minutes.

INT and TERM stop serve. It tells systemd when it is ready (sd_notify).

Exit codes:
  0   INT or TERM stopped it
  2   wrong command line
  69  no server answered at the beginning
  77  no permission
  78  wrong configuration
  125 an address cannot be listened at`,
		Example: `  holdfast tf serve
  holdfast tf serve --server zk://zk1:2181,zk2:2181,zk3:2181 --listen-tls :7483 --https-cert cert.pem --https-key key.pem --users users`,
		Args: term.Operands(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return f.serve(g, cmd.OutOrStdout())
		},
	}
	f.register(cmd.Flags())
	return cmd
}

func (t *serveFlags) register(f *pflag.FlagSet) {
	t.force = term.Choice{Options: []string{"allow", "refuse"}}
	f.StringArrayVar(&t.listen, "listen", nil, "TCP address without encryption; repeatable (default "+defaultAddress+", unless there is one with TLS)")
	f.StringArrayVar(&t.listenTLS, "listen-tls", nil, "TCP address with TLS, such as :7483; repeatable")
	f.StringVar(&t.cert, "https-cert", "", "file with the certificate (PEM) for --listen-tls, followed by intermediate ones")
	f.StringVar(&t.key, "https-key", "", "file with the private key (PEM) of --https-cert; other users must not be able to read it")
	f.StringVar(&t.clientCA, "https-client-ca", "", "file with the CA certificates (PEM) of the clients: at --listen-tls, they must have a certificate")
	f.StringVar(&t.users, "users", "", "file of the users, with lines of holdfast tf passwd (TF_HTTP_USERNAME, TF_HTTP_PASSWORD); other users of this machine must not be able to read it")
	f.StringVar(&t.tokens, "tokens", "", "file of the bearer tokens, one a line, at least 16 bytes each; other users of this machine must not be able to read it")
	f.StringVar(&t.stateDir, "state-dir", "", "existing directory for the states (default: in the server)")
	f.BoolVar(&t.locksOnly, "locks-only", false, "keep locks and no states")
	f.IntVar(&t.versions, "versions", 50, "how many versions of a state to keep, 1 to 500")
	f.Var(&t.force, "force-unlock", "whether terraform force-unlock works, which does not send the id of the lock: allow or refuse")
	f.BoolVar(&t.insecure, "insecure", false, "allow addresses that other machines can reach without encryption or without a login")
}

// check validates the flags.
func (t *serveFlags) check() error {
	if len(t.listen)+len(t.listenTLS) == 0 {
		t.listen = []string{defaultAddress}
	}
	known := t.users != "" || t.tokens != "" || t.clientCA != ""
	switch {
	case t.versions < 1 || t.versions > 500:
		return term.Usage("", "serve: --versions %d: want 1 to 500", t.versions)
	case t.locksOnly && t.stateDir != "":
		return term.Usage("leave out one of them", "serve: --locks-only and --state-dir do not go together")
	case len(t.listenTLS) > 0 && (t.cert == "" || t.key == ""):
		return term.Usage("", "serve: --listen-tls needs both --https-cert and --https-key")
	case len(t.listenTLS) == 0 && t.cert+t.key+t.clientCA != "":
		return term.Usage("give one with --listen-tls", "serve: --https- flags are given, but no address for TLS")
	}
	if t.stateDir != "" {
		if info, err := os.Stat(t.stateDir); err != nil {
			return term.Misconfigured("create it", "serve: --state-dir: %w", err)
		} else if !info.IsDir() {
			return term.Misconfigured("", "serve: --state-dir: %s is no directory", t.stateDir)
		}
	}
	for _, addr := range t.listen {
		if open, err := reachable("--listen", addr); err != nil {
			return err
		} else if open && !t.insecure {
			return term.Usage("listen on 127.0.0.1, or use --listen-tls", "serve: --listen %s: other machines can reach this address, and states hold secrets", addr)
		}
	}
	for _, addr := range t.listenTLS {
		if open, err := reachable("--listen-tls", addr); err != nil {
			return err
		} else if open && !t.insecure && !known {
			return term.Usage("ask for a password with --users FILE, for a token with --tokens FILE, or for certificates with --https-client-ca FILE",
				"serve: --listen-tls %s: other machines can reach this address, and TLS alone admits every client", addr)
		}
	}
	return nil
}

// reachable reports whether other machines can connect to addr.
func reachable(flag, addr string) (bool, error) {
	open, err := term.Reachable(addr)
	if err != nil {
		return false, term.Usage("give an address such as 127.0.0.1:7482", "serve: %s %s: %w", flag, term.Cut(addr, 80), err)
	}
	return open, nil
}

// credentials reads the files.
func (t *serveFlags) credentials() (c terraform.Credentials, err error) {
	for _, file := range []struct {
		flag, path, hint string
		parse            func(string) error
	}{
		{"--users", t.users, "holdfast tf passwd NAME makes a line: NAME:HASH, with a hash of bcrypt", c.ParseUsers},
		{"--tokens", t.tokens, "", c.ParseTokens},
	} {
		if file.path == "" {
			continue
		}
		text, err := conn.ReadSecret("serve: "+file.flag, file.path)
		if err != nil {
			return c, err
		}
		if err := file.parse(string(text)); err != nil {
			return c, term.Misconfigured(file.hint, "serve: %s: %s: %w", file.flag, file.path, err)
		}
	}
	return c, nil
}

// keys reads the certificates. It returns nil without TLS.
func (t *serveFlags) keys(log *slog.Logger) (*certs.Keyring, error) {
	files := certs.Flags{Cert: t.cert, Key: t.key, ClientCA: t.clientCA, Listen: t.listenTLS}
	return files.Open(certs.Origins{"tls-cert": "serve: --https-cert", "tls-key": "serve: --https-key", "tls-client-ca": "serve: --https-client-ca"}, log)
}

// A server serves the backend until it is closed.
type server struct {
	backend *terraform.Backend
	http    *http.Server
	addrs   []net.Listener
	lines   []string
}

func (t *serveFlags) serve(g *conn.Flags, stdout io.Writer) error {
	log := (&term.ServerLog{Format: g.Log.Format}).Logger(os.Stderr)
	daemon.LimitMemory()
	watch := htpasswd.NewWatch(t.users, t.tokens)
	keys, err := t.keys(log)
	if err != nil {
		return err
	}
	cred, err := t.credentials()
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 16)
	supervise.SurviveBrokenPipe()
	supervise.Notify(signals, supervise.StopSignals...)
	say := g.Log.NewSayer(os.Stderr)
	defer say.Flush()
	at, err := g.Target()
	if err != nil {
		return err
	}
	c, err := connect(g, at, say, signals)
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := t.open(c.Client, cred, keys, log)
	if err != nil {
		return err
	}
	defer s.close()
	for _, line := range append(s.lines, host.Ready) {
		if _, err := fmt.Fprintln(stdout, line); err != nil {
			return fmt.Errorf("serve: stdout: %w", err)
		}
	}
	return s.run(t, watch, keys, signals, log)
}

// run serves until a signal of supervise.StopSignals arrives.
func (s *server) run(t *serveFlags, watch *htpasswd.Watch, keys *certs.Keyring, signals chan os.Signal, log *slog.Logger) error {
	failed := make(chan error, len(s.addrs))
	for _, l := range s.addrs {
		go func() { failed <- s.http.Serve(l) }()
	}
	ctx, end := context.WithCancel(context.Background())
	defer end()
	changes := make(chan struct{})
	go watch.Follow(ctx, func() {
		select {
		case changes <- struct{}{}:
		case <-ctx.Done():
		}
	})
	supervise.Notify(signals, supervise.ReloadSignals...)
	systemd := daemon.NewNotifier(log)
	systemd.Ready()
	for {
		select {
		case sig := <-signals:
			if !slices.Contains(supervise.ReloadSignals, sig) {
				log.Info("serve: stopping", "signal", sig)
				systemd.Stopping()
				return nil
			}
			systemd.Reloading()
			keys.Reload()
			s.reload(t, log)
			systemd.Ready()
		case <-changes:
			s.reload(t, log)
		case err := <-failed:
			return &term.Fault{Code: term.ExitFailed, Err: fmt.Errorf("serve: %w", err), Hint: ""}
		}
	}
}

// open makes the backend and opens its addresses.
func (t *serveFlags) open(c *zk.Client, cred terraform.Credentials, keys *certs.Keyring, log *slog.Logger) (_ *server, err error) {
	s := &server{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	s.backend, err = terraform.New(terraform.Config{
		Client: c, StateDir: t.stateDir, LocksOnly: t.locksOnly, Credentials: cred, Versions: t.versions,
		RefuseForceUnlock: t.force.Is("refuse"), Logger: log, Admitted: daemon.Admit,
		Audit: func(ctx context.Context, e terraform.Event) { auditForce(ctx, c, e, log) },
	})
	if err != nil {
		return nil, term.Misconfigured("", "serve: %w", err)
	}
	all := slices.Concat(t.listen, t.listenTLS)
	most := daemon.WithinFiles(mostConnections) / len(all)
	for i, addr := range all {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, &term.Fault{Code: term.ExitFailed, Err: fmt.Errorf("serve: %w", err), Hint: "choose another address, or end the process that listens there"}
		}
		l = daemon.AdmissionListener(l, most)
		protocol := "http"
		if i >= len(t.listen) {
			protocol = "https"
			l = tls.NewListener(l, keys.ServerConfig())
		}
		s.addrs = append(s.addrs, l)
		s.lines = append(s.lines, fmt.Sprintf("listening %s://%s", protocol, l.Addr()))
	}
	s.http = httpServer(s.backend, log)
	return s, nil
}

// httpServer returns a server for a backend. The backend itself bounds the time for bodies.
func httpServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		ConnContext: daemon.TrackConn, ConnState: daemon.TrackState, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// reload gives the backend the users and tokens that the files have now.
func (s *server) reload(t *serveFlags, log *slog.Logger) {
	cred, err := t.credentials()
	if err == nil {
		err = s.backend.SetCredentials(cred)
	}
	switch {
	case err != nil:
		log.Error("serve: users not reloaded; the present users stay in force", "err", err)
	case !cred.Empty():
		log.Info("serve: users reloaded")
	}
}

// close can be called again.
func (s *server) close() {
	if s.backend != nil {
		s.backend.Close() // requests that wait for a lock end
	}
	if s.http != nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		_ = s.http.Shutdown(ctx) // uploads end
		cancel()
		_ = s.http.Close()
	}
	for _, l := range s.addrs {
		_ = l.Close()
	}
}

// connect waits for a session, and gives up when a signal arrives.
func connect(g *conn.Flags, t conn.Target, say *term.Sayer, signals <-chan os.Signal) (*conn.Connection, error) {
	t.ZK.CreateChroot = true
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	type outcome struct {
		c   *conn.Connection
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		c, err := g.Connect(ctx, t, g.Patience(), say)
		done <- outcome{c, err}
	}()
	select {
	case o := <-done:
		return o.c, o.err
	case sig := <-signals:
		cancel()
		if o := <-done; o.c != nil {
			o.c.Close()
		}
		return nil, term.EndedBy(sig)
	}
}

// auditForce writes the audit line of a force-unlock.
func auditForce(ctx context.Context, c *zk.Client, e terraform.Event, log *slog.Logger) {
	record, err := deed.Audited(ctx, c, deed.Entry{Action: "terraform force-unlock"}.Of(e.Path, e.Entry), deed.By{Name: e.From},
		func() error { return e.Err })
	log.Warn("terraform: force-unlock", "path", e.Path, "owner", e.Entry.Owner, "from", e.From, "outcome", record.Outcome, "err", err)
	if record.Missing != nil {
		log.Error("terraform: the audit line is not in "+deed.Path, "err", record.Missing)
	}
}
