package queue

import (
	"context"
	"errors"
	"slices"
	"strings"

	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// Find looks for the node of a create whose answer was lost. Name tells whether it was found. The id
// was never used before, and the node of an older session of ours that has not been removed yet is
// not ours (CURATOR-498, CURATOR-604).
func (p *Place) Find(ctx context.Context) error {
	_, err := p.find(ctx)
	return err
}

// find is Find. It returns the list of the queue that it needs, unless the name is known.
func (p *Place) find(ctx context.Context) (listed []string, err error) {
	if err := p.barrier(ctx); err != nil {
		return nil, err
	}
	candidates := []string{p.Prefix}
	if !p.Exact {
		listed, err = p.siblings(ctx)
		// If the node above is missing, there is no node of ours either. But ErrGone can also be the
		// cause of ctx, which belongs to another lock that this one is taken with.
		if err != nil && (ctx.Err() != nil || !errors.Is(err, ErrGone)) {
			return nil, err
		}
		candidates = slices.DeleteFunc(slices.Clone(listed), func(n string) bool { return !strings.HasPrefix(n, p.Prefix) })
	}
	err = p.recognise(ctx, candidates)
	p.doubt = err != nil
	return listed, err
}

// Confirm reads the nodes that a transaction has made, whose answer does not describe them. All places are exact and of
// one session. If a node is not there or not ours any more, the error is ErrGone. No barrier is needed: the server that
// has answered shows the nodes, and the session accepts no server that is behind that answer.
func Confirm(ctx context.Context, places []*Place) error {
	for some := range slices.Chunk(places, readsInFlight) {
		gets := make([]zk.Op, len(some))
		for i, p := range some {
			gets[i] = zk.GetOp(p.node(p.Prefix))
		}
		found, err := pipeline(ctx, places[0].Session, gets)
		for i, r := range found {
			if some[i].made(r) {
				some[i].Created(some[i].node(some[i].Prefix), r.Stat)
			}
		}
		if err != nil {
			return err
		}
	}
	if slices.ContainsFunc(places, func(p *Place) bool { return p.path == "" }) {
		return ErrGone
	}
	return nil
}

// BehindWrite calls read behind a write, both in one session. So a server that is behind does not make read miss
// anything. If the session ends meanwhile, BehindWrite begins again in the next one: the new session may reach a
// server that is behind.
func BehindWrite(ctx context.Context, c *zk.Client, path string, read func() error) error {
	for {
		s, err := c.Session(ctx)
		if err != nil {
			return err
		}
		if err = Barrier(ctx, s, path); err == nil {
			err = read()
		}
		if s.Context().Err() == nil || ctx.Err() != nil { // the client has one session at a time
			return err
		}
	}
}

// barrier returns when the server that we reach now shows everything that the previous one has done
// for us. What the previous one has not done, it can no longer do (session moved). A write is needed:
// everything proposed earlier is applied before it. A sync is not enough on the server that leads. It
// answers at once, though it may have applied less than others (seen on 3.8.0 under load).
func (p *Place) barrier(ctx context.Context) error { return Barrier(ctx, p.Session, p.Queue.Path) }

// Barrier returns when the server that s reaches shows everything that was written before. Then the reads of s show
// it, too, and those of another session need not. path is any node, also one that does not exist.
func Barrier(ctx context.Context, s *zk.Session, path string) error {
	err := zk.Repeat(ctx, func() error {
		_, err := s.Multi(ctx, zk.CheckOp(path, zk.AnyVersion))
		return err
	})
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) { // a transaction all the same
		return nil
	}
	return err
}

// Barrier returns when the server shows all that was written before. That takes a write, which also finds out whether our
// place still exists. If not, the error is ErrGone. Then no transaction that checks the place can be executed any more.
func (p *Place) Barrier() error {
	ctx := p.Session.Context()
	err := zk.Repeat(ctx, func() error {
		_, err := p.Session.Multi(ctx, zk.CheckOp(p.Path(), zk.AnyVersion))
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		err = ErrGone
	}
	return err
}

// recognise takes the candidate that is our node, if there is one. In layouts whose names do not tell
// one client from another, the candidates are many.
func (p *Place) recognise(ctx context.Context, candidates []string) error {
	for some := range slices.Chunk(candidates, readsInFlight) {
		gets := make([]zk.Op, len(some))
		for i, name := range some {
			gets[i] = zk.GetOp(p.node(name))
		}
		found, err := pipeline(ctx, p.Session, gets)
		for i, r := range found {
			if p.made(r) {
				p.Created(p.node(some[i]), r.Stat)
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// made reports whether a node that was read is the one that the place has made.
func (p *Place) made(r zk.Result) bool {
	return r.Err == nil && r.Stat.EphemeralOwner == p.Session.ID() && (p.Unique || ReadNote(r.Data).ID == p.ID)
}

// twinned says why a place finds its own number twice. If names can come back, its node may have been
// removed with the directory, and a writer with its name has taken the read side since. It is split from Wait to keep
// waiters' stacks small.
//
//go:noinline
func (p *Place) twinned(ctx context.Context) error {
	if p.Unique {
		return names.ErrSameNumber
	}
	if _, err := p.stat(ctx); err != nil {
		return err
	}
	return names.ErrSameNumber
}

// stat describes our node. If there is none, or another one of the same name, the error is ErrGone.
func (p *Place) stat(ctx context.Context) (zk.Stat, error) {
	var stat zk.Stat
	var ok bool
	err := zk.Retry(ctx, func() (err error) {
		stat, ok, err = p.Session.Exists(ctx, p.Path())
		return err
	})
	if err == nil && (!ok || stat.Czxid != p.czxid) {
		err = ErrGone
	}
	return stat, err
}
