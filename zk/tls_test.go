package zk

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// An authority issues certificates for one test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.key = newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// issue returns a certificate for 127.0.0.1, unless change alters it.
func (a *authority) issue(change func(*x509.Certificate)) tls.Certificate {
	a.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "127.0.0.1"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if change != nil {
		change(template)
	}
	key := newKey(a.t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// listenPeers serves every connection to a loopback port and returns the port. A nil cfg means no TLS.
func listenPeers(t *testing.T, cfg *tls.Config, serve func(p *peer)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer nc.Close()
				if cfg != nil {
					nc = tls.Server(nc, cfg)
				}
				serve(&peer{t: t, nc: nc})
			})
		}
	})
	return l.Addr().String()
}

// serveSession is a server that accepts everything.
func serveSession(p *peer) { p.accept(7, 10*time.Second); p.serve() }

func TestTLSChecksTheServer(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	name := func(names ...string) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, names }
	}
	tests := []struct {
		name   string
		server *tls.Config // nil: a plain port
		client *tls.Config // nil: a plain client
		says   string      // "" for success
	}{
		{"good", &tls.Config{Certificates: []tls.Certificate{ca.issue(nil)}}, &tls.Config{RootCAs: ca.pool()}, ""},
		{"good by another name", &tls.Config{Certificates: []tls.Certificate{ca.issue(name("zk.test"))}}, &tls.Config{RootCAs: ca.pool(), ServerName: "zk.test"}, ""},
		{"version 1.2", &tls.Config{Certificates: []tls.Certificate{ca.issue(nil)}, MaxVersion: tls.VersionTLS12}, &tls.Config{RootCAs: ca.pool()}, ""},
		{"version 1.1, which the client's configuration allows",
			&tls.Config{Certificates: []tls.Certificate{ca.issue(nil)}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},
			&tls.Config{RootCAs: ca.pool(), MinVersion: tls.VersionTLS10}, "protocol version"},
		{"other authority", &tls.Config{Certificates: []tls.Certificate{other.issue(nil)}}, &tls.Config{RootCAs: ca.pool()}, "unknown authority"},
		{"system's roots", &tls.Config{Certificates: []tls.Certificate{ca.issue(nil)}}, &tls.Config{}, "certificate"},
		{"other address", &tls.Config{Certificates: []tls.Certificate{ca.issue(func(c *x509.Certificate) { c.IPAddresses[0] = net.IPv4(127, 0, 0, 2) })}},
			&tls.Config{RootCAs: ca.pool()}, "valid for 127.0.0.2, not 127.0.0.1"},
		// CVE-2026-24281: neither the reverse lookup of the address nor the common name proves anything.
		{"name that the address resolves back to", &tls.Config{Certificates: []tls.Certificate{ca.issue(name("localhost"))}},
			&tls.Config{RootCAs: ca.pool()}, "cannot validate certificate for 127.0.0.1"},
		{"other name", &tls.Config{Certificates: []tls.Certificate{ca.issue(name("zk.test"))}}, &tls.Config{RootCAs: ca.pool(), ServerName: "zk2.test"}, "valid for zk.test, not zk2.test"},
		{"expired", &tls.Config{Certificates: []tls.Certificate{ca.issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })}},
			&tls.Config{RootCAs: ca.pool()}, "expired"},
		{"for clients only", &tls.Config{Certificates: []tls.Certificate{ca.issue(func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		})}}, &tls.Config{RootCAs: ca.pool()}, "incompatible key usage"},
		{"mutual", &tls.Config{Certificates: []tls.Certificate{ca.issue(nil)}, ClientCAs: ca.pool(), ClientAuth: tls.RequireAndVerifyClientCert},
			&tls.Config{RootCAs: ca.pool(), Certificates: []tls.Certificate{ca.issue(nil)}}, ""},
		{"no client certificate", &tls.Config{Certificates: []tls.Certificate{ca.issue(nil)}, ClientCAs: ca.pool(), ClientAuth: tls.RequireAndVerifyClientCert},
			&tls.Config{RootCAs: ca.pool()}, "certificate required"},
		{"client certificate of another authority", &tls.Config{Certificates: []tls.Certificate{ca.issue(nil)}, ClientCAs: ca.pool(), ClientAuth: tls.RequireAndVerifyClientCert},
			&tls.Config{RootCAs: ca.pool(), Certificates: []tls.Certificate{other.issue(nil)}}, "certificate"},
		{"plain client", &tls.Config{Certificates: []tls.Certificate{ca.issue(nil)}}, nil, "wants TLS"},
		{"plain server", nil, &tls.Config{RootCAs: ca.pool()}, "does not speak TLS"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			addr := listenPeers(t, tt.server, func(p *peer) {
				if c, ok := p.nc.(*tls.Conn); ok && c.Handshake() != nil {
					return
				}
				if tt.says == "" {
					serveSession(p)
					return
				}
				if p.frame() != nil {
					t.Error("the client sent a request")
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			var log bytes.Buffer
			cfg := Config{
				Servers: []string{addr}, TLS: tt.client, Lease: LeasePing,
				Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			}
			if tt.says != "" {
				cfg.Auth = []Auth{DigestAuth("bob", planted)}
				attempts := 0
				cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					if attempts++; attempts == 2 { // the first connection's outcome is known
						cancel()
					}
					return (&net.Dialer{}).DialContext(ctx, network, addr)
				}
			}
			c, err := Dial(ctx, cfg)
			if err == nil {
				if _, _, e := c.Exists(ctx, "/a"); e != nil {
					t.Error(e)
				}
				c.Close()
			}
			switch {
			case tt.says == "" && err != nil:
				t.Error(err)
			case tt.says != "" && (err == nil || !contains(err.Error(), addr, tt.says)):
				t.Errorf("got error %v; want one with %s and %q", err, addr, tt.says)
			}
			if secret(fmt.Sprint(err)) || secret(log.String()) {
				t.Errorf("the password is in the error or in the log: %v\n%s", err, log.String())
			}
		})
	}
}

// With no trusted certificate, retries would go on for ever, so Dial fails at once. But one
// trusted server is enough, and a server that is down may come back.
func TestDialFailsAtOnceWhenNoServerIsTrusted(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	secure := func(a *authority) string {
		return listenPeers(t, &tls.Config{Certificates: []tls.Certificate{a.issue(nil)}}, serveSession)
	}
	for _, tt := range []struct {
		name     string
		servers  []string
		attempts int // 0: any number
		trusted  bool
	}{
		{"one", []string{secure(other)}, 1, false},
		{"all", []string{secure(other), secure(other), secure(other)}, 3, false},
		{"all but one", []string{secure(other), secure(other), secure(ca)}, 0, true},
		{"all but one that is down", []string{secure(other), "down:1"}, 8, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			attempts := 0
			c, err := Dial(ctx, Config{Servers: tt.servers, TLS: &tls.Config{RootCAs: ca.pool()}, Lease: LeasePing,
				Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
					if attempts++; attempts == 8 {
						cancel(errEnough)
					}
					if addr == "down:1" {
						return nil, errDown
					}
					return (&net.Dialer{}).DialContext(ctx, network, addr)
				}})
			if c != nil {
				c.Close()
			}
			if tt.attempts > 0 && attempts != tt.attempts {
				t.Errorf("%d attempts; want %d", attempts, tt.attempts)
			}
			_, distrust := errors.AsType[*tls.CertificateVerificationError](err)
			switch {
			case tt.trusted && err != nil:
				t.Error(err)
			case tt.attempts == 8 && !errors.Is(err, errEnough):
				t.Errorf("got error %v; want the test's own end of the context", err)
			case !tt.trusted && tt.attempts < 8 && (!distrust || !strings.Contains(err.Error(), "connect to 127.0.0.1:")):
				t.Errorf("got error %v; want one about the certificate", err)
			}
		})
	}
}

func TestHandshakeOverTLSIsNotSaidToWantTLS(t *testing.T) {
	plain, secure := &Client{}, &Client{cfg: Config{TLS: &tls.Config{}}}
	if h := plain.hint(io.EOF); !contains(h, "does not serve yet", "read-only", "wants TLS") {
		t.Errorf("plain: %q", h)
	}
	if h := secure.hint(io.EOF); !contains(h, "does not serve yet", "read-only") || contains(h, "TLS") {
		t.Errorf("over TLS: %q", h)
	}
	if h := plain.hint(context.DeadlineExceeded); h != "" {
		t.Errorf("no answer: %q", h)
	}
}

var errEnough, errDown = errors.New("enough attempts"), errors.New("down")

// Certificates may be replaced in the wrong order. Sessions must not end because of that while
// there is time to correct it.
func TestSessionSurvivesAnUntrustedCertificate(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	good, bad := ca.issue(nil), other.issue(nil)
	var connections atomic.Int32
	server := &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if n := connections.Add(1); n > 1 && n < 5 {
			return &bad, nil
		}
		return &good, nil
	}}
	addr := listenPeers(t, server, func(p *peer) {
		if c := p.nc.(*tls.Conn); c.Handshake() != nil {
			return
		}
		if connections.Load() == 1 {
			p.accept(7, 10*time.Second) // then hang up
			return
		}
		serveSession(p)
	})
	c, err := Dial(t.Context(), Config{Servers: []string{addr}, TLS: &tls.Config{RootCAs: ca.pool()}, Lease: LeasePing})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, _, err := c.Exists(t.Context(), "/a"); err != nil && !errors.Is(err, ErrConnectionLoss) {
		t.Error(err)
	}
	if _, _, err := c.Exists(t.Context(), "/a"); err != nil {
		t.Error(err)
	}
	if n := connections.Load(); n != 5 {
		t.Errorf("%d connections; want the fifth to succeed", n)
	}
}

// Each server's certificate must be for its own name in Servers.
func TestTLSNamesTheServerOfEachConnection(t *testing.T) {
	ca := newAuthority(t)
	asked := make(chan string, 10)
	server := &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		asked <- h.ServerName
		cert := ca.issue(func(c *x509.Certificate) { c.DNSNames = []string{"one.test", "two.test"} })
		return &cert, nil
	}}
	addr := listenPeers(t, server, func(p *peer) { p.accept(7, 10*time.Second) }) // then hang up
	given := &tls.Config{RootCAs: ca.pool(), MinVersion: tls.VersionTLS10}
	dialled := make(chan string, 10)
	c, err := Dial(t.Context(), Config{Servers: []string{"one.test:1", "two.test:1"}, TLS: given,
		Dial: func(ctx context.Context, network, host string) (net.Conn, error) {
			dialled <- host
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if host, name := <-dialled, <-asked; host != name+":1" {
			t.Errorf("asked %s for %q", host, name)
		}
	}
	c.Close()
	if given.ServerName != "" || given.MinVersion != tls.VersionTLS10 {
		t.Error("the caller's tls.Config was changed")
	}
}

func TestHandshakeOverTLSIsBoundedByTheConnectTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		var attempts atomic.Int32
		_, err := Dial(ctx, Config{
			Servers: []string{"silent:1"}, SessionTimeout: 9 * time.Second, TLS: &tls.Config{},
			Dial: dialPeers(t, func(p *peer) {
				attempts.Add(1)
				io.Copy(io.Discard, p.nc)
			}),
		})
		wantErr(t, err, context.DeadlineExceeded)
		if n := attempts.Load(); n < 7 || n > 9 { // three seconds each, and the pauses
			t.Errorf("%d attempts", n)
		}
		if err == nil || !strings.Contains(err.Error(), "TLS handshake") {
			t.Errorf("got error %v", err)
		}
	})
}

// tls.Conn waits up to five seconds to send its close alert to a server that no longer reads.
func TestTLSConnectionClosesAtOnce(t *testing.T) {
	ca := newAuthority(t)
	ours, theirs := net.Pipe()
	cert := ca.issue(nil)
	go func() {
		// There are no tickets: the server would write them after the handshake, and the client
		// does not read.
		tls.Server(theirs, &tls.Config{Certificates: []tls.Certificate{cert}, SessionTicketsDisabled: true}).Handshake()
	}()
	nc, err := startTLS(t.Context(), ours, &tls.Config{RootCAs: ca.pool()}, "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	nc.Close()
	if d := time.Since(start); d > 4*time.Second {
		t.Errorf("took %v", d)
	}
}

func TestTLSConfigsThatCannotWorkAreRefused(t *testing.T) {
	for _, tt := range []struct {
		cfg  Config
		says string
	}{
		{Config{Servers: []string{"a:1"}, TLS: &tls.Config{MaxVersion: tls.VersionTLS11}}, "MaxVersion"},
		{Config{Servers: []string{"unix:///a"}, TLS: &tls.Config{}}, "ServerName"},
	} {
		_, err := Dial(t.Context(), tt.cfg)
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("got error %v; want one that says %q", err, tt.says)
		}
	}
}
