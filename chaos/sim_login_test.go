package chaos_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"time"

	"holdfast/zk"
)

// A login is how clients and server identify themselves in a world with one server.
type login struct {
	auth []zk.Auth
	acl  []zk.ACL // of locks' nodes; nil: open to everybody
	tls  *tls.Config

	// The server's part:
	users  map[string]string
	listen func(net.Listener) net.Listener
}

const (
	loginUser     = "worker"
	loginPassword = "secret"
)

// chooseLogin returns no login most of the time.
func (w *world) chooseLogin(any bool) (l login) {
	if !any {
		return l
	}
	switch w.rng.IntN(12) {
	case 0:
		l.auth = []zk.Auth{zk.DigestAuth(loginUser, loginPassword)}
		l.acl = []zk.ACL{zk.DigestACL(zk.PermAll, loginUser, loginPassword)}
	case 1:
		l.auth = []zk.Auth{zk.SASLDigestAuth(loginUser, loginPassword)}
		l.users = map[string]string{loginUser: loginPassword}
	case 2:
		server, client := certificates()
		l.tls = client
		l.listen = func(l net.Listener) net.Listener { return tls.NewListener(l, server) }
	}
	return l
}

// certificates returns one for the server, and the authority that clients trust.
func certificates() (server, client *tls.Config) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "simulated"}, DNSNames: []string{"simulated"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(cert)
	server = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, SessionTicketsDisabled: true}
	return server, &tls.Config{RootCAs: trusted}
}

// turnAway tries to log in with a wrong password or a wrong certificate.
func (w *world) turnAway() {
	cfg := w.config(w.net.lines[len(w.clients)], nil)
	switch {
	case w.login.users != nil && w.rng.IntN(2) == 0:
		cfg.Auth = nil
	case w.login.users != nil:
		cfg.Auth = []zk.Auth{zk.SASLDigestAuth(loginUser, "wrong")}
	case w.login.tls != nil:
		cfg.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := zk.Dial(ctx, cfg)
	if err == nil {
		defer c.Close()
		_, _, err = c.Get(ctx, "/")
	}
	var untrusted *tls.CertificateVerificationError
	if !errors.Is(err, zk.ErrAuthFailed) && !errors.As(err, &untrusted) {
		w.found("login", "", "a stranger got %v", err)
	}
}
