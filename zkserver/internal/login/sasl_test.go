package login

import (
	"cmp"
	"crypto/md5"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/tree"
)

func secret(user, password string) [md5.Size]byte {
	return zkproto.DigestMD5Secret(user, realm, password)
}

// response returns the token of a client with this secret, and the answer that it expects. authzid is the
// user for whom the client wants to act, or empty.
func response(user, authzid, nonce string, secret [md5.Size]byte) (token, answer string) {
	d := zkproto.DigestMD5{Nonce: nonce, Cnonce: "c", URI: uri, AuthzID: authzid, Secret: secret}
	q := zkproto.QuoteDirective
	token = fmt.Sprintf("charset=utf-8,username=%s,realm=%s,nonce=%s,nc=00000001,cnonce=c,digest-uri=%s,response=%s,qop=auth", q(user), q(realm), q(nonce), q(uri), d.Response())
	if authzid != "" {
		token += ",authzid=" + q(authzid)
	}
	return token, "rspauth=" + d.Proof()
}

// always lets every attempt begin.
func always(string) bool { return true }

// challenge does the first step, and returns the nonce.
func challenge(t *testing.T, x *Exchange, u *Users) string {
	t.Helper()
	answer, ids, ok := x.Step(u, []byte{}, always)
	fields, err := zkproto.ParseDirectives(string(answer))
	if !ok || ids != nil || err != nil || len(fields["nonce"]) != 1 || len(fields["nonce"][0]) < 20 {
		t.Fatalf("challenge %q, %v, %v", answer, ids, ok)
	}
	return fields["nonce"][0]
}

func TestAnExchangeIsGoodForOneProof(t *testing.T) {
	u := newUsers(t, testUsers, "")
	for _, tt := range []struct {
		name, user string
		secret     [md5.Size]byte
		nonce      string // empty: the challenge's
		authzid    string
		extra      string
		want       []tree.Identity // nil: refused
	}{
		{"right", "bob", secret("bob", planted), "", "", "", []tree.Identity{{Scheme: "sasl", ID: "bob"}}},
		{"wrong password", "bob", secret("bob", "x"), "", "", "", nil},
		{"another user", "eve", secret("bob", planted), "", "", "", nil},
		{"no such user", "nobody", secret("nobody", ""), "", "", "", nil},
		{"no such user, no hash", "nobody", [md5.Size]byte{}, "", "", "", nil},
		{"another nonce", "bob", secret("bob", planted), "nonce", "", "", nil},
		{"for another", "bob", secret("bob", planted), "", "eve", "", nil},
		{"for itself", "bob", secret("bob", planted), "", "bob", "", []tree.Identity{{Scheme: "sasl", ID: "bob"}}},
		{"two users", "bob", secret("bob", planted), "", "", ",username=eve", nil},
		{"long", "bob", secret("bob", planted), "", "", `,x="` + strings.Repeat("x", maxToken) + `"`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var x Exchange
			nonce := challenge(t, &x, u)
			token, want := response(tt.user, tt.authzid, cmp.Or(tt.nonce, nonce), tt.secret)
			answer, ids, ok := x.Step(u, []byte(token+tt.extra), always)
			if ok != (tt.want != nil) || !slices.Equal(ids, tt.want) || ok && string(answer) != want || !ok && answer != nil {
				t.Fatalf("%q, %v, %v; want %v", answer, ids, ok, tt.want)
			}
			if tt.extra != "" && len(token+tt.extra) > maxToken {
				return // the token proves nothing
			}
			right, _ := response("bob", "", nonce, secret("bob", planted))
			for _, token := range []string{"", right} {
				if answer, ids, ok := x.Step(u, []byte(token), always); ok || ids != nil || answer != nil {
					t.Errorf("after the end, %q: %q, %v", token, answer, ids)
				}
			}
		})
	}
}

func TestStepRefusesWhatIsNoToken(t *testing.T) {
	for _, passwords := range []map[string]string{nil, testUsers} {
		for name, token := range map[string][]byte{"null": nil, "long": make([]byte, maxToken+1)} {
			if answer, ids, ok := new(Exchange).Step(newUsers(t, passwords, ""), token, always); ok || ids != nil || answer != nil {
				t.Errorf("%s, %d users: %q, %v", name, len(passwords), answer, ids)
			}
		}
	}
}

func TestStepWithoutUsersAnswersNothing(t *testing.T) {
	var x Exchange
	for _, token := range []string{"", "x", ""} {
		if answer, ids, ok := x.Step(newUsers(t, nil, ""), []byte(token), always); !ok || ids != nil || answer != nil {
			t.Errorf("%q: %q, %v, %v", token, answer, ids, ok)
		}
	}
}

// Whatever a client sends, the server does not panic, and no client logs in without a password.
func FuzzSASLResponse(f *testing.F) {
	u := newUsers(f, testUsers, "")
	wrong, _ := response("bob", "", "nonce", secret("bob", "wrong"))
	f.Add(wrong)
	nobody, _ := response("nobody", "", "nonce", [md5.Size]byte{})
	f.Add(nobody)
	f.Add(`username="bob",nonce="nonce",realm="zk-sasl-md5",cnonce="\",response=x",nc=00000001`)
	f.Fuzz(func(t *testing.T, response string) {
		if name, _, ok := u.checkSASL(response, "nonce", always); ok {
			t.Errorf("%q logs in as %q without a password", response, name)
		}
	})
}

// A proof that comes too early after wrong ones is refused, right or wrong.
func TestAProofThatMustNotBeginIsRefused(t *testing.T) {
	u := newUsers(t, testUsers, "")
	x := &Exchange{}
	token, _ := response("bob", "", challenge(t, x, u), secret("bob", planted))
	asked := ""
	if answer, ids, ok := x.Step(u, []byte(token), func(name string) bool { asked = name; return false }); ok || ids != nil || answer != nil || asked != "bob" {
		t.Errorf("%q, %v, %v; asked for %q", answer, ids, ok, asked)
	}
}

// The password of the superuser is compared whatever is required, and those of the others only if digest is.
func TestGuessed(t *testing.T) {
	super := Digest("root:secret").ID
	for _, tt := range []struct {
		auth           string
		guessed, right bool
		require        []string
	}{
		{"root:secret", true, true, nil}, {"root:guess", true, false, nil}, {"bob:" + planted, false, false, nil},
		{"bob:" + planted, true, true, []string{"digest"}}, {"bob:x", true, false, []string{"digest"}},
		{"nobody:x", true, false, []string{"digest"}}, {"root:secret", true, true, []string{"digest"}},
	} {
		u, err := NewUsers(testUsers, super, tt.require)
		if err != nil {
			t.Fatal(err)
		}
		_, guessed := u.Guessed([]byte(tt.auth))
		ids, _ := u.ByDigest([]byte(tt.auth))
		if right := u.IsRight(ids); guessed != tt.guessed || right != tt.right {
			t.Errorf("%s with %v: guessed %v, right %v", tt.auth, tt.require, guessed, right)
		}
	}
}
