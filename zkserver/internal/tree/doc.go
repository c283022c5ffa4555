// Package tree is ZooKeeper's znode tree. It has nodes and their Stats, ephemeral
// nodes by session, containers, nodes with a time to live, ACLs, and watches. It is pure: no I/O, no
// clock, no goroutine. A [Tree] belongs to one goroutine, the server's owner.
//
// The order of checks in every write is that of Apache's PrepRequestProcessor: if several errors
// apply, the protocol defines which one a client sees.
//
// After a write, the caller collects two results: events for watchers
// ([Tree.TakeEvents]) and the paths whose records changed ([Tree.TakeChanges]). A
// failed write or transaction has neither.
package tree
