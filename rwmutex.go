package holdfast

import (
	"context"

	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// An RWMutex is a lock that many readers or one writer can hold. Readers and writers wait in one queue
// and nobody overtakes: a reader waits for the writers ahead of it, a writer for everybody ahead. So
// neither side starves. An RWMutex treats a Mutex on the same path as a writer.
type RWMutex struct {
	lock lock
}

// NewRWMutex names the lock at path. See [NewMutex].
func NewRWMutex(c *zk.Client, path string, opts ...Option) *RWMutex {
	return &RWMutex{newLock(c, path, queue.Lock, newOptions("an RWMutex", opts))}
}

// Path is the path of the lock.
func (m *RWMutex) Path() string { return m.lock.Path }

// Lock waits for the write side, as [Mutex.Lock] does. The error is ErrDeadlock if ctx descends from a
// Hold of this lock. If that Hold is a reader's, Reentrant does not help: two readers that both want to
// become writers would wait for each other.
func (m *RWMutex) Lock(ctx context.Context) (*Hold, error) {
	return m.lock.wait(ctx, "lock", names.Write)
}

// TryLock is Lock, but fails with ErrLocked if somebody is ahead.
func (m *RWMutex) TryLock(ctx context.Context) (*Hold, error) {
	return m.lock.try(ctx, "try lock", names.Write)
}

// RLock waits for the read side. The error is ErrDeadlock if ctx descends from a reader's Hold and the lock is not
// Reentrant: a writer that waits between the two would never have its turn.
//
// With a context that descends from a writer's Hold of this lock it does not wait: the writer takes the read side as
// well. Once the write side is unlocked, the caller is a reader at the writer's place in the queue, with the writer's
// token, and other readers share the lock. This is a downgrade: no other writer can acquire the lock in between. (A
// Mutex on the path that takes the read side remains a writer until both are unlocked.) A writer can take the read
// side any number of times. In a [Layout] without {uuid} or {hex} in the names of its readers, these Holds share a
// node. So the error is zk.ErrBadArguments if one of them has another WithACL.
func (m *RWMutex) RLock(ctx context.Context) (*Hold, error) {
	return m.lock.wait(ctx, "read lock", names.Read)
}

// TryRLock is RLock, but fails with ErrLocked if a writer is ahead.
func (m *RWMutex) TryRLock(ctx context.Context) (*Hold, error) {
	return m.lock.try(ctx, "try read lock", names.Read)
}

// RLocker is the read side as a Locker, for Do and MultiLock.
func (m *RWMutex) RLocker() Locker { return readSide{m} }

type readSide struct{ m *RWMutex }

func (r readSide) Lock(ctx context.Context) (*Hold, error)    { return r.m.RLock(ctx) }
func (r readSide) TryLock(ctx context.Context) (*Hold, error) { return r.m.TryRLock(ctx) }
