// Package shards spreads numbered shards over any number of workers. Each shard has at most one worker at a time, with a
// fencing token that grows with every tenure.
//
//	partitions := shards.New(c, "/holdfast/shards/orders", 64)
//	err := partitions.Run(ctx, func(ctx context.Context, s shards.Shard) error {
//		return consume(ctx, s.Number) // ctx ends when the shard is to move, or is lost
//	})
//
// Each call of [Shards.Run] is a worker. One worker, the leader, writes a plan of who should have which shard. The plan is
// advice only: if it is wrong or late, shards are with the wrong worker or with nobody, never with two. Every worker has its
// share of the shards by weight, to within one. With equal weights, a join moves shards to the new worker only, and a leave
// moves only the shards of the worker that leaves.
//
// A join or a leave counts when it has lasted for one second ([WithSettle]). So a worker that flaps does not move the shards
// of others. There is one exception: if the plan changes anyway, a worker that has just joined is in it at once. The shards
// of a worker that crashed are with others soon after its session has ended at the server and that second has passed. If the
// leader crashes, the next leader counts that second from its own beginning.
//
// # Nodes
//
// The plan and the number of shards are stored in the node at the path, a container. The workers are a queue at
// <path>/workers; its first is the leader, so do not lock that path yourself. Every shard is a [holdfast.Mutex] at
// <path>/shards/<number>. The server removes all of that some time after the last worker has left.
//
// A lock of another kind at the path itself is refused with [holdfast.ErrKind] while a worker is there or a shard is locked.
// While such a lock is in use, Run fails with ErrKind. So does Run with a [holdfast.Tree] at the path or above it.
//
// # Goroutines
//
// [Shards.Run] has one goroutine that campaigns and leads, and one for each shard that it has or waits for. When the context
// of a shard has ended, another goroutine waits for the function. Run waits for all of them, except those of a function that
// is stuck ([ErrStuck]): they end with that function.
package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"holdfast"
	"holdfast/internal/lend"
	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/zk"
)

var (
	// ErrMoving means that a shard is to move to another worker. It is the cause of the shard's context.
	ErrMoving = errors.New("shard moves to another worker")
	// ErrStuck means that a function still runs long after the context of its shard has ended (see
	// WithMoveLimit). The shard stays locked until the function returns or the session ends.
	ErrStuck = errors.New("shard's function does not return")
	// ErrCount means that the stored number of shards differs from the program's, or that the node
	// contains something else.
	ErrCount = errors.New("number of shards")
)

// Shards is a set of numbered shards at a path. It has no state of its own and is safe for concurrent use.
type Shards struct {
	node    *queue.Queue // the node with the plan; the queues of workers and shards are parts of it
	workers string       // the path of their queue
	n       int
	owner   string // see holdfast.WithOwner
	set     options
}

// A Shard is one tenure of a shard, for the function of Run.
type Shard struct {
	Number int   // from 0 on
	Token  int64 // the fencing token: it grows with every tenure of the shard
	// Hold is that of the shard's Mutex, for Commit and Deadline. The function must not unlock it. Its Context
	// does not end when the shard is to move: use the function's.
	Hold *holdfast.Hold
}

// String returns "shard 3, token 4294967311".
func (s Shard) String() string { return fmt.Sprintf("shard %d, token %d", s.Number, s.Token) }

// New names n shards at path; n is 1 to 65,536. The first worker stores n. If n differs from the stored number,
// Run fails with ErrCount while a worker is there or a shard is locked. When there is none, the new number counts.
//
// New sends nothing.
func New(c *zk.Client, path string, n int, opts ...Option) *Shards {
	o := options{weight: 1, settle: defaultSettle, moveLimit: defaultMoveLimit}
	for _, opt := range opts {
		opt(&o)
	}
	locks := lend.Read("a Shards", o.locks)
	o.refused = cmp.Or(locks.Err, o.refused)
	return &Shards{
		node:    &queue.Queue{Client: c, Path: path, Kind: queue.Shards, Grammar: names.Default, ACL: locks.ACL},
		workers: path + "/" + queue.ShardWorkers,
		n:       n,
		owner:   locks.Owner,
		set:     o,
	}
}

// Run makes the caller a worker. It calls f once for each shard that the worker has, each in a goroutine of
// its own, until ctx ends or something fails. Run always returns an error: the cause of ctx, the errors of the
// functions, or the reason why the worker could not go on. When Run returns, it has unlocked all of its
// shards, except those of ErrStuck.
//
// The context of f ends with the cause ErrMoving when the shard is to move to another worker. f should save
// its work and return. Then Run unlocks the shard, and only then another worker can have it. The context ends
// with a cause that is holdfast.ErrLost when the lock is lost. Then another worker may have the shard already. If the
// shard is still this worker's after a loss, Run acquires it again, and calls f again, with a larger token.
// It never calls f for a shard that an earlier call of f is still busy with. If somebody takes the shard away again
// and again, Run pauses in between, up to a second. When Run ends, the cause is that
// of ctx, or the error that ended Run. With WithHandover, the end of ctx moves the shards first.
//
// If f returns nil before its context has ended, the worker keeps the shard, and f is not called again until
// the shard has moved or was lost. If f returns an error, Run ends. Once the shard's context has ended, an error
// does not count if it is the context's cause, holdfast.ErrLost or context.Canceled.
//
// If f does not return in time after its context has ended (WithMoveLimit), Run ends with ErrStuck. It does
// not wait for that f. The shard stays locked until f returns or the session ends, and the next worker waits:
// nobody can know whether f still writes. A program that cannot stop f should exit.
//
// When a session ends, the work goes on in the next one. After the end of ctx, Run waits for the handover, for
// the functions, and for the server to confirm that the shards are unlocked. If no server can be reached then,
// Run waits for the end of the session at the most.
//
// The other errors are ErrCount; holdfast.ErrKind if another kind of lock has the path, or the name of a shard or of the
// queue of the workers; zk.ErrBadArguments if a setting is too large or does not fit.
func (s *Shards) Run(ctx context.Context, f func(context.Context, Shard) error) error {
	err := s.run(ctx, f)
	return &holdfast.Error{Op: "run shards", Path: s.node.Path, Err: err}
}
