// Package deed does to the locks of others what their holders do not: it breaks a lock, asks a holder to release it,
// and takes all locks of a session away. Each deed has a plan first, which says what will happen to whom. The plan is
// carried out only on those that it names, and leaves an audit line. The commands and the page share it.
//
// The package starts no goroutine.
package deed
