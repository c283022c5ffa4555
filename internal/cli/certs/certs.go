package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
)

// Flags are the flags for TLS. TLS has its own addresses instead of a switch for all
// addresses, so that local programs can connect without TLS.
type Flags struct {
	Listen     []string
	Cert, Key  string // files
	ClientCA   string // file
	ClientAuth clientAuth
}

// Register adds the flags to f.
func (s *Flags) Register(f *pflag.FlagSet) {
	f.StringArrayVar(&s.Listen, "listen-tls", nil, "TCP address for TLS 1.2 or newer (zks://), such as :2281; repeatable")
	f.StringVar(&s.Cert, "tls-cert", "", "file with the certificate (PEM) for --listen-tls, followed by intermediate ones")
	f.StringVar(&s.Key, "tls-key", "", "file with the private key (PEM) of --tls-cert; other users must not be able to read it")
	f.StringVar(&s.ClientCA, "tls-client-ca", "", "file with the CA certificates (PEM) to verify clients")
	f.Var(&s.ClientAuth, "tls-client-auth", "whether to ask clients for a certificate: none, want or need (default need with --tls-client-ca, else none)")
}

// ClientAuth is the flag --tls-client-auth. "" is the default.
type clientAuth string

func (c *clientAuth) String() string { return string(*c) }

// Type returns the name of the value in the help.
func (c *clientAuth) Type() string { return "string" }

// Set accepts one of the words.
func (c *clientAuth) Set(s string) error {
	if !slices.Contains([]string{"none", "want", "need"}, s) {
		return errors.New("want none, want or need")
	}
	*c = clientAuth(s)
	return nil
}

func (c clientAuth) OrDefault(ca string) clientAuth {
	switch {
	case c != "":
		return c
	case ca != "":
		return "need"
	}
	return "none"
}

// Open reads the files. It returns nil without TLS.
func (s *Flags) Open(from Origins, log *slog.Logger) (*Keyring, error) {
	auth := s.ClientAuth.OrDefault(s.ClientCA)
	switch {
	case len(s.Listen) == 0 && s.Cert+s.Key+s.ClientCA+string(s.ClientAuth) == "":
		return nil, nil
	case len(s.Listen) == 0:
		return nil, term.Usage("give one with --listen-tls", "serve: --tls- flags are given, but no address for TLS")
	case s.Cert == "" || s.Key == "":
		return nil, term.Usage("", "serve: TLS needs both --tls-cert and --tls-key")
	case s.ClientCA == "" && auth != "none":
		return nil, term.Usage("", "%s %s needs --tls-client-ca FILE to verify the certificates of clients", from.Name("tls-client-auth"), auth)
	case s.ClientCA != "" && auth == "none":
		return nil, term.Usage("leave out one of them", "serve: --tls-client-ca and --tls-client-auth none contradict each other")
	}
	k := &Keyring{flags: s, from: from, log: log}
	k.seen = k.look()
	var err error
	if k.config, err = k.read(); err != nil {
		return nil, err
	}
	return k, nil
}

// A Keyring has the certificates for TLS. At each new connection, it checks whether its files have
// changed and reads them again, so a new certificate needs no signal. If a file is invalid, it logs
// the error and keeps the present certificates.
type Keyring struct {
	flags *Flags
	from  Origins
	log   *slog.Logger

	mu     sync.Mutex // guards the fields below
	config *tls.Config
	seen   []os.FileInfo // of the files when they were last read; nil for a missing one
}

// ServerConfig returns a configuration that uses the present certificates at each connection.
func (k *Keyring) ServerConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if now := k.look(); !slices.EqualFunc(now, k.seen, sameFile) {
			k.renew(now)
		}
		return k.config, nil
	}}
}

// PageConfig is ServerConfig for a page, whose users log in: a browser needs no certificate.
func (k *Keyring) PageConfig() *tls.Config {
	config := k.ServerConfig()
	present := config.GetConfigForClient
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		c, err := present(hello)
		if err != nil {
			return nil, err
		}
		c = c.Clone()
		c.ClientAuth, c.ClientCAs = tls.NoClientCert, nil
		return c, nil
	}
	return config
}

// Reload reads the files again, even if they have not changed.
func (k *Keyring) Reload() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.renew(k.look())
}

// renew reads the files. seen is their state before: a file that changes meanwhile differs next time,
// and is read again. k.mu must be held.
func (k *Keyring) renew(seen []os.FileInfo) {
	k.seen = seen
	config, err := k.read()
	if err != nil {
		k.log.Error("serve: TLS files not reloaded; the present ones stay in use", "err", err)
		return
	}
	k.config = config
	k.log.Info("serve: TLS files reloaded", "expires", k.config.Certificates[0].Leaf.NotAfter)
}

func (k *Keyring) look() []os.FileInfo {
	var all []os.FileInfo
	for _, path := range []string{k.flags.Cert, k.flags.Key, k.flags.ClientCA} {
		info, _ := os.Stat(path) // reading the file reports the error
		all = append(all, info)
	}
	return all
}

func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

func (k *Keyring) read() (*tls.Config, error) {
	f := k.flags
	certPEM, err := os.ReadFile(f.Cert)
	if err != nil {
		return nil, term.Misconfigured("", "%s: %w", k.from.Name("tls-cert"), err)
	}
	keyPEM, err := conn.ReadSecret(k.from.Name("tls-key"), f.Key)
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, term.Misconfigured("", "%s: %s with the key %s: %w", k.from.Name("tls-cert"), f.Cert, f.Key, err)
	}
	switch now := time.Now(); {
	case now.After(cert.Leaf.NotAfter):
		k.log.Warn("serve: the certificate has expired: clients will refuse it", "file", f.Cert, "since", cert.Leaf.NotAfter)
	case now.Before(cert.Leaf.NotBefore):
		k.log.Warn("serve: the certificate is not valid yet: clients will refuse it", "file", f.Cert, "from", cert.Leaf.NotBefore)
	}
	config := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{cert},
		// A resumed session would outlive its authority in --tls-client-ca. Connections last
		// long, so resuming would save little.
		SessionTicketsDisabled: true,
	}
	if f.ClientCA == "" {
		return config, nil
	}
	caPEM, err := os.ReadFile(f.ClientCA)
	if err != nil {
		return nil, term.Misconfigured("", "%s: %w", k.from.Name("tls-client-ca"), err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(caPEM) {
		return nil, term.Misconfigured("", "%s: %s has no certificate in PEM", k.from.Name("tls-client-ca"), f.ClientCA)
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	if f.ClientAuth == "want" {
		config.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return config, nil
}

// Expires returns a function that returns when the certificate expires, or nil without TLS.
func (k *Keyring) Expires() func() time.Time {
	if k == nil {
		return nil
	}
	return func() time.Time {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.config.Certificates[0].Leaf.NotAfter
	}
}

// Origins maps the names of flags to the places of their values in a configuration file, as
// FILE:LINE: KEY. So messages name the line to change.
type Origins map[string]string

// Name returns the name of a flag in messages.
func (o Origins) Name(flag string) string {
	if at, ok := o[flag]; ok {
		return at
	}
	return "serve: --" + flag
}
