// Package lockwatch tells what happens to all locks below a path: who queues, acquires, releases and leaves.
//
// It watches the tree with one persistent recursive watch, so it costs the server the same for one lock and for
// ten thousand. The events of such a watch are complete and in order: a client that creates and removes its
// node between two of our reads is seen all the same. The order of the names then tells who holds the lock,
// without a read of the queue.
//
// After a lost connection, and on servers without such watches (before ZooKeeper 3.6), the package reads the
// tree and compares. A server counts the changes of a node's children, so the package knows when there were
// more changes than the comparison shows. It reports those as a Gap.
package lockwatch

import "time"

// A Type is a type of event.
type Type string

// The types of events.
const (
	Queued   Type = "queued"   // a client has joined the queue, and waits
	Acquired Type = "acquired" // a client holds the lock
	// Released: the node of a holder is gone. The holder has removed it, or its session has ended, or
	// somebody else has removed it: the server does not tell which.
	Released Type = "released"
	Left     Type = "left" // the node of a waiter is gone, and it never held the lock
	Gap      Type = "gap"  // there were changes that this package has not seen, at Lock or below it
)

// An Event is something that happened to a lock.
type Event struct {
	Type Type
	At   time.Time // when this client learned of it
	Lock string    // path of the lock; of a Gap, of the node whose children have changed
	Node string    // path of the client's node; "" for a Gap

	// Known: the node was read before it was gone. Otherwise the next four fields are empty.
	Known   bool
	Owner   string
	Reason  string
	Session int64
	Token   int64

	Shared  bool
	Took    time.Duration // how long it has waited (Acquired, Left) or held the lock (Released); 0 if not seen
	Waiters int           // after the event
	Why     string        // of a Gap
}
