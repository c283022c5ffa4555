//go:build unix

package main

import (
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
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func makeAuthority(ts *testscript.TestScript, _ bool, args []string) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: args[0]}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	ts.Check(issue(ts.MkAbs(args[0]), template, template, nil))
}

func makeCertificate(ts *testscript.TestScript, _ bool, args []string) {
	authority, err := tls.LoadX509KeyPair(ts.MkAbs(args[0]+".pem"), ts.MkAbs(args[0]+".key"))
	ts.Check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: args[1]}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if len(args) > 2 {
		template.NotAfter = time.Now().Add(-time.Minute)
	}
	ts.Check(issue(ts.MkAbs(args[1]), template, authority.Leaf, authority.PrivateKey))
}

// issue writes path.pem and path.key. Like tools that renew certificates, it replaces each file
// atomically. Without issuerKey, the certificate is self-signed.
func issue(path string, template, issuer *x509.Certificate, issuerKey any) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if issuerKey == nil {
		issuerKey = key
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), issuerKey)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		suffix, block string
		der           []byte
	}{{".pem", "CERTIFICATE", cert}, {".key", "PRIVATE KEY", private}} {
		fresh := filepath.Join(filepath.Dir(path), "fresh")
		if err := os.WriteFile(fresh, pem.EncodeToMemory(&pem.Block{Type: f.block, Bytes: f.der}), 0o600); err != nil {
			return err
		}
		if err := os.Rename(fresh, path+f.suffix); err != nil {
			return err
		}
	}
	return nil
}
