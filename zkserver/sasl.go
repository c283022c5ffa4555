package zkserver

import (
	"crypto/rand"
	"fmt"
	"strings"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/tree"
)

// All ZooKeeper servers go by one name (SecurityUtils.createSaslServer), so that clients
// need not know by which name a server knows itself.
const (
	saslRealm = "zk-sasl-md5"
	saslURI   = "zookeeper/" + saslRealm
)

// maxSASLToken is the standard's limit for what a client sends (RFC 2831, section 2.1.2).
const maxSASLToken = 4096

// saslState is how far the one run of SASL is that a connection has.
type saslState struct {
	nonce string // of the challenge that was sent; empty before and after
	done  bool
}

// sasl takes one step of SASL DIGEST-MD5 (RFC 2831).
func (s *Server) sasl(c *conn, r *request) {
	o, token := &c.owned, r.sasl.Token
	switch {
	case r.bad, token == nil, len(token) > maxSASLToken, o.sasl.done:
	case len(s.users.byName) == 0:
		// The answer of Apache's server without a JAAS file: nothing to say.
		s.replySASL(c, r.xid, zkproto.CodeOK, nil)
		return
	case o.sasl.nonce == "":
		// What the client says first does not matter, as with Java's server. That "auth" is
		// the quality of protection goes without saying (RFC 2831, section 2.1.1).
		o.sasl.nonce = rand.Text()
		s.replySASL(c, r.xid, zkproto.CodeOK, fmt.Appendf(nil, `realm="%s",nonce="%s",charset=utf-8,algorithm=md5-sess`, saslRealm, o.sasl.nonce))
		return
	default:
		name, proof, ok := s.users.checkSASL(string(token), o.sasl.nonce)
		o.sasl = saslState{done: true} // a nonce is good for one attempt
		if ok && s.identify(c, tree.Identity{Scheme: "sasl", ID: name}) {
			s.replySASL(c, r.xid, zkproto.CodeOK, []byte("rspauth="+proof))
			return
		}
	}
	code := zkproto.CodeAuthFailed
	if s.users.requires("sasl") {
		code = zkproto.CodeSessionClosedRequireSASL // as Apache's server has it
	}
	s.refuse(c, r, code)
}

// replySASL answers one step. Like that of every authentication, the answer has no zxid.
func (s *Server) replySASL(c *conn, xid int32, code zkproto.Code, token []byte) {
	b := s.stage(c)
	start := len(b)
	b = (&zkproto.ReplyHeader{Xid: xid, Err: code}).Append(zkproto.BeginFrame(b))
	c.owned.staged = zkproto.EndFrame((&zkproto.SASLToken{Token: token}).Append(b), start)
	s.answered(c)
}

// checkSASL checks a client's response to the challenge with this nonce, and returns who
// the client is and what proves to it that the server knows the password too. A user that
// does not exist takes as long as one with another password.
func (u *users) checkSASL(response, nonce string) (name, proof string, ok bool) {
	fields, err := zkproto.ParseDirectives(response)
	if err != nil {
		return "", "", false
	}
	// get is the value of what may be there once, or the default.
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
	case get("nonce", "") != nonce, get("realm", "") != saslRealm, get("nc", "") != "00000001", get("qop", "auth") != "auth",
		d.Cnonce == "", !strings.EqualFold(d.URI, saslURI), !ok:
		return "", "", false
	case d.AuthzID != "" && d.AuthzID != name:
		return "", "", false // nobody acts for another
	}
	known, exists := u.byName[name]
	d.Secret = known.secret
	right := same(got, d.Response())
	return name, d.Proof(), right && exists
}

// fromLatin1 decodes ISO 8859-1, which is what clients send that do not say UTF-8.
func fromLatin1(s string) string {
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}
