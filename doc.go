// Package holdfast is distributed locking on ZooKeeper: a job that must run once, a
// resource that must have one writer.
//
//	c, err := zk.Dial(ctx, zk.Config{Servers: []string{"zk1:2181", "zk2:2181", "zk3:2181"}})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	nightly := holdfast.NewMutex(c, "/holdfast/locks/nightly")
//	err = holdfast.Do(ctx, nightly, func(ctx context.Context) error {
//		return backup(ctx) // ctx ends if the lock is lost
//	})
//
// A lock value such as [Mutex] is a name without state: share it freely. [Hold] is
// one tenure. It says until when the lock is proven ours ([Hold.Deadline]), tells when
// it no longer is ([Hold.Context], [Hold.Lost]) and carries a fencing token
// ([Hold.Token]) that grows with every tenure.
//
// # Which lock
//
//   - [Mutex]: one holder, first come, first served.
//   - [RWMutex]: many readers or one writer, in one queue.
//   - [Semaphore]: up to a limit of permits; several at once, or none.
//   - [MultiLock]: several of the others as one.
//   - [NodeLock]: one node and no queue, for locks that are tried more than waited for.
//   - [Election]: one leader with a value that everybody can follow.
//
// [Do] runs a function under any [Locker]. [List] shows who holds and who waits,
// [Revoke] asks a holder to let go, and [Break] takes the lock away from one that is stuck.
//
// # What is guaranteed
//
// At every point of the ensemble's history at most one session owns a Mutex, and
// every ownership has a larger token than all before it; of an RWMutex it is one writer or
// any number of readers, of a Semaphore as many as its limit allows. The queue is first in,
// first out; the release of a Mutex wakes two waiters at most. A Lock that is cancelled or
// fails leaves nothing behind, also when the connection was lost in the middle of it.
//
// What is kept in ZooKeeper itself can be written with [Hold.Commit], which succeeds only
// while the lock is held, whatever the clocks say.
//
// The holder's Context ends before the server may give the lock away, provided that
// the program is scheduled and clocks run at rates within 1 % of each other.
// Against one server (holdfast's own, or Apache ZooKeeper standalone) answered pings
// prove that. Against an ensemble, the client makes committed writes while a lock is held
// and while it is next in line, and an idle session attaches again before it locks. See
// [holdfast/zk.Session.Lease].
//
// # What is not
//
// No lock service can stop a holder that is paused, or call back a write that is on
// its way. To avoid doing work twice, the lock is enough; where two writers would do
// damage, let the resource check the token, and refuse one that is smaller than the
// largest it has seen.
//
// # Nodes
//
// Locks use the nodes of Apache Curator: ephemeral sequential children of a container,
// named _c_<uuid>-lock-<number>, with __WRIT__ or __READ__ for the sides of an RWMutex.
// Curator's and go-zookeeper's locks on the same path stand in the same queue.
// [WithLayout] chooses the nodes of other libraries, one layout for each path.
//
// Whatever locks of this package meet on one path of one layout, exclusive excludes all
// and shared excludes exclusive: a Mutex counts as a writer for an RWMutex. A queue, a
// semaphore and a NodeLock under one name, or two layouts, do not exclude each other, so
// the one that comes later is refused with ErrKind; of two that come together at least one
// is. [Foreign] lists nodes of other makes that nobody can place.
//
// # Goroutines
//
// Each tenure has one goroutine per node (tenure.go), which watches over it and ends with
// the last Unlock or with the loss. With [WithLocalHandoff], one goroutine (line.go) queues
// for all of a client's goroutines that want a lock; it ends when it has the lock, or
// nobody waits any more. A Lock that fails may leave one behind that removes
// its node (place.go, Hold.letGo); it ends when the node is gone or the session is over.
//
// All types are safe for concurrent use.
package holdfast
