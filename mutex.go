package holdfast

import (
	"context"

	"holdfast/zk"
)

// A Mutex is a lock that one session at a time can hold, first come, first served.
// It has no state of its own and is safe for concurrent use: two calls of Lock, also
// from one goroutine, are two places in the queue.
type Mutex struct {
	queue queue
}

// NewMutex names the lock at path, below which its queue stands. The node at path
// and those above it are made when needed, as containers, which the server removes
// some time after they fell empty. Nothing is sent before Lock.
func NewMutex(c *zk.Client, path string, opts ...Option) *Mutex {
	return &Mutex{queue{client: c, path: path, kind: kindQueue, options: newOptions(opts)}}
}

// Lock waits for the lock. If the session ends while it waits, it queues again in the
// next one, at the back, for as long as ctx lives. When ctx ends, the error is its
// cause, and the place in the queue is given up; if the server cannot be reached at
// that moment, in the background. ErrDeadlock: ctx descends from a Hold of this lock.
// ErrKind: another kind of lock, or one in another layout, has this name.
func (m *Mutex) Lock(ctx context.Context) (*Hold, error) {
	return m.queue.wait(ctx, "lock", sideMutex)
}

// TryLock takes the lock if nobody holds it or waits for it; otherwise the error is
// ErrLocked. It needs the server's answer, and waits for that until ctx ends.
func (m *Mutex) TryLock(ctx context.Context) (*Hold, error) {
	return m.queue.try(ctx, "try lock", sideMutex)
}
