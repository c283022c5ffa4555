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
// All types are safe for concurrent use. A lock value such as [Mutex] is a name without state: share it, or make one
// for each call. Making one sends nothing. A [Hold] is one tenure. It says until when the lock is proven to be held
// ([Hold.Deadline]), ends its context when the lock is lost ([Hold.Context], [Hold.Lost]), and carries a fencing
// token ([Hold.Token]) that grows with every tenure.
//
// # Which lock
//
//   - [Mutex]: one holder, first come, first served.
//   - [RWMutex]: many readers or one writer, in one queue.
//   - [Semaphore]: up to a limit of permits; several at once, or none.
//   - [Slots]: a number of its own for each holder, such as a worker's id or a port.
//   - [MultiLock]: several locks as one.
//   - [Tree]: a path together with everything below it.
//   - [NodeLock]: one node and no queue, for locks tried more than waited for.
//   - [Election]: one leader with a value that everybody can follow.
//   - [Detached]: a lock that outlives its session and is unlocked by its id.
//   - package [holdfast/once]: a function once for each key, or once in a period.
//   - package [holdfast/shards]: n shards over any number of workers.
//
// Package holdfast/reserve keeps a lock reserved after its holder has released it. [Do] runs a function under any
// [Locker]. [List] shows the holder and the waiters, [Revoke] asks a holder to release the lock, and [Break] takes
// the lock away from a holder that is stuck.
//
// The repository has a program for each of the first things: examples/cron, leader, fenced (a write that a stale holder
// cannot make), workers (N at a time) and tested (with package holdfast/zktest).
//
// # What is guaranteed
//
// At every point of the ensemble's history at most one session owns a Mutex, and every ownership has a larger
// token than all before it. An RWMutex has one writer or any number of readers, a Semaphore as many permits as
// its limit allows, and a Slots one owner for each number. The queue is first in, first out; the release of a
// Mutex wakes two waiters at most. A Lock that is cancelled or fails leaves nothing behind, also when the
// connection was lost in the middle of it.
//
// [Hold.Commit] writes data that are kept in ZooKeeper itself. It succeeds only while the lock is held,
// whatever the clocks say.
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
// its way. To avoid wasted work, the lock is enough. Where two writers would do
// damage, let the resource check the token, and refuse one that is smaller than the
// largest it has seen.
//
// # Nodes
//
// Locks use the nodes of Apache Curator: ephemeral sequential children of a container (which the server removes some
// time after it became empty), named _c_<uuid>-lock-<number>, with __WRIT__ or __READ__ for the sides of an RWMutex.
// Curator's and go-zookeeper's locks on the same path wait in the same queue. [WithLayout] chooses the nodes of other
// libraries, one layout for each path.
//
// If different locks of this package meet on one path of one layout, exclusive excludes all and shared excludes
// exclusive: an RWMutex treats a Mutex as a writer. A queue, a semaphore, slots, a NodeLock and a once.Once under one
// name, or two layouts, do not exclude each other. So the later one is refused with ErrKind (of two that come
// together, at least one). The same is true of shards and another lock at their path, and of a [Tree] and another
// lock at its path or anywhere below it. [Foreign] lists nodes that belong to no known lock.
//
// # Names that come back
//
// The node of a NodeLock or a slot has the same name in each tenure. So have nodes in a [Layout] without {uuid} or
// {hex}, if their directory was removed and made again. A request for such a node can hit that of the next holder,
// since the server compares names and versions. Unlock and Commit do so only if somebody removes the node by hand at
// that moment; a holder whose node is removed is told that it has lost the lock. Break and Revoke of a NodeLock or a
// slot do so if the next holder comes within their round trip: Break removes its node, and Revoke gives it the
// request and the data of its predecessor. (If the answer to its creation was lost as well, its maker does not
// recognise it, and the lock is taken until that session ends, or until Break.)
//
// # Goroutines
//
// A tenure that has lasted 5 ms has one goroutine per node, and with [WithKeep] one more, until others have joined
// the queue. With [WithLocalHandoff], one goroutine queues for a lock while others of the client wait for it.
// [Hold.Release] and a Lock that fails may leave one that removes nodes. All of them end when the nodes are gone or
// the session is over.
package holdfast
