package queue

import (
	"context"
	"errors"
	"time"

	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// keptPatience is how long a place without patience waits for a client to give up a kept lock. A client that is
// alive needs a notification and a commit.
const keptPatience = time.Second

// awaitKept is await for a place without patience. If the only node ahead is that of a kept lock, it waits until the client
// gives the lock up, and notes who is ahead then. Otherwise, or if the client does not give it up, the error is ErrLocked.
// If the node is a detached lock, see passExpired.
//
// The client of a kept lock learns that we have joined, and then removes its node. If it uses the lock again, it removes
// the mark instead. We wait until either happens: after a change of the mark, Wait calls awaitKept again.
func (p *Place) awaitKept(ctx context.Context) error {
	if p.ahead.Far != "" || p.Queue.Kind == Turnstile { // a turnstile is never kept
		return ErrLocked
	}
	if names.IsDetached(p.ahead.Near) {
		return p.passExpired(ctx)
	}
	var data []byte
	err := zk.Retry(ctx, func() (err error) {
		data, _, err = p.Session.Get(ctx, p.node(p.ahead.Near))
		return err
	})
	var watch *zk.Watch
	if err == nil && ReadNote(data).Kept {
		err = zk.Retry(ctx, func() (err error) {
			data, _, watch, err = p.Session.GetW(ctx, p.node(p.ahead.Near))
			return err
		})
	}
	switch {
	case errors.Is(err, zk.ErrNoNode):
		p.ahead, err = p.look(ctx)
		return err
	case errors.Is(err, zk.ErrNoAuth):
		return ErrLocked
	case err != nil:
		return err
	case watch == nil:
		return ErrLocked
	}
	defer watch.Stop()
	if !ReadNote(data).Kept {
		return ErrLocked
	}
	timer := time.NewTimer(keptPatience)
	defer timer.Stop()
	select {
	case ev := <-watch.C:
		if ev.Err == nil && ev.Type == zk.EventNodeDeleted {
			p.ahead, ev.Err = p.look(ctx)
		}
		return ev.Err
	case <-timer.C:
		return ErrLocked
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// passExpired removes the detached lock ahead if it has expired, and notes who is ahead then: somebody else can be.
// If it has not expired, the error is ErrLocked.
func (p *Place) passExpired(ctx context.Context) error {
	e, err := p.expiryOf(ctx, p.ahead.Near)
	if err != nil {
		return err
	}
	defer e.stop()
	switch {
	case e.gone:
	case !e.over():
		return ErrLocked
	default:
		if err := p.removeExpired(ctx, e); err != nil {
			return err
		}
	}
	p.ahead, err = p.look(ctx)
	return err
}
