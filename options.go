package holdfast

import (
	"context"
	"fmt"
	"maps"
	"math/bits"
	"strings"
	"time"

	"holdfast/internal/lend"
	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// An Option sets one property of a lock. Every kind takes WithACL. The others are for:
//
//	WithOwner, WithReason, WithLabels   all but Election, whose nodes have the candidates' values
//	WithObserver                        all but Detached
//	WithLayout                          Mutex, RWMutex, Semaphore, Tree, Election, Detached
//	WithValue                           Mutex, RWMutex, Semaphore, Tree
//	Reentrant                           Mutex, RWMutex, NodeLock
//	WithLocalHandoff, WithKeep          Mutex, RWMutex; without effect on the read side
//	WithSupersede, WithQueueMax         the same; not with each other, WithValue, WithLocalHandoff or WithKeep
//	deadlock.Detect                     Mutex, RWMutex, Semaphore, Slots, Tree, Detached
//	WithPreference                      Election
//
// If a kind of lock cannot honour an option, or a time or a number is negative, every call on the lock fails with
// zk.ErrBadArguments, and the error names the option and the kind.
type Option func(*options)

type options struct {
	grammar   *names.Grammar
	note      queue.Note
	value     []byte // instead of the note; nil: none
	acl       []zk.ACL
	reentrant bool
	observers []*Observer
	handoffs  int            // at most so many in memory, before the lock goes back to the ensemble; see internal/tenure
	keep      time.Duration  // how long the client keeps the lock after Unlock; see internal/tenure
	room      queue.Arrival  // of WithSupersede and WithQueueMax, for each call
	lent      *queue.Arrival // in place of room: all calls are one arrival; nil: they are not
	prefers   bool           // the candidates step behind those that are preferred, and hand over to them; see candidacy
	preferred int            // the preference
	failback  time.Duration  // how long a preferred candidate has to be in line before the leader hands over

	detect func(context.Context, lend.Wait) error // nil: nobody looks for deadlocks; see lend.WithDetection

	part *partOf // nil: the lock is no part of another

	given   setting // the options in use
	refused error   // the kind of lock cannot honour some of them; see takes
}

// A setting is an option, or a set of options.
type setting uint32

const (
	setOwner setting = 1 << iota
	setReason
	setLabels
	setWithin // see lend.WithinSession; not exported
	setValue
	setACL
	setLayout
	setObserver
	setReentrant
	setHandoff
	setKeep
	setDetection // see lend.WithDetection; package deadlock exports it
	setSupersede
	setQueueMax
	setPreference
	setProcess // see lend.WithProcess; not exported

	setNote = setOwner | setReason | setLabels
)

// settings are the names of the options, in the order of their bits.
var settings = [...]string{
	"WithOwner", "WithReason", "WithLabels", "WithinSession", "WithValue", "WithACL", "WithLayout", "WithObserver", "Reentrant",
	"WithLocalHandoff", "WithKeep", "deadlock.Detect", "WithSupersede", "WithQueueMax", "WithPreference", "WithProcess",
}

// apart are the options that go with none of the others in the list: the nodes of WithSupersede and WithQueueMax carry
// their sort, and each is of one caller.
const apart = setSupersede | setQueueMax | setValue | setHandoff | setKeep

// takes has the options that each kind of lock can honour, by the words for the kind in messages.
var takes = map[string]setting{
	"a Mutex":     setNote | setWithin | setProcess | setValue | setACL | setLayout | setObserver | setReentrant | setHandoff | setKeep | setDetection | setSupersede | setQueueMax,
	"an RWMutex":  setNote | setWithin | setProcess | setValue | setACL | setLayout | setObserver | setReentrant | setHandoff | setKeep | setDetection | setSupersede | setQueueMax,
	"a Semaphore": setNote | setWithin | setProcess | setValue | setACL | setLayout | setObserver | setDetection,
	"a Slots":     setNote | setWithin | setProcess | setACL | setObserver | setDetection,
	"a Tree":      setNote | setWithin | setProcess | setValue | setACL | setLayout | setObserver | setDetection,
	"a NodeLock":  setNote | setWithin | setProcess | setACL | setObserver | setReentrant,
	"a Detached":  setNote | setWithin | setProcess | setACL | setLayout | setDetection,
	"an Election": setProcess | setACL | setLayout | setObserver | setPreference,
	"a Once":      setNote | setWithin | setProcess | setACL | setObserver,
	"a Shards":    setNote | setWithin | setProcess | setACL | setObserver, // of package shards
}

// newOptions returns the options of a kind of lock. If it cannot honour one of them, every call on the lock fails (see
// lock.valid).
func newOptions(kind string, opts []Option) options {
	o := options{grammar: names.Default}
	for _, opt := range opts {
		opt(&o)
	}
	if cannot := named(o.given &^ takes[kind]); len(cannot) > 0 {
		o.refused = fmt.Errorf("%w: %s cannot honour %s: make it without", zk.ErrBadArguments, kind, strings.Join(cannot, ", "))
	}
	if beside := o.given & (setValue | setHandoff | setKeep); o.given&setDetection != 0 && beside != 0 {
		o.refused = fmt.Errorf("%w: deadlock.Detect and %s do not go together: make the lock without one of them", zk.ErrBadArguments, settings[bits.TrailingZeros32(uint32(beside))])
	}
	if both := named(o.given & apart); len(both) > 1 && o.refused == nil && o.given&(setSupersede|setQueueMax) != 0 {
		o.refused = fmt.Errorf("%w: %s do not go together: leave one of them out", zk.ErrBadArguments, strings.Join(both, " and "))
	}
	return o
}

// named returns the names of the options in a set.
func named(of setting) (all []string) {
	for i, name := range settings {
		if of&(1<<i) != 0 {
			all = append(all, name)
		}
	}
	return all
}

// set notes that an option is in use, or that it is not if it is given as its default.
func (o *options) set(s setting, inUse bool) {
	o.given &^= s
	if inUse {
		o.given |= s
	}
}

// setNumber is set for an option with a number or a time, and refuses a negative one.
func setNumber[N int | time.Duration](o *options, s setting, n N, inUse bool) {
	if o.set(s, inUse); n < 0 && o.refused == nil {
		o.refused = fmt.Errorf("%w: %s(%v) is negative", zk.ErrBadArguments, settings[bits.TrailingZeros32(uint32(s))], n)
	}
}

// line returns a name for the line of callers that can share a node (the local queue, see internal/tenure). It has the path, and
// all options that make a difference to them: what the node contains, who may use it, and for how long it is handed on and
// kept. So a caller gets no node that is not as its options say, and an option that the server refuses fails only callers
// that have given it.
func (o *options) line(path string) string {
	g := o.grammar
	return fmt.Sprintf("%q %q %q %q %q %v %#v %v %q %#v %d %d",
		path, g.Queue, g.Mutex, g.Write, g.Read, g.Container, o.note, o.value != nil, o.value, o.acl, o.handoffs, o.keep)
}

// WithOwner names the holder or waiter for those who list the queue. The default is no name.
func WithOwner(owner string) Option {
	return func(o *options) {
		o.note.Owner = owner
		o.set(setOwner, true)
	}
}

// WithReason says why the lock is held, for those who list the queue.
func WithReason(reason string) Option {
	return func(o *options) {
		o.note.Reason = reason
		o.set(setReason, true)
	}
}

// WithLabels adds labels for those who list the queue, such as a team or the number of a build. The map is
// copied.
func WithLabels(labels map[string]string) Option {
	return func(o *options) {
		o.note.Labels = maps.Clone(labels)
		o.set(setLabels, true)
	}
}

// WithValue makes value the data of the lock's nodes, as it is, in place of the owner, the reason and the labels.
// Locks in a [Layout] without {uuid} or {hex} fail with ErrLayout: there the data of a node identify an attempt.
func WithValue(value []byte) Option {
	return func(o *options) {
		o.value = append([]byte{}, value...)
		o.set(setValue, true)
	}
}

// WithACL is the access control list of the nodes that the lock makes, also of those above its
// path. By default everybody may do everything. A waiter must be allowed to read the nodes of the
// others. Removing a node needs the permission to delete children of the node above it. Everybody may also read the directory
// of a [Tree]'s root, whatever the list says.
func WithACL(acl ...zk.ACL) Option {
	return func(o *options) {
		o.acl = append([]zk.ACL{}, acl...)
		o.set(setACL, true)
	}
}

// WithLayout says how the lock's nodes are named; the default is Curator's. Package holdfast/layout has those of
// other libraries. Later changes of l have no effect.
func WithLayout(l Layout) Option {
	g := l.compile()
	return func(o *options) {
		o.grammar = g
		o.set(setLayout, true)
	}
}

// Reentrant lets a context that descends from a Hold of the lock take it again, instead of failing with ErrDeadlock. Both
// Holds are one tenure: they have one node and one token, and the lock is free when the last of them is unlocked. It is
// not the default because goroutines that share a context would hold the lock together. The node is that of the first
// Hold. If the second lock was given another WithACL or WithValue, the error is zk.ErrBadArguments.
func Reentrant() Option {
	return func(o *options) {
		o.reentrant = true
		o.set(setReentrant, true)
	}
}

// WithLocalHandoff lets the goroutines of one client that want one lock queue in memory, behind a single node. When
// one of them unlocks, the next acquires the lock without a request, up to n times in a row (0, the default: never).
// Then the lock goes back to the ensemble, and the local queue joins again, at the back. So a waiter elsewhere waits
// for at most n+1 tenures instead of one. The lock goes back earlier if nobody waits here, or if somebody asks for it
// (see Revoke).
//
// The Holds of one node share its fencing token. A local queue is of locks of one path, client and side with the same
// options; only [WithObserver] and [Reentrant] may differ. TryLock fails with ErrLocked while the local queue is not
// empty.
func WithLocalHandoff(n int) Option {
	return func(o *options) {
		o.handoffs = max(n, 0)
		setNumber(o, setHandoff, n, n > 0)
	}
}

// WithKeep lets the client keep the lock after Unlock, for at most idle (0, the default: not at all). Its next Lock
// or TryLock then takes the lock without a request. When somebody else joins the queue, or asks for the lock (see
// Revoke), the client gives it up: at once, or at Unlock. "Somebody else" is also a caller of this client with
// another side or option. The goroutines of the client wait behind one node, as with [WithLocalHandoff], and share
// its token; while nobody else waits, they hand the lock on without a bound.
//
// For others, a kept lock is held, also by a client that has crashed, until its session ends. [List] says Kept.
// TryLock of another client waits up to a second for it; with WithValue, and in other libraries, TryLock can fail. A
// client keeps up to 64 locks, and gives up the one that is idle for the longest time.
func WithKeep(idle time.Duration) Option {
	return func(o *options) {
		o.keep = max(idle, 0)
		setNumber(o, setKeep, idle, idle > 0)
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
		if n.Sort != "" {
			return nil, fmt.Errorf("%w %s: a name can come back, and a newcomer could remove the wrong node, so WithSupersede and WithQueueMax cannot be used", ErrLayout, o.grammar.Name)
		}
		n.ID = a.ID
	}
	if o.value != nil {
		return o.value, queue.ValidValue(o.value)
	}
	return n.Encode()
}
