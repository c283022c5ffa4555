package certmagicholdfast_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"holdfast"
	"holdfast/contrib/certmagicholdfast"
	"holdfast/zktest"
)

// A ca issues certificates for certmagic.
type ca struct {
	key    *ecdsa.PrivateKey
	root   *x509.Certificate
	issued atomic.Int64
	before func() // called before each certificate, if it is not nil
}

func newCA() *ca {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour * 24 * 365), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	root, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return &ca{key: key, root: root}
}

// with returns the same ca with another function before each certificate.
func (c *ca) with(before func()) *ca { return &ca{key: c.key, root: c.root, before: before} }

func (c *ca) IssuerKey() string { return "test" }

func (c *ca) Issue(_ context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	if c.before != nil {
		c.before()
	}
	n := c.issued.Add(1)
	template := &x509.Certificate{SerialNumber: big.NewInt(n + 1), DNSNames: csr.DNSNames, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, c.root, csr.PublicKey, c.key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// newMagic returns a program's certmagic.
func newMagic(t *testing.T, s certmagic.Storage, issuer certmagic.Issuer) *certmagic.Config {
	t.Helper()
	var magic *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return magic, nil },
		Logger:           zap.NewNop(),
	})
	t.Cleanup(cache.Stop)
	magic = certmagic.New(cache, certmagic.Config{Storage: s, Issuers: []certmagic.Issuer{issuer}, Logger: zap.NewNop()})
	return magic
}

// Five programs want one certificate at once: one of them obtains it.
func TestOneProgramObtainsTheCertificate(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	issuer := newCA()
	issuer.before = srv.CloseClientConnections
	var group sync.WaitGroup
	for range 5 {
		magic := newMagic(t, newStorage(t, srv.Client()), issuer)
		group.Go(func() {
			if err := magic.ObtainCertSync(context.Background(), "example.com"); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := issuer.issued.Load(); n != 1 {
		t.Errorf("%d certificates were issued, want 1", n)
	}
}

// A program loses its lock while the CA works. Another one obtains the certificate. Then the first one continues: it
// must not store its certificate, nor delete a file of the other, whose key and certificate belong together.
func TestALostLockDoesNotTouchTheNextCertificate(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx, issuer, c := context.Background(), newCA(), srv.Client()
	other := newMagic(t, newStorage(t, srv.Client()), issuer)
	first := newMagic(t, newStorage(t, c), issuer.with(func() {
		expire(t, srv, c)
		if err := other.ObtainCertSync(ctx, "example.com"); err != nil {
			t.Error(err)
		}
	}))
	if err := first.ObtainCertSync(ctx, "example.com"); err == nil || !strings.Contains(err.Error(), holdfast.ErrLost.Error()) { // certmagic hides errors from errors.Is
		t.Errorf("ObtainCertSync: %v, want ErrLost", err)
	}
	if n := issuer.issued.Load(); n != 1 {
		t.Errorf("the second program obtained %d certificates, want 1", n)
	}
	s := newStorage(t, srv.Client())
	crt, err := s.Load(ctx, certmagic.StorageKeys.SiteCert("test", "example.com"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := s.Load(ctx, certmagic.StorageKeys.SitePrivateKey("test", "example.com"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(crt, key); err != nil {
		t.Errorf("the stored key and certificate do not belong together: %v", err)
	}
	// The first program's lock is unlocked, so it can go on.
	if err := first.ObtainCertSync(ctx, "example.com"); err != nil {
		t.Errorf("ObtainCertSync after the loss: %v", err)
	}
}

// At the end of a program, certmagic gives up its locks while the work goes on.
func TestCleanUpOwnLocks(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	ctx, s, next := context.Background(), newStorage(t, srv.Client()), newStorage(t, srv.Client())
	magic := newMagic(t, s, newCA().with(func() {
		if ok, err := next.TryLock(ctx, "issue_cert_example.com"); ok || err != nil {
			t.Errorf("TryLock while the program runs: %v, %v", ok, err)
		}
		certmagic.CleanUpOwnLocks(ctx, zap.NewNop())
		if ok, err := next.TryLock(ctx, "issue_cert_example.com"); !ok || err != nil {
			t.Errorf("TryLock after CleanUpOwnLocks: %v, %v", ok, err)
		}
	}))
	_ = magic.ObtainCertSync(ctx, "example.com") // the program ends, whatever comes of it
}

func TestWithLocksObtains(t *testing.T) {
	srv := zktest.NewServer()
	defer srv.Close()
	dir, issuer := t.TempDir(), newCA()
	var group sync.WaitGroup
	for range 3 {
		s, err := certmagicholdfast.WithLocks(&certmagic.FileStorage{Path: dir}, certmagicholdfast.Config{Client: srv.Client(), Path: "/certmagic"})
		if err != nil {
			t.Fatal(err)
		}
		magic := newMagic(t, s, issuer)
		group.Go(func() {
			if err := magic.ObtainCertSync(context.Background(), "example.com"); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := issuer.issued.Load(); n != 1 {
		t.Errorf("%d certificates were issued, want 1", n)
	}
}
