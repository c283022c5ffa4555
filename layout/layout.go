// Package layout has the layouts of other libraries, for [holdfast.WithLayout]. They are named after the libraries whose
// nodes they describe. [holdfast.ParseLayout] has the same ones by their names.
package layout

import "holdfast"

var (
	// Curator is the default: the nodes of Apache Curator's InterProcessMutex,
	// InterProcessReadWriteLock, LeaderSelector and InterProcessSemaphoreV2. All of them exclude each
	// other here, though Curator's mutex does not respect its read-write lock. go-zookeeper's Lock
	// stands in the same queue. Names are _c_<uuid>-lock-<number>, with __WRIT__ or __READ__ in place
	// of lock- for the two sides. Parents are containers.
	Curator = known("curator")
	// LeaderLatch is that of Curator's LeaderLatch: _c_<uuid>-latch-<number>. Parents are
	// containers.
	LeaderLatch = known("leaderlatch")
	// Kazoo is that of kazoo's Lock, ReadLock, WriteLock, Election and Semaphore:
	// <hex>__lock__<number>, and __rlock__ for readers. The parents are persistent: a kazoo lock makes
	// them once and fails when they are gone later. kazoo's Lock does not wait for readers, its
	// WriteLock does.
	Kazoo = known("kazoo")
	// GoZookeeper is that of go-zookeeper's Lock: _c_<hex>-lock-<number>. It respects nodes of
	// Curator and kazoo, too, and fails if there is any other child.
	GoZookeeper = known("go-zookeeper")
	// WriteLock is that of the WriteLock among ZooKeeper's own recipes: x-<session
	// id>-<number>. Every name that ends in a dash and a number contends.
	WriteLock = known("writelock")
	// HostRW has <host>-R-<number> for readers and <host>-W-<number> for writers.
	HostRW = known("hostrw")
	// SessionID has lock-<session id>-<number>. See Article.
	SessionID = known("sessionid")
	// Article has lock-<session id><number>, without a dash between the two: the literal form
	// of articles about locks on ZooKeeper, and of programs after them.
	Article = known("article")
)

func known(name string) holdfast.Layout {
	l, err := holdfast.ParseLayout(name)
	if err != nil {
		panic(err)
	}
	return l
}

// Named has <name>_lock_<number>: several locks, told apart by their names, in one directory, whose path is that of them
// all. Lock refuses a name that contains "_lock_", since its nodes would be part of another lock's queue. The names
// have no id, so attempts are told apart by their data, and WithValue and Detached are refused. Names come back when the
// directory is removed and made again; see [holdfast.NodeLock] for what a delete can hit then.
func Named(name string) holdfast.Layout {
	l, _ := holdfast.ParseLayout("named:" + name) // Lock returns what is wrong with it
	return l
}
