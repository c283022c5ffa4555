package zk

import (
	"crypto/md5"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"strings"
	"unicode/utf8"

	"holdfast/zkproto"
)

// saslURI names the service. ZooKeeper has one name for all its servers
// (ZooKeeperSaslClient.createSaslClient), so that clients need not know by which name
// a server knows itself.
const saslURI = "zookeeper/zk-sasl-md5"

// saslDigest is DIGEST-MD5 (RFC 2831) with the quality of protection "auth".
func (a Auth) saslDigest(nc net.Conn) error {
	challenge, err := saslStep(nc, []byte{})
	switch {
	case errors.Is(err, ErrAuthFailed):
		return fmt.Errorf("%w: the server has no SASL DIGEST-MD5; is its JAAS file configured?", err)
	case err != nil:
		return err
	case len(challenge) == 0:
		return fmt.Errorf("%w: the server has no SASL; is its JAAS file configured?", ErrAuthFailed)
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
	answer, err := saslStep(nc, []byte(response))
	switch {
	case errors.Is(err, ErrAuthFailed):
		return fmt.Errorf("%w: the server refused the user or the password; compare them with its JAAS file", err)
	case err != nil:
		return err
	case len(answer) == 0:
		// A server that lets the failed stay connected says so (allowSaslFailedClients).
		return fmt.Errorf("%w: the server did not accept the user or the password; compare them with its JAAS file", ErrAuthFailed)
	}
	fields, err := parseDirectives(string(answer))
	if err != nil {
		return fmt.Errorf("the server's SASL answer: %w", err)
	}
	if got := fields["rspauth"]; len(got) != 1 || subtle.ConstantTimeCompare([]byte(got[0]), []byte(proof)) != 1 {
		return fmt.Errorf("%w: the server did not prove that it knows the password: it is not the one it is taken for", ErrAuthFailed)
	}
	return nil
}

func saslStep(nc net.Conn, token []byte) ([]byte, error) {
	r, err := exchange(nc, zkproto.OpSASL, &zkproto.SASLToken{Token: token})
	if err != nil {
		return nil, err
	}
	var m zkproto.SASLToken
	m.Decode(r)
	return m.Token, r.Complete()
}

// digestMD5 is one run of the mechanism, from the client's side.
type digestMD5 struct {
	realm, nonce string // as the server chose them
	utf8         bool   // the server reads UTF-8

	user, password string
	uri            string
	cnonce         string
}

// parseChallenge reads what a client needs of a digest-challenge.
func parseChallenge(s string) (d digestMD5, err error) {
	fields, err := parseDirectives(s)
	if err != nil {
		return d, err
	}
	// Where the server has several realms the first is as good as any: ZooKeeper has one.
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

// respond is the digest-response, and what the server has to answer as rspauth.
func (d *digestMD5) respond() (response, proof string, err error) {
	user, err := d.encode(d.user)
	if err != nil {
		return "", "", fmt.Errorf("%w: the user has characters that the server does not read", ErrAuthFailed)
	}
	password, err := d.encode(d.password)
	if err != nil {
		return "", "", fmt.Errorf("%w: the password has characters that the server does not read", ErrAuthFailed)
	}
	realm := d.realm
	if d.utf8 {
		if realm, err = d.encode(realm); err != nil {
			return "", "", fmt.Errorf("%w: the realm is not UTF-8", zkproto.ErrMalformed)
		}
	}
	secret := md5.Sum([]byte(user + ":" + realm + ":" + password))
	a1 := hash(string(secret[:]) + ":" + d.nonce + ":" + d.cnonce)
	value := func(a2 string) string {
		return hash(a1 + ":" + d.nonce + ":00000001:" + d.cnonce + ":auth:" + hash(a2))
	}
	var b strings.Builder
	sent := user
	if d.utf8 {
		sent = d.user
		b.WriteString("charset=utf-8,")
	}
	fmt.Fprintf(&b, "username=%s,", quoted(sent))
	if d.realm != "" {
		fmt.Fprintf(&b, "realm=%s,", quoted(d.realm))
	}
	fmt.Fprintf(&b, "nonce=%s,nc=00000001,cnonce=%s,digest-uri=%s,maxbuf=65536,response=%s,qop=auth",
		quoted(d.nonce), quoted(d.cnonce), quoted(d.uri), value("AUTHENTICATE:"+d.uri))
	return b.String(), value(":" + d.uri), nil
}

func hash(s string) string {
	return fmt.Sprintf("%x", md5.Sum([]byte(s)))
}

func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

var errNotLatin1 = errors.New("not ISO 8859-1")

// encode is s in the characters that are hashed: ISO 8859-1 wherever they suffice, for
// the sake of servers that have only that, and otherwise UTF-8, if the server has it.
func (d *digestMD5) encode(s string) (string, error) {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xff {
			if !d.utf8 || !utf8.ValidString(s) {
				return "", errNotLatin1
			}
			return s, nil
		}
		b = append(b, byte(r))
	}
	return string(b), nil
}

// parseDirectives reads a list of name=value and name="value".
func parseDirectives(s string) (map[string][]string, error) {
	fields := make(map[string][]string)
	for {
		s = strings.TrimLeft(s, " \t\r\n,")
		if s == "" {
			return fields, nil
		}
		name, rest, ok := strings.Cut(s, "=")
		name = strings.TrimRight(name, " \t\r\n")
		if !ok || name == "" || strings.ContainsAny(name, ", \t\r\n\"") {
			return nil, fmt.Errorf("%w: no name=value", zkproto.ErrMalformed)
		}
		rest = strings.TrimLeft(rest, " \t\r\n")
		var value string
		if strings.HasPrefix(rest, `"`) {
			if value, rest, ok = unquote(rest[1:]); !ok {
				return nil, fmt.Errorf("%w: %s has no closing quote", zkproto.ErrMalformed, name)
			}
		} else {
			end := strings.IndexAny(rest, ", \t\r\n")
			if end < 0 {
				end = len(rest)
			}
			value, rest = rest[:end], rest[end:]
		}
		if rest = strings.TrimLeft(rest, " \t\r\n"); rest != "" && rest[0] != ',' {
			return nil, fmt.Errorf("%w: no comma after %s", zkproto.ErrMalformed, name)
		}
		name = strings.ToLower(name)
		fields[name] = append(fields[name], value)
		s = rest
	}
}

// unquote reads up to the closing quote; a backslash takes the next byte as it is.
func unquote(s string) (value, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			if i++; i == len(s) {
				return "", "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}
