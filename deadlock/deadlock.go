// Package deadlock ends deadlocks: programs that hold a lock each and wait for those of each other.
//
// A lock with the option [Detect] finds out, while a caller waits for it, whether the wait is in a cycle of waits. One of the
// waiters gives up, and the others get their locks. A cycle may go through locks of any kind, and through clients without
// the option, of other libraries, too: these are never removed.
package deadlock

import (
	"context"
	"fmt"
	"strings"

	"holdfast"
	"holdfast/internal/cyclewatch"
	"holdfast/internal/lend"
	"holdfast/internal/locks"
	"holdfast/internal/queue"
	"holdfast/internal/waitgraph"
)

// Detect is an option of a Mutex, an RWMutex, a Semaphore, a Slots, a Tree and a Detached. If a wait for the lock is the
// victim of a deadlock, it ends with an [*Error], which is holdfast.ErrDeadlock. Otherwise it goes on. Detect does not go
// together with WithValue, WithLocalHandoff or WithKeep.
//
// The victim of a cycle is its youngest wait with this option, by the czxid of its node. So all clients choose the same one.
// The wait ends within three seconds after the cycle has closed, if the server answers in time, and the caller should release
// what it holds. If no wait of the cycle has the option, nobody gives up.
//
// A wait holds up others only by locks that its caller holds: its context must descend from their Holds (see
// holdfast.Hold.Context and holdfast.Do), or they are the earlier locks of a MultiLock. Other clients are taken for one
// thread each: it waits for one lock, and holds meanwhile what its session holds. A cycle with a session that waits for
// several locks at a time may end by itself, so it has no victim. Give other threads clients of their own.
//
// Detect reads the locks that are in the directories above the lock and above the locks that the caller holds, and those
// below the directories in beside, such as "/holdfast/locks". It reads them when a wait has lasted for a second, and again
// when somebody has joined a queue that can close a cycle. It reads twice, and the victim a third time half a second later,
// so a cycle that was never there at one moment counts for nothing. A waiter without permission to read all of them, or
// with more than 50,000 nodes to read, does not give up.
func Detect(beside ...string) holdfast.Option {
	return lend.WithDetection(func(ctx context.Context, wait lend.Wait) error {
		return detect(ctx, wait, beside)
	}).(holdfast.Option)
}

// detect returns an *Error when the wait is the victim of a deadlock, and nil when ctx has ended.
func detect(ctx context.Context, wait lend.Wait, beside []string) error {
	var prefixes []string
	for _, dir := range beside {
		prefixes = append(prefixes, strings.TrimSuffix(dir, "/")+"/")
	}
	for _, path := range wait.Locks {
		if tree, _, ok := strings.Cut(path, "/"+queue.TreePart); ok {
			path = tree
		}
		prefixes = append(prefixes, path[:strings.LastIndexByte(path, '/')+1])
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := cyclewatch.Watch{Client: wait.Client, Prefixes: cyclewatch.Above(prefixes), Yield: true, Place: wait.Place, Held: wait.Held}
	var found error
	w.Run(ctx, func(f *cyclewatch.Found) {
		if f != nil && f.Victim {
			found = newError(f)
			cancel(nil)
		}
	})
	return found
}

// An Error is a deadlock whose victim is the caller's wait. Its Waits begin with that wait, and each is for the waiter of the
// next one, the last for the first.
type Error struct {
	Waits []Wait
	// Release is the path of a lock that others of the cycle wait for: the caller is to release it first.
	Release string
}

// A Wait is one of a cycle.
type Wait struct {
	Waiter  string // its owner (see holdfast.WithOwner), or "" if it has none
	Session int64  // 0: of no session
	Lock    string // the path of the lock that it waits for
}

// newError describes a cycle.
func newError(f *cyclewatch.Found) *Error {
	steps := f.Cycle.Steps
	for i, s := range steps {
		if s.Owner == f.Self {
			steps = append(append([]waitgraph.Step(nil), steps[i:]...), steps[:i]...)
			break
		}
	}
	e := &Error{Release: f.Locks[f.Before().For.Lock].Path}
	for _, s := range steps {
		p := f.Place(s.Wait)
		e.Waits = append(e.Waits, Wait{Waiter: p.Owner, Session: p.Session, Lock: f.Locks[s.Wait.Lock].Path})
	}
	return e
}

// Error says who waits for whom.
func (e *Error) Error() string {
	var all []string
	for i, w := range e.Waits {
		all = append(all, fmt.Sprintf("%s waits for %s, held up by %s", e.name(i), w.Lock, e.name((i+1)%len(e.Waits))))
	}
	return "deadlock: " + strings.Join(all, "; ")
}

// name names a waiter.
func (e *Error) name(i int) string {
	w := e.Waits[i]
	if w.Waiter == "" {
		return "session " + locks.SessionText(w.Session)
	}
	return fmt.Sprintf("%s (session %s)", w.Waiter, locks.SessionText(w.Session))
}

// Unwrap returns holdfast.ErrDeadlock.
func (e *Error) Unwrap() error { return holdfast.ErrDeadlock }
