package holdfast

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// An Option sets one property of a lock. If a kind of lock cannot honour an option, every call on the lock
// fails with zk.ErrBadArguments, and the error names the option and the kind.
type Option func(*options)

type options struct {
	grammar   *names.Grammar
	note      queue.Note
	value     []byte // instead of the note; nil: none
	acl       []zk.ACL
	reentrant bool
	observers []*Observer
	shards    shardOptions
	handoffs  int           // in memory, before the lock goes back to the ensemble; see local_queue.go
	keep      time.Duration // how long the client keeps the lock after Unlock; see keep.go

	once onceOptions

	given   given // the options in use
	refused error // the kind of lock cannot honour some of them; see refuse
}

// A given is a set of options.
type given uint8

const (
	givenOwner given = 1 << iota
	givenReason
	givenValue
	givenLayout
	givenHandoff
	givenReentrant
	givenKeep
	givenLabels

	givenLocal = givenHandoff | givenKeep
)

// givenNames are the names of the options, in the order of their bits.
var givenNames = []string{"WithOwner", "WithReason", "WithValue", "WithLayout", "WithLocalHandoff", "Reentrant", "WithKeep", "WithLabels"}

// refuse makes every call on the lock fail if it was given an option that its kind cannot honour.
func (o *options) refuse(kind string, cannot given) {
	var names []string
	for i, name := range givenNames {
		if o.given&cannot&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		o.refused = fmt.Errorf("%w: %s cannot honour %s: make it without", zk.ErrBadArguments, kind, strings.Join(names, ", "))
	}
}

// refuseOthers makes every call on the lock fail if it was given an option that is not of locks.
func (o *options) refuseOthers() {
	switch {
	case o.refused != nil:
	case o.once != (onceOptions{}):
		o.refused = fmt.Errorf("%w: AtMostOnce and ForgetAfter are options of a Once: leave them out", zk.ErrBadArguments)
	case o.shards != (shardOptions{}):
		o.refused = fmt.Errorf("%w: WithWeight, WithSettle, WithMoveLimit and WithHandover are options of a Shards: leave them out", zk.ErrBadArguments)
	}
}

// line names a local queue by all options that make a difference to those who share a node: what the node contains, who
// may use it, and for how long it is handed on and kept. So a caller gets no node that is not as its options say, and
// an option that the server refuses fails only callers who have given it.
func (o *options) line() string {
	g := o.grammar
	return fmt.Sprintf("%q %q %q %v %#v %v %q %#v %d %d",
		g.Mutex, g.Write, g.Read, g.Container, o.note, o.value != nil, o.value, o.acl, o.handoffs, o.keep)
}

func newOptions(opts []Option) options {
	o := options{grammar: names.Default}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// WithOwner names the holder or waiter for those who list the queue. The default is no name. An [Election]
// refuses it: its nodes have the candidates' values.
func WithOwner(owner string) Option {
	return func(o *options) {
		o.note.Owner = owner
		o.given |= givenOwner
	}
}

// WithReason says what the lock is taken for, for those who list the queue. An [Election] refuses it, as it
// does WithOwner.
func WithReason(reason string) Option {
	return func(o *options) {
		o.note.Reason = reason
		o.given |= givenReason
	}
}

// WithinSession says that the caller runs under a lock of another session on the same server, which is kept
// until the caller has finished: a command that another one has started, or a second client of one program.
// It has no effect on the lock. holdfast graph needs it to find deadlocks between such callers. Kinds and
// options that choose the data of the nodes do not record it: Election, WithValue.
func WithinSession(session int64) Option {
	return func(o *options) { o.note.Within = session }
}

// WithLabels adds labels for those who list the queue, such as a team or the number of a build. The map is
// copied. An [Election] refuses it, as it does WithOwner.
func WithLabels(labels map[string]string) Option {
	return func(o *options) {
		o.note.Labels = maps.Clone(labels)
		o.given |= givenLabels
	}
}

// WithValue makes value the data of the lock's nodes, as it is, in place of the owner, the reason and the
// labels. A [NodeLock] and [Slots] refuse it, since the data of a node have to tell one attempt from another. So do locks
// in a [Layout] without {uuid} or {hex}, with ErrLayout. An [Election] refuses it, since Campaign takes the
// value. A [Once] and [Shards] refuse it, too.
func WithValue(value []byte) Option {
	return func(o *options) {
		o.value = append([]byte{}, value...)
		o.given |= givenValue
	}
}

// WithACL is the access control list of the nodes that the lock makes, also of those above its
// path. By default everybody may do everything. A waiter must be allowed to read the nodes of the
// others. Removing a node takes the right to delete from the node above it. Every kind of lock takes this
// option.
func WithACL(acl ...zk.ACL) Option {
	return func(o *options) { o.acl = append([]zk.ACL{}, acl...) }
}

// WithLayout says how the lock's nodes are named; the default is LayoutCurator.
// It copies l: later changes of l have no effect. A [NodeLock] refuses it, since it has one node, whose
// name is the lock's. [Slots] refuse it, since the names of their nodes are numbers.
func WithLayout(l Layout) Option {
	g := l.compile()
	return func(o *options) {
		o.grammar = g
		o.given |= givenLayout
	}
}

// Reentrant lets a context that descends from a Hold of the lock take it again, instead
// of failing with ErrDeadlock. Both Holds are one tenure: they have one node and one
// token, and the lock is free when the last of them is unlocked. It is not the default
// because goroutines that share a context would hold the lock together. The node is that of the first Hold. If the
// second lock was given another WithACL or WithValue, the error is zk.ErrBadArguments.
//
// The option is for [Mutex], [RWMutex] and [NodeLock]. A [Semaphore] and [Slots] refuse it, since a caller
// in between may wait for permits. An [Election] refuses it, since a term has one value. A [Tree], a [Once]
// and [Shards] refuse it, too.
func Reentrant() Option {
	return func(o *options) {
		o.reentrant = true
		o.given |= givenReentrant
	}
}

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
