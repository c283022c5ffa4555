package queue

import (
	"context"
	"errors"

	"holdfast/internal/queue/names"
)

func (p *Place) Wait(ctx context.Context, patience bool) error {
	err := p.arrive(ctx, patience) // 1. our node, at the back: whom must we wait for?
	for err == nil && !p.ahead.Nobody() {
		if !patience {
			return ErrLocked
		}
		err = p.await(ctx) // 2. wait, and learn who is ahead now; see await.go
	}
	if errors.Is(err, names.ErrSameNumber) {
		err = p.twinned(ctx)
	}
	return err
}

func (p *Place) Stop() {
	p.unwatch()
	if p.lease != nil {
		p.lease.Release()
		p.lease = nil
	}
	p.unshare()
}
