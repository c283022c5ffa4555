package zkproto

import (
	"crypto/md5"
	"fmt"
	"strings"
	"unicode/utf8"
)

// A DigestMD5 has the values that both sides hash in one run of SASL DIGEST-MD5 (RFC 2831) with the
// quality of protection "auth". Both sides send them in a SASLToken.
type DigestMD5 struct {
	Secret        [md5.Size]byte // see DigestMD5Secret
	Nonce, Cnonce string
	AuthzID       string // empty if the client did not send one
	URI           string // service/host
}

// DigestMD5Secret returns the hash of a user's password in one realm. With it alone, an attacker can
// log in as that user in this realm. The arguments are hashed as they are, see DigestMD5Text.
func DigestMD5Secret(user, realm, password string) [md5.Size]byte {
	return md5.Sum([]byte(user + ":" + realm + ":" + password))
}

// Response returns the client's proof that it knows the password.
func (d *DigestMD5) Response() string { return d.value("AUTHENTICATE:" + d.URI) }

// Proof returns the server's proof that it knows the password, too: its rspauth.
func (d *DigestMD5) Proof() string { return d.value(":" + d.URI) }

func (d *DigestMD5) value(a2 string) string {
	a1 := string(d.Secret[:]) + ":" + d.Nonce + ":" + d.Cnonce
	if d.AuthzID != "" {
		a1 += ":" + d.AuthzID
	}
	return hexMD5(hexMD5(a1) + ":" + d.Nonce + ":00000001:" + d.Cnonce + ":auth:" + hexMD5(a2))
}

func hexMD5(s string) string { return fmt.Sprintf("%x", md5.Sum([]byte(s))) }

// DigestMD5Text returns a user or a password in the encoding that is hashed. It is ISO 8859-1
// where that suffices, because some servers know nothing else, and otherwise UTF-8.
// It reports whether s can be encoded so.
func DigestMD5Text(s string, allowUTF8 bool) (string, bool) {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xff {
			return s, allowUTF8 && utf8.ValidString(s)
		}
		b = append(b, byte(r))
	}
	return string(b), true
}

// ParseDirectives reads a list of name=value and name="value". It returns names in lower case.
// A list that it cannot read is an ErrMalformed.
func ParseDirectives(s string) (map[string][]string, error) {
	fields := make(map[string][]string)
	for {
		s = strings.TrimLeft(s, " \t\r\n,")
		if s == "" {
			return fields, nil
		}
		name, rest, ok := strings.Cut(s, "=")
		name = strings.TrimRight(name, " \t\r\n")
		if !ok || name == "" || strings.ContainsAny(name, ", \t\r\n\"") {
			return nil, fmt.Errorf("%w: no name=value", ErrMalformed)
		}
		rest = strings.TrimLeft(rest, " \t\r\n")
		var value string
		if strings.HasPrefix(rest, `"`) {
			if value, rest, ok = unquoteDirective(rest[1:]); !ok {
				return nil, fmt.Errorf("%w: %s has no closing quote", ErrMalformed, name)
			}
		} else {
			end := strings.IndexAny(rest, ", \t\r\n")
			if end < 0 {
				end = len(rest)
			}
			value, rest = rest[:end], rest[end:]
		}
		if rest = strings.TrimLeft(rest, " \t\r\n"); rest != "" && rest[0] != ',' {
			return nil, fmt.Errorf("%w: no comma after %s", ErrMalformed, name)
		}
		name = strings.ToLower(name)
		fields[name] = append(fields[name], value)
		s = rest
	}
}

// unquoteDirective reads up to the closing quote. A backslash escapes the next byte.
func unquoteDirective(s string) (value, rest string, ok bool) {
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

// QuoteDirective returns s as the value of a directive.
func QuoteDirective(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
