// Package queue is a place in a lock's queue on the server: it joins the queue, waits until nobody is
// ahead, and removes its node. It knows no Hold, no options and no re-entry; those are above it.
//
// A [Queue] is a lock's directory. A [Place] is one node in it, of one session. [Place.Wait] is the way
// to the lock (wait.go): join.go makes the node and lists the queue, await.go waits for the nodes ahead, and
// kept.go waits for TryLock. listing.go reads our position from a list. remove.go is the way out, and find.go
// looks for a node whose create was not answered. note.go has the data of a node, and pace.go says
// when a wait looks or begins again.
// Many places of one session share their lists (shared_list.go). In a long queue, a watermark replaces the
// list (watermark.go).
// kind.go refuses names that another kind of lock uses, and around.go looks for trees (absent.go spares most of
// these looks). detached.go has the locks that no session owns, and
// supersede.go the places that make room for newer ones (arrival.go).
//
// A goroutine of this package belongs to the place that starts it. The goroutine of [Place.Leave] ends
// when the node is gone or the session is over. The goroutine that lists for several places ends when the
// list is there or the session is over. The goroutine that prepares a watermark ends with its one read.
package queue
