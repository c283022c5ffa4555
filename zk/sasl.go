package zk

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"strings"

	"holdfast/zkproto"
)

// saslURI names the service. ZooKeeper has one name for all its servers
// (ZooKeeperSaslClient.createSaslClient), so that clients need not know a server's own name.
const saslURI = "zookeeper/zk-sasl-md5"

// saslDigest authenticates by DIGEST-MD5 (RFC 2831) with the quality of protection "auth".
func (a Auth) saslDigest(nc net.Conn) error {
	// ZooKeeper after 3.9.5 has no DIGEST-MD5 in FIPS mode, which is on by default (ZOOKEEPER-5043).
	const configure = "configure its JAAS file (or --auth-users of holdfast serve); ZooKeeper after 3.9.5 also needs zookeeper.fips-mode=false"
	challenge, err := saslStep(nc, 1, []byte{})
	switch {
	case errors.Is(err, ErrAuthFailed):
		return fmt.Errorf("%w: the server has no SASL DIGEST-MD5: %s", err, configure)
	case err != nil:
		return err
	case len(challenge) == 0:
		return fmt.Errorf("%w: the server has no SASL, or no DIGEST-MD5: %s", ErrAuthFailed, configure)
	}
	d, err := parseChallenge(string(challenge))
	if err != nil {
		return fmt.Errorf("the server's SASL challenge: %w", err)
	}
	d.user, d.password, d.uri, d.cnonce = a.user, a.password(), saslURI, rand.Text()
	response, proof, err := d.respond()
	if err != nil {
		return err
	}
	answer, err := saslStep(nc, 2, []byte(response))
	switch {
	case errors.Is(err, ErrAuthFailed):
		return fmt.Errorf("%w: the server refused the user or the password; compare them with those in its JAAS file, or in --auth-users of holdfast serve", err)
	case err != nil:
		return err
	case len(answer) == 0:
		// A server with allowSaslFailedClients answers a failed login this way.
		return fmt.Errorf("%w: the server did not accept the user or the password; compare them with those in its JAAS file, or in --auth-users of holdfast serve", ErrAuthFailed)
	}
	fields, err := zkproto.ParseDirectives(string(answer))
	if err != nil {
		return fmt.Errorf("the server's SASL answer: %w", err)
	}
	if got := fields["rspauth"]; len(got) != 1 || subtle.ConstantTimeCompare([]byte(got[0]), []byte(proof)) != 1 {
		return fmt.Errorf("%w: the server did not prove that it knows the password: it is not the one it is taken for", ErrAuthFailed)
	}
	return nil
}

// saslStep sends one token and returns the token of the answer. The xid must be positive:
// ZooKeeper 3.5 with Netty counts a SASL packet with another xid as outstanding for ever, and
// under load it stops reading from the connection (NettyServerCnxn.sendResponse). A request of
// the session may use the same xid. Servers answer SASL at once and match no commit with it
// (see nextXid).
func saslStep(nc net.Conn, xid int32, token []byte) ([]byte, error) {
	r, err := exchange(nc, zkproto.OpSASL, xid, &zkproto.SASLToken{Token: token})
	if err != nil {
		return nil, err
	}
	var m zkproto.SASLToken
	m.Decode(r)
	return m.Token, r.Complete()
}

// digestMD5 is one run of the mechanism, on the client's side.
type digestMD5 struct {
	realm, nonce string // as the server chose them
	utf8         bool   // the server reads UTF-8

	user, password string
	uri            string
	cnonce         string
}

// parseChallenge reads the fields that the client needs from a digest-challenge.
func parseChallenge(s string) (d digestMD5, err error) {
	fields, err := zkproto.ParseDirectives(s)
	if err != nil {
		return d, err
	}
	// If the server offers several realms, we take the first; ZooKeeper has one.
	if realms := fields["realm"]; len(realms) > 0 {
		d.realm = realms[0]
	}
	if len(fields["nonce"]) != 1 || fields["nonce"][0] == "" {
		return d, fmt.Errorf("%w: not one nonce", zkproto.ErrMalformed)
	}
	d.nonce = fields["nonce"][0]
	if alg := fields["algorithm"]; len(alg) != 1 || alg[0] != "md5-sess" {
		return d, fmt.Errorf("%w: algorithm %q; want md5-sess", zkproto.ErrMalformed, alg)
	}
	for _, charset := range fields["charset"] {
		d.utf8 = d.utf8 || strings.EqualFold(charset, "utf-8")
	}
	qops := fields["qop"]
	if len(qops) == 0 {
		return d, nil // "auth" is meant
	}
	for _, list := range qops {
		for qop := range strings.SplitSeq(list, ",") {
			if strings.EqualFold(strings.Trim(qop, " \t"), "auth") {
				return d, nil
			}
		}
	}
	return d, fmt.Errorf("%w: the server offers no protection but %q; this client has auth", ErrAuthFailed, qops)
}

// respond returns the digest-response, and the rspauth that the server must answer.
func (d *digestMD5) respond() (response, proof string, err error) {
	user, ok := zkproto.DigestMD5Text(d.user, d.utf8)
	if !ok {
		return "", "", fmt.Errorf("%w: the user has characters that the server does not read", ErrAuthFailed)
	}
	password, ok := zkproto.DigestMD5Text(d.password, d.utf8)
	if !ok {
		return "", "", fmt.Errorf("%w: the password has characters that the server does not read", ErrAuthFailed)
	}
	realm := d.realm
	if d.utf8 {
		if realm, ok = zkproto.DigestMD5Text(realm, true); !ok {
			return "", "", fmt.Errorf("%w: the realm is not UTF-8", zkproto.ErrMalformed)
		}
	}
	digest := zkproto.DigestMD5{
		Secret: zkproto.DigestMD5Secret(user, realm, password), Nonce: d.nonce, Cnonce: d.cnonce, URI: d.uri,
	}
	var b strings.Builder
	sent := user
	if d.utf8 {
		sent = d.user
		b.WriteString("charset=utf-8,")
	}
	quoted := zkproto.QuoteDirective
	fmt.Fprintf(&b, "username=%s,", quoted(sent))
	if d.realm != "" {
		fmt.Fprintf(&b, "realm=%s,", quoted(d.realm))
	}
	fmt.Fprintf(&b, "nonce=%s,nc=00000001,cnonce=%s,digest-uri=%s,maxbuf=65536,response=%s,qop=auth",
		quoted(d.nonce), quoted(d.cnonce), quoted(d.uri), digest.Response())
	return b.String(), digest.Proof(), nil
}
