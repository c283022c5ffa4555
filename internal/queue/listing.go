package queue

import (
	"context"
	"errors"
	"slices"

	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// position returns who is ahead by a list of the queue. The first list also has to show that no other
// kind of lock has this name or is around it. around is what the same flush has read around the queue; nil: nothing.
func (p *Place) position(ctx context.Context, listed []string, around *Around) (names.Ahead, error) {
	p.sawList(len(listed))
	a, err := p.Queue.Grammar.Ahead(listed, p.Name())
	if err == nil && !a.Nobody() && p.Queue.Grammar.Bare() {
		if listed, err = p.withoutDirectories(ctx, listed); err == nil {
			a, err = p.Queue.Grammar.Ahead(listed, p.Name())
		}
	}
	if err != nil || p.onlyKind {
		return a, err
	}
	if a.Others > 0 {
		if err := p.Queue.CheckKind(ctx, listed); err != nil {
			return names.Ahead{}, err
		}
	}
	if err := p.Queue.CheckAround(ctx, p.Session, around); err != nil {
		return names.Ahead{}, err
	}
	p.onlyKind = true
	return a, nil
}

// withoutDirectories drops the persistent nodes from a list whose places are named by numbers alone: they are the
// directories of other locks, and would never go.
func (p *Place) withoutDirectories(ctx context.Context, listed []string) ([]string, error) {
	directories := make(map[string]bool)
	for some := range slices.Chunk(p.Queue.Grammar.InQueue(listed), readsInFlight) {
		var looks []zk.Op
		for _, c := range some {
			looks = append(looks, zk.ExistsOp(p.node(c.Name)))
		}
		found, err := pipeline(ctx, p.Session, looks)
		if err != nil {
			return nil, err
		}
		for i, r := range found {
			if r.Err == nil && r.Stat.EphemeralOwner == 0 {
				directories[some[i].Name] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(listed), func(name string) bool { return directories[name] }), nil
}

func (p *Place) lookAlone(ctx context.Context) (names.Ahead, error) {
	listed, around, err := p.listAround(ctx, !p.onlyKind)
	if err != nil {
		return names.Ahead{}, err
	}
	return p.position(ctx, listed, around)
}

func (p *Place) siblings(ctx context.Context) (listed []string, err error) {
	err = zk.Retry(ctx, func() (err error) {
		listed, _, err = p.Session.Children(ctx, p.Dir)
		return err
	})
	return listed, unlessGone(err)
}

// listAround lists the queue, and with looks also reads what is around it.
func (p *Place) listAround(ctx context.Context, looks bool) (listed []string, around *Around, err error) {
	if !looks {
		listed, err = p.siblings(ctx)
		return listed, nil, err
	}
	ops, around := p.Queue.looks(p.Session, []zk.Op{zk.ChildrenOp(p.Dir)})
	err = zk.Retry(ctx, func() error {
		res, err := p.Session.Pipeline(ctx, ops...)
		if res != nil {
			listed, err = res[0].Children, res[0].Err
			around.take(res[1:])
		}
		return err
	})
	return listed, around, unlessGone(err)
}

// unlessGone returns ErrGone for the error of a list if there is no directory, and so no place of ours.
func unlessGone(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return ErrGone
	}
	return err
}
