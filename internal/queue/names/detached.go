package names

import (
	"fmt"
	"strings"
)

// A lock that no session owns has a persistent node, whose name begins with detached. Its maker waits with an
// ephemeral node, whose name begins with detaching. When nobody is ahead, one transaction replaces the one by
// the other, with the same number. So the name tells every waiter behind the ephemeral node that another node
// may take its place.
const (
	detaching = "detaching-"
	detached  = "detached-"
)

// IsDetached reports whether a name is that of a lock that no session owns.
func IsDetached(name string) bool { return strings.HasPrefix(name, detached) }

// IsDetaching reports whether a name is that of a waiter for such a lock.
func IsDetaching(name string) bool { return strings.HasPrefix(name, detaching) }

// Detached returns the name of the node that replaces that of a waiter.
func Detached(name string) string { return detached + strings.TrimPrefix(name, detaching) }

// DetachingAttempt makes a name for a waiter. The error is ErrLayout where names do not tell attempts apart,
// or where the layout does not count nodes whose names begin with other text than its own.
func (g *Grammar) DetachingAttempt(session int64) (Attempt, error) {
	a, err := g.Attempt(Mutex, session)
	if err != nil {
		return Attempt{}, err
	}
	own := a.Prefix
	for _, prefix := range []string{detached, detaching} {
		a.Prefix = prefix + own
		if c, ok := g.Parse(a.Prefix + firstNumber); !a.Unique || !ok || c.Form != a.Prefix || c.Shared {
			return Attempt{}, fmt.Errorf("%w %s: it has no detached locks: they need names with {uuid} or {hex}, and a form that begins with *", ErrLayout, g.Name)
		}
	}
	return a, nil
}

// Detaching returns the name of the waiter's node that a node of a detached lock has replaced.
func Detaching(name string) string { return detaching + strings.TrimPrefix(name, detached) }
