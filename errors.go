package holdfast

import (
	"errors"
	"fmt"
)

var (
	// ErrLocked: somebody is ahead, and TryLock does not wait.
	ErrLocked = errors.New("locked by another")
	// ErrNotHeld: the Hold has been unlocked before.
	ErrNotHeld = errors.New("not held")
	// ErrLost: the lock ended before Unlock; the error wraps why.
	ErrLost = errors.New("lock lost")
	// ErrDeadlock: the context descends from a Hold of the same lock, so waiting for
	// it would never end.
	ErrDeadlock = errors.New("would wait for a lock that this context already holds")
	// ErrNoLeader: nobody is a candidate.
	ErrNoLeader = errors.New("no leader")
	// ErrLimit: a semaphore's limit is not known, is not what the program claims, or is
	// less than was asked for.
	ErrLimit = errors.New("semaphore limit")
	// ErrKind: the name is that of another kind of lock, or of one in another layout, which
	// would not exclude this one. The error says which, and what to do.
	ErrKind = errors.New("another kind of lock has this name")
	// ErrLayout: the Layout is unknown, makes no sense, or cannot do what was asked.
	ErrLayout = errors.New("invalid layout")
)

// An Error says which operation on which lock failed.
type Error struct {
	Op   string // "lock", "try lock", "unlock", "list", …
	Path string // of the lock
	Err  error
}

// Error reads "holdfast: lock /a: …".
func (e *Error) Error() string { return fmt.Sprintf("holdfast: %s %s: %v", e.Op, e.Path, e.Err) }

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }
