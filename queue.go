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
	kind   kind // of lock that it is, or is a part of
	options
}

// wait is the way from Lock to a Hold for those who have the time.
func (q *queue) wait(ctx context.Context, op string, s side) (h *Hold, err error) {
	if q.inMemory(s) {
		h, err = q.inLine(ctx, s) // behind one place in the queue, see line.go
	} else {
		for again := true; again; again, err = outlived(ctx, err) {
			h, err = q.enter(ctx, s, true)
		}
	}
	if err != nil {
		return nil, &Error{Op: op, Path: q.path, Err: err}
	}
	return h, nil
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

// outlive enters again for as long as the wait outlives what it began in.
func outlive(ctx context.Context, enter func() (*Hold, error)) (h *Hold, err error) {
	for again := true; again; again, err = outlived(ctx, err) {
		h, err = enter()
	}
	return h, err
}

// outlived says whether to enter again after err: while ctx lives, if the wait has outlived
// its session, or its node was removed: what was a wait is still one. A tenure has no such
// second life. If not, it says why Lock fails.
func outlived(ctx context.Context, err error) (again bool, _ error) {
	switch {
	case !errors.Is(err, zk.ErrSessionExpired) && !errors.Is(err, errPlaceGone):
		return false, err
	case ctx.Err() != nil: // which is why it ends here, whatever came first
		return false, context.Cause(ctx)
	}
	return true, nil
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
	err = p.arrive(ctx, wait) // 1. our node, at the back: whom must we wait for?
	defer func() {
		p.unwatch()
		p.unprove()
		p.disband()
		if err != nil {
			p.leave(ctx) // or everyone behind us waits for a ghost
		}
	}()
	for err == nil && !p.watch.ahead.nobody() {
		if !wait {
			return nil, ErrLocked
		}
		err = p.await(ctx) // 2. wait, and know whom for; see await.go
	}
	if errors.Is(err, errSameNumber) {
		err = p.twinned(ctx)
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
	a, err := q.grammar.attempt(s, session.ID())
	if err != nil {
		return nil, err
	}
	data, err := q.data(a)
	if err != nil {
		return nil, err
	}
	return &place{queue: q, session: session, dir: q.path, attempt: a, shared: s == sideRead, data: data}, nil
}

// arrive makes our node, and takes note of who is ahead of it.
func (p *place) arrive(ctx context.Context, wait bool) (err error) {
	if wait {
		p.enroll() // see crowd.go
	}
	p.watch.ahead, err = p.join(ctx)
	if p.answer != nil {
		return p.share(ctx)
	}
	return err
}

func validatePath(path string) error {
	if path == "/" {
		return fmt.Errorf("%w %q: the root cannot be a lock", zk.ErrInvalidPath, path)
	}
	return zk.ValidatePath(path)
}
