package main

import (
	"context"
	crand "crypto/rand"
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/internal/daemon"
	"holdfast/internal/deed"
	"holdfast/terraform"
	"holdfast/zk"
	"holdfast/zklocal"
	"holdfast/zkserver"
)

// serveTerraformFlags are the flags of the backend for Terraform and OpenTofu. It runs in the server's process, as a
// client of the server.
type serveTerraformFlags struct {
	listen, listenTLS []string
	users, tokens     string // files
	stateDir          string
	locksOnly         bool
	versions          int
	force             choice

	user, password string // of the backend at the server, see enrol
}

func (t *serveTerraformFlags) register(f *pflag.FlagSet) {
	t.force = choice{options: []string{"allow", "refuse"}}
	f.StringArrayVar(&t.listen, "terraform", nil, "TCP address for the http backend of Terraform and OpenTofu, such as 127.0.0.1:7482; repeatable")
	f.StringArrayVar(&t.listenTLS, "terraform-tls", nil, "the same with TLS, with the certificates of --tls-cert and --tls-client-ca; repeatable")
	f.StringVar(&t.users, "terraform-users", "", "file of the users for --terraform, one line user:password each (TF_HTTP_USERNAME, TF_HTTP_PASSWORD); other users must not be able to read it")
	f.StringVar(&t.tokens, "terraform-tokens", "", "file of the bearer tokens for --terraform, one a line, at least 16 bytes each; other users must not be able to read it")
	f.StringVar(&t.stateDir, "terraform-state-dir", "", "existing directory for Terraform's states (default: in the store)")
	f.BoolVar(&t.locksOnly, "terraform-locks-only", false, "keep locks for Terraform and no states")
	f.IntVar(&t.versions, "terraform-versions", 50, "how many versions of a Terraform state to keep, 1 to 500")
	f.Var(&t.force, "terraform-force-unlock", "whether terraform force-unlock works, which does not send the id of the lock: allow or refuse")
}

func (t *serveTerraformFlags) used() bool { return len(t.listen)+len(t.listenTLS) > 0 }

// check validates the flags.
func (t *serveTerraformFlags) check(f *serveFlags) error {
	known := t.users != "" || t.tokens != "" || f.tls.clientAuth.orDefault(f.tls.clientCA) == "need"
	switch {
	case !t.used():
		return t.idle(f.from)
	case t.versions < 1 || t.versions > 500:
		return term.Usage("", "%s %d: want 1 to 500", f.from.name("terraform-versions"), t.versions)
	case t.locksOnly && t.stateDir != "":
		return term.Usage("leave out one of them", "serve: --terraform-locks-only and --terraform-state-dir do not go together")
	case f.linger > 0:
		return term.Usage("leave out --linger", "serve: --terraform and --linger do not go together: the backend is a client that stays")
	case len(t.listenTLS) > 0 && len(f.tls.listen) == 0 && (f.tls.cert == "" || f.tls.key == ""):
		return term.Usage("", "serve: --terraform-tls needs both --tls-cert and --tls-key")
	}
	if err := t.checkLogin(f.from, f.auth.required); err != nil {
		return err
	}
	if t.stateDir != "" {
		if info, err := os.Stat(t.stateDir); err != nil {
			return term.Misconfigured("create it", "%s: %w", f.from.name("terraform-state-dir"), err)
		} else if !info.IsDir() {
			return term.Misconfigured("", "%s: %s is no directory", f.from.name("terraform-state-dir"), t.stateDir)
		}
	}
	for _, addr := range t.listen {
		open, err := f.reachable("terraform", addr)
		if err != nil {
			return err
		}
		if open && !f.insecure {
			return term.Usage("listen on 127.0.0.1, or use --terraform-tls", "%s %s: other machines can reach this address, and states hold secrets", f.from.name("terraform"), addr)
		}
	}
	for _, addr := range t.listenTLS {
		open, err := f.reachable("terraform-tls", addr)
		if err != nil {
			return err
		}
		if open && !f.insecure && !known {
			return term.Usage("ask for a password with --terraform-users FILE, for a token with --terraform-tokens FILE, or for certificates with --tls-client-ca FILE",
				"%s %s: other machines can reach this address, and TLS alone admits every client", f.from.name("terraform-tls"), addr)
		}
	}
	return nil
}

// checkLogin refuses a server that the backend cannot log in to.
func (t *serveTerraformFlags) checkLogin(from origins, required []string) error {
	if !t.used() || len(required) == 0 || slices.Contains(required, "digest") {
		return nil
	}
	return term.Usage("add digest to --auth-required, or run the backend beside another server", "%s: --terraform needs digest, because the backend is a client of this server", from.name("auth-required"))
}

// enrol adds the backend to the users of its server. Its name and its password are its own, so that no reload takes
// them away.
func (t *serveTerraformFlags) enrol(cfg *zkserver.Config) {
	if !t.used() {
		return
	}
	if t.user == "" {
		t.user, t.password = "holdfast-terraform-"+crand.Text(), crand.Text()
	}
	all := map[string]string{t.user: t.password}
	maps.Copy(all, cfg.Users)
	cfg.Users = all
}

// idle refuses settings of a backend that has no address.
func (t *serveTerraformFlags) idle(from origins) error {
	for flag, value := range map[string]string{
		"terraform-users": t.users, "terraform-tokens": t.tokens, "terraform-state-dir": t.stateDir,
		"terraform-locks-only": map[bool]string{true: "true"}[t.locksOnly],
	} {
		if value != "" {
			return term.Usage("give an address with --terraform", "%s %s: there is no address of a backend", from.name(flag), term.Cut(value, 100))
		}
	}
	return nil
}

// credentials reads the files.
func (t *serveTerraformFlags) credentials(from origins) (c terraform.Credentials, err error) {
	for _, file := range []struct {
		flag, path string
		parse      func(string) error
	}{{"terraform-users", t.users, (&c).ParseUsers}, {"terraform-tokens", t.tokens, (&c).ParseTokens}} {
		if file.path == "" {
			continue
		}
		text, err := conn.ReadSecret(from.name(file.flag), file.path)
		if err != nil {
			return c, err
		}
		if err := file.parse(string(text)); err != nil {
			return c, term.Misconfigured("", "%s: %s: %w", from.name(file.flag), file.path, err)
		}
	}
	return c, nil
}

// terraformConnections is how many connections each address of the backend has open at most.
const terraformConnections = 256

// A terraformServer serves the backend until it is closed.
type terraformServer struct {
	client  *zk.Client
	backend *terraform.Backend
	http    *http.Server
	addrs   []net.Listener
	lines   []string
}

// open connects to the server of this process, and opens the addresses. The server must answer already.
func (t *serveTerraformFlags) open(ctx context.Context, f *serveFlags, host *zklocal.Host, keys *keyring, log *slog.Logger) (_ *terraformServer, err error) {
	cred, err := t.credentials(f.from)
	if err != nil {
		return nil, err
	}
	s := &terraformServer{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	cfg := zk.Config{Servers: []string{"unix://" + host.Socket()}, SessionTimeout: max(10*time.Second, 4*f.tick), TickTime: f.tick, Auth: []zk.Auth{zk.DigestAuth(t.user, t.password)}}
	within, cancel := context.WithTimeoutCause(ctx, 30*time.Second, conn.ErrUnreachable)
	defer cancel()
	if s.client, err = zk.Dial(within, cfg); err != nil {
		return nil, fmt.Errorf("serve: --terraform: %w", err)
	}
	s.backend, err = terraform.New(terraform.Config{
		Client: s.client, StateDir: t.stateDir, LocksOnly: t.locksOnly, Credentials: cred, Versions: t.versions,
		RefuseForceUnlock: t.force.is("refuse"), Logger: log,
		Audit: func(ctx context.Context, e terraform.Event) { auditTerraform(ctx, s.client, e, log) },
	})
	if err != nil {
		return nil, term.Misconfigured("", "serve: %w", err)
	}
	for i, addr := range slices.Concat(t.listen, t.listenTLS) {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, fmt.Errorf("serve: --terraform: %w", err)
		}
		l = daemon.SharedListener(l, host.Server(), terraformConnections)
		protocol := "http"
		if i >= len(t.listen) {
			protocol = "https"
			l = tls.NewListener(l, keys.serverConfig())
		}
		s.addrs = append(s.addrs, l)
		s.lines = append(s.lines, fmt.Sprintf("listening terraform %s://%s", protocol, l.Addr()))
	}
	s.http = terraformHTTP(s.backend, log)
	return s, nil
}

// terraformHTTP returns a server for a backend. The backend itself bounds the time for bodies.
func terraformHTTP(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// reload gives the backend the credentials of t, as the files have them now. s is nil if there is no backend.
func (s *terraformServer) reload(t *serveTerraformFlags, from origins, log *slog.Logger) {
	if s == nil {
		return
	}
	cred, err := t.credentials(from)
	if err == nil {
		err = s.backend.SetCredentials(cred)
	}
	switch {
	case err != nil:
		log.Error("serve: users of the Terraform backend not reloaded; the present users stay in force", "err", err)
	case !cred.Empty():
		log.Info("serve: users of the Terraform backend reloaded")
	}
}

// close can be called again, and for none.
func (s *terraformServer) close() {
	if s == nil {
		return
	}
	if s.backend != nil {
		s.backend.Close() // requests that wait for a lock end
	}
	if s.http != nil {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownPatience)
		_ = s.http.Shutdown(ctx) // uploads end
		cancel()
		_ = s.http.Close()
	}
	for _, l := range s.addrs {
		_ = l.Close()
	}
	if s.client != nil {
		_ = s.client.Close()
	}
}

// auditTerraform writes the audit line of a force-unlock.
func auditTerraform(ctx context.Context, c *zk.Client, e terraform.Event, log *slog.Logger) {
	record, err := deed.Audited(ctx, c, deed.Entry{Action: "terraform force-unlock"}.Of(e.Path, e.Entry), deed.By{Name: e.From},
		func() error { return e.Err })
	log.Warn("terraform: force-unlock", "path", e.Path, "owner", e.Entry.Owner, "from", e.From, "outcome", record.Outcome, "err", err)
	if record.Missing != nil {
		log.Error("terraform: the audit line is not in "+deed.Path, "err", record.Missing)
	}
}
