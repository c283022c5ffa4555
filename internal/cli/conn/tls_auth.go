package conn

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"holdfast/internal/cli/term"
	"holdfast/zk"
)

// SecureFlags are the flags for TLS and authentication of a client. A password comes from a file,
// because others can read the command line and the environment.
type SecureFlags struct {
	ServerName    string // of the certificate of the server
	ca, cert, key string
	auth          string // SCHEME:USER
	passwordFile  string

	from map[string]origin // of the values
}

// name returns the name of a flag in messages: the place of its value in a configuration file, or the flag.
func (s *SecureFlags) name(flag string) string {
	if at, ok := inFile(s.from, flag); ok {
		return at + ": " + flag
	}
	return "--" + flag
}

// names returns what the given flags are called, for those that have a value.
func (s *SecureFlags) names(values map[string]string) string {
	var all []string
	for _, flag := range slices.Sorted(maps.Keys(values)) {
		if values[flag] != "" {
			all = append(all, s.name(flag))
		}
	}
	return strings.Join(all, ", ")
}

func (s *SecureFlags) register(f *pflag.FlagSet) {
	f.StringVar(&s.ca, "tls-ca", "", "file with the CA certificates (PEM) to verify zks:// servers (default: the system's)")
	f.StringVar(&s.cert, "tls-cert", "", "file with this client's certificate (PEM), for zks:// servers that ask for one")
	f.StringVar(&s.key, "tls-key", "", "file with the private key (PEM) of --tls-cert")
	f.StringVar(&s.ServerName, "tls-server-name", "", "name that the certificate of a zks:// server must have (default: the host name in --server)")
	f.StringVar(&s.auth, "auth", "", "log in as a user: digest:USER or sasl-digest:USER")
	f.StringVar(&s.passwordFile, "password-file", "", "file with the password for --auth; other users must not be able to read it")
}

// apply adds the flags to the target.
func (s *SecureFlags) apply(t *Target) error {
	if s.ca+s.cert+s.key+s.ServerName != "" {
		if t.ZK.TLS == nil {
			return term.Misconfigured(`give zks://host:port as --server, or leave out these settings; "" overrides one of a configuration file`,
				"%s is a server without TLS, but there is %s", t.URL,
				s.names(map[string]string{"tls-ca": s.ca, "tls-cert": s.cert, "tls-key": s.key, "tls-server-name": s.ServerName}))
		}
		if err := s.readTLS(t.ZK.TLS); err != nil {
			return err
		}
	}
	if s.auth+s.passwordFile == "" {
		return nil
	}
	if t.Dir != "" {
		return term.Misconfigured(`give a server with --server, or leave out these settings; "" overrides one of a configuration file`,
			"%s is a directory and has no users, but there is %s", t.URL,
			s.names(map[string]string{"auth": s.auth, "password-file": s.passwordFile}))
	}
	auth, err := s.readAuth()
	if err != nil {
		return err
	}
	t.ZK.Auth = []zk.Auth{auth}
	return nil
}

func (s *SecureFlags) readTLS(cfg *tls.Config) error {
	cfg.ServerName = s.ServerName
	if s.ca != "" {
		pem, err := os.ReadFile(s.ca)
		if err != nil {
			return term.Misconfigured("", "%s: %w", s.name("tls-ca"), err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return term.Misconfigured("", "%s: %s has no certificate in PEM", s.name("tls-ca"), s.ca)
		}
	}
	switch {
	case s.cert == "" && s.key == "":
		return nil
	case s.cert == "" || s.key == "":
		return term.Misconfigured("give both --tls-cert and --tls-key", "%s: only one is given", s.names(map[string]string{"tls-cert": s.cert, "tls-key": s.key}))
	}
	cert, err := os.ReadFile(s.cert)
	if err != nil {
		return term.Misconfigured("", "%s: %w", s.name("tls-cert"), err)
	}
	key, err := ReadSecret(s.name("tls-key"), s.key)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return term.Misconfigured("", "%s %s with %s %s: %w", s.name("tls-cert"), s.cert, s.name("tls-key"), s.key, err)
	}
	cfg.Certificates = []tls.Certificate{pair}
	return nil
}

// checkAuth checks the form of the login. Its errors do not quote --auth, which may have the password by
// mistake.
func (s *SecureFlags) checkAuth() error {
	const hint = "give both, as in --auth digest:USER --password-file FILE, or HOLDFAST_AUTH and HOLDFAST_PASSWORD_FILE"
	scheme, user, _ := strings.Cut(s.auth, ":")
	switch {
	case s.auth == "":
		return term.Misconfigured(hint, "%s needs --auth", s.name("password-file"))
	case authMakers[scheme] == nil || user == "":
		return term.Misconfigured(hint, "%s: want digest:USER or sasl-digest:USER", s.name("auth"))
	case strings.Contains(user, ":"):
		return term.Misconfigured(hint, "%s: the user has a colon; put the password in a file", s.name("auth"))
	case s.passwordFile == "":
		return term.Misconfigured(hint, "%s needs --password-file", s.name("auth"))
	}
	return nil
}

var authMakers = map[string]func(user, password string) zk.Auth{"digest": zk.DigestAuth, "sasl-digest": zk.SASLDigestAuth}

// readAuth reads the login.
func (s *SecureFlags) readAuth() (auth zk.Auth, err error) {
	if err := s.checkAuth(); err != nil {
		return auth, err
	}
	scheme, user, _ := strings.Cut(s.auth, ":")
	text, err := ReadSecret(s.name("password-file"), s.passwordFile)
	if err != nil {
		return auth, err
	}
	password := string(bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r")))
	switch {
	case password == "":
		return auth, term.Misconfigured("", "%s: %s is empty", s.name("password-file"), s.passwordFile)
	case strings.ContainsAny(password, "\r\n"):
		return auth, term.Misconfigured("", "%s: %s has more than one line", s.name("password-file"), s.passwordFile)
	}
	return authMakers[scheme](user, password), nil
}

// ReadSecret reads a file that only its owner and group may read. The group may, because Kubernetes
// gives secrets to a user other than root in that way.
func ReadSecret(flag, path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, term.Misconfigured("", "%s: %w", flag, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, term.Misconfigured("", "%s: %w", flag, err)
	}
	// The mode means nothing on Windows.
	if mode := info.Mode().Perm(); mode&0o027 != 0 && runtime.GOOS != "windows" {
		return nil, term.Misconfigured("chmod 600 "+path, "%s: other users can read or change %s (mode %#o)", flag, path, mode)
	}
	const most = 64 << 10
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, term.Misconfigured("", "%s: %w", flag, err)
	case len(text) > most:
		return nil, term.Misconfigured("", "%s: %s is longer than %d bytes", flag, path, most)
	}
	return text, nil
}

// CertificateHint returns the hint for a certificate that the client or the server refused, "" for
// other errors.
func CertificateHint(err error) string {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the server's certificate is not trusted: check --tls-ca and --tls-server-name"
	}
	// The server's refusal has no type of its own.
	if remote, ok := errors.AsType[*net.OpError](err); ok && remote.Op == "remote error" && strings.Contains(remote.Error(), "certificate") {
		return "the server refused this client's certificate: check --tls-cert and --tls-key"
	}
	return ""
}
