// Package layout has the layouts of other libraries, for [holdfast.WithLayout]. Most are named after the library
// whose nodes they describe. [holdfast.ParseLayout] returns them by name.
package layout

import "holdfast"

var (
	// Curator is the default: the nodes of Apache Curator's InterProcessMutex,
	// InterProcessReadWriteLock, LeaderSelector and InterProcessSemaphoreV2. All of them exclude each
	// other here, though Curator's mutex does not respect its read-write lock. go-zookeeper's Lock
	// waits in the same queue. Names are _c_<uuid>-lock-<number>, with __WRIT__ or __READ__ in place
	// of lock- for the two sides. Parents are containers.
	Curator = known("curator")
	// LeaderLatch has the nodes of Curator's LeaderLatch: _c_<uuid>-latch-<number>. Parents are
	// containers.
	LeaderLatch = known("leaderlatch")
	// Kazoo has the nodes of kazoo's Lock, ReadLock, WriteLock, Election and Semaphore:
	// <hex>__lock__<number>, and __rlock__ for readers. The parents are persistent: a kazoo lock makes
	// them once, and fails if somebody removes them later. kazoo's Lock does not wait for readers, but
	// its WriteLock does.
	Kazoo = known("kazoo")
	// GoZookeeper has the nodes of go-zookeeper's Lock: _c_<hex>-lock-<number>. That Lock respects nodes of
	// Curator and kazoo, too, and fails if there is any other child.
	GoZookeeper = known("go-zookeeper")
	// WriteLock has the nodes of the WriteLock among ZooKeeper's own recipes: x-<session
	// id>-<number>. Every name that ends in a dash and a number contends.
	WriteLock = known("writelock")
	// HostRW has <host>-R-<number> for readers and <host>-W-<number> for writers.
	HostRW = known("hostrw")
	// SessionID has lock-<session id>-<number>. Article has no dash between the two.
	SessionID = known("sessionid")
	// Article has lock-<session id><number>, the form in articles about locks on ZooKeeper, and in
	// programs written after them.
	Article = known("article")
)

func known(name string) holdfast.Layout {
	l, err := holdfast.ParseLayout(name)
	if err != nil {
		panic(err)
	}
	return l
}

// Named has <name>_lock_<number>. Several locks with different names share one directory, so they have the same path.
// Lock refuses a name that contains "_lock_", since its nodes would be part of another lock's queue. The nodes have no
// id in their names, so attempts are told apart by their data, and WithValue and Detached are refused. If the directory
// is removed and made again, the names of nodes come back; see [holdfast.NodeLock] for what a delete can hit then.
func Named(name string) holdfast.Layout {
	l, _ := holdfast.ParseLayout("named:" + name) // Lock returns what is wrong with it
	return l
}
