// Package lend has what package holdfast lends to the packages beside it: once, shards and reserve. They build on its
// exported functions. The functions here are for them alone, so they have no place in its documentation. Package holdfast sets the variables when it
// is initialized. A value of type any is of a type of package holdfast, which this package cannot import.
package lend

import (
	"context"

	"holdfast/internal/queue"
	"holdfast/zk"
)

// Part makes a holdfast.Option for a lock that is a part of the one at outer. Its places look for other kinds of lock at
// outer, instead of at their own path. With the kind "", they do not look.
var Part func(outer string, kind queue.Kind) any

// WithinSession makes a holdfast.Option that says that the caller runs under a lock of another session on the same server,
// which is kept until the caller has finished: a command that another one has started. It has no effect on the lock.
// holdfast graph needs it to find deadlocks between such callers. Kinds and options that choose the data of the nodes
// do not record it: an Election, WithValue.
var WithinSession func(session int64) any

// WithProcess makes a holdfast.Option that notes the caller's process in the nodes, as proc.Group encodes it. It has no effect on
// the lock. A command on the same machine can tell then that the holder is dead, although its session lasts. With WithValue and
// in an Election, the names of the nodes have it.
var WithProcess func(group []byte) any

// A Wait is a caller's wait for a lock.
type Wait struct {
	Client *zk.Client
	Place  string   // what the path of the caller's node begins with
	Held   []string // the nodes of the locks that the caller holds meanwhile: its context descends from their Holds
	Locks  []string // the paths of the lock that it waits for, and of those that it holds
}

// WithDetection makes a holdfast.Option for locks whose waiters give up if they are the victim of a deadlock: their nodes say
// so. detect runs beside each wait. It returns when its context ends, or it returns the error that the wait is to end with.
// Without detect, the caller looks for deadlocks itself.
var WithDetection func(detect func(context.Context, Wait) error) any

// Settings are the options of locks, for a package that has options of its own.
type Settings struct {
	Owner string
	ACL   []zk.ACL
	Err   error // the kind cannot honour an option
}

// Read returns the settings of a list of type []holdfast.Option for a kind of lock, see holdfast's table of options.
var Read func(kind string, opts any) Settings

// Places returns the places of a *holdfast.Hold in their queues.
var Places func(hold any) []*queue.Place

// A Tenure is one lock of a *holdfast.Hold. Its functions change the Hold, which no exported function of package holdfast
// can do.
type Tenure struct {
	Place *queue.Place // its first; the lock's path, layout and ACL are those of its Queue
	Owner string       // see holdfast.WithOwner
	// Rewrite waits for a turn at changing the data of the lock's nodes, until ctx ends. The caller must call end.
	Rewrite func(ctx context.Context) (end func(), err error)
	// Gone ends all Holds of the lock, whose node is gone, and returns the loss.
	Gone func() error
}

// Tenures returns the locks of a *holdfast.Hold, in the order of Hold.Tokens.
var Tenures func(hold any) []Tenure

// Ensure makes a directory for the data of a lock, with the session of its place. The error is holdfast.ErrLost if
// that session has ended.
var Ensure func(ctx context.Context, p *queue.Place, path string) error

// LayoutName returns the name of the layout in a list of type []holdfast.Layout, which a caller may leave empty. The
// error says what is wrong with the list.
var LayoutName func(layouts any) (string, error)

// A Demand is what a function needs of a *holdfast.Hold that it is given. The lock must have one holder at a time, and a
// node that goes with its Hold.
type Demand struct {
	By     string     // the function, as the subject of a sentence
	Client *zk.Client // of the lock; nil: any
	One    bool       // one lock, and a Hold that nobody shares
	Queued bool       // locks with a queue
}

// Meets returns nil if the *holdfast.Hold is what d demands and still lasts.
var Meets func(hold any, d Demand) error

// OneArrival makes a holdfast.Option that makes all calls of Lock one arrival, for WithSupersede and WithQueueMax: a command
// whose Lock has succeeded, and whose session then ends before it has used the lock, locks again and is not newer. The
// calls must not overlap.
var OneArrival func() any

// Yield makes room for newer calls if the locks of a *holdfast.Hold have WithSupersede, see queue.Place.Yield. It is for
// a caller whose Hold waits at the head of the queue. After an error, the caller unlocks.
var Yield func(ctx context.Context, hold any) error

// LetGo unlocks a *holdfast.Hold. When ctx ends, the rest happens in the background.
var LetGo func(ctx context.Context, hold any)

// Reservation returns the reservation, of type *reserve.Reservation, in the node of the lock at path. The error says why the
// node has none. Package reserve sets it.
var Reservation func(path, node string, r zk.Result) (any, error)
