package queue

import (
	"context"
	"errors"

	"holdfast/zk"
)

func (p *Place) Leave(ctx context.Context) {
	if p.name == "" && !p.doubt {
		return
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		p.Remove()
	}()
	select {
	case <-gone:
	case <-ctx.Done():
	}
}

func (p *Place) Remove() error {
	ctx := p.Session.Context()
	doubt := false // an earlier delete may have happened
	gone := func() error {
		if doubt {
			return nil
		}
		return ErrGone
	}
	for {
		if p.name == "" {
			if err := p.Find(ctx); err != nil {
				return err
			}
			if p.name == "" {
				return nil
			}
		}
		version := int32(zk.AnyVersion)
		if !p.Unique {
			// The name can come back, and then the node is a successor's (zk-ruby #34).
			stat, err := p.stat(ctx)
			switch {
			case errors.Is(err, ErrGone):
				return gone()
			case err != nil:
				return err
			}
			version = stat.Version
		}
		err := Retry(ctx, func() error { return p.delete(ctx, version) })
		switch {
		case err == nil:
			return nil
		case errors.Is(err, zk.ErrNoNode):
			return gone()
		case errors.Is(err, zk.ErrBadVersion): // its data were changed just now
		case errors.Is(err, zk.ErrConnectionLoss):
			doubt = true
		default:
			return err
		}
	}
}
