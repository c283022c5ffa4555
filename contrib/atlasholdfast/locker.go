// Package atlasholdfast gives Atlas, used as a library, locks in ZooKeeper. It is a module of its own, so programs
// without it do not get Atlas.
//
//	unlock, err := atlasholdfast.New(c, "/db/atlas").Lock(ctx, "migrate", 10*time.Second)
//
// The package starts no goroutine.
package atlasholdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ariga.io/atlas/sql/schema"

	"holdfast"
	"holdfast/zk"
)

// A Locker is a schema.Locker of Atlas whose locks are below one path. It is safe for concurrent use.
type Locker struct {
	client *zk.Client
	path   string
	opts   []holdfast.Option
}

// New makes a Locker. Each name is a lock of its own, a child of path. The options are for all of them. New sends
// nothing.
func New(c *zk.Client, path string, opts ...holdfast.Option) *Locker {
	return &Locker{client: c, path: path, opts: opts}
}

// Lock waits for the lock of this name. A negative timeout waits for ever, and zero does not wait for others. The
// end of ctx ends the wait, too; the error then wraps the cause of ctx.
//
// The error is schema.ErrLocked if somebody else holds the lock until the timeout has passed. It is also
// schema.ErrLocked if no server answers until then. It is holdfast.ErrDeadlock if ctx descends from a Hold of this lock.
//
// The function that Lock returns releases the lock. It waits at most until the session ends. Its error is
// holdfast.ErrLost if the lock was lost before; then another program may have changed the schema at the same
// time. It is holdfast.ErrNotHeld if the function is called again.
func (l *Locker) Lock(ctx context.Context, name string, timeout time.Duration) (schema.UnlockFunc, error) {
	m := holdfast.NewMutex(l.client, l.path+"/"+zk.EscapeName(name), l.opts...)
	if timeout > 0 {
		bounded, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w (waited %v)", schema.ErrLocked, timeout))
		defer cancel()
		ctx = bounded
	}
	lock := m.Lock
	if timeout == 0 {
		lock = m.TryLock
	}
	h, err := lock(ctx)
	switch {
	case errors.Is(err, holdfast.ErrLocked):
		return nil, fmt.Errorf("%w: %w", schema.ErrLocked, err)
	case err != nil:
		return nil, err
	}
	return h.Unlock, nil
}
