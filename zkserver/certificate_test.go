package zkserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

// certify makes a certificate for 127.0.0.1; without a parent it is an authority.
func certify(t *testing.T, subject pkix.Name, parent *tls.Certificate) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: subject, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: parent == nil, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	}
	issuer, signer := template, any(key)
	if parent != nil {
		issuer, signer = parent.Leaf, parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func serveTLS(t *testing.T, cfg Config, config *tls.Config) net.Listener {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.Serve(l)
	}()
	t.Cleanup(func() {
		s.Close()
		<-served
	})
	return l
}

// dialTLS connects with the certificate shows, unless it is nil.
func dialTLS(t *testing.T, l net.Listener, authorities *x509.CertPool, shows *tls.Certificate) *rawClient {
	t.Helper()
	client := &tls.Config{RootCAs: authorities}
	if shows != nil {
		client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return shows, nil }
	}
	nc, err := tls.Dial("tcp", l.Addr().String(), client)
	if err != nil {
		t.Fatal(err) // with TLS 1.3 the client learns of a refusal later
	}
	return newRaw(t, nc)
}

func TestCertificatesAreIdentities(t *testing.T) {
	ca := certify(t, pkix.Name{CommonName: "authority"}, nil)
	stranger := certify(t, pkix.Name{CommonName: "alice"}, nil)
	alice := certify(t, pkix.Name{CommonName: "alice", OrganizationalUnit: []string{"locks"}, Organization: []string{"Example, Inc."}}, ca)
	authorities := x509.NewCertPool()
	authorities.AddCert(ca.Leaf)
	server := &tls.Config{Certificates: []tls.Certificate{*certify(t, pkix.Name{CommonName: "server"}, ca)}, ClientCAs: authorities}
	address := zkproto.ClientInfo{Scheme: "ip", User: "127.0.0.1"}
	for _, tt := range []struct {
		name   string
		policy tls.ClientAuthType
		shows  *tls.Certificate
		want   []zkproto.ClientInfo // nil: refused
	}{
		{"verified", tls.RequireAndVerifyClientCert, alice, []zkproto.ClientInfo{address, {Scheme: "x509", User: `CN=alice,OU=locks,O=Example\, Inc.`}}},
		{"not asked for", tls.NoClientCert, alice, []zkproto.ClientInfo{address}},
		{"none shown", tls.VerifyClientCertIfGiven, nil, []zkproto.ClientInfo{address}},
		{"asked for and not verified", tls.RequestClientCert, stranger, []zkproto.ClientInfo{address}},
		{"of another authority", tls.RequireAndVerifyClientCert, stranger, nil},
		{"required and not shown", tls.RequireAndVerifyClientCert, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			config := server.Clone()
			config.ClientAuth = tt.policy
			l := serveTLS(t, Config{}, config)
			c := dialTLS(t, l, authorities, tt.shows)
			if tt.want == nil {
				if _, err := c.in.ReadByte(); err == nil {
					t.Error("the server sent data to a client without a trusted certificate")
				}
				return
			}
			c.connect(10*time.Second, nil)
			if got := c.whoAmI(); !slices.Equal(got, tt.want) {
				t.Errorf("got %q; want %q", got, tt.want)
			}
			acl := []zkproto.ACL{{Perms: zkproto.PermAll, Scheme: "auth"}}
			a := c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/mine", ACL: acl})
			if want := map[bool]zkproto.Code{true: zkproto.CodeOK, false: zkproto.CodeInvalidACL}[len(tt.want) > 1]; a.Err != want {
				t.Errorf("create with auth as the ACL: %v; want %v", a.Err, want)
			}
			c.call(zkproto.OpCloseSession, nil)
			c.closed()
		})
	}
}

func TestCuttingATLSConnectionWaitsForNobody(t *testing.T) {
	ca := certify(t, pkix.Name{CommonName: "authority"}, nil)
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		server := tls.Server(near, &tls.Config{Certificates: []tls.Certificate{*ca}})
		client := tls.Client(far, &tls.Config{InsecureSkipVerify: true})
		go client.Handshake()
		if err := server.Handshake(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		cut(server) // the client does not read
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v", took)
		}
	})
}
