package login

import (
	"bytes"
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

// schemes are the schemes that can be required, because a client proves something by each of them.
// An address proves nothing.
var schemes = []string{"digest", "sasl", "x509"}

// Users are the users, the superuser and the schemes that a server requires. They hold no
// passwords, only hashes to compare with. The zero value has no users and requires nothing.
type Users struct {
	byName  map[string]user
	super   string // the ID of the superuser's digest; empty if there is none
	require []string
}

type user struct {
	secret [md5.Size]byte // for SASL
	digest string         // the ID that the scheme digest makes of name and password
}

// NewUsers checks its arguments and returns the users. passwords has the passwords by user name.
// superDigest is user:base64(sha1(user:password)), or empty for no superuser. require has the
// schemes of which a client must have one. The errors show no password.
func NewUsers(passwords map[string]string, superDigest string, require []string) (Users, error) {
	u := Users{byName: make(map[string]user, len(passwords)), super: superDigest, require: slices.Clone(require)}
	for name, password := range passwords {
		if err := checkUser(name, password); err != nil {
			return u, err
		}
		hashedName, _ := zkproto.DigestMD5Text(name, true)
		hashedPassword, _ := zkproto.DigestMD5Text(password, true)
		u.byName[name] = user{
			secret: zkproto.DigestMD5Secret(hashedName, realm, hashedPassword),
			digest: Digest(name + ":" + password).ID,
		}
	}
	if u.super != "" {
		name, hash, _ := strings.Cut(u.super, ":")
		if sum, err := base64.StdEncoding.DecodeString(hash); err != nil || len(sum) != sha1.Size || name == "" {
			return u, errors.New("super digest: want user:base64(sha1(user:password))")
		}
	}
	for _, scheme := range u.require {
		switch {
		case !slices.Contains(schemes, scheme):
			return u, fmt.Errorf("required authentication %q: want one of %s", scheme, strings.Join(schemes, ", "))
		case scheme == "sasl" && len(u.byName) == 0, scheme == "digest" && len(u.byName) == 0 && u.super == "":
			return u, fmt.Errorf("required authentication %q: no users are configured, so nobody could log in", scheme)
		}
	}
	return u, nil
}

// ParseUsers reads names and passwords from lines of user:password. It skips empty lines and
// lines that begin with #. The password is all text after the first colon, blanks included. The error
// names the line, and shows no password.
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
			return nil, fmt.Errorf("line %d: user %q is listed twice", number, name)
		}
		users[name] = password
	}
	return users, nil
}

func checkUser(name, password string) error {
	switch {
	case name == "":
		return errors.New("a user has no name")
	case !utf8.ValidString(name), strings.ContainsFunc(name, unicode.IsControl), strings.Contains(name, ":"):
		return fmt.Errorf("user %q: a name is UTF-8 without colons and control characters", name)
	case len("digest")+len(name)+len(":")+base64.StdEncoding.EncodedLen(sha1.Size) > MaxIdentityBytes:
		return fmt.Errorf("user %.20q…: the name is too long: an identity has at most %d bytes", name, MaxIdentityBytes)
	case !tree.ValidSASL(name):
		return fmt.Errorf("user %q: ACLs cannot name it: want name, name@realm or name/host@realm", name)
	case password == "" || !utf8.ValidString(password):
		return fmt.Errorf("user %q: the password is empty or not UTF-8", name)
	}
	return nil
}

// ByDigest returns the identities that auth, user:password, proves by the scheme digest. Any
// password is right, since an ACL has the hash of its own user's password. If digest is required,
// the password must be that of a user or the superuser; otherwise ok is false.
//
// If the name alone exceeds the bound of an identity, ByDigest does not hash the password. [Add]
// refuses the identity.
func (u *Users) ByDigest(auth []byte) (ids []tree.Identity, ok bool) {
	if name, _, _ := bytes.Cut(auth, []byte(":")); len(name) > MaxIdentityBytes {
		return []tree.Identity{{Scheme: "digest", ID: string(name)}}, true
	}
	id := Digest(string(auth))
	if u.isSuper(id) {
		return []tree.Identity{id, {Scheme: tree.Super}}, true
	}
	return []tree.Identity{id}, !u.Requires("digest") || u.isUser(id)
}

// Guessed returns the name in auth, user:password, if the scheme digest compares the password: that of the superuser, or
// of any user if digest is required. Otherwise it returns false.
func (u *Users) Guessed(auth []byte) (name string, ok bool) {
	name, _, _ = strings.Cut(string(auth), ":")
	super, _, is := strings.Cut(u.super, ":")
	return name, u.Requires("digest") || is && name == super
}

// IsRight reports whether identities that ByDigest has returned are those of a password that was compared and is right.
func (u *Users) IsRight(ids []tree.Identity) bool {
	return len(ids) > 0 && (u.isSuper(ids[0]) || u.Requires("digest") && u.isUser(ids[0]))
}

// isUser reports whether id, of the scheme digest, is a user with the right password.
func (u *Users) isUser(id tree.Identity) bool {
	name, _, _ := strings.Cut(id.ID, ":")
	return same(id.ID, u.byName[name].digest)
}

// isSuper reports whether id is the superuser's digest.
func (u *Users) isSuper(id tree.Identity) bool {
	return id.Scheme == "digest" && u.super != "" && same(id.ID, u.super)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// Requires reports whether scheme is a required one. A client must have an identity of
// at least one required scheme.
func (u *Users) Requires(scheme string) bool { return slices.Contains(u.require, scheme) }

// Admits reports whether a client with these identities has authenticated as required. It takes
// every digest identity for a user's, since ByDigest refuses the others.
func (u *Users) Admits(ids []tree.Identity) bool {
	if len(u.require) == 0 {
		return true
	}
	return slices.ContainsFunc(ids, func(id tree.Identity) bool {
		return id.Scheme == tree.Super || u.Requires(id.Scheme)
	})
}

// Knows reports whether identities that a client proved under old are still valid: the user exists
// and has the same password.
func (u *Users) Knows(ids []tree.Identity, old *Users) bool {
	for _, id := range ids {
		switch {
		case id.Scheme == "sasl" && u.byName[id.ID] != old.byName[id.ID],
			id.Scheme == tree.Super && u.super != old.super,
			id.Scheme == "digest" && old.Requires("digest") && old.isUser(id) && !u.isUser(id),
			id.Scheme == "digest" && u.Requires("digest") && !u.isUser(id) && !u.isSuper(id): // any password was right before
			return false
		}
	}
	return true
}
