package htpasswd

import (
	"bufio"
	"crypto/hmac"
	crand "crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/bcrypt"
)

const (
	// Cost is the cost of a new hash.
	Cost = 12
	// LeastCost is the lowest cost in a file, and mostCost the highest.
	LeastCost = 10
	mostCost  = 15

	// shortestPassword and longestPassword are in bytes. bcrypt ignores what is behind longestPassword.
	shortestPassword = 8
	longestPassword  = 72
	longestName      = 64
	mostUsers        = 1000

	hashLength = 60
	alphabet   = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789" // of a hash
)

// A User is a line of a file. Users are equal if their lines are.
type User struct {
	Name, Note string
	hash       [sha256.Size]byte // of the line's hash, so that printing a User shows no hash
}

// Users are the users who may log in. They are safe for concurrent use.
type Users struct {
	all  map[string]*account
	none account // for unknown names: they take as long
}

// An account is a User with the secrets.
type account struct {
	User
	hash []byte // nil: the proof alone counts
	// proof is a keyed hash of the name and the right password, once a client has sent it. It saves the hash of bcrypt
	// for the next requests of this client.
	proof atomic.Pointer[[sha256.Size]byte]
}

func newUsers() *Users {
	return &Users{all: make(map[string]*account)}
}

// Parse reads a file of users. Its errors do not quote lines, since lines contain hashes.
func Parse(text string) (*Users, error) {
	u := newUsers()
	highest := LeastCost
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		a, cost, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		switch _, twice := u.all[a.Name]; {
		case twice:
			return nil, fmt.Errorf("line %d: the user %q has another line", n, a.Name)
		case len(u.all) >= mostUsers:
			return nil, fmt.Errorf("line %d: more than %d users", n, mostUsers)
		}
		u.all[a.Name] = a
		highest = max(highest, cost)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(u.all) == 0 {
		return nil, errors.New("the file has no users")
	}
	u.none.hash = fmt.Appendf(nil, "$2y$%02d$%s", highest, strings.Repeat(".", hashLength-7))
	return u, nil
}

func parse(line string) (*account, int, error) {
	fields := strings.SplitN(line, ":", 3)
	if len(fields) < 2 {
		return nil, 0, errors.New("want NAME:HASH or NAME:HASH:NOTE")
	}
	name, hash := fields[0], fields[1]
	if err := checkName(name); err != nil {
		return nil, 0, err
	}
	cost, err := bcrypt.Cost([]byte(hash))
	if err != nil || len(hash) != hashLength || !strings.HasPrefix(hash, "$2") || hash[6] != '$' || strings.Trim(hash[7:], alphabet) != "" {
		return nil, 0, fmt.Errorf("the second field of %q is no hash of bcrypt ($2y$…)", name)
	}
	if cost < LeastCost || cost > mostCost {
		return nil, 0, fmt.Errorf("the hash of %q has the cost %d: want %d to %d", name, cost, LeastCost, mostCost)
	}
	a := &account{User: User{Name: name, hash: sha256.Sum256([]byte(hash))}, hash: []byte(hash)}
	if len(fields) == 3 {
		a.Note = fields[2]
	}
	return a, cost, nil
}

func checkName(name string) error {
	bad := func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) || r == ':' || r == '#' }
	if name == "" || len(name) > longestName || !utf8.ValidString(name) || strings.ContainsFunc(name, bad) {
		return fmt.Errorf("%.80q is no name: want 1 to %d bytes without spaces, : and #", name, longestName)
	}
	return nil
}

// Line returns a line for a file of users. An empty note leaves out the third field. cost is Cost, except in tests.
func Line(name, note, password string, cost int) (string, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	if len(password) < shortestPassword || len(password) > longestPassword {
		return "", fmt.Errorf("the password has %d bytes; want %d to %d", len(password), shortestPassword, longestPassword)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), cost)
	if err != nil {
		return "", err
	}
	hash[2] = 'y' // the same algorithm, by the name that htpasswd and nginx use
	line := name + ":" + string(hash)
	if note != "" {
		line += ":" + note
	}
	return line, nil
}

// One returns Users with one user, whose password is in no file and too long to be guessed.
func One(name, password string) *Users {
	u, a, proof := newUsers(), &account{User: User{Name: name}}, prove(name, password)
	a.proof.Store(&proof)
	u.all[name] = a
	return u
}

// All returns the users, in no order.
func (u *Users) All() iter.Seq[User] {
	return func(yield func(User) bool) {
		for _, a := range u.all {
			if !yield(a.User) {
				return
			}
		}
	}
}

// Has reports whether a user has the same line.
func (u *Users) Has(user User) bool {
	a := u.all[user.Name]
	return a != nil && a.User == user
}

// Inherit takes over from old which passwords were right, for the users whose lines are the same. It is called before
// u is used.
func (u *Users) Inherit(old *Users) {
	for name, a := range u.all {
		if before := old.all[name]; before != nil && before.User == a.User {
			a.proof.Store(before.proof.Load())
		}
	}
}

// proven returns the user if the password was found right before. It does not hash.
func (u *Users) proven(name, password string) (User, bool) {
	a := u.all[name]
	if a == nil {
		return User{}, false
	}
	known, proof := a.proof.Load(), prove(name, password)
	if known == nil || subtle.ConstantTimeCompare(known[:], proof[:]) != 1 {
		return User{}, false
	}
	return a.User, true
}

// compare returns the user if the password is right. A wrong password takes as long as an unknown name.
func (u *Users) compare(name, password string) (User, bool) {
	a, known := u.all[name]
	if !known {
		a = &u.none
	}
	if err := bcrypt.CompareHashAndPassword(a.hash, []byte(password)); err != nil || !known {
		return User{}, false
	}
	proof := prove(name, password)
	a.proof.Store(&proof)
	return a.User, true
}

// proofKey is the key of proofs. It is in the memory of this process alone.
var proofKey = sync.OnceValue(func() []byte { return []byte(crand.Text()) })

func prove(name, password string) (proof [sha256.Size]byte) {
	h := hmac.New(sha256.New, proofKey())
	fmt.Fprintf(h, "%d:%s%s", len(name), name, password)
	h.Sum(proof[:0])
	return proof
}
