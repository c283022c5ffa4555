package holdfast

import (
	"errors"

	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
)

var (
	// ErrSuperseded means that a newer call has taken the place of this one, which waited. See [WithSupersede] and
	// [SupersededBy].
	ErrSuperseded = queue.ErrSuperseded
	// ErrQueueFull means that too many wait, see [WithQueueMax].
	ErrQueueFull = queue.ErrQueueFull
)

// WithSupersede lets the newest call of Lock take the place of older ones that wait. Their error is ErrSuperseded.
// The holder is never touched, nor are waiters without this option, also of other libraries. If several calls arrive
// while the lock is held, only the newest acquires it, and no older one acquires it afterwards. The order is that in
// which the calls joined the queue, also if their sessions end meanwhile. If the newest then fails, none is left.
//
// The lock's directory keeps a record in its data, so the lock needs the permission to write them. Where the data are
// of another program, the error is zk.ErrBadArguments. A [Layout] without {uuid} or {hex} fails with ErrLayout.
// Acquiring takes two round trips more. TryLock takes nobody's place.
func WithSupersede() Option {
	return func(o *options) {
		o.room.Supersedes = true
		o.set(setSupersede, true)
	}
}

// WithQueueMax lets at most n calls wait for the lock, of whatever sort (0, the default: any number). If n wait already,
// the newcomer fails with ErrQueueFull; or, with dropOldest, the oldest of those with dropOldest does. The rest is as
// for [WithSupersede]; without dropOldest, there is no record. A waiter whose session ends is a newcomer again.
func WithQueueMax(n int, dropOldest bool) Option {
	return func(o *options) {
		o.room.Max, o.room.Oldest = max(n, 0), dropOldest && n > 0
		setNumber(o, setQueueMax, n, n > 0)
	}
}

// SupersededBy returns whose call has taken the place of one that failed with err, an ErrSuperseded or an ErrQueueFull: an Entry with
// Owner, Reason and Token, that of the first node of that call. ok is false if there is none.
func SupersededBy(err error) (by Entry, ok bool) {
	y, ok := errors.AsType[*queue.Yielded](err)
	if !ok || y.Token == 0 {
		return Entry{}, false
	}
	return Entry{Owner: y.Owner, Reason: y.Reason, Token: y.Token}, true
}

// calling returns the lock for one call for side s. With WithSupersede or WithQueueMax, it is a copy with the call's
// arrival, which outlasts its nodes.
func (l *lock) calling(s names.Side) *lock {
	if l.given&(setSupersede|setQueueMax) == 0 || s == names.Read {
		return l
	}
	call := *l
	if call.arrival = l.lent; call.arrival == nil {
		a := l.room
		call.arrival = &a
	}
	*call.arrival = queue.Arrival{
		Supersedes: l.room.Supersedes, Max: l.room.Max, Oldest: l.room.Oldest, First: call.arrival.First, Owner: l.note.Owner, Reason: l.note.Reason,
	}
	return &call
}

// dated returns what makes the data of the nodes of l's arrival. A call without patience does not wait, so it is of no
// sort.
func (l *lock) dated(patience bool) func(names.Attempt) ([]byte, error) {
	o := l.options
	if patience {
		o.note.Sort, o.note.Arrived = l.arrival.Sort(), l.arrival.First
	}
	return o.data
}
