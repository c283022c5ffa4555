package queue

import (
	"context"
	"errors"

	"holdfast/zk"
)

// Leave gives up the place: it removes our node. It waits for the removal while ctx lives. When ctx
// ends, Leave returns, and a goroutine goes on until the node is gone or the session is over.
func (p *Place) Leave(ctx context.Context) {
	if p.path == "" && !p.doubt {
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

// Remove deletes our node. It tries until the node is gone or the session is over: a node that stays
// in the queue blocks everybody (CURATOR-486). It uses the session's context, since the caller's may
// have ended (vitess #15756). The error is ErrGone if the node was gone before.
func (p *Place) Remove() error { return p.remove(false) }

// StartRemove is Remove that does not wait for the delete: it queues the delete in the session, so that
// the session's later requests go behind it. The function that it returns waits for the answer and
// completes the removal. Its error is that of Remove.
func (p *Place) StartRemove() (wait func() error) {
	if p.path == "" {
		return p.Remove
	}
	version := int32(zk.AnyVersion)
	if !p.Unique {
		err := errPanic
		defer func() {
			if err == errPanic {
				p.tryRemove(true)
			}
		}()
		var stat zk.Stat
		if stat, err = p.stat(p.Session.Context()); err != nil {
			return func() error { return err }
		}
		version = stat.Version
	}
	answer := p.Session.StartMulti(append([]zk.Op{zk.DeleteOp(p.Path(), version)}, p.WatermarkOp()...)...)
	return func() error {
		_, err := answer()
		switch {
		case err == nil:
			return nil
		case zk.MayHaveHappened(err):
			return p.remove(true)
		}
		return p.remove(false)
	}
}

// remove is Remove. doubt: an earlier delete may have happened. If a hook panics meanwhile, remove tries once more.
func (p *Place) remove(doubt bool) (err error) {
	err = errPanic
	defer func() {
		if err == errPanic {
			p.tryRemove(true)
		}
	}()
	return p.tryRemove(doubt)
}

func (p *Place) tryRemove(doubt bool) error {
	ctx := p.Session.Context()
	gone := func() error {
		if doubt {
			return nil
		}
		return ErrGone
	}
	for {
		if p.path == "" {
			if err := p.Find(ctx); err != nil {
				return err
			}
			if p.path == "" {
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
		err := zk.Retry(ctx, func() error { return p.delete(ctx, version) })
		switch {
		case err == nil:
			return nil
		case errors.Is(err, zk.ErrNoNode):
			return gone()
		case errors.Is(err, zk.ErrBadVersion): // rare: the data of our node change during its removal
		case errors.Is(err, zk.ErrConnectionLoss): // rare: the answer to a removal is lost
			doubt = true
		default:
			return err
		}
	}
}

// RemoveWith deletes our node through s, which need not be the session of the place. In the same transaction, it executes
// also, if that succeeds; else it deletes the node alone. It is no error if the node was gone before.
func (p *Place) RemoveWith(ctx context.Context, s *zk.Session, also ...zk.Op) error {
	err := zk.Repeat(ctx, func() error {
		_, err := s.Multi(ctx, append([]zk.Op{zk.DeleteOp(p.Path(), zk.AnyVersion)}, also...)...)
		return err
	})
	switch {
	case !errors.Is(err, zk.ErrNoNode):
		return err
	case len(also) > 0:
		return p.RemoveWith(ctx, s)
	}
	return nil
}
