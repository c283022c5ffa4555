package serve

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"holdfast/internal/cli/certs"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/zkserver"
)

// authFlags are the flags for users. Passwords come from files, because others can read the
// command line and the environment.
type authFlags struct {
	users, super string // files
	required     []string
}

func (a *authFlags) register(f *pflag.FlagSet) {
	f.StringVar(&a.users, "auth-users", "", "file of the users for SASL DIGEST-MD5, one line user:password each; other users must not be able to read it")
	f.StringVar(&a.super, "auth-super", "", "file with the digest of the superuser, user:base64(sha1(user:password)); other users must not be able to read it")
	f.StringSliceVar(&a.required, "auth-required", nil, "refuse all requests of clients that have not authenticated by one of these: digest, sasl, x509")
}

// reload reads the files again and gives their users to a running server. If a file is invalid, the
// server keeps its present users.
func (a *authFlags) reload(ctx context.Context, server *zkserver.Server, from certs.Origins, clientCA string, log *slog.Logger) {
	var cfg zkserver.Config
	err := a.apply(&cfg, from, clientCA)
	if err == nil {
		err = server.SetUsers(ctx, cfg)
	}
	if err != nil {
		log.Error("serve: users not reloaded; the present users stay in force", "err", err)
		return
	}
	log.Info("serve: users reloaded", "users", len(cfg.Users))
}

// apply puts the flags into cfg and validates it.
func (a *authFlags) apply(cfg *zkserver.Config, from certs.Origins, clientCA string) error {
	if a.required != nil && len(a.required) == 0 {
		return term.Usage("leave it out to serve clients that have not authenticated", "%s is empty: want digest, sasl or x509", from.Name("auth-required"))
	}
	if slices.Contains(a.required, "x509") && clientCA == "" {
		return term.Usage("", "%s x509 needs --tls-client-ca FILE to verify the certificates of clients", from.Name("auth-required"))
	}
	if a.users != "" {
		text, err := conn.ReadSecret(from.Name("auth-users"), a.users)
		if err != nil {
			return err
		}
		if cfg.Users, err = zkserver.ParseUsers(string(text)); err != nil {
			return term.Misconfigured("", "%s: %s: %w", from.Name("auth-users"), a.users, err)
		}
		if len(cfg.Users) == 0 {
			return term.Misconfigured("", "%s: %s has no users", from.Name("auth-users"), a.users)
		}
	}
	if a.super != "" {
		text, err := conn.ReadSecret(from.Name("auth-super"), a.super)
		if err != nil {
			return err
		}
		cfg.SuperDigest = strings.TrimRight(string(text), "\r\n")
		if cfg.SuperDigest == "" {
			return term.Misconfigured("", "%s: %s is empty", from.Name("auth-super"), a.super)
		}
	}
	cfg.RequireAuth = a.required
	if err := cfg.Validate(); err != nil {
		return term.Misconfigured("see --auth-users, --auth-super and --auth-required", "serve: %w", err)
	}
	return nil
}
