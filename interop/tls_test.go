//go:build unix

package interop

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"holdfast/interop/peers"
	"holdfast/zk"
)

// An authority issues certificates for one test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return &authority{t, cert, key}
}

// issue is a certificate for 127.0.0.1, in PEM with its key in front; change may make
// it another one.
func (a *authority) issue(name string, change ...func(*x509.Certificate)) []byte {
	a.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, f := range change {
		f(template)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(a.t, err)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	must(a.t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	must(a.t, err)
	var b bytes.Buffer
	must(a.t, pem.Encode(&b, &pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
	must(a.t, pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return b.Bytes()
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// client is a configuration that trusts a; with a certificate if one is given.
func (a *authority) client(cert []byte) *tls.Config {
	cfg := &tls.Config{RootCAs: x509.NewCertPool()}
	cfg.RootCAs.AddCert(a.cert)
	if cert != nil {
		pair, err := tls.X509KeyPair(cert, cert)
		must(a.t, err)
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg
}

// startTLS is a ZooKeeper with a port for TLS.
func (a *authority) startTLS(clientAuth string, cert []byte) *peers.ZooKeeper {
	a.t.Helper()
	dir := a.t.TempDir()
	key, trust := filepath.Join(dir, "key.pem"), filepath.Join(dir, "trust.pem")
	must(a.t, os.WriteFile(key, cert, 0o600))
	must(a.t, os.WriteFile(trust, a.pem(), 0o600))
	ctx, cancel := context.WithTimeout(a.t.Context(), peerStart)
	defer cancel()
	z, err := peers.StartZooKeeper(ctx, dir, peers.ZooKeeperConfig{
		TLS: &peers.ZooKeeperTLS{KeyFile: key, TrustFile: trust, ClientAuth: clientAuth},
	})
	return closing(a.t, z, err)
}

func over(cfg *tls.Config) func(*zk.Config) { return func(c *zk.Config) { c.TLS = cfg } }

// both applies two changes.
func both(f, g func(*zk.Config)) func(*zk.Config) { return func(c *zk.Config) { f(c); g(c) } }

func TestTLSOnApacheZooKeeper(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	z := ca.startTLS("none", ca.issue("server"))
	bob := as(zk.DigestAuth("bob", planted))
	mine := both(over(ca.client(nil)), bob)
	ownedBy(t, z.SecureURL(), mine, acl("auth", ""), over(ca.client(nil)))

	again := context.Canceled
	addr := z.SecureURL()[len("zks://"):]
	refused(t, z.SecureURL(), both(over(other.client(nil)), bob), again, addr, "unknown authority")
	refused(t, z.SecureURL(), bob, again, addr, "certificate") // the system's roots
	wrongName := ca.client(nil)
	wrongName.ServerName = "zk.test"
	refused(t, z.SecureURL(), both(over(wrongName), bob), again, addr, "zk.test")
	refused(t, "zk://"+addr, bob, again, addr, "wants TLS")
	refused(t, "zks://"+z.Addrs()[0], both(over(ca.client(nil)), bob), again, z.Addrs()[0], "does not speak TLS")
}

func TestTLSRefusesAnExpiredApacheZooKeeper(t *testing.T) {
	ca := newAuthority(t)
	z := ca.startTLS("none", ca.issue("server", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }))
	refused(t, z.SecureURL(), over(ca.client(nil)), context.Canceled, "expired")
}

// The certificate is the identity: nodes may belong to its subject.
func TestMutualTLSOnApacheZooKeeper(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	z := ca.startTLS("need", ca.issue("server"))
	alice, eve := over(ca.client(ca.issue("alice"))), over(ca.client(ca.issue("eve")))
	ownedBy(t, z.SecureURL(), alice, acl("x509", "CN=alice"), eve)
	ownedBy(t, z.SecureURL(), both(alice, as(zk.DigestAuth("bob", planted))), acl("x509", "CN=alice"), both(eve, as(zk.DigestAuth("bob", planted))))

	again := context.Canceled
	refused(t, z.SecureURL(), over(ca.client(nil)), again, "handshake", "certificate")
	refused(t, z.SecureURL(), over(ca.client(other.issue("alice"))), again, "handshake", "certificate")
	refused(t, z.SecureURL(), over(ca.client(ca.issue("late", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }))), again, "handshake", "certificate")
}
