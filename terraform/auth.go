package terraform

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"holdfast/internal/htpasswd"
)

// A token is a hash of a bearer token, so a comparison takes the same time whatever the lengths.
type token [sha256.Size]byte

// Credentials are the users and the bearer tokens that may use a Backend. The zero value has none. They must not change
// while a Backend uses them.
type Credentials struct {
	users  *htpasswd.Users // nil: none
	tokens []token
}

// ParseUsers reads the users for basic authentication from an htpasswd file: one line NAME:HASH each, with a hash of bcrypt.
// It replaces those that c has. Its errors show no hash.
func (c *Credentials) ParseUsers(text string) error {
	users, err := htpasswd.Parse(text)
	if err != nil {
		return err
	}
	c.users = users
	return nil
}

// OneUser returns Credentials of one user, for a program that makes the password itself: it must be too long to be guessed.
func OneUser(name, password string) Credentials {
	return Credentials{users: htpasswd.One(name, password)}
}

// minToken is the least length of a bearer token in bytes: a token has no name beside it, so it must not be guessed.
const minToken = 16

// ParseTokens reads bearer tokens, one a line. Empty lines and lines that begin with # are skipped.
func (c *Credentials) ParseTokens(text string) error {
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
		case len(line) < minToken:
			return fmt.Errorf("line %d: the token has %d bytes: want at least %d", n, len(line), minToken)
		default:
			c.tokens = append(c.tokens, sha256.Sum256([]byte(line)))
		}
	}
	if len(c.tokens) == 0 {
		return errors.New("no tokens")
	}
	return nil
}

// Empty reports whether there is no user and no token.
func (c Credentials) Empty() bool { return c.users == nil && len(c.tokens) == 0 }

// A caller is the user or the token of a request.
type caller struct {
	user  htpasswd.User
	token token
}

// has reports whether a caller may go on.
func (c Credentials) has(who caller) bool {
	return c.Empty() || c.users != nil && c.users.Has(who.user) || c.hasToken(who.token)
}

// hasToken compares with all tokens, in constant time.
func (c Credentials) hasToken(t token) bool {
	found := 0
	for _, known := range c.tokens {
		found |= subtle.ConstantTimeCompare(t[:], known[:])
	}
	return found == 1
}

// names are what a client counts for, besides its address.
func (c caller) names() []string {
	switch {
	case c.user.Name != "":
		return []string{"user " + c.user.Name}
	case c.token != token{}:
		return []string{c.token.name()}
	}
	return nil
}

func (t token) name() string { return fmt.Sprintf("token %x", t[:8]) }

// admit finds the caller of a request. The error is one of gate.
func (c Credentials) admit(ctx context.Context, r *http.Request, gate *htpasswd.Gate) (who caller, err error) {
	if c.Empty() {
		return who, nil
	}
	from := htpasswd.AddressOf(r)
	if scheme, text, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		who.token = sha256.Sum256([]byte(strings.TrimSpace(text)))
		return who, gate.CheckSecret(who.token.name(), from, c.hasToken(who.token))
	}
	name, password, ok := r.BasicAuth()
	if !ok || c.users == nil {
		return who, htpasswd.ErrWrong // it has no password: no guess
	}
	who.user, err = gate.Check(ctx, c.users, name, password, from)
	return who, err
}

// inherit takes over from old which passwords were right.
func (c Credentials) inherit(old Credentials) {
	if c.users != nil && old.users != nil {
		c.users.Inherit(old.users)
	}
}

// rebound reports whether a request may come from a web page whose name points to this machine. Such a page knows no
// password. So the check is for a Backend without one.
func rebound(r *http.Request) bool {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return host != "localhost" && net.ParseIP(strings.Trim(host, "[]")) == nil
}
