package main

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
)

// serveTLSFlags say how serve is reached by TLS. It has addresses of its own instead of a
// switch for all, so that a machine's own programs can go on without it.
type serveTLSFlags struct {
	listen     []string
	cert, key  string // files
	clientCA   string // file
	clientAuth clientAuth
}

func (s *serveTLSFlags) register(f *pflag.FlagSet) {
	f.StringArrayVar(&s.listen, "listen-tls", nil, "TCP address, as in :2281, where clients speak TLS 1.2 or newer (zks://); can be given more than once")
	f.StringVar(&s.cert, "tls-cert", "", "file with the certificate (PEM) for --listen-tls, with intermediate ones behind it")
	f.StringVar(&s.key, "tls-key", "", "file with the private key (PEM) of --tls-cert, which others cannot read")
	f.StringVar(&s.clientCA, "tls-client-ca", "", "file with the certificates (PEM) that clients' certificates are checked against")
	f.Var(&s.clientAuth, "tls-client-auth", "none, want or need: whether clients show a certificate (default need with --tls-client-ca, none without)")
}

// clientAuth is the flag --tls-client-auth; "" if it was not given.
type clientAuth string

func (c *clientAuth) String() string { return string(*c) }

// Type is what the help calls the flag's value.
func (c *clientAuth) Type() string { return "string" }

// Set accepts one of the words.
func (c *clientAuth) Set(s string) error {
	if !slices.Contains([]string{"none", "want", "need"}, s) {
		return errors.New("want none, want or need")
	}
	*c = clientAuth(s)
	return nil
}

func (c clientAuth) orDefault(ca string) clientAuth {
	switch {
	case c != "":
		return c
	case ca != "":
		return "need"
	}
	return "none"
}

// open reads the files; it returns nil if serve is not to speak TLS.
func (s *serveTLSFlags) open(from origins, log *slog.Logger) (*keyring, error) {
	auth := s.clientAuth.orDefault(s.clientCA)
	switch {
	case len(s.listen) == 0 && s.cert+s.key+s.clientCA+string(s.clientAuth) == "":
		return nil, nil
	case len(s.listen) == 0:
		return nil, usage("name one with --listen-tls", "serve: --tls- flags are given, but no address that speaks TLS")
	case s.cert == "" || s.key == "":
		return nil, usage("", "serve: --listen-tls needs both --tls-cert and --tls-key")
	case s.clientCA == "" && auth != "none":
		return nil, usage("", "%s %s needs --tls-client-ca: without it nobody's certificate would be known", from.name("tls-client-auth"), auth)
	case s.clientCA != "" && auth == "none":
		return nil, usage("leave one of them out", "serve: --tls-client-ca is given, but --tls-client-auth none asks no client for a certificate")
	}
	k := &keyring{flags: s, from: from, log: log}
	k.seen = k.look()
	var err error
	if k.config, err = k.read(); err != nil {
		return nil, err
	}
	return k, nil
}

// A keyring is what TLS connections are accepted with. It reads its files again when they
// change, which it looks for at each new connection: whoever replaces a certificate need
// not tell us. What cannot be used is reported, and the earlier ones stay in use.
type keyring struct {
	flags *serveTLSFlags
	from  origins
	log   *slog.Logger

	mu     sync.Mutex // guards the fields below
	config *tls.Config
	seen   []os.FileInfo // of the files when they were last read; nil for one that is not there
}

// serverConfig is for listeners. It asks for the present files at each connection.
func (k *keyring) serverConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if now := k.look(); !slices.EqualFunc(now, k.seen, sameFile) {
			k.renew(now)
		}
		return k.config, nil
	}}
}

// reload reads the files, whether they have changed or not.
func (k *keyring) reload() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.renew(k.look())
}

// renew is for who has k.mu. The files were looked at before they are read: one that
// changes meanwhile is another one next time.
func (k *keyring) renew(seen []os.FileInfo) {
	k.seen = seen
	config, err := k.read()
	if err != nil {
		k.log.Error("serve: the TLS files cannot be used; the earlier ones stay in use", "err", err)
		return
	}
	k.config = config
	k.log.Info("serve: TLS files read again", "expires", k.config.Certificates[0].Leaf.NotAfter)
}

func (k *keyring) look() []os.FileInfo {
	var all []os.FileInfo
	for _, path := range []string{k.flags.cert, k.flags.key, k.flags.clientCA} {
		info, _ := os.Stat(path) // what is wrong with it is seen when it is read
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

func (k *keyring) read() (*tls.Config, error) {
	f := k.flags
	certPEM, err := os.ReadFile(f.cert)
	if err != nil {
		return nil, misconfigured("", "%s: %w", k.from.name("tls-cert"), err)
	}
	keyPEM, err := readSecret(k.from.name("tls-key"), f.key)
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, misconfigured("", "%s: %s with the key %s: %w", k.from.name("tls-cert"), f.cert, f.key, err)
	}
	switch now := time.Now(); {
	case now.After(cert.Leaf.NotAfter):
		k.log.Warn("serve: the certificate has expired: clients will refuse it", "file", f.cert, "since", cert.Leaf.NotAfter)
	case now.Before(cert.Leaf.NotBefore):
		k.log.Warn("serve: the certificate is not valid yet: clients will refuse it", "file", f.cert, "from", cert.Leaf.NotBefore)
	}
	config := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{cert},
		// A resumed session would go on with what an authority vouched for that may no longer
		// be in --tls-client-ca; and connections last, so that resuming would save nothing.
		SessionTicketsDisabled: true,
	}
	if f.clientCA == "" {
		return config, nil
	}
	caPEM, err := os.ReadFile(f.clientCA)
	if err != nil {
		return nil, misconfigured("", "%s: %w", k.from.name("tls-client-ca"), err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(caPEM) {
		return nil, misconfigured("", "%s: %s has no certificate in PEM", k.from.name("tls-client-ca"), f.clientCA)
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	if f.clientAuth == "want" {
		config.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return config, nil
}

// expires tells when clients will begin to refuse the certificate; nil if there is none.
func (k *keyring) expires() func() time.Time {
	if k == nil {
		return nil
	}
	return func() time.Time {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.config.Certificates[0].Leaf.NotAfter
	}
}
