// Package txlog reads the transaction logs and snapshots that Apache ZooKeeper's servers write (versions 3.5 to 3.9), and
// tells from them who held which lock when.
//
// Read applies all transactions to a copy of the tree, and asks package locks after each change which places there are
// and which of them hold. log.go and snapshot.go read the files (ZooKeeper's FileTxnLog and FileSnap), merge.go puts the
// logs of several servers into one order, tree.go is the copy, tenures.go compares the places before and after a
// change. The package starts no goroutines.
package txlog
