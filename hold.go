package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"holdfast/zk"
)

// A Hold is one tenure of a lock, from Lock to Unlock or to the loss. A lost Hold
// stays lost. It is safe for concurrent use; any goroutine may unlock it.
type Hold struct {
	place  *place
	lease  *zk.Lease
	ctx    context.Context
	cancel context.CancelCauseFunc
	lost   chan struct{}
	outer  *Hold // the Hold that the context of Lock descended from

	mu       sync.Mutex // guards the fields below
	loss     error      // why the lock is lost; nil while it is not
	unlocked bool
}

// hold makes the Hold of a place that nobody is ahead of. Two things must be so at
// this moment: our node is known to stand (the list that showed nobody ahead showed
// it), and the session is proven, since the wait may have outlasted the proof. From now
// on the lease keeps it so.
func (p *place) hold(ctx context.Context) (*Hold, error) {
	lease, err := p.session.Lease(ctx, p.node(p.name))
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, errPlaceGone
	case err != nil:
		return nil, err
	case p.session.Context().Err() != nil || !time.Now().Before(p.session.Deadline()):
		lease.Release()
		return nil, zk.ErrSessionExpired
	}
	h := &Hold{place: p, lease: lease, lost: make(chan struct{})}
	h.outer, _ = ctx.Value(holdKey{}).(*Hold)
	// The deadline of the wait must not end the work; its values go on.
	h.ctx, h.cancel = context.WithCancelCause(context.WithValue(context.WithoutCancel(ctx), holdKey{}, h))
	go h.watch()
	return h, nil
}

// Context ends when the lock is no longer ours: by Unlock, with ErrNotHeld as its
// cause, or by the loss, with an error that is ErrLost. It has the values of the
// context that was given to Lock, not its deadline. A Lock of the same lock with a
// context that descends from it fails with ErrDeadlock.
func (h *Hold) Context() context.Context { return h.ctx }

// Lost is closed when the lock is lost, for those who must not be cancelled. Unlock
// does not close it.
func (h *Hold) Lost() <-chan struct{} { return h.lost }

// Deadline is the moment until which the lock is proven ours. It moves on while the
// server answers; when it passes, the lock is lost.
func (h *Hold) Deadline() time.Time { return h.place.session.Deadline() }

// Token is the fencing token: the zxid of the creation of our node. It is larger
// than that of every earlier holder of the lock.
func (h *Hold) Token() int64 { return h.place.token }

// Path is the path of our node, which is below that of the lock.
func (h *Hold) Path() string { return h.place.node(h.place.name) }

// Session is the id of the session that holds the lock.
func (h *Hold) Session() int64 { return h.place.session.ID() }

// watch waits for what can end the tenure other than Unlock: the end of the session,
// which is at its Deadline at the latest, and the removal of our node by somebody
// else.
func (h *Hold) watch() {
	session := h.place.session
	defer h.lease.Release()
	// The first look is not withdrawn by an early Unlock: taking the watch back would
	// cost the server more than letting the delete fire it.
	for {
		_, _, watch, err := session.GetW(session.Context(), h.Path())
		switch {
		case errors.Is(err, zk.ErrConnectionLoss):
			continue
		case errors.Is(err, zk.ErrNoNode):
			h.lose(errPlaceGone)
			return
		case session.Context().Err() != nil:
			h.lose(context.Cause(session.Context()))
			return
		case err != nil:
			// We may not read our own node. The session's end is still seen.
			select {
			case <-session.Context().Done():
				h.lose(context.Cause(session.Context()))
			case <-h.lease.Gone():
				h.lose(errPlaceGone)
			case <-h.ctx.Done():
			}
			return
		}
		select {
		case ev := <-watch.C:
			switch {
			case ev.Err != nil:
				h.lose(ev.Err)
				return
			case ev.Type == zk.EventNodeDeleted:
				h.lose(errPlaceGone) // unless it was us
				return
			}
		case <-session.Context().Done():
			h.lose(context.Cause(session.Context()))
			return
		case <-h.lease.Gone(): // our server may be cut off, and never tell
			h.lose(errPlaceGone)
			return
		case <-h.ctx.Done():
			return
		}
	}
}

// lose ends the tenure, unless Unlock was first.
func (h *Hold) lose(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unlocked || h.loss != nil {
		return
	}
	h.loss = fmt.Errorf("%w: %w", ErrLost, why)
	h.cancel(h.loss)
	close(h.lost)
}

// Unlock ends the Context, then removes our node, and returns when that is certain.
// It takes no context: it waits through lost connections for as long as the session
// lives, that is, at most until Deadline; after that the server has removed the node
// itself. So it is right to defer it also where the work's context has ended.
//
// ErrLost: the lock was lost before. ErrNotHeld: Unlock was called before.
func (h *Hold) Unlock() error {
	h.mu.Lock()
	if h.unlocked {
		h.mu.Unlock()
		return h.fail(ErrNotHeld)
	}
	h.unlocked = true
	loss := h.loss
	h.cancel(ErrNotHeld)
	h.mu.Unlock()
	h.lease.Release()

	session := h.place.session.Context()
	err := h.place.remove()
	switch {
	case loss != nil:
		return h.fail(loss)
	case errors.Is(err, errPlaceGone): // it ended before we did
		return h.fail(fmt.Errorf("%w: %w", ErrLost, err))
	case err != nil && session.Err() == nil:
		return h.fail(err)
	}
	return nil // removed, or the session is over, and the node with it
}

func (h *Hold) fail(err error) error {
	return &Error{Op: "unlock", Path: h.place.queue.path, Err: err}
}

// holdKey is the key of the Hold that a context descends from.
type holdKey struct{}

// held reports whether ctx descends from a Hold of q's lock that still lasts.
func held(ctx context.Context, q *queue) bool {
	for h, _ := ctx.Value(holdKey{}).(*Hold); h != nil; h = h.outer {
		if h.place.queue.client == q.client && h.place.queue.path == q.path && h.ctx.Err() == nil {
			return true
		}
	}
	return false
}
