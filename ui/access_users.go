package ui

import (
	"context"
	"fmt"

	"holdfast/internal/htpasswd"
)

// Users are the users who may log in. They are safe for concurrent use.
type Users struct{ all *htpasswd.Users }

// An account is a user with the role.
type account struct {
	role Role
	user htpasswd.User
}

// ParseUsers reads an htpasswd file: one line NAME:HASH:ROLE each, as HashPassword makes it, with a hash of bcrypt. A user
// without a role is a viewer. Empty lines and lines that begin with # are skipped.
func ParseUsers(text string) (*Users, error) {
	all, err := htpasswd.Parse(text)
	if err != nil {
		return nil, err
	}
	for user := range all.All() {
		if _, ok := roleOf(user); !ok {
			return nil, fmt.Errorf("the role of %q is neither %s nor %s", user.Name, Viewer, Operator)
		}
	}
	return &Users{all}, nil
}

func roleOf(user htpasswd.User) (Role, bool) {
	switch role := Role(user.Note); role {
	case "":
		return Viewer, true
	case Viewer, Operator:
		return role, true
	}
	return "", false
}

// HashPassword returns a line for a file of users.
func HashPassword(name string, role Role, password string) (string, error) {
	return hashPassword(name, role, password, htpasswd.Cost)
}

func hashPassword(name string, role Role, password string, cost int) (string, error) {
	if role != Viewer && role != Operator {
		return "", fmt.Errorf("%q is no role: want %s or %s", string(role), Viewer, Operator)
	}
	return htpasswd.Line(name, string(role), password, cost)
}

// has reports whether the user has this account.
func (u *Users) has(a account) bool { return u.all.Has(a.user) }

// check returns the account of a user with the password. The error is one of gate.
func (u *Users) check(ctx context.Context, gate *htpasswd.Gate, name, password, address string) (account, error) {
	user, err := gate.Check(ctx, u.all, name, password, address)
	role, _ := roleOf(user)
	return account{role, user}, err
}
