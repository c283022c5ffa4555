// Package names knows the names of the nodes in a lock's queue: it makes our own, reads those of
// others, and says whom a contender waits for. It is pure. It sends no request and knows no client.
//
// A [Layout] says how nodes are named, and [Compile] makes a [Grammar] from it. The forms identify a
// grammar, never the name that the layout has: two queues with one name are still two queues, and
// one queue with two names is one. Grammars are immutable and safe for concurrent use.
package names
