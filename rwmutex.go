package holdfast

import (
	"context"

	"holdfast/zk"
)

// An RWMutex is a lock that many readers or one writer can hold. Readers and writers
// stand in one queue and nobody overtakes: a reader waits for the writers ahead of it, a
// writer for everybody ahead, so that neither side starves. A Mutex on the same path is a
// writer to it.
//
// It has no state of its own and is safe for concurrent use.
type RWMutex struct {
	queue queue
}

// NewRWMutex names the lock at path, below which its queue stands. See [NewMutex].
func NewRWMutex(c *zk.Client, path string, opts ...Option) *RWMutex {
	return &RWMutex{queue{client: c, path: path, kind: kindQueue, options: newOptions(opts)}}
}

// Lock waits for the write side, as [Mutex.Lock] does. ErrDeadlock: ctx descends from a
// Hold of this lock. If that is a reader's, Reentrant does not help: two readers that
// both want to become writers would wait for each other.
func (m *RWMutex) Lock(ctx context.Context) (*Hold, error) {
	return m.queue.wait(ctx, "lock", sideWrite)
}

// TryLock takes the write side if nobody holds the lock or waits for it; otherwise the
// error is ErrLocked.
func (m *RWMutex) TryLock(ctx context.Context) (*Hold, error) {
	return m.queue.try(ctx, "try lock", sideWrite)
}

// RLock waits for the read side. With a context that descends from a writer's Hold of
// this lock it does not wait: the writer takes the read side as well. When it then
// unlocks the write side, it is a reader at the writer's place in the queue, with the
// writer's token, and other readers come in beside it: a downgrade, in which no other
// writer can slip in between. (A Mutex on the path that takes the read side remains a writer
// until both are unlocked.) ErrDeadlock: ctx descends from a reader's Hold, and the
// lock is not Reentrant; a writer that waits between the two would never have its turn.
func (m *RWMutex) RLock(ctx context.Context) (*Hold, error) {
	return m.queue.wait(ctx, "read lock", sideRead)
}

// TryRLock takes the read side if no writer holds the lock or waits for it; otherwise the
// error is ErrLocked.
func (m *RWMutex) TryRLock(ctx context.Context) (*Hold, error) {
	return m.queue.try(ctx, "try read lock", sideRead)
}

// RLocker is the read side as a Locker, for Do and MultiLock.
func (m *RWMutex) RLocker() Locker { return readSide{m} }

type readSide struct{ m *RWMutex }

func (r readSide) Lock(ctx context.Context) (*Hold, error)    { return r.m.RLock(ctx) }
func (r readSide) TryLock(ctx context.Context) (*Hold, error) { return r.m.TryRLock(ctx) }
