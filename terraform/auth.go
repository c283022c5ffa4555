package terraform

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// An account is a user or a token. It keeps hashes of the secrets, so a comparison takes the same time whatever their
// lengths.
type account struct{ name, secret [sha256.Size]byte }

// Credentials are the users and the bearer tokens that may use a Backend. The zero value has none.
type Credentials struct {
	users  []account
	tokens []account
}

// ParseUsers reads user:password lines for basic authentication. Empty lines and lines that begin with # are skipped.
func (c *Credentials) ParseUsers(text string) error {
	for n, line := range lines(text) {
		user, password, ok := strings.Cut(line, ":")
		if !ok || user == "" || password == "" {
			return fmt.Errorf("line %d: want user:password", n)
		}
		c.AddUser(user, password)
	}
	if len(c.users) == 0 {
		return errors.New("no users")
	}
	return nil
}

// AddUser adds a user for basic authentication.
func (c *Credentials) AddUser(user, password string) {
	c.users = append(c.users, account{sha256.Sum256([]byte(user)), sha256.Sum256([]byte(password))})
}

// minToken is the least length of a bearer token in bytes: a token has no name beside it, so it must not be guessed.
const minToken = 16

// ParseTokens reads bearer tokens, one a line. Empty lines and lines that begin with # are skipped.
func (c *Credentials) ParseTokens(text string) error {
	for n, line := range lines(text) {
		if len(line) < minToken {
			return fmt.Errorf("line %d: the token has %d bytes: want at least %d", n, len(line), minToken)
		}
		c.tokens = append(c.tokens, account{secret: sha256.Sum256([]byte(line))})
	}
	if len(c.tokens) == 0 {
		return errors.New("no tokens")
	}
	return nil
}

// lines returns the lines with content, by their numbers.
func lines(text string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		n := 0
		for line := range strings.Lines(text) {
			n++
			line = strings.TrimRight(line, "\r\n")
			if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") && !yield(n, line) {
				return
			}
		}
	}
}

// Empty reports whether there is no user and no token.
func (c Credentials) Empty() bool { return len(c.users)+len(c.tokens) == 0 }

// admit reports whether the request has valid credentials. It compares with all of them, in constant time.
func (c Credentials) admit(r *http.Request) bool {
	if c.Empty() {
		return true
	}
	found := 0
	if user, password, ok := r.BasicAuth(); ok {
		name, secret := sha256.Sum256([]byte(user)), sha256.Sum256([]byte(password))
		for _, a := range c.users {
			found |= subtle.ConstantTimeCompare(name[:], a.name[:]) & subtle.ConstantTimeCompare(secret[:], a.secret[:])
		}
	}
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		secret := sha256.Sum256([]byte(strings.TrimSpace(token)))
		for _, a := range c.tokens {
			found |= subtle.ConstantTimeCompare(secret[:], a.secret[:])
		}
	}
	return found == 1
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
