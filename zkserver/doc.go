// Package zkserver is a ZooKeeper server of one node that lives in the process: the
// client protocol of Apache ZooKeeper over any [net.Listener], kept in a directory
// or in memory.
//
//	s, err := zkserver.Open(zkserver.Config{Dir: "/var/lib/locks"})
//	if err != nil { … }
//	go s.Serve(listener)
//	…
//	s.Shutdown(ctx)
//
// It speaks create, create2, createContainer, delete, exists, getData, setData,
// getChildren, getChildren2, sync, ping, multi, removeWatches, setWatches and
// closeSession, and the words ruok and srvr. Of ACLs it knows world:anyone; any other
// scheme is refused, never accepted and ignored.
//
// # What is promised
//
// Whatever a client was told, in an answer or in a notification, is on disk: also
// what was only read. A crash loses nothing that anybody saw. A zxid is never given
// out twice, so neither is a fencing token. Sessions survive a restart and have their
// full timeout from then on.
//
// # Goroutines
//
// The owner (owner.go) alone touches the tree, the sessions and the watches; Open
// starts it. It applies requests as they come and collects changes and answers in a
// batch. The committer (commit.go) makes one batch durable at a time and then lets
// its answers go, while the owner fills the next. Per connection a reader decodes
// requests and a writer sends answers (conn.go). Serve runs on the caller's goroutine.
// The owner ends on Shutdown, Close, linger or a store that failed; it ends the
// committer, then waits for the connections, closes the store and closes Done.
package zkserver
