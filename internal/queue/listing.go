package queue

import (
	"context"
	"errors"

	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// position returns who is ahead by a list of the queue. The first list also has to show that no other
// kind of lock has this name.
func (p *Place) position(ctx context.Context, listed []string) (names.Ahead, error) {
	p.sawList(len(listed))
	a, err := p.Queue.Grammar.Ahead(listed, p.name)
	if err != nil || p.onlyKind {
		return a, err
	}
	if a.Others > 0 {
		if err := p.Queue.CheckKind(ctx, listed); err != nil {
			return names.Ahead{}, err
		}
	}
	p.onlyKind = true
	return a, nil
}

func (p *Place) lookAlone(ctx context.Context) (names.Ahead, error) {
	listed, err := p.siblings(ctx)
	if err != nil {
		return names.Ahead{}, err
	}
	return p.position(ctx, listed)
}

// siblings lists the queue.
func (p *Place) siblings(ctx context.Context) (listed []string, err error) {
	err = Retry(ctx, func() (err error) {
		listed, _, err = p.Session.Children(ctx, p.Dir)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		err = ErrGone
	}
	return listed, err
}
