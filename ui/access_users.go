package ui

import (
	"bufio"
	"bytes"
	"context"
	"crypto/pbkdf2"
	crand "crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// hashName is the method of the hash in a line: PBKDF2 with HMAC-SHA-256. It is in Go's standard library.
	hashName = "pbkdf2-sha256"
	// hashRounds is the cost of a new line: the advice of OWASP in 2023. leastRounds and mostRounds bound what a file may say.
	hashRounds  = 600_000
	leastRounds = 100_000
	mostRounds  = 10_000_000
	// shortestPassword and longestPassword are in bytes.
	shortestPassword = 8
	longestPassword  = 1024
	longestName      = 64
	mostUsers        = 1000
)

// Users are those who may log in. They are safe for concurrent use.
type Users struct {
	all  map[string]account
	none account       // for names that nobody has: they take as long
	turn chan struct{} // one password is hashed at a time, so that guesses leave the processor to others
}

// An account is a line of the file.
type account struct {
	role   Role
	rounds int
	salt   []byte
	hash   []byte
}

// ParseUsers reads a file of users: one line NAME:ROLE:HASH each, as HashPassword makes it. Empty lines and lines
// that begin with # count for nothing.
func ParseUsers(text string) (*Users, error) {
	u := &Users{all: make(map[string]account), turn: make(chan struct{}, 1)}
	u.none = account{rounds: leastRounds, salt: make([]byte, 16), hash: make([]byte, sha256.Size)}
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, a, err := parseUser(line)
		switch _, twice := u.all[name]; {
		case err != nil: // without the line: it has a secret
			return nil, fmt.Errorf("line %d: %w", n, err)
		case twice:
			return nil, fmt.Errorf("line %d: the user %q has another line", n, name)
		case len(u.all) >= mostUsers:
			return nil, fmt.Errorf("line %d: more than %d users", n, mostUsers)
		}
		u.all[name] = a
		u.none.rounds = max(u.none.rounds, a.rounds)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(u.all) == 0 {
		return nil, errors.New("the file has no users")
	}
	return u, nil
}

func parseUser(line string) (name string, a account, err error) {
	fields := strings.Split(line, ":")
	if len(fields) != 3 {
		return "", a, errors.New("want NAME:ROLE:HASH, as holdfast ui passwd prints it")
	}
	name, a.role = fields[0], Role(fields[1])
	if err := checkName(name); err != nil {
		return "", a, err
	}
	if a.role != Viewer && a.role != Operator {
		return name, a, fmt.Errorf("the role of %q is neither %s nor %s", name, Viewer, Operator)
	}
	parts := strings.Split(fields[2], "$")
	if len(parts) != 4 || parts[0] != hashName {
		return name, a, fmt.Errorf("the hash of %q does not have the form %s$ROUNDS$SALT$HASH: make a line with holdfast ui passwd", name, hashName)
	}
	if a.rounds, err = strconv.Atoi(parts[1]); err != nil || a.rounds < leastRounds || a.rounds > mostRounds {
		return name, a, fmt.Errorf("the hash of %q has %q rounds; want %d to %d", name, parts[1], leastRounds, mostRounds)
	}
	if a.salt, err = base64.RawStdEncoding.DecodeString(parts[2]); err != nil || len(a.salt) < 16 {
		return name, a, fmt.Errorf("the salt of %q is damaged", name)
	}
	if a.hash, err = base64.RawStdEncoding.DecodeString(parts[3]); err != nil || len(a.hash) != sha256.Size {
		return name, a, fmt.Errorf("the hash of %q is damaged", name)
	}
	return name, a, nil
}

func checkName(name string) error {
	bad := func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) || r == ':' || r == '#' }
	if name == "" || len(name) > longestName || !utf8.ValidString(name) || strings.ContainsFunc(name, bad) {
		return fmt.Errorf("%.80q is no name: want 1 to %d bytes without spaces, : and #", name, longestName)
	}
	return nil
}

// HashPassword returns a line for a file of users.
func HashPassword(name string, role Role, password string) (string, error) {
	return hashPassword(name, role, password, hashRounds)
}

func hashPassword(name string, role Role, password string, rounds int) (string, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	switch {
	case role != Viewer && role != Operator:
		return "", fmt.Errorf("%q is no role: want %s or %s", string(role), Viewer, Operator)
	case len(password) < shortestPassword || len(password) > longestPassword:
		return "", fmt.Errorf("the password has %d bytes; want %d to %d", len(password), shortestPassword, longestPassword)
	}
	a := account{rounds: rounds, salt: make([]byte, 16)}
	_, _ = crand.Read(a.salt) // never fails
	hash, err := a.derive(password)
	if err != nil {
		return "", err
	}
	b := base64.RawStdEncoding
	return fmt.Sprintf("%s:%s:%s$%d$%s$%s", name, role, hashName, a.rounds, b.EncodeToString(a.salt), b.EncodeToString(hash)), nil
}

func (a *account) derive(password string) ([]byte, error) {
	return pbkdf2.Key(sha256.New, password, a.salt, a.rounds, sha256.Size)
}

// has reports whether the user has this account.
func (u *Users) has(name string, a account) bool {
	now, ok := u.all[name]
	return ok && now.role == a.role && now.rounds == a.rounds && bytes.Equal(now.salt, a.salt) && bytes.Equal(now.hash, a.hash)
}

// check returns the account of a user with the password. A name that nobody has takes as long as one that somebody has.
func (u *Users) check(ctx context.Context, name, password string) (account, bool) {
	a, known := u.all[name]
	if !known {
		a = u.none
	}
	if len(password) > longestPassword {
		return account{}, false
	}
	select {
	case u.turn <- struct{}{}:
	case <-ctx.Done():
		return account{}, false
	}
	defer func() { <-u.turn }()
	hash, err := a.derive(password)
	same := err == nil && subtle.ConstantTimeCompare(hash, a.hash) == 1
	return a, same && known
}
