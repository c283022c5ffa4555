package holdfast

import (
	"context"

	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// A Mutex is a lock that one caller at a time can hold, first come, first served. Two calls of Lock, also from one
// goroutine, are two places in the queue.
type Mutex struct {
	lock lock
}

// NewMutex names the lock at path. Its queue is the children of that node. Lock makes the node and those above it
// when they are missing, as containers.
func NewMutex(c *zk.Client, path string, opts ...Option) *Mutex {
	return &Mutex{newLock(c, path, queue.Lock, newOptions("a Mutex", opts))}
}

// Path is the path of the lock.
func (m *Mutex) Path() string { return m.lock.Path }

// Lock waits for the lock. If the session ends meanwhile, Lock joins the queue again in the next session, at the
// back, while ctx lives. When ctx ends, Lock returns, and the error wraps the cause of ctx. A goroutine then removes
// the node. If the server cannot be reached, that takes until it can, or until the session ends.
//
// The error is ErrDeadlock if ctx descends from a Hold of this lock, or ErrKind. Other errors are those of package
// zk, such as zk.ErrClosed, zk.ErrNoAuth and zk.ErrTimeoutTooShort.
func (m *Mutex) Lock(ctx context.Context) (*Hold, error) {
	return m.lock.wait(ctx, "lock", names.Mutex)
}

// TryLock acquires the lock if nobody holds it or waits for it. Otherwise the error is ErrLocked. See [Locker] for
// what it waits for. A lock that another client only keeps (see [WithKeep]) counts as free.
func (m *Mutex) TryLock(ctx context.Context) (*Hold, error) {
	return m.lock.try(ctx, "try lock", names.Mutex)
}
