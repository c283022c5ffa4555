package holdfast

import (
	"fmt"

	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// An Option sets one property of a lock.
type Option func(*options)

type options struct {
	grammar   *names.Grammar
	note      queue.Note
	value     []byte // instead of the note; nil: none
	acl       []zk.ACL
	reentrant bool
	shards    shardOptions
	handoffs  int // in memory, before the lock goes back to the ensemble; see local_queue.go
}

func newOptions(opts []Option) options {
	o := options{grammar: names.Default}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// WithOwner names the holder or waiter for those who list the queue. The default is no name.
func WithOwner(owner string) Option { return func(o *options) { o.note.Owner = owner } }

// WithReason says what the lock is taken for, for those who list the queue.
func WithReason(reason string) Option { return func(o *options) { o.note.Reason = reason } }

// WithValue makes value the data of the lock's nodes, as it is, in place of the owner and the reason.
func WithValue(value []byte) Option {
	return func(o *options) { o.value = append([]byte{}, value...) }
}

// WithACL is the access control list of the nodes that the lock makes, also of those above its
// path. By default everybody may do everything. A waiter must be allowed to read the nodes of the
// others. Removing a node takes the right to delete from the node above it.
func WithACL(acl ...zk.ACL) Option {
	return func(o *options) { o.acl = append([]zk.ACL{}, acl...) }
}

// WithLayout says how the lock's nodes are named; the default is LayoutCurator.
// It copies l: later changes of l have no effect.
func WithLayout(l Layout) Option {
	g := l.compile()
	return func(o *options) { o.grammar = g }
}

// Reentrant lets a context that descends from a Hold of the lock take it again, instead
// of failing with ErrDeadlock. Both Holds are one tenure: they have one node and one
// token, and the lock is free when the last of them is unlocked. It is not the default
// because goroutines that share a context would hold the lock together.
func Reentrant() Option { return func(o *options) { o.reentrant = true } }

// data returns the data of a node to be made. The attempt's id is in the data only where the node's
// name does not tell attempts apart.
func (o *options) data(a names.Attempt) ([]byte, error) {
	n := o.note
	if !a.Unique {
		if o.value != nil {
			return nil, fmt.Errorf("%w %s: nodes are told apart by their data, so WithValue cannot be used", ErrLayout, o.grammar.Name)
		}
		n.ID = a.ID
	}
	if o.value != nil {
		return o.value, queue.ValidValue(o.value)
	}
	return n.Encode()
}
