// Package fence makes a resource refuse clients that no longer hold its lock.
//
// A holder learns when its lock is lost. But a delayed holder (a stopped process, a suspended
// machine, a packet that was long in flight) can act after that, and no lock service can
// prevent it. The resource itself can: every [holdfast.Hold] has a token, and each tenure's
// token is larger than all before it. A resource that remembers the largest token it has seen,
// and refuses smaller ones, is safe.
//
// In a database (see [Dialect]), let [InTx] run the transaction, or call [Check] as the first
// statement of your own. For an HTTP service, put a [Gate] in front of it, and let clients
// [Stamp] their requests. For data in ZooKeeper itself, [holdfast.Hold.Commit] needs no token.
//
// Tokens order the tenures of one exclusive lock. Readers of an RWMutex and holders of a
// Semaphore's permits hold at the same time, in no order of tokens, so the resource would
// refuse all but the youngest. So fence exclusive locks only. A path of a Tree is fenced with one
// token of several, see [holdfast.Tree].
//
// Tokens are positions in the ensemble's history. If the ensemble is wiped or restored from a
// backup, clear the table of tokens. Otherwise the resource may refuse all later holders.
//
// The package starts no goroutines.
package fence

import "errors"

// ErrStale is the error for a token that is smaller than one that the resource has seen:
// another client has held the lock since. Nothing was changed.
var ErrStale = errors.New("fence: stale token: the lock has had another holder since")
