// Package txlog reads the transaction logs and snapshots that Apache ZooKeeper's servers write (versions 3.5 to 3.9), and
// the journals of a holdfast server, and tells from them who held which lock when.
//
// Read applies all transactions to a copy of the tree, and asks package locks after each change which places there are
// and which of them hold. log.go and snapshot.go read Apache's files (FileTxnLog and FileSnap), and merge.go puts the logs of
// several servers into one order. journal.go applies what package zkserver reads. tree.go is the copy. tenures.go compares
// the places before and after a change. Most directories of locks have one plain queue: the copy keeps these parsed
// (locks.Line), and only the others are read anew at each change. The package starts no goroutines.
package txlog
