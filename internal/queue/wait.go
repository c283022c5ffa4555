package queue

import (
	"context"
	"errors"

	"holdfast/internal/queue/names"
)

// Enter returns a place of the present session, with the name for the given side. It makes no node yet.
// data returns the node's data for an attempt.
func (q *Queue) Enter(ctx context.Context, s names.Side, data func(names.Attempt) ([]byte, error)) (*Place, error) {
	session, err := q.Client.Session(ctx)
	if err != nil {
		return nil, err
	}
	a, err := q.Grammar.Attempt(s, session.ID())
	if err != nil {
		return nil, err
	}
	a = a.OfProcess(q.Process)
	if q.Prefers {
		a = a.Prefer(q.Preference)
	}
	d, err := data(a)
	if err != nil {
		return nil, err
	}
	return &Place{Queue: q, Session: session, Dir: q.Path, Attempt: a, Shared: s == names.Read, Data: d}, nil
}

// Wait joins the queue and returns nil once nobody is ahead. Then our node exists, as far as the events of the session
// tell, and the session may need a proof (see Prove). Without patience, Wait waits only for a client that keeps the lock
// and does not use it (see awaitKept). If somebody else is ahead, the error is ErrLocked. The caller must call Stop, and
// Leave after an error.
func (p *Place) Wait(ctx context.Context, patience bool) error {
	err := p.arrive(ctx, patience) // 1. our node, at the back: whom must we wait for?
	for err == nil && !p.ahead.Nobody() {
		if !patience {
			err = p.awaitKept(ctx) // nearly always ErrLocked; see kept.go
			continue
		}
		if p.Next != nil && p.ahead.Far == "" {
			p.Next()
			p.Next = nil
		}
		err = p.await(ctx) // 2. wait, and learn who is ahead now; see await.go
	}
	if errors.Is(err, names.ErrSameNumber) {
		err = p.twinned(ctx)
	}
	return err
}

// Stop ends the waiting: it gives up the watch on the nearest node, the shared lists, and the lease if no tenure
// has taken it. It keeps the watch on our own node for the tenure (TakeWatch). If there is none, Leave removes the
// node, which ends the watch.
func (p *Place) Stop() {
	p.unwatch()
	if p.lease != nil {
		p.lease.Release()
		p.lease = nil
	}
	p.unshare()
}
