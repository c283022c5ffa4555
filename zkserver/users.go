package zkserver

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/tree"
)

// authSchemes can be required: those by which a client proves something. An address
// proves nothing.
var authSchemes = []string{"digest", "sasl", "x509"}

// users is what the server has to know of those who may come: no passwords, only what
// they are compared by.
type users struct {
	byName  map[string]user
	super   string // the id of the superuser's digest; empty if there is none
	require []string
}

type user struct {
	secret [md5.Size]byte // for SASL
	digest string         // the id that the scheme digest makes of name and password
}

// newUsers checks what cfg says of authentication. Its errors show no password.
func newUsers(cfg Config) (users, error) {
	u := users{byName: make(map[string]user, len(cfg.Users)), super: cfg.SuperDigest, require: slices.Clone(cfg.RequireAuth)}
	for name, password := range cfg.Users {
		if err := checkUser(name, password); err != nil {
			return u, fmt.Errorf("zkserver: %w", err)
		}
		hashedName, _ := zkproto.DigestMD5Text(name, true)
		hashedPassword, _ := zkproto.DigestMD5Text(password, true)
		u.byName[name] = user{
			secret: zkproto.DigestMD5Secret(hashedName, saslRealm, hashedPassword),
			digest: digest(name + ":" + password).ID,
		}
	}
	if u.super != "" {
		name, hash, _ := strings.Cut(u.super, ":")
		if sum, err := base64.StdEncoding.DecodeString(hash); err != nil || len(sum) != 20 || name == "" {
			return u, errors.New("zkserver: super digest: want user:base64(sha1(user:password))")
		}
	}
	for _, scheme := range u.require {
		switch {
		case !slices.Contains(authSchemes, scheme):
			return u, fmt.Errorf("zkserver: required authentication %q: want one of %s", scheme, strings.Join(authSchemes, ", "))
		case scheme == "sasl" && len(u.byName) == 0, scheme == "digest" && len(u.byName) == 0 && u.super == "":
			return u, fmt.Errorf("zkserver: required authentication %q: there are no users, so nobody could come in", scheme)
		}
	}
	return u, nil
}

// ParseUsers reads [Config.Users] from lines of user:password. Empty lines and those that
// begin with # do not count; whatever stands behind the first colon is the password, blanks
// too. The error names the line, and shows no password.
func ParseUsers(text string) (map[string]string, error) {
	users := make(map[string]string)
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if line == "" || line[0] == '#' {
			continue
		}
		name, password, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("line %d: no colon: want user:password", number)
		}
		if err := checkUser(name, password); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if _, again := users[name]; again {
			return nil, fmt.Errorf("line %d: user %q is there twice", number, name)
		}
		users[name] = password
	}
	return users, nil
}

func checkUser(name, password string) error {
	switch {
	case name == "":
		return errors.New("a user without a name")
	case !utf8.ValidString(name), strings.ContainsFunc(name, unicode.IsControl), strings.Contains(name, ":"):
		return fmt.Errorf("user %q: a name is UTF-8 without colons and control characters", name)
	case len("digest")+len(name)+len(":")+base64.StdEncoding.EncodedLen(sha1.Size) > maxIdentityBytes:
		return fmt.Errorf("user %.20q…: the name is too long: an identity has at most %d bytes", name, maxIdentityBytes)
	case !tree.ValidSASL(name):
		return fmt.Errorf("user %q: ACLs cannot name it: want name, name@realm or name/host@realm", name)
	case password == "" || !utf8.ValidString(password):
		return fmt.Errorf("user %q: the password is empty or not UTF-8", name)
	}
	return nil
}

// isUser reports whether id, of the scheme digest, is one of the users with the right
// password.
func (u *users) isUser(id tree.Identity) bool {
	name, _, _ := strings.Cut(id.ID, ":")
	return same(id.ID, u.byName[name].digest)
}

// isSuper reports whether id is the superuser's digest.
func (u *users) isSuper(id tree.Identity) bool {
	return id.Scheme == "digest" && u.super != "" && same(id.ID, u.super)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// requires reports whether the scheme is one of those of which a client must have one.
func (u *users) requires(scheme string) bool { return slices.Contains(u.require, scheme) }

// admits reports whether who has these identities has authenticated as required. That
// the scheme digest takes only users where it is required is up to authenticate.
func (u *users) admits(ids []tree.Identity) bool {
	if len(u.require) == 0 {
		return true
	}
	return slices.ContainsFunc(ids, func(id tree.Identity) bool {
		return id.Scheme == tree.Super || u.requires(id.Scheme)
	})
}
