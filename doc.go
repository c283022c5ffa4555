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
// A lock value such as [Mutex] is a name without state: share it freely. A [Hold] is one tenure. It says
// until when the lock is proven to be held ([Hold.Deadline]), ends its context when the lock is lost
// ([Hold.Context], [Hold.Lost]), and carries a fencing token ([Hold.Token]) that grows with every tenure.
//
// # Which lock
//
//   - [Mutex]: one holder, first come, first served.
//   - [RWMutex]: many readers or one writer, in one queue.
//   - [Semaphore]: up to a limit of permits; several at once, or none.
//   - [Slots]: a number of its own for each holder, such as the id of a worker or a port.
//   - [MultiLock]: several locks as one.
//   - [Tree]: a path together with everything below it.
//   - [NodeLock]: one node and no queue, for locks that are tried more than waited for.
//   - [Election]: one leader with a value that everybody can follow.
//   - [Detached]: a lock that outlives its session and is unlocked by its id, for work that a program only starts.
//   - package [holdfast/once]: a function that runs once for each key, or once in a period, whoever calls it.
//   - package [holdfast/shards]: n numbered shards over any number of workers, each with one worker at a time.
//
// Package holdfast/reserve keeps a lock reserved after its holder has released it. [Do] runs a function under any [Locker]. [List] shows the holder and the waiters, [Revoke] asks a holder
// to release the lock, and [Break] takes the lock away from a holder that is stuck.
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
// Locks use the nodes of Apache Curator: ephemeral sequential children of a container,
// named _c_<uuid>-lock-<number>, with __WRIT__ or __READ__ for the sides of an RWMutex.
// Curator's and go-zookeeper's locks on the same path wait in the same queue.
// [WithLayout] chooses the nodes of other libraries, one layout for each path.
//
// If different locks of this package meet on one path of one layout, exclusive excludes all and shared
// excludes exclusive: an RWMutex treats a Mutex as a writer. A queue, a semaphore, slots, a NodeLock and a once.Once
// under one name, or two layouts, do not exclude each other. So the later one is refused with ErrKind. If two
// come together, at least one is refused. The same is true of shards and another lock at their path, and of a [Tree]
// and another lock at its path or anywhere below it. [Foreign] lists nodes that belong to no known lock.
//
// # Goroutines
//
// A tenure that has lasted 5 ms has one goroutine per node. It watches the node and ends with
// the last Unlock or with the loss. With [WithLocalHandoff], one goroutine queues for all
// of a client's goroutines that want a lock. It ends when it has acquired the lock, or nobody waits.
// With [WithKeep], a goroutine per tenure watches the queue for others, until one has joined or the tenure is
// over. [Hold.Release] leaves a goroutine that completes the removal of the nodes. A Lock that fails may
// leave one that removes its node. All of them end when the nodes are gone or the session is over.
//
// All types are safe for concurrent use, and locks have no state: a program can make one for each call.
package holdfast
