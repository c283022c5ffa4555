package caddyholdfast

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap/exp/zapslog"

	"holdfast/contrib/certmagicholdfast"
	"holdfast/zk"
)

// connections are those of all configurations, by use. Caddy loads the new configuration before it cleans the old one up, so
// with the same settings, a reload finds the connection of the old one.
var connections = caddy.NewUsagePool()

// A use is the settings that tell connections apart.
type use struct {
	server, path, user, password string
	generation                   int // above 0 if those before have ended
}

// A connection is a client, and the storage on it.
type connection struct {
	client  *zk.Client
	storage *certmagicholdfast.Storage
}

func connect(ctx context.Context, u use) (*connection, error) {
	cfg, err := zk.ParseURL(u.server)
	if err != nil {
		return nil, err
	}
	log := slog.New(currentLog{})
	cfg.CreateChroot, cfg.Logger = true, log
	var acl []zk.ACL
	if u.user != "" {
		cfg.Auth = []zk.Auth{zk.DigestAuth(u.user, u.password)}
		acl = []zk.ACL{{Perms: zk.PermAll, Scheme: "auth"}}
	}
	host, err := os.Hostname()
	if err != nil {
		log.Warn("the locks have no owner", "error", err)
	}
	client, err := zk.Dial(ctx, cfg)
	if err != nil {
		return nil, err
	}
	storage, err := certmagicholdfast.New(certmagicholdfast.Config{Client: client, Path: u.path, ACL: acl, Owner: host, Logger: log})
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &connection{client, storage}, nil
}

// Destruct closes the client.
func (c *connection) Destruct() error { return c.client.Close() }

// ended reports whether the client has given up for good. A client without a session goes on trying.
func (c *connection) ended() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := c.client.Session(ctx)
	return errors.Is(err, zk.ErrAuthFailed) || errors.Is(err, zk.ErrClosed)
}

// currentLog is Caddy's default log at the moment of each record. The log of a configuration ends with it, and a connection can outlive
// its configuration.
type currentLog struct {
	with []func(slog.Handler) slog.Handler
}

func (l currentLog) handler() slog.Handler {
	// No stack traces: by default, errors have one.
	var h slog.Handler = zapslog.NewHandler(caddy.Log().Core(), zapslog.WithName("caddy.storage.holdfast"), zapslog.AddStacktraceAt(slog.Level(127)))
	for _, f := range l.with {
		h = f(h)
	}
	return h
}

func (l currentLog) Enabled(ctx context.Context, level slog.Level) bool {
	return l.handler().Enabled(ctx, level)
}
func (l currentLog) Handle(ctx context.Context, r slog.Record) error {
	return l.handler().Handle(ctx, r)
}

func (l currentLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return currentLog{append(l.with[:len(l.with):len(l.with)], func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })}
}

func (l currentLog) WithGroup(name string) slog.Handler {
	return currentLog{append(l.with[:len(l.with):len(l.with)], func(h slog.Handler) slog.Handler { return h.WithGroup(name) })}
}
