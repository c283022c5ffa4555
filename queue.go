package holdfast

import (
	"context"
	"errors"
	"fmt"

	"holdfast/zk"
)

// A queue is the children of one node, in the order of their numbers.
type queue struct {
	client *zk.Client
	path   string
	options
}

// wait is the way from Lock to a Hold for those who have the time.
func (q *queue) wait(ctx context.Context, op string, s side) (*Hold, error) {
	h, err := q.standing(ctx, s)
	if err != nil {
		return nil, &Error{Op: op, Path: q.path, Err: err}
	}
	return h, nil
}

// standing waits in the queue, or in a line of our own behind one place in it.
func (q *queue) standing(ctx context.Context, s side) (*Hold, error) {
	if q.inMemory(s) {
		return q.inLine(ctx, s) // see line.go
	}
	return outlive(ctx, func() (*Hold, error) { return q.enter(ctx, s, true) })
}

// try is the same for those who have not.
func (q *queue) try(ctx context.Context, op string, s side) (*Hold, error) {
	if q.inMemory(s) && len(q.held(ctx)) == 0 && q.someoneInLine(s) {
		return nil, &Error{Op: op, Path: q.path, Err: ErrLocked}
	}
	h, err := q.enter(ctx, s, false)
	if err != nil {
		return nil, &Error{Op: op, Path: q.path, Err: err}
	}
	return h, nil
}

// outlive enters again while ctx lives when the wait has outlived its session, or its
// node was removed: what was a wait is still one. A tenure has no such second life.
func outlive(ctx context.Context, enter func() (*Hold, error)) (*Hold, error) {
	for {
		h, err := enter()
		if err == nil || !errors.Is(err, zk.ErrSessionExpired) && !errors.Is(err, errPlaceGone) {
			return h, err
		}
		if ctx.Err() != nil { // which is why it ends here, whatever came first
			return nil, context.Cause(ctx)
		}
	}
}

// enter is the way from Lock to a Hold in one session. Without wait, it fails with
// ErrLocked where it would have to wait.
func (q *queue) enter(ctx context.Context, s side, wait bool) (_ *Hold, err error) {
	if err := validatePath(q.path); err != nil {
		return nil, err
	}
	if held := q.held(ctx); len(held) > 0 {
		return q.again(ctx, held, s)
	}
	p, err := q.place(ctx, s)
	if err != nil {
		return nil, err
	}
	if wait {
		p.enroll() // see crowd.go
	}
	ahead, err := p.join(ctx) // 1. our node, at the back: whom must we wait for?
	defer func() {
		p.unwatch()
		p.disband()
		if err != nil {
			p.leave(ctx) // or everyone behind us waits for a ghost
		}
	}()
	for err == nil && !ahead.nobody() {
		if !wait {
			return nil, ErrLocked
		}
		ahead, err = p.await(ctx, ahead) // 2. wait, and know whom for; see await.go
	}
	if err != nil {
		return nil, err
	}
	return newHold(ctx, q, p) // 3. nobody: it is ours, see hold.go
}

// place is a place that has no node yet, in the present session.
func (q *queue) place(ctx context.Context, s side) (*place, error) {
	session, err := q.client.Session(ctx) // the life that this place will belong to
	if err != nil {
		return nil, err
	}
	a, err := q.layout.attempt(s, session.ID())
	if err != nil {
		return nil, err
	}
	data, err := q.data(a)
	if err != nil {
		return nil, err
	}
	return &place{queue: q, session: session, dir: q.path, attempt: a, shared: s == sideRead, data: data}, nil
}

func validatePath(path string) error {
	if path == "/" {
		return fmt.Errorf("%w %q: the root cannot be a lock", zk.ErrInvalidPath, path)
	}
	return zk.ValidatePath(path)
}
