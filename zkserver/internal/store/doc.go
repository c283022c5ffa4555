// Package store keeps what a server must not forget: nodes, sessions, and a few
// facts about itself. It knows them as keys and opaque values; what a node's record
// says is the tree's business.
//
// There are two: a [Pebble] database in a directory, and [Memory], which lasts as
// long as its value does. Commit is called by one goroutine at a time and returns
// when the batch is durable. A commit that failed is final: it says nothing about
// what is on disk (a sync must never be retried, the kernel may have dropped the
// pages that it could not write), so the server stops and the truth is read from
// disk at the next start.
//
// Pebble runs its own background goroutines (flush, compaction), which Close ends.
// After a fatal error they are left standing, see [Pebble.Close].
package store
