package holdfast

import (
	"context"
	"errors"

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
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	return &Mutex{queue{client: c, path: path, note: o.note}}
}

// Lock waits for the lock. If the session ends while it waits, it queues again in the
// next one, at the back, for as long as ctx lives. When ctx ends, the error is its
// cause, and the place in the queue is given up; if the server cannot be reached at
// that moment, in the background. ErrDeadlock: ctx descends from a Hold of this lock.
func (m *Mutex) Lock(ctx context.Context) (*Hold, error) {
	for {
		h, err := m.queue.enter(ctx, true)
		// The wait may outlive its session or its node; what was a wait is still one.
		if ctx.Err() == nil && (errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, errPlaceGone)) {
			continue
		}
		if err != nil {
			return nil, &Error{Op: "lock", Path: m.queue.path, Err: err}
		}
		return h, nil
	}
}

// TryLock takes the lock if nobody holds it or waits for it; otherwise the error is
// ErrLocked. It needs the server's answer, and waits for that until ctx ends.
func (m *Mutex) TryLock(ctx context.Context) (*Hold, error) {
	h, err := m.queue.enter(ctx, false)
	if err != nil {
		return nil, &Error{Op: "try lock", Path: m.queue.path, Err: err}
	}
	return h, nil
}
