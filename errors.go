package holdfast

import (
	"errors"
	"fmt"
	"strings"

	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/internal/tenure"
)

var (
	// ErrLocked means that somebody is ahead, and TryLock does not wait.
	ErrLocked = queue.ErrLocked
	// ErrNotHeld means that the Hold was unlocked before, or that nobody has the token.
	ErrNotHeld = errors.New("not held")
	// ErrLost means that the lock ended before Unlock. The error wraps the reason.
	ErrLost = tenure.ErrLost
	// ErrDeadlock means that the context descends from a Hold of the same lock: the wait would never end. In package
	// deadlock, it means that the wait was the victim of a cycle of waits.
	ErrDeadlock = errors.New("would wait for a lock that this context already holds")
	// ErrNoLeader means that nobody leads the Election. Only Leader returns it.
	ErrNoLeader = errors.New("no leader")
	// ErrHandover is the cause of the context of Lead's function if another candidate is to lead, see WithPreference.
	ErrHandover = errors.New("the leader hands over to another candidate")
	// ErrLimit means that the limit of a semaphore, or the number of slots, is not known, or that others use
	// another limit than the program claims, or that the limit is less than the number of permits asked for.
	ErrLimit = errors.New("semaphore limit")
	// ErrKind means that another kind of lock, or one in another layout, has this name. It would not
	// exclude this one. The error says which, and what to do: a flag of the command, and in brackets what a
	// program uses. It also means that a [Tree] is above this lock, or that another lock is in this Tree.
	ErrKind = queue.ErrKind
	// ErrUncertain means that Lock of a Detached cannot find out whether it holds the lock; the error has the id. In
	// package once, it means that a call cannot find out whether its result, or with AtMostOnce the beginning of its
	// run, was recorded; the next call of the job shows it.
	ErrUncertain = errors.New("the outcome is not known")
	// ErrSuperseded means that a newer call has the place in the queue, see [WithSupersede] and [SupersededBy].
	ErrSuperseded = queue.ErrSuperseded
	// ErrQueueFull means that too many wait, see [WithQueueMax].
	ErrQueueFull = queue.ErrQueueFull
	// ErrLayout means that the Layout is unknown, contradicts itself, or cannot do what was asked.
	ErrLayout = names.ErrLayout
)

// errPanic is the error of a function that makes nodes until it returns. So its deferred cleanup also runs if it does
// not return: a hook of the program has panicked, see [Observer] and [zk.Trace].
var errPanic = errors.New("a hook has panicked")

// An Error says which operation on which lock failed.
type Error struct {
	Op   string // "lock", "try lock", "unlock", "list", …
	Path string // of the lock
	Err  error
}

// Error reads "holdfast: lock /a: …".
func (e *Error) Error() string {
	what := strings.TrimSuffix(e.Op+" "+e.Path, " ") // a MultiLock of no locks has no path
	// The error of a part does not say again whose it is.
	return fmt.Sprintf("holdfast: %s: %s", what, strings.TrimPrefix(e.Err.Error(), "holdfast: "))
}

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }
