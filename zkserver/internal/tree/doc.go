// Package tree is ZooKeeper's znode tree: nodes, their Stat arithmetic, ephemeral
// nodes by session, containers, nodes with a time to live, ACLs, and watches. It is pure: no I/O, no clock,
// no goroutine. A [Tree] belongs to one goroutine, the server's owner.
//
// The order of checks in every write is that of Apache's PrepRequestProcessor; which
// of several errors a client sees is part of the protocol.
//
// A write leaves two things behind for its caller to collect: events for watchers
// ([Tree.TakeEvents]) and the paths whose records changed ([Tree.TakeChanges]). A
// failed write, a failed transaction too, leaves neither.
package tree
