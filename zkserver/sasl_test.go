package zkserver

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/login"
)

// planted is a password that no log and no error may show.
const planted = "pa55-planted"

var testUsers = map[string]string{"bob": planted, "eve": "eve-password", "zoë": "pass-ë", "snow": "pass-☃", `b"o,b\`: "quoted"}

// A digestClient holds what a client sends and expects in one SASL exchange. A test can make its
// fields wrong.
type digestClient struct {
	user, password string
	realm          string
	extra          string // more directives
	zkproto.DigestMD5
}

func newDigest(user, password, nonce string) *digestClient {
	return &digestClient{user: user, password: password, realm: "zk-sasl-md5", DigestMD5: zkproto.DigestMD5{Nonce: nonce, Cnonce: "c", URI: "zookeeper/zk-sasl-md5"}}
}

// response returns the client's token.
func (d *digestClient) response() string {
	user, _ := zkproto.DigestMD5Text(d.user, true)
	password, _ := zkproto.DigestMD5Text(d.password, true)
	d.Secret = zkproto.DigestMD5Secret(user, d.realm, password)
	return d.withSecret()
}

func (d *digestClient) withSecret() string {
	q := zkproto.QuoteDirective
	authzid := ""
	if d.AuthzID != "" {
		authzid = ",authzid=" + q(d.AuthzID)
	}
	return fmt.Sprintf("charset=utf-8,username=%s,realm=%s,nonce=%s,nc=00000001,cnonce=%s,digest-uri=%s,maxbuf=65536,response=%s,qop=auth%s%s",
		q(d.user), q(d.realm), q(d.Nonce), q(d.Cnonce), q(d.URI), d.Response(), authzid, d.extra)
}

// sasl sends one step and returns the answer to it, which has no zxid.
func (c *rawClient) sasl(token string) ([]byte, zkproto.Code) {
	c.t.Helper()
	a := c.call(zkproto.OpSASL, &zkproto.SASLToken{Token: []byte(token)})
	var m zkproto.SASLToken
	m.Decode(a.body)
	if err := a.body.Complete(); err != nil || a.Zxid != 0 {
		c.t.Fatalf("SASL: %+v, %v", a.ReplyHeader, err)
	}
	return m.Token, a.Err
}

// challenge begins a SASL exchange and returns the nonce.
func (c *rawClient) challenge() string {
	c.t.Helper()
	token, code := c.sasl("")
	fields, err := zkproto.ParseDirectives(string(token))
	if code != zkproto.CodeOK || err != nil {
		c.t.Fatalf("challenge %q, %v, %v", token, code, err)
	}
	nonce := fields["nonce"]
	delete(fields, "nonce")
	// Apache's server 3.8.0 sends these.
	want := map[string][]string{"realm": {"zk-sasl-md5"}, "charset": {"utf-8"}, "algorithm": {"md5-sess"}}
	if len(nonce) != 1 || len(nonce[0]) < 20 || fmt.Sprint(fields) != fmt.Sprint(want) {
		c.t.Fatalf("challenge %q", token)
	}
	return nonce[0]
}

// authSASL authenticates with the right password.
func (c *rawClient) authSASL(user, password string) {
	c.t.Helper()
	d := newDigest(user, password, c.challenge())
	if token, code := c.sasl(d.response()); code != zkproto.CodeOK || string(token) != "rspauth="+d.Proof() {
		c.t.Fatalf("SASL as %q: %q, %v", user, token, code)
	}
}

func TestSASLProvesEachSideToTheOther(t *testing.T) {
	latin1 := func(d *digestClient) string {
		s := strings.Replace(d.response(), "charset=utf-8,", "", 1)
		return strings.Replace(s, "zoë", "zo\xeb", 1)
	}
	for _, tt := range []struct {
		name, user string
		response   func(d *digestClient) string
	}{
		{"plain", "bob", (*digestClient).response},
		{"for itself", "bob", func(d *digestClient) string { d.AuthzID = "bob"; return d.response() }},
		{"without a quality of protection", "bob", func(d *digestClient) string { return strings.Replace(d.response(), ",qop=auth", "", 1) }},
		{"in capitals", "bob", func(d *digestClient) string { d.URI = strings.ToUpper(d.URI); return d.response() }},
		{"unknown directives", "bob", func(d *digestClient) string { d.extra = `,future="x"`; return d.response() }},
		{"quotes", `b"o,b\`, (*digestClient).response},
		{"ISO 8859-1 in UTF-8", "zoë", (*digestClient).response},
		{"ISO 8859-1", "zoë", latin1},
		{"beyond ISO 8859-1", "snow", (*digestClient).response},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, Config{Users: testUsers}, func(t *testing.T, s *Server, dial func() *rawClient) {
				c := dial()
				c.connect(10*time.Second, nil)
				d := newDigest(tt.user, testUsers[tt.user], c.challenge())
				response := tt.response(d)
				if token, code := c.sasl(response); code != zkproto.CodeOK || string(token) != "rspauth="+d.Proof() {
					t.Fatalf("%s: %q, %v", response, token, code)
				}
				if got := c.whoAmI(); !slices.Equal(got, []zkproto.ClientInfo{{Scheme: "sasl", User: tt.user}}) {
					t.Errorf("who am I: %v", got)
				}
				// The exchange is over. Like Apache's server, ours permits no second one on a connection.
				if token, code := c.sasl(""); token != nil || code != zkproto.CodeAuthFailed {
					t.Errorf("a second exchange: %q, %v", token, code)
				}
				c.closed()
			})
		})
	}
}

// logText is the log at debug level.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestWhoDoesNotProveThePasswordIsDisconnected(t *testing.T) {
	right := func(change func(d *digestClient)) func(nonce string) string {
		return func(nonce string) string {
			d := newDigest("bob", planted, nonce)
			change(d)
			return d.response()
		}
	}
	without := func(directive string) func(nonce string) string {
		return func(nonce string) string {
			response := newDigest("bob", planted, nonce).response()
			missing := strings.Replace(response, directive, "", 1)
			if missing == response {
				t.Errorf("%s is not in %s", directive, response)
			}
			return missing
		}
	}
	nothing := func(d *digestClient) {}
	for name, response := range map[string]func(nonce string) string{
		"wrong password":         func(n string) string { return newDigest("bob", planted+"x", n).response() },
		"another's password":     func(n string) string { return newDigest("eve", planted, n).response() },
		"no such user":           func(n string) string { return newDigest("nobody", planted, n).response() },
		"no such user, no hash":  func(n string) string { return newDigest("nobody", "", n).withSecret() },
		"no user":                without(`username="bob",`),
		"no nonce":               func(n string) string { return without(fmt.Sprintf(`nonce="%s",`, n))(n) },
		"no realm":               without(`realm="zk-sasl-md5",`),
		"no client nonce":        without(`cnonce="c",`),
		"no service":             without(`digest-uri="zookeeper/zk-sasl-md5",`),
		"no count":               without(`nc=00000001,`),
		"another nonce":          right(func(d *digestClient) { d.Nonce = "x" }),
		"another realm":          right(func(d *digestClient) { d.realm = "x" }),
		"another service":        right(func(d *digestClient) { d.URI = "imap/zk-sasl-md5" }),
		"for another":            right(func(d *digestClient) { d.AuthzID = "eve" }),
		"empty client nonce":     right(func(d *digestClient) { d.Cnonce = "" }),
		"two users":              right(func(d *digestClient) { d.extra = `,username="eve"` }),
		"two qualities":          right(func(d *digestClient) { d.extra = `,qop=auth` }),
		"two services":           right(func(d *digestClient) { d.extra = `,digest-uri="x"` }),
		"more than the standard": right(func(d *digestClient) { d.extra = `,x="` + strings.Repeat("x", 4096) + `"` }),
		"used a second time":     func(n string) string { return strings.Replace(right(nothing)(n), "nc=00000001", "nc=00000002", 1) },
		"integrity":              func(n string) string { return strings.Replace(right(nothing)(n), "qop=auth", "qop=auth-int", 1) },
		"unknown characters":     func(n string) string { return strings.Replace(right(nothing)(n), "utf-8", "utf-7", 1) },
		"not UTF-8":              func(n string) string { return newDigest("b\xffb", planted, n).response() },
		"no directives":          func(string) string { return "x" },
		"nothing":                func(string) string { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			log := &logText{}
			cfg := Config{Users: testUsers, Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
			inBubble(t, cfg, func(t *testing.T, s *Server, dial func() *rawClient) {
				c := dial()
				c.connect(10*time.Second, nil)
				text := response(c.challenge())
				if token, code := c.sasl(text); token != nil || code != zkproto.CodeAuthFailed {
					t.Errorf("%s: %q, %v", text, token, code)
				}
				c.closed()
				if n := s.Stats().LoginsRefused; n != 1 {
					t.Errorf("%d logins were refused", n)
				}
			})
			if got := log.String(); !strings.Contains(got, "client refused") || strings.Contains(got, "bob") || strings.Contains(got, planted) {
				t.Errorf("log:\n%s", got)
			}
		})
	}
}

func TestANonceIsOfOneConnection(t *testing.T) {
	inBubble(t, Config{Users: testUsers}, func(t *testing.T, s *Server, dial func() *rawClient) {
		overheard, c := dial(), dial()
		overheard.connect(10*time.Second, nil)
		c.connect(10*time.Second, nil)
		response := newDigest("bob", planted, overheard.challenge()).response()
		c.challenge()
		if token, code := c.sasl(response); token != nil || code != zkproto.CodeAuthFailed {
			t.Errorf("a replayed response: %q, %v", token, code)
		}
		c.closed()
		if _, code := overheard.sasl(response); code != zkproto.CodeOK {
			t.Errorf("the response on its own connection: %v", code)
		}
	})
}

func TestSASLThatIsNotWellFormedEndsTheConnection(t *testing.T) {
	for name, m := range map[string]message{
		"null": &zkproto.SASLToken{}, "nothing": nil, "cut off": raw("\x00\x00\x00\x09abc"),
		"long": &zkproto.SASLToken{Token: make([]byte, 4097)},
	} {
		for _, users := range []map[string]string{nil, testUsers} {
			inBubble(t, Config{Users: users}, func(t *testing.T, s *Server, dial func() *rawClient) {
				c := dial()
				c.connect(10*time.Second, nil)
				if a := c.call(zkproto.OpSASL, m); a.Err != zkproto.CodeAuthFailed {
					t.Errorf("%s with %d users: %v", name, len(users), a.Err)
				}
				c.closed()
			})
		}
	}
}

// An Apache server 3.8.0 without a JAAS file gives these answers.
func TestAServerWithoutUsersHasNothingToSayBySASL(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		for _, step := range []string{"", "x", ""} {
			if token, code := c.sasl(step); token != nil || code != zkproto.CodeOK {
				t.Errorf("%q: %q, %v", step, token, code)
			}
		}
		if got := c.whoAmI(); len(got) != 0 {
			t.Errorf("who am I: %v", got)
		}
	})
}

func TestSASLIdentitiesCountWithTheOthers(t *testing.T) {
	inBubble(t, Config{Users: testUsers}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		for i := range login.MaxIdentities {
			c.auth("digest", fmt.Sprint(i))
		}
		if token, code := c.sasl(newDigest("bob", planted, c.challenge()).response()); token != nil || code != zkproto.CodeAuthFailed {
			t.Errorf("one exchange more than fits: %q, %v", token, code)
		}
		c.closed()
	})
}
