package login

import (
	"crypto/rand"
	"fmt"
	"strings"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/tree"
)

// All ZooKeeper servers have the same name in SASL (SecurityUtils.createSaslServer). So a client need
// not know the name of its server.
const (
	realm = "zk-sasl-md5"
	uri   = "zookeeper/" + realm
)

// maxToken is the standard's limit for a client's token (RFC 2831, section 2.1.2).
const maxToken = 4096

// An Exchange is the server's side of one run of SASL DIGEST-MD5 (RFC 2831). A connection has one.
// The zero value waits for the client's first token.
type Exchange struct {
	nonce string // of the challenge that was sent; empty before and after
	done  bool
}

// Step takes the client's next token and returns the answer. ids has the client's identity after
// a token that proves the password of a user. If ok is false, the server refuses the client.
// An exchange ends with its first proof, right or wrong: Step refuses every later token.
//
// begin is called with the name before a proof is compared. If it returns false, Step refuses the client.
func (x *Exchange) Step(u *Users, token []byte, begin func(name string) bool) (answer []byte, ids []tree.Identity, ok bool) {
	switch {
	case token == nil, len(token) > maxToken, x.done:
		return nil, nil, false
	case len(u.byName) == 0:
		// Apache's server without a JAAS file also sends an empty answer.
		return nil, nil, true
	case x.nonce == "":
		// The content of the first token does not matter, as in Java's server. The quality of
		// protection is "auth" unless the challenge has another (RFC 2831, section 2.1.1).
		x.nonce = rand.Text()
		return fmt.Appendf(nil, `realm="%s",nonce="%s",charset=utf-8,algorithm=md5-sess`, realm, x.nonce), nil, true
	}
	name, proof, ok := u.checkSASL(string(token), x.nonce, begin)
	*x = Exchange{done: true} // a nonce is good for one attempt
	if !ok {
		return nil, nil, false
	}
	return []byte("rspauth=" + proof), []tree.Identity{{Scheme: "sasl", ID: name}}, true
}

// checkSASL checks a client's response to the challenge with this nonce. It returns the client's
// name, and the proof that the server knows the password, too. An unknown user takes as long as a
// wrong password.
func (u *Users) checkSASL(response, nonce string, begin func(name string) bool) (name, proof string, ok bool) {
	fields, err := zkproto.ParseDirectives(response)
	if err != nil {
		return "", "", false
	}
	// get returns the value of a directive that may occur once, or the default.
	ok = true
	get := func(name, missing string) string {
		switch values := fields[name]; len(values) {
		case 0:
			return missing
		case 1:
			return values[0]
		}
		ok = false
		return missing
	}
	name = get("username", "")
	if charset := get("charset", ""); charset == "" {
		name = fromLatin1(name)
	} else if !strings.EqualFold(charset, "utf-8") {
		return "", "", false
	}
	d := zkproto.DigestMD5{Nonce: nonce, Cnonce: get("cnonce", ""), URI: get("digest-uri", ""), AuthzID: get("authzid", "")}
	got := strings.ToLower(get("response", ""))
	switch {
	case get("nonce", "") != nonce, get("realm", "") != realm, get("nc", "") != "00000001", get("qop", "auth") != "auth",
		d.Cnonce == "", !strings.EqualFold(d.URI, uri), !ok:
		return "", "", false
	case d.AuthzID != "" && d.AuthzID != name:
		return "", "", false // no client acts for another user
	case !begin(name):
		return "", "", false
	}
	known, exists := u.byName[name]
	d.Secret = known.secret
	right := same(got, d.Response())
	return name, d.Proof(), right && exists
}

// fromLatin1 decodes ISO 8859-1, which clients send unless they announce UTF-8.
func fromLatin1(s string) string {
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}
