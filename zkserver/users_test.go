package zkserver

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/zkproto"
)

// superDigest is the digest of super:test, from ZooKeeper's documentation.
const superDigest = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="

func TestAuthenticationThatMakesNoSenseIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  Config
		says string
	}{
		{"no name", Config{Users: map[string]string{"": planted}}, "a user has no name"},
		{"colon", Config{Users: map[string]string{"a:b": planted}}, `"a:b"`},
		{"control character", Config{Users: map[string]string{"a\nb": planted}}, `"a\nb"`},
		{"not UTF-8", Config{Users: map[string]string{"\xff": planted}}, `"\xff"`},
		{"no name for an ACL", Config{Users: map[string]string{"a@b@c": planted}}, `"a@b@c"`},
		{"no password", Config{Users: map[string]string{"bob": ""}}, `"bob"`},
		{"password not UTF-8", Config{Users: map[string]string{"bob": planted + "\xff"}}, `"bob"`},
		{"super's password", Config{SuperDigest: "super:" + planted}, "base64(sha1("},
		{"super without a name", Config{SuperDigest: strings.TrimPrefix(superDigest, "super")}, "base64(sha1("},
		{"unknown scheme", Config{RequireAuth: []string{"ip"}}, `"ip": want one of digest, sasl, x509`},
		{"SASL without users", Config{SuperDigest: superDigest, RequireAuth: []string{"x509", "sasl"}}, `"sasl": no users are configured`},
		{"digest without users", Config{RequireAuth: []string{"digest"}}, `"digest": no users are configured`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Open(tt.cfg)
			if err == nil {
				s.Close()
				t.Fatal("opened")
			}
			if again := tt.cfg.Validate(); again == nil || again.Error() != err.Error() {
				t.Errorf("Validate says %v, Open %v", again, err)
			}
			if !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), planted) {
				t.Errorf("got error %v; want one that names %s and no password", err, tt.says)
			}
		})
	}
}

func TestTheSuperuserMayDoEverything(t *testing.T) {
	inBubble(t, Config{SuperDigest: superDigest}, func(t *testing.T, s *Server, dial func() *rawClient) {
		alice, bob, super := dial(), dial(), dial()
		for _, c := range []*rawClient{alice, bob, super} {
			c.connect(10*time.Second, nil)
		}
		alice.auth("digest", "alice:secret")
		bob.auth("digest", "super:wrong")
		if a := super.auth("digest", "super:test"); a.Err != zkproto.CodeOK {
			t.Fatal(a.Err)
		}
		if got := super.whoAmI(); !slices.Equal(got, []zkproto.ClientInfo{{Scheme: "digest", User: "super"}, {Scheme: "super"}}) {
			t.Errorf("who am I: %v", got)
		}
		hers := []zkproto.ACL{{Perms: zkproto.PermAll, Scheme: "auth"}}
		alice.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/p", ACL: hers})
		for c, want := range map[*rawClient]zkproto.Code{bob: zkproto.CodeNoAuth, super: zkproto.CodeOK} {
			read := c.call(zkproto.OpGetData, &zkproto.ReadRequest{Path: "/p", Watch: true})
			write := c.call(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/zookeeper/config", Version: 7}) // neither the ACL nor the version allows it
			if read.Err != want || want != zkproto.CodeOK && write.Err != want || want == zkproto.CodeOK && write.Err != zkproto.CodeBadVersion {
				t.Errorf("read %v, write %v; want %v", read.Err, write.Err, want)
			}
		}
		alice.call(zkproto.OpDelete, &zkproto.DeleteRequest{Path: "/p", Version: -1})
		if e := super.event(); e.Type != zkproto.EventNodeDeleted {
			t.Errorf("event %v", e)
		}
	})
}

// The test covers every operation except logins, pings and closeSession.
func TestWhoMustAuthenticateMayDoNothingBefore(t *testing.T) {
	allowed := map[zkproto.Op]zkproto.Code{
		zkproto.OpPing: zkproto.CodeOK, zkproto.OpCloseSession: zkproto.CodeOK, zkproto.OpSASL: zkproto.CodeOK, zkproto.OpAuth: zkproto.CodeOK,
	}
	for op := zkproto.Op(-11); op <= 110; op++ {
		inBubble(t, Config{Users: testUsers, RequireAuth: []string{"sasl"}}, func(t *testing.T, s *Server, dial func() *rawClient) {
			c := dial()
			c.connect(10*time.Second, nil)
			var body message // other operations have no body, or are refused before it matters
			switch op {
			case zkproto.OpSASL:
				body = &zkproto.SASLToken{Token: []byte{}}
			case zkproto.OpAuth:
				body = &zkproto.AuthRequest{Scheme: "digest", Auth: []byte("bob:" + planted)}
			}
			before := s.owner.zxid
			a := c.call(op, body)
			want, ok := allowed[op]
			if !ok {
				want = zkproto.CodeSessionClosedRequireSASL
				if a.Zxid != 0 || s.owner.zxid != before {
					t.Errorf("%v: zxid %d", op, a.Zxid)
				}
			}
			if a.Err != want {
				t.Fatalf("%v: %v; want %v", op, a.Err, want)
			}
			if ok && op != zkproto.OpCloseSession {
				// Digest is not the required scheme, and a challenge is only half of SASL.
				if a := c.call(zkproto.OpExists, &zkproto.ReadRequest{Path: "/"}); a.Err != zkproto.CodeSessionClosedRequireSASL {
					t.Errorf("after %v: %v", op, a.Err)
				}
			}
			c.closed()
		})
	}
}

func TestWhatIsRequiredOpensTheDoor(t *testing.T) {
	digest := func(userPassword string) func(c *rawClient) zkproto.Code {
		return func(c *rawClient) zkproto.Code { return c.auth("digest", userPassword).Err }
	}
	sasl := func(user, password string) func(c *rawClient) zkproto.Code {
		return func(c *rawClient) zkproto.Code {
			_, code := c.sasl(newDigest(user, password, c.challenge()).response())
			return code
		}
	}
	const (
		ok     = zkproto.CodeOK
		failed = zkproto.CodeAuthFailed
		closed = zkproto.CodeSessionClosedRequireSASL
	)
	for _, tt := range []struct {
		name    string
		require []string
		auth    func(c *rawClient) zkproto.Code
		code    zkproto.Code // of the authentication
		then    zkproto.Code // of the next request
	}{
		{"SASL", []string{"sasl"}, sasl("bob", planted), ok, ok},
		{"SASL, wrong password", []string{"sasl"}, sasl("bob", planted+"x"), closed, closed},
		{"digest where SASL is required", []string{"sasl"}, digest("bob:" + planted), ok, closed},
		{"digest", []string{"digest"}, digest("bob:" + planted), ok, ok},
		{"digest, wrong password", []string{"digest"}, digest("bob:" + planted + "x"), failed, closed},
		{"digest, no such user", []string{"digest"}, digest("nobody:"), failed, closed},
		{"digest, no password", []string{"digest"}, digest("bob"), failed, closed},
		{"SASL where digest is required", []string{"digest"}, sasl("bob", planted), ok, closed},
		{"one of several", []string{"x509", "digest", "sasl"}, sasl("bob", planted), ok, ok},
		{"superuser", []string{"sasl"}, digest("super:test"), ok, ok},
		{"superuser, digest required", []string{"digest"}, digest("super:test"), ok, ok},
		{"nothing required, any digest", nil, digest("any:thing"), ok, ok},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := Config{Users: testUsers, SuperDigest: superDigest, RequireAuth: tt.require}
			inBubble(t, cfg, func(t *testing.T, s *Server, dial func() *rawClient) {
				c := dial()
				session := c.connect(10*time.Second, nil)
				if got := tt.auth(c); got != tt.code {
					t.Fatalf("authentication: %v; want %v", got, tt.code)
				}
				if tt.code == ok {
					if a := c.call(zkproto.OpExists, &zkproto.ReadRequest{Path: "/"}); a.Err != tt.then {
						t.Errorf("request: %v; want %v", a.Err, tt.then)
					}
				}
				if tt.then != ok {
					c.closed()
				}
				if tt.require == nil {
					return
				}
				// The session's next connection starts without identities.
				next := dial()
				if next.connect(10*time.Second, session).SessionID != session.SessionID {
					t.Error("the session ended with its connection")
				}
				if a := next.call(zkproto.OpExists, &zkproto.ReadRequest{Path: "/"}); a.Err != closed {
					t.Errorf("on the next connection: %v", a.Err)
				}
				next.closed()
			})
		})
	}
}

func TestACertificateOpensTheDoor(t *testing.T) {
	ca := certify(t, pkix.Name{CommonName: "authority"}, nil)
	authorities := x509.NewCertPool()
	authorities.AddCert(ca.Leaf)
	alice := certify(t, pkix.Name{CommonName: "alice"}, ca)
	cfg := Config{RequireAuth: []string{"x509"}}
	_, plain := serve(t, cfg)
	secure := serveTLS(t, cfg, &tls.Config{
		Certificates: []tls.Certificate{*certify(t, pkix.Name{CommonName: "server"}, ca)}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: authorities,
	})
	for _, tt := range []struct {
		name string
		dial func() *rawClient
		want zkproto.Code
	}{
		{"shown", func() *rawClient { return dialTLS(t, secure, authorities, alice) }, zkproto.CodeOK},
		{"not shown", func() *rawClient { return dialTLS(t, secure, authorities, nil) }, zkproto.CodeSessionClosedRequireSASL},
		{"no TLS", func() *rawClient { return dialRaw(t, plain) }, zkproto.CodeSessionClosedRequireSASL},
	} {
		c := tt.dial()
		c.connect(10*time.Second, nil)
		if a := c.call(zkproto.OpExists, &zkproto.ReadRequest{Path: "/"}); a.Err != tt.want {
			t.Errorf("%s: %v; want %v", tt.name, a.Err, tt.want)
		}
	}
}

// Typing a password takes time, so pings alone are answered for one session timeout. A client that
// never logs in is not kept for ever.
func TestPingsAloneAreAnsweredForOneSessionTimeout(t *testing.T) {
	inBubble(t, Config{Users: testUsers, RequireAuth: []string{"sasl"}}, func(t *testing.T, s *Server, dial func() *rawClient) {
		slow, mute := dial(), dial()
		slow.connect(10*time.Second, nil)
		mute.connect(10*time.Second, nil)
		for range 2 {
			time.Sleep(4 * time.Second)
			for _, c := range []*rawClient{slow, mute} {
				if a := c.call(zkproto.OpPing, nil); a.Err != zkproto.CodeOK {
					t.Fatalf("ping: %v", a.Err)
				}
			}
		}
		slow.authSASL("bob", planted)
		time.Sleep(4 * time.Second)
		if a := slow.call(zkproto.OpPing, nil); a.Err != zkproto.CodeOK {
			t.Errorf("ping of an authenticated client: %v", a.Err)
		}
		if a := mute.call(zkproto.OpPing, nil); a.Err != zkproto.CodeSessionClosedRequireSASL {
			t.Errorf("ping of a client that has not authenticated: %v", a.Err)
		}
		mute.closed()
	})
}
