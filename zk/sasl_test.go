package zk

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

const testNonce = "OA6MG9tEQGm2hh"

// challenge sends the first answer of a server with SASL.
func (p *peer) challenge() {
	op, _, m := p.auth()
	if op == 0 {
		runtime.Goexit()
	}
	if op != zkproto.OpSASL || m.Token == nil || len(m.Token) != 0 {
		p.t.Errorf("got %v %q; want an empty SASL token", op, m.Token)
	}
	p.answerAuth(0, &zkproto.SASLToken{Token: []byte(
		`realm="zk-sasl-md5",nonce="` + testNonce + `",charset=utf-8,algorithm=md5-sess,qop="auth"`)})
}

// acceptSASL plays the server's part up to success.
func (p *peer) acceptSASL(user, password string) {
	p.challenge()
	p.respond(user, password)
}

// respond reads the second step and expects a client that knows the password.
func (p *peer) respond(user, password string) {
	op, _, m := p.auth()
	if op == 0 {
		runtime.Goexit()
	}
	got, err := zkproto.ParseDirectives(string(m.Token))
	if err != nil || len(got["cnonce"]) != 1 {
		p.t.Errorf("response %q: %v", m.Token, err)
		return
	}
	d := digestMD5{realm: "zk-sasl-md5", nonce: testNonce, utf8: true, user: user, password: password, uri: saslURI, cnonce: got["cnonce"][0]}
	response, proof, err := d.respond()
	if err != nil || string(m.Token) != response {
		p.t.Errorf("response %q; want %q (%v)", m.Token, response, err)
	}
	p.answerAuth(0, &zkproto.SASLToken{Token: []byte("rspauth=" + proof)})
}

// The example in section 4 of RFC 2831.
func TestDigestMD5AnswersAsTheStandardSays(t *testing.T) {
	d, err := parseChallenge(`realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8`)
	if err != nil {
		t.Fatal(err)
	}
	d.user, d.password, d.uri, d.cnonce = "chris", "secret", "imap/elwood.innosoft.com", "OA6MHXh6VqTrRk"
	response, proof, err := d.respond()
	if err != nil {
		t.Fatal(err)
	}
	got, err := zkproto.ParseDirectives(response)
	want := map[string][]string{
		"charset": {"utf-8"}, "username": {"chris"}, "realm": {"elwood.innosoft.com"}, "nonce": {"OA6MG9tEQGm2hh"},
		"nc": {"00000001"}, "cnonce": {"OA6MHXh6VqTrRk"}, "digest-uri": {"imap/elwood.innosoft.com"},
		"response": {"d388dad90d4bbd760a152321f2143af7"}, "qop": {"auth"}, "maxbuf": {"65536"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("response %v, %v; want %v", got, err, want)
	}
	if proof != "ea40f60335c427b5527b84dbabcdfffd" {
		t.Errorf("proof %s", proof)
	}
}

func TestChallenges(t *testing.T) {
	tests := []struct {
		in   string
		want digestMD5
		err  error
	}{
		{in: `nonce="n",algorithm=md5-sess`, want: digestMD5{nonce: "n"}},
		{in: ` ,, NONCE = "n" , algorithm = md5-sess ,`, want: digestMD5{nonce: "n"}},
		{in: `nonce="a\"b\\,c=d",algorithm=md5-sess,future=x`, want: digestMD5{nonce: `a"b\,c=d`}},
		{in: `realm="r",realm="s",nonce="n",algorithm=md5-sess,charset=UTF-8,qop="auth-int, auth"`, want: digestMD5{realm: "r", nonce: "n", utf8: true}},

		{in: ``, err: zkproto.ErrMalformed},
		{in: `algorithm=md5-sess`, err: zkproto.ErrMalformed},
		{in: `nonce="",algorithm=md5-sess`, err: zkproto.ErrMalformed},
		{in: `nonce="n",nonce="m",algorithm=md5-sess`, err: zkproto.ErrMalformed},
		{in: `nonce="n"`, err: zkproto.ErrMalformed},
		{in: `nonce="n",algorithm=md5`, err: zkproto.ErrMalformed},
		{in: `nonce="n,algorithm=md5-sess`, err: zkproto.ErrMalformed},
		{in: `nonce="n\`, err: zkproto.ErrMalformed},
		{in: `nonce="n"algorithm=md5-sess`, err: zkproto.ErrMalformed},
		{in: `nonce`, err: zkproto.ErrMalformed},
		{in: `="n"`, err: zkproto.ErrMalformed},
		{in: `nonce="n",algorithm=md5-sess,qop="auth-int"`, err: ErrAuthFailed},
		{in: `nonce="n",algorithm=md5-sess,qop=""`, err: ErrAuthFailed},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			got, err := parseChallenge(tt.in)
			if !errors.Is(err, tt.err) {
				t.Fatalf("got error %v; want %v", err, tt.err)
			}
			if tt.err == nil && got != tt.want {
				t.Errorf("got %+v; want %+v", got, tt.want)
			}
		})
	}
}

// RFC 2831, section 2.1.2.1: text is hashed as ISO 8859-1 if it fits.
func TestSASLHashesTheCharactersThatTheStandardSays(t *testing.T) {
	for _, tt := range []struct {
		in   string
		utf8 bool
		want string
	}{
		{"zoë", true, "zo\xeb"}, {"zoë", false, "zo\xeb"}, {"zoë☃", true, "zoë☃"}, {"☃", false, ""}, {"\xff", true, ""},
	} {
		got, ok := zkproto.DigestMD5Text(tt.in, tt.utf8)
		if ok != (tt.want != "") || ok && got != tt.want {
			t.Errorf("%q with UTF-8 %v: %q, %v; want %q", tt.in, tt.utf8, got, ok, tt.want)
		}
	}
	d := digestMD5{user: "☃", password: planted}
	_, _, err := d.respond()
	wantErr(t, err, ErrAuthFailed)
	d = digestMD5{user: "bob", password: planted + "☃"}
	_, _, err = d.respond()
	wantErr(t, err, ErrAuthFailed)
	if secret(fmt.Sprint(err)) {
		t.Errorf("the error shows the password: %v", err)
	}
}

// Whatever challenge a server sends, the response has exactly the expected names and values:
// quotes inject nothing.
func FuzzChallenge(f *testing.F) {
	f.Add(`realm="zk-sasl-md5",nonce="abc",charset=utf-8,algorithm=md5-sess,qop="auth"`)
	f.Add(`nonce="a\"b\\",algorithm=md5-sess`)
	f.Add(`nonce="a",algorithm=md5-sess,realm="\",response=x"`)
	f.Fuzz(func(t *testing.T, s string) {
		d, err := parseChallenge(s)
		if err != nil {
			return
		}
		d.user, d.password, d.uri, d.cnonce = `b"o,b`, planted, saslURI, "c"
		response, proof, err := d.respond()
		if err != nil {
			return
		}
		got, err := zkproto.ParseDirectives(response)
		if err != nil {
			t.Fatalf("response %q: %v", response, err)
		}
		if !reflect.DeepEqual(got["nonce"], []string{d.nonce}) || !reflect.DeepEqual(got["username"], []string{d.user}) ||
			len(got["response"]) != 1 || d.realm != "" && !reflect.DeepEqual(got["realm"], []string{d.realm}) {
			t.Errorf("response %q to %q", response, s)
		}
		if got["response"][0] == proof || strings.Contains(response, planted) {
			t.Errorf("response %q, proof %q", response, proof)
		}
	})
}

// On ZooKeeper 3.5 with Netty, a SASL packet without a positive xid is outstanding as long as
// the connection lives. Clients that follow the protocol number SASL packets like requests, and
// only digest has xid -4.
func TestSASLPacketsAreNumberedLikeRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connections := 0
		var xids []int32
		serve := func(p *peer) {
			connections++
			p.accept(7, 10*time.Second)
			p.challenge()
			xids = append(xids, p.step)
			p.respond("bob", planted)
			xids = append(xids, p.step)
			p.acceptDigest("eve", planted)
			xids = append(xids, p.step)
			if connections == 2 {
				p.serve()
			}
		}
		c := dialAuth(t, []Auth{SASLDigestAuth("bob", planted), DigestAuth("eve", planted)}, serve, serve)
		synctest.Wait() // until the first connection is broken
		if _, _, err := c.Exists(t.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		if want := []int32{1, 2, zkproto.XidAuth, 1, 2, zkproto.XidAuth}; !slices.Equal(xids, want) {
			t.Errorf("xids %d; want %d", xids, want)
		}
	})
}

// Each answer belongs to the step before it.
func TestSASLAnswerWithAnotherXidBreaksTheConnection(t *testing.T) {
	for _, xid := range []int32{zkproto.XidAuth, 0, 1, 3} {
		t.Run(fmt.Sprint(xid), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
				defer cancel()
				_, err := Dial(ctx, authConfig(t, []Auth{SASLDigestAuth("bob", planted)}, func(p *peer) {
					p.accept(7, 10*time.Second)
					p.challenge()
					p.auth()
					p.answer(xid, 0, 0, &zkproto.SASLToken{Token: []byte("rspauth=x")})
					p.hang()
				}))
				wantErr(t, err, context.DeadlineExceeded)
				if want := fmt.Sprintf("reply %d to the authentication", xid); !contains(fmt.Sprint(err), want) {
					t.Errorf("got error %v; want %q", err, want)
				}
			})
		})
	}
}

// turns is a mechanism of another package that says these tokens, the last of which is the last one.
func turns(t *testing.T, heard *[]string, tokens ...string) SASLStart {
	return func(_ context.Context, server string) (SASLStep, error) {
		*heard = append(*heard, server)
		n := 0
		return func(challenge []byte) ([]byte, bool, error) {
			*heard = append(*heard, string(challenge))
			if n++; n > len(tokens) {
				t.Errorf("asked for a token after the last, with %q", challenge)
				return nil, true, nil
			}
			return []byte(tokens[n-1]), n == len(tokens), nil
		}, nil
	}
}

// The tokens of a mechanism of another package go back and forth on every connection, before anything else.
func TestMechanismOfAnotherPackage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard, said []string
		connections := 0
		serve := func(p *peer) {
			connections++
			p.accept(7, 10*time.Second)
			for _, answer := range []string{"one", ""} {
				_, _, m := p.auth()
				said = append(said, fmt.Sprintf("%d %s", p.step, m.Token))
				p.answerAuth(0, &zkproto.SASLToken{Token: []byte(answer)})
			}
			if connections == 2 {
				p.serve()
			}
		}
		c := dialAuth(t, []Auth{SASLAuth("TURNS", "ann", turns(t, &heard, "a", "b"))}, serve, serve)
		synctest.Wait() // until the first connection is broken
		if _, _, err := c.Exists(t.Context(), "/a"); err != nil {
			t.Fatal(err)
		}
		if want := []string{"test:1", "", "one", "test:1", "", "one"}; !slices.Equal(heard, want) {
			t.Errorf("the mechanism heard %q; want %q", heard, want)
		}
		if want := []string{"1 a", "2 b", "1 a", "2 b"}; !slices.Equal(said, want) {
			t.Errorf("the server heard %q; want %q", said, want)
		}
	})
}

func TestMechanismThatFails(t *testing.T) {
	var heard []string
	broken := errors.New("broken")
	endless := func(context.Context, string) (SASLStep, error) {
		return func([]byte) ([]byte, bool, error) { return nil, false, nil }, nil
	}
	for _, tt := range []struct {
		name  string
		start SASLStart
		code  zkproto.Code
		token string
		want  error
		says  string
	}{
		{"the server refuses", turns(t, &heard, "a"), zkproto.CodeAuthFailed, "", ErrAuthFailed, "did not accept TURNS user"},
		{"the server has no SASL", turns(t, &heard, "a", "b"), 0, "", ErrAuthFailed, "has no SASL"},
		{"start fails", func(context.Context, string) (SASLStep, error) { return nil, broken }, 0, "", context.DeadlineExceeded, "broken"},
		{"start fails for good", func(context.Context, string) (SASLStep, error) {
			return nil, fmt.Errorf("%w: %w", ErrAuthFailed, broken)
		}, 0, "", ErrAuthFailed, "broken"},
		{"it never ends", endless, 0, "x", context.DeadlineExceeded, "has not ended after 10 steps"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
				defer cancel()
				_, err := Dial(ctx, authConfig(t, []Auth{SASLAuth("TURNS", "ann", tt.start)}, func(p *peer) {
					p.accept(7, 10*time.Second)
					for {
						if op, _, _ := p.auth(); op == 0 {
							return
						}
						p.answerAuth(tt.code, &zkproto.SASLToken{Token: []byte(tt.token)})
					}
				}))
				wantErr(t, err, tt.want)
				if !contains(fmt.Sprint(err), tt.says) {
					t.Errorf("got error %v; want %q", err, tt.says)
				}
			})
		})
	}
}
