package holdfast

import (
	"context"
	"errors"
	"fmt"

	"holdfast/zk"
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
	return h.during(ctx, f)
}

// during is Do once it has the lock; what it takes is not on the stack of who waits for it.
func (h *Hold) during(ctx context.Context, f func(context.Context) error) error {
	held, cancel := context.WithCancelCause(h.Context())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	// Deferred, so that a panic in f does not keep the lock.
	defer func() {
		stop()
		cancel(nil)
		h.Unlock()
	}()
	err := f(held)
	return errors.Join(err, h.Unlock())
}

// An Option sets one property of a lock.
type Option func(*options)

type options struct {
	grammar   *grammar
	note      note
	value     []byte // instead of the note; nil: none
	acl       []zk.ACL
	reentrant bool
	handoffs  int // in memory, before the lock goes back to the ensemble; see line.go
}

func newOptions(opts []Option) options {
	o := options{grammar: curator}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// WithOwner says who holds or waits, for those who list the queue. By default
// nothing is told.
func WithOwner(owner string) Option { return func(o *options) { o.note.Owner = owner } }

// WithReason says what the lock is taken for, for those who list the queue.
func WithReason(reason string) Option { return func(o *options) { o.note.Reason = reason } }

// WithValue makes value the data of the lock's nodes, as it is, in place of what
// WithOwner and WithReason say.
func WithValue(value []byte) Option {
	return func(o *options) { o.value = append([]byte{}, value...) }
}

// WithACL says who may do what with the nodes that the lock makes, also those above its
// path. By default everybody may do everything. Whoever waits must be allowed to read
// the nodes of the others; to remove a node, it takes the right to delete from the node
// above it.
func WithACL(acl ...zk.ACL) Option {
	return func(o *options) { o.acl = append([]zk.ACL{}, acl...) }
}

// WithLayout says how the lock's nodes are named; the default is LayoutCurator.
// It copies l: what is changed there later has no effect.
func WithLayout(l Layout) Option {
	g := l.compile()
	return func(o *options) { o.grammar = g }
}

// Reentrant lets a context that descends from a Hold of the lock take it again, instead
// of failing with ErrDeadlock. Both Holds are one tenure: they have one node and one
// token, and the lock is free when the last of them is unlocked. It is not the default
// because goroutines that share a context would walk in together.
func Reentrant() Option { return func(o *options) { o.reentrant = true } }

// data are those of a node to be made. The id is of one attempt, and in the data only
// where the node's name does not tell attempts apart.
func (o *options) data(a attempt) ([]byte, error) {
	n := o.note
	if !a.unique {
		if o.value != nil {
			return nil, fmt.Errorf("%w %s: nodes are told apart by their data, so WithValue cannot be used", ErrLayout, o.grammar.name)
		}
		n.ID = a.id
	}
	if o.value != nil {
		return o.value, validValue(o.value)
	}
	return n.encode()
}
