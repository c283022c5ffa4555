package holdfast

import (
	"errors"

	"holdfast/internal/queue"
)

// WithSupersede lets the newest call of Lock take the place of older ones that wait: their error is ErrSuperseded. It
// touches neither the holder nor waiters without this option, also of other libraries. Of the calls that arrive while
// the lock is held, the newest acquires it, and no older one does afterwards, unless the server has removed the record.
// TryLock takes nobody's place.
//
// The data of the lock's node keep a record: if they are another program's, the error is zk.ErrBadArguments. A
// [Layout] without {uuid} or {hex} fails with ErrLayout.
func WithSupersede() Option {
	return func(o *options) {
		o.room.Supersedes = true
		o.set(setSupersede, true)
	}
}

// WithQueueMax lets at most n calls wait; the holder does not count (0, the default: any number). If n wait already, the
// newcomer fails with ErrQueueFull; with dropOldest, the oldest waiter that has dropOldest, too, as with [WithSupersede].
func WithQueueMax(n int, dropOldest bool) Option {
	return func(o *options) {
		o.room.Max, o.room.Oldest = max(n, 0), dropOldest && n > 0
		setNumber(o, setQueueMax, n, n > 0)
	}
}

// SupersededBy returns Owner, Reason and Token of the call that took the place of ours, by the error of our Lock. ok is
// false if err names none.
func SupersededBy(err error) (by Entry, ok bool) {
	y, ok := errors.AsType[*queue.Yielded](err)
	if !ok || y.Token == 0 {
		return Entry{}, false
	}
	return Entry{Owner: y.Owner, Reason: y.Reason, Token: y.Token}, true
}
