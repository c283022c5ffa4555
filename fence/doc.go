// Package fence makes a resource refuse those who no longer hold its lock.
//
// A lock tells its holder when it is lost, but a holder that is paused (a stopped process, a
// suspended machine, a packet that was long under way) can act after that, and no lock
// service can prevent it. What can is the resource itself: every [holdfast.Hold] has a
// token, and each tenure's is larger than all before it. A resource that remembers the
// largest token it has seen, and refuses smaller ones, is safe.
//
// In a database, let [InTx] run the transaction, or call [Check] as the first statement of
// your own. For a service with HTTP, put a [Gate] before it, and let clients [Stamp] their
// requests. For what is in ZooKeeper itself, [holdfast.Hold.Commit] needs no token.
//
// Tokens order the tenures of one exclusive lock. Readers of an RWMutex and holders of a
// Semaphore's permits hold together, in no order that a token could tell, so there the
// resource would refuse all but the youngest: fence exclusive locks only. Tokens are
// positions in the ensemble's history. If that is wiped or restored from a backup, clear
// the table of tokens, or all that follows may be refused.
//
// The package starts no goroutines.
package fence

import "errors"

// ErrStale is the error for a token smaller than one that the resource has seen: somebody
// has held the lock since. Nothing of what was to be done has been done.
var ErrStale = errors.New("fence: stale token: the lock has had another holder since")
