//go:build unix

package interop

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/interop/peers"
	"holdfast/zk"
)

// An authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// sure fails only if the test itself is wrong.
func sure[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newAuthority() *authority {
	key := sure(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der := sure(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	return &authority{sure(x509.ParseCertificate(der)), key}
}

// issue returns a certificate for 127.0.0.1, in PEM after its key; change may alter it.
func (a *authority) issue(name string, change ...func(*x509.Certificate)) []byte {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, f := range change {
		f(template)
	}
	key := sure(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	der := sure(x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key))
	block := &pem.Block{Type: "PRIVATE KEY", Bytes: sure(x509.MarshalPKCS8PrivateKey(key))}
	return append(pem.EncodeToMemory(block), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// certificate returns a certificate for the client of that name.
func (a *authority) certificate(name string) []byte { return a.issue(name) }

// trusted returns a client's configuration that trusts a, with a certificate if one is given.
func (a *authority) trusted(cert []byte) *tls.Config {
	cfg := &tls.Config{RootCAs: x509.NewCertPool()}
	cfg.RootCAs.AddCert(a.cert)
	if cert != nil {
		cfg.Certificates = []tls.Certificate{sure(tls.X509KeyPair(cert, cert))}
	}
	return cfg
}

// files writes the files that a server needs for TLS into dir.
func (a *authority) files(dir, clientAuth string, cert []byte) (*peers.ZooKeeperTLS, error) {
	t := &peers.ZooKeeperTLS{
		KeyFile: filepath.Join(dir, "key.pem"), TrustFile: filepath.Join(dir, "trust.pem"), ClientAuth: clientAuth,
	}
	return t, errors.Join(os.WriteFile(t.KeyFile, cert, 0o600), os.WriteFile(t.TrustFile, a.pem(), 0o600))
}

// startTLS starts a ZooKeeper with a port for TLS.
func (a *authority) startTLS(t *testing.T, clientAuth string, cert []byte) *peers.ZooKeeper {
	t.Helper()
	dir := t.TempDir()
	files, err := a.files(dir, clientAuth, cert)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), peerStart)
	defer cancel()
	z, err := peers.StartZooKeeper(ctx, dir, peers.ZooKeeperConfig{TLS: files})
	return closing(t, z, err)
}

// secured is a server with TLS and users with passwords (SASL). It accepts clients without a
// certificate, or with one from its authority.
type secured interface {
	URL() string       // URL of the port without TLS
	SecureURL() string // URL of the port for TLS
	trusted(cert []byte) *tls.Config
	certificate(name string) []byte
}

type securedZooKeeper struct {
	*peers.ZooKeeper
	*authority
}

type securedHoldfast struct {
	*peers.Holdfast
	*authority
}

func startSecured(servers int, clientAuth string, flags ...string) func(ctx context.Context, dir string) (*securedZooKeeper, error) {
	return func(ctx context.Context, dir string) (*securedZooKeeper, error) {
		a := newAuthority()
		files, err := a.files(dir, clientAuth, a.issue("server"))
		if err != nil {
			return nil, err
		}
		cfg, err := saslConfig(dir, flags...)
		if err != nil {
			return nil, err
		}
		cfg.Servers, cfg.TLS = servers, files
		cfg.Settings = append(cfg.Settings, "maxSessionTimeout=30000")
		z, err := peers.StartZooKeeper(ctx, dir, cfg)
		if err != nil {
			return nil, err
		}
		return &securedZooKeeper{z, a}, nil
	}
}

// startSecuredHoldfast has the same users, and checks a client's certificate if the client shows
// one.
func startSecuredHoldfast(flags ...string) func(ctx context.Context, dir string) (*securedHoldfast, error) {
	return func(ctx context.Context, dir string) (*securedHoldfast, error) {
		bin, err := buildOnce()
		if err != nil {
			return nil, err
		}
		a := newAuthority()
		files, err := a.files(dir, "", a.issue("server"))
		if err != nil {
			return nil, err
		}
		users := filepath.Join(dir, "users")
		if err := os.WriteFile(users, []byte("bob:"+planted+"\neve:eve-password\n"), 0o600); err != nil {
			return nil, err
		}
		flags := append([]string{"--listen-tls", "127.0.0.1:0", "--tls-cert", files.KeyFile, "--tls-key", files.KeyFile,
			"--tls-client-ca", files.TrustFile, "--auth-users", users}, flags...)
		h, err := peers.StartHoldfast(ctx, bin, dir, flags...)
		if err != nil {
			return nil, err
		}
		return &securedHoldfast{h, a}, nil
	}
}

const noTTL = "-Dzookeeper.extendedTypesEnabled=false"

var (
	oneDemanding    = sharedPeer[*securedZooKeeper]{start: startSecured(1, "need", "-Dzookeeper.sessionRequireClientSASLAuth=true")}
	securedAlone    = sharedPeer[*securedZooKeeper]{start: startSecured(1, "want", noTTL)}
	securedEnsemble = sharedPeer[*securedZooKeeper]{start: startSecured(3, "want", noTTL)}

	securedServe   = sharedPeer[*securedHoldfast]{start: startSecuredHoldfast("--tls-client-auth", "want")}
	demandingServe = sharedPeer[*securedHoldfast]{start: startSecuredHoldfast("--auth-required", "sasl")}
)

// untrusted stands for every fault of a server's certificate, see refused.
var untrusted = &tls.CertificateVerificationError{Err: errors.New("any fault")}

func over(cfg *tls.Config) func(*zk.Config) { return func(c *zk.Config) { c.TLS = cfg } }

// both applies two changes.
func both(f, g func(*zk.Config)) func(*zk.Config) { return func(c *zk.Config) { f(c); g(c) } }

func TestTLSOnApacheZooKeeper(t *testing.T) {
	ca, other := newAuthority(), newAuthority()
	z := ca.startTLS(t, "none", ca.issue("server"))
	bob := as(zk.DigestAuth("bob", planted))
	mine := both(over(ca.trusted(nil)), bob)
	ownedBy(t, z.SecureURL(), mine, acl("auth", ""), over(ca.trusted(nil)))

	again := context.Canceled
	addr := z.SecureURL()[len("zks://"):]
	refused(t, z.SecureURL(), both(over(other.trusted(nil)), bob), untrusted, addr, "unknown authority")
	refused(t, z.SecureURL(), bob, untrusted, addr, "certificate") // the system's roots
	wrongName := ca.trusted(nil)
	wrongName.ServerName = "zk.test"
	refused(t, z.SecureURL(), both(over(wrongName), bob), untrusted, addr, "zk.test")
	refused(t, "zk://"+addr, bob, again, addr, "wants TLS")
	refused(t, "zks://"+z.Addrs()[0], both(over(ca.trusted(nil)), bob), again, z.Addrs()[0], "does not speak TLS")
}

func TestTLSRefusesAnExpiredApacheZooKeeper(t *testing.T) {
	ca := newAuthority()
	z := ca.startTLS(t, "none", ca.issue("server", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }))
	refused(t, z.SecureURL(), over(ca.trusted(nil)), untrusted, "expired")
}

// The certificate is the identity: nodes may belong to its subject.
func TestMutualTLSOnApacheZooKeeper(t *testing.T) {
	ca, other := newAuthority(), newAuthority()
	z := ca.startTLS(t, "need", ca.issue("server"))
	alice, eve := over(ca.trusted(ca.issue("alice"))), over(ca.trusted(ca.issue("eve")))
	ownedBy(t, z.SecureURL(), alice, acl("x509", "CN=alice"), eve)
	ownedBy(t, z.SecureURL(), both(alice, as(zk.DigestAuth("bob", planted))), acl("x509", "CN=alice"), both(eve, as(zk.DigestAuth("bob", planted))))

	again := context.Canceled
	refused(t, z.SecureURL(), over(ca.trusted(nil)), again, "handshake", "certificate")
	refused(t, z.SecureURL(), over(ca.trusted(other.issue("alice"))), again, "handshake", "certificate")
	refused(t, z.SecureURL(), over(ca.trusted(ca.issue("late", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }))), again, "handshake", "certificate")
}

// The command, from its flags to the lock's node, on a server that requires a certificate and a
// password.
func TestCommandOnAServerThatDemandsACertificateAndAPassword(t *testing.T) {
	z := oneDemanding.get(t)
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, text, 0o600))
		return path
	}
	cert := z.certificate("command")
	certFile, caFile := write("cert.pem", cert), write("ca.pem", z.pem())
	run := func(password string, flags ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), stepTime)
		defer cancel()
		args := append([]string{"run", "--server", z.SecureURL() + "/" + t.Name()}, flags...)
		cmd := exec.CommandContext(ctx, holdfastBin(t), append(args, "job", "--", "echo", "ran")...)
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, "HOLDFAST_") {
				cmd.Env = append(cmd.Env, v)
			}
		}
		cmd.Env = append(cmd.Env, "HOLDFAST_AUTH=sasl-digest:bob", "HOLDFAST_PASSWORD_FILE="+write("password", []byte(password+"\n")))
		out, err := cmd.CombinedOutput()
		if strings.Contains(string(out), planted) {
			t.Errorf("the password is visible: %s", out)
		}
		return string(out), err
	}
	all := []string{"--tls-ca", caFile, "--tls-cert", certFile, "--tls-key", certFile}
	if out, err := run(planted, all...); err != nil || out != "ran\n" {
		t.Errorf("%v\n%s", err, out)
	}
	for _, tt := range []struct {
		password string
		flags    []string
		says     string
	}{
		{planted + "x", all, "refused the user or the password"},
		{planted, append(all, "--session-timeout", "1s", "--tls-server-name", "zk.test"), "check --tls-ca and --tls-server-name"},
		{planted, []string{"--session-timeout", "1s"}, "check --tls-ca and --tls-server-name"},
		// Somebody may be replacing certificates, so the command waits for a trusted one.
		{planted, []string{"--session-timeout", "1s", "--wait", "2s", "--tls-ca", caFile}, "bad certificate"},
	} {
		out, err := run(tt.password, tt.flags...)
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 125 || !strings.Contains(out, tt.says) {
			t.Errorf("%v: %v\n%s; want exit code 125 and %q", tt.flags, err, out, tt.says)
		}
	}
}
