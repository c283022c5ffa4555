package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/pflag"

	"holdfast/zk"
)

// secureFlags are the flags for TLS and authentication of a client. A password comes from a file,
// because others can read the command line and the environment.
type secureFlags struct {
	ca, cert, key, serverName string
	auth                      string // SCHEME:USER
	passwordFile              string
}

var secureFlagNames = []string{"tls-ca", "tls-cert", "tls-key", "tls-server-name", "auth", "password-file"}

func (s *secureFlags) register(f *pflag.FlagSet) {
	f.StringVar(&s.ca, "tls-ca", "", "file with the CA certificates (PEM) to verify zks:// servers (default: the system's)")
	f.StringVar(&s.cert, "tls-cert", "", "file with this client's certificate (PEM), for zks:// servers that ask for one")
	f.StringVar(&s.key, "tls-key", "", "file with the private key (PEM) of --tls-cert")
	f.StringVar(&s.serverName, "tls-server-name", "", "name that the certificate of a zks:// server must have (default: the host name in --server)")
	f.StringVar(&s.auth, "auth", "", "log in as a user: digest:USER or sasl-digest:USER")
	f.StringVar(&s.passwordFile, "password-file", "", "file with the password for --auth; other users must not be able to read it")
}

// apply adds the flags to the target.
func (s *secureFlags) apply(t *target) error {
	if s.ca+s.cert+s.key+s.serverName != "" {
		if t.zk.TLS == nil {
			return misconfigured("give zks://host:port as --server, or leave out the --tls- flags and HOLDFAST_TLS_ variables",
				"%s is a server without TLS, but --tls- flags are given", t.url)
		}
		if err := s.readTLS(t.zk.TLS); err != nil {
			return err
		}
	}
	if s.auth+s.passwordFile == "" {
		return nil
	}
	if t.dir != "" {
		return misconfigured("give a server with --server, or leave out --auth and --password-file",
			"%s is a directory and has no users, but --auth or --password-file is given", t.url)
	}
	auth, err := s.readAuth()
	if err != nil {
		return err
	}
	t.zk.Auth = []zk.Auth{auth}
	return nil
}

func (s *secureFlags) readTLS(cfg *tls.Config) error {
	cfg.ServerName = s.serverName
	if s.ca != "" {
		pem, err := os.ReadFile(s.ca)
		if err != nil {
			return misconfigured("", "--tls-ca: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return misconfigured("", "--tls-ca: %s has no certificate in PEM", s.ca)
		}
	}
	switch {
	case s.cert == "" && s.key == "":
		return nil
	case s.cert == "" || s.key == "":
		return misconfigured("give both", "--tls-cert and --tls-key: only one is given")
	}
	cert, err := os.ReadFile(s.cert)
	if err != nil {
		return misconfigured("", "--tls-cert: %w", err)
	}
	key, err := readSecret("--tls-key", s.key)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return misconfigured("", "--tls-cert %s with --tls-key %s: %w", s.cert, s.key, err)
	}
	cfg.Certificates = []tls.Certificate{pair}
	return nil
}

// readAuth reads the login. Its errors do not quote --auth, which may have the password by mistake.
func (s *secureFlags) readAuth() (auth zk.Auth, err error) {
	const hint = "give both, as in --auth digest:USER --password-file FILE, or HOLDFAST_AUTH and HOLDFAST_PASSWORD_FILE"
	scheme, user, _ := strings.Cut(s.auth, ":")
	makers := map[string]func(user, password string) zk.Auth{"digest": zk.DigestAuth, "sasl-digest": zk.SASLDigestAuth}
	switch {
	case s.auth == "":
		return auth, misconfigured(hint, "--password-file needs --auth")
	case makers[scheme] == nil || user == "":
		return auth, misconfigured(hint, "--auth: want digest:USER or sasl-digest:USER")
	case strings.Contains(user, ":"):
		return auth, misconfigured(hint, "--auth: the user has a colon; put the password in a file")
	case s.passwordFile == "":
		return auth, misconfigured(hint, "--auth needs --password-file")
	}
	text, err := readSecret("--password-file", s.passwordFile)
	if err != nil {
		return auth, err
	}
	password := string(bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r")))
	switch {
	case password == "":
		return auth, misconfigured("", "--password-file: %s is empty", s.passwordFile)
	case strings.ContainsAny(password, "\r\n"):
		return auth, misconfigured("", "--password-file: %s has more than one line", s.passwordFile)
	}
	return makers[scheme](user, password), nil
}

// readSecret reads a file that only its owner and group may read. The group may, because Kubernetes
// gives secrets to a user other than root in that way.
func readSecret(flag, path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, misconfigured("", "%s: %w", flag, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, misconfigured("", "%s: %w", flag, err)
	}
	// The mode means nothing on Windows.
	if mode := info.Mode().Perm(); mode&0o027 != 0 && runtime.GOOS != "windows" {
		return nil, misconfigured("chmod 600 "+path, "%s: other users can read or change %s (mode %#o)", flag, path, mode)
	}
	const most = 64 << 10
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, misconfigured("", "%s: %w", flag, err)
	case len(text) > most:
		return nil, misconfigured("", "%s: %s is longer than %d bytes", flag, path, most)
	}
	return text, nil
}

// certificateFault returns the hint for a certificate that the client or the server refused, "" for
// other errors.
func certificateFault(err error) string {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the server's certificate is not trusted: check --tls-ca and --tls-server-name"
	}
	// The server's refusal has no type of its own.
	if remote, ok := errors.AsType[*net.OpError](err); ok && remote.Op == "remote error" && strings.Contains(remote.Error(), "certificate") {
		return "the server refused this client's certificate: check --tls-cert and --tls-key"
	}
	return ""
}
