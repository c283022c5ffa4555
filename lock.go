package holdfast

import (
	"context"
	"encoding/json"
	"errors"
)

// A Locker is a lock of some kind. Both methods can be called from any number of
// goroutines; each call that succeeds has a place in the queue of its own.
type Locker interface {
	// Lock waits until the lock is ours. The context bounds the wait, never the hold.
	Lock(ctx context.Context) (*Hold, error)
	// TryLock fails with ErrLocked at once if somebody is ahead.
	TryLock(ctx context.Context) (*Hold, error)
}

// Do locks l, calls f and unlocks. The context of f ends when the caller's does, or
// when the lock is lost; then f should stop at once. Do returns what f returns, joined
// with an error that is ErrLost if the lock did not last to the end. If the lock could
// not be had, f is not called.
func Do(ctx context.Context, l Locker, f func(context.Context) error) error {
	h, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	held, cancel := context.WithCancelCause(h.Context())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	// Deferred, so that a panic in f does not keep the lock.
	defer func() {
		stop()
		cancel(nil)
		h.Unlock()
	}()
	err = f(held)
	return errors.Join(err, h.Unlock())
}

// An Option sets one property of a lock.
type Option func(*options)

type options struct {
	note note
}

// WithOwner says who holds or waits, for those who list the queue. By default
// nothing is told.
func WithOwner(owner string) Option { return func(o *options) { o.note.Owner = owner } }

// WithReason says what the lock is taken for, for those who list the queue.
func WithReason(reason string) Option { return func(o *options) { o.note.Reason = reason } }

// A note is the data of a lock's node.
type note struct {
	Owner  string `json:"owner,omitempty"`
	Reason string `json:"why,omitempty"`
}

func (n note) encode() ([]byte, error) {
	if n == (note{}) {
		return []byte{}, nil
	}
	return json.Marshal(n)
}

// readNote makes the best of a node's data: other programs leave text of their own
// there (Curator the host's address).
func readNote(data []byte) note {
	var n note
	if err := json.Unmarshal(data, &n); err != nil {
		return note{Owner: string(data)}
	}
	return n
}
