// Package caddyholdfast is the module caddy.storage.holdfast of Caddy: certificates in ZooKeeper, shared by several
// servers, with locks that are fenced. It is a module of its own, so programs without it do not get Caddy.
//
//	{
//		storage holdfast {
//			server zk://zk1:2181,zk2:2181,zk3:2181
//			path   /caddy
//		}
//	}
//
// Build Caddy with it, or import it for its effect in a program that embeds Caddy. Storages with the same settings share a
// client of ZooKeeper, so a reload keeps it, with its locks. Its goroutines end with the Cleanup of the last one.
package caddyholdfast

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/certmagic"

	"holdfast/contrib/certmagicholdfast"
)

func init() { caddy.RegisterModule(new(Storage)) }

// A Storage is the configuration of Caddy's storage in ZooKeeper. Caddy fills its fields, and calls its methods one
// after the other.
type Storage struct {
	// Server is the address of the ensemble, as zk.ParseURL takes it: zk://zk1:2181,zk2:2181/app. It is required.
	// Caddy's placeholders are replaced.
	Server string `json:"server,omitempty"`

	// Path is a node that belongs to this storage. The default is /caddy. All servers need the same.
	Path string `json:"path,omitempty"`

	// User is the user for ZooKeeper's digest login. With a user, only this user can read the certificates.
	User string `json:"user,omitempty"`

	// PasswordFile is the name of a file with the user's password. A line break at its end is ignored.
	PasswordFile string `json:"password_file,omitempty"`

	// ConnectTimeout limits the wait for the first connection, 10 s by default.
	ConnectTimeout caddy.Duration `json:"connect_timeout,omitempty"`

	use     *use // nil: before Provision
	storage *certmagicholdfast.Storage
}

var (
	_ caddy.StorageConverter = (*Storage)(nil)
	_ caddy.Provisioner      = (*Storage)(nil)
	_ caddy.CleanerUpper     = (*Storage)(nil)
	_ caddyfile.Unmarshaler  = (*Storage)(nil)
)

// CaddyModule returns the module's name, caddy.storage.holdfast.
func (*Storage) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.storage.holdfast", New: func() caddy.Module { return new(Storage) }}
}

// UnmarshalCaddyfile reads the settings from a Caddyfile: server, path, user, password_file and connect_timeout. The address
// can also stand behind the name of the module. Errors name the line.
func (s *Storage) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the module
	if d.NextArg() {
		s.Server = d.Val()
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	for d.NextBlock(0) {
		name := d.Val()
		var value string
		if !d.AllArgs(&value) {
			return d.ArgErr()
		}
		switch name {
		case "server":
			if s.Server != "" {
				return d.Err("the server is given twice")
			}
			s.Server = value
		case "path":
			s.Path = value
		case "user":
			s.User = value
		case "password_file":
			s.PasswordFile = value
		case "connect_timeout":
			timeout, err := caddy.ParseDuration(value)
			if err != nil {
				return d.Errf("connect_timeout: %v", err)
			}
			s.ConnectTimeout = caddy.Duration(timeout)
		default:
			return d.Errf("unknown setting %q: want server, path, user, password_file or connect_timeout", name)
		}
	}
	return nil
}

// Provision connects to the ensemble, unless another Storage with the same settings is connected. It fails if no server answers within
// the connect timeout. It warns if everybody can read the private keys.
func (s *Storage) Provision(ctx caddy.Context) error {
	repl := caddy.NewReplacer()
	if s.Server = repl.ReplaceAll(s.Server, ""); s.Server == "" {
		return errors.New("holdfast storage: server is missing: write server zk://HOST:2181")
	}
	if s.Path = repl.ReplaceAll(s.Path, ""); s.Path == "" {
		s.Path = "/caddy"
	}
	key := use{server: s.Server, path: s.Path, user: s.User}
	switch {
	case s.User != "" && s.PasswordFile != "":
		password, err := os.ReadFile(s.PasswordFile)
		if err != nil {
			return fmt.Errorf("holdfast storage: %w", err)
		}
		key.password = strings.TrimRight(string(password), "\r\n")
	case s.User != "" || s.PasswordFile != "":
		return errors.New("holdfast storage: user and password_file need each other")
	}
	if s.ConnectTimeout <= 0 {
		s.ConnectTimeout = caddy.Duration(10 * time.Second)
	}
	dial, cancel := context.WithTimeout(ctx, time.Duration(s.ConnectTimeout))
	defer cancel()
	for {
		v, shared, err := connections.LoadOrNew(key, func() (caddy.Destructor, error) { return connect(dial, key) })
		if err != nil {
			return fmt.Errorf("holdfast storage: %w", err)
		}
		c := v.(*connection)
		if shared && c.ended() {
			// A server has refused its user, for good. The configurations that use it keep it.
			if _, err := connections.Delete(key); err != nil {
				return fmt.Errorf("holdfast storage: %w", err)
			}
			key.generation++
			continue
		}
		s.use, s.storage = &key, c.storage
		return nil
	}
}

// CertMagicStorage returns the storage. It is for Caddy, after Provision.
func (s *Storage) CertMagicStorage() (certmagic.Storage, error) { return s.storage, nil }

// Cleanup closes the client, unless another Storage uses it. Its locks end.
func (s *Storage) Cleanup() error {
	if s.use == nil {
		return nil
	}
	_, err := connections.Delete(*s.use)
	s.use = nil
	return err
}
