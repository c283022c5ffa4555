package shards

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"holdfast/internal/balance"
	"holdfast/internal/queue"
	"holdfast/zk"
)

// A storedPlan is what the node at the path of the shards says.
type storedPlan struct {
	balance.Plan
	version int32
	mzxid   int64
}

// checked reads a plan, which must be for as many shards as the caller claims.
func (s *Shards) checked(data []byte) (balance.Plan, error) {
	p, err := balance.Parse(data)
	switch {
	case err != nil:
		return p, fmt.Errorf("%w: the data of the node are %w", ErrCount, err)
	case len(p.Shards) != s.n:
		return p, fmt.Errorf("%w: it is %d, not %d", ErrCount, len(p.Shards), s.n)
	}
	return p, nil
}

// refresh reads the plan as it is at some moment after the call.
func (r *worker) refresh(ctx context.Context) error {
	err := zk.Retry(ctx, func() error { return r.node.Client.Sync(ctx, r.node.Path) })
	if err != nil {
		return err
	}
	watch, err := r.look(ctx)
	if watch != nil {
		watch.Stop()
	}
	return err
}

// look reads the plan, with a watch. If there is none, it stores one without workers.
func (r *worker) look(ctx context.Context) (*zk.Watch, error) {
	session, err := r.node.Client.Session(ctx)
	if err != nil {
		return nil, err
	}
	place := &queue.Place{Queue: r.node, Session: session}
	for {
		var data []byte
		var stat zk.Stat
		var watch *zk.Watch
		err := zk.Retry(ctx, func() (err error) {
			data, stat, watch, err = session.GetW(ctx, r.node.Path)
			return err
		})
		switch {
		case errors.Is(err, zk.ErrNoNode):
			if err := place.Ensure(ctx, r.node.Path); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, err
		case stat.EphemeralOwner != 0:
			watch.Stop()
			return nil, r.node.HasNodeLock()
		case queue.Unclaimed(data):
			watch.Stop()
			if err := r.replaceable(ctx, data, nil); err != nil {
				return nil, err
			}
			if err := r.claim(ctx, session, stat.Version); err != nil {
				return nil, err
			}
			continue
		}
		p, err := r.checked(data)
		if err != nil {
			watch.Stop()
			if err := r.replaceable(ctx, data, err); err != nil {
				return nil, err
			}
			if err := r.claim(ctx, session, stat.Version); err != nil {
				return nil, err
			}
			continue
		}
		r.learn(storedPlan{Plan: p, version: stat.Version, mzxid: stat.Mzxid})
		return watch, nil
	}
}

// replaceable returns nil if the data of the node can be replaced by our number of shards: there are none, or they are
// another number, or the limit of a semaphore, and nobody uses it. Otherwise it returns why not. wrong is what is
// wrong with the data.
func (r *worker) replaceable(ctx context.Context, data []byte, wrong error) error {
	listed, err := queue.Children(ctx, r.node.Client, r.node.Path)
	if err != nil {
		return err
	}
	if err := r.node.CheckKind(ctx, listed); err != nil || wrong == nil {
		return err
	}
	if _, err := strconv.Atoi(string(data)); err != nil && !queue.HasPlan(data) {
		return wrong
	}
	user, err := queue.ShardsIn(ctx, r.node.Client, r.node.Path, listed)
	if err == nil && user.Node != "" {
		err = fmt.Errorf("%w, and the session of %s uses it: stop all workers before the number changes", wrong, user.Node)
	}
	return err
}

// claim stores the number of shards, unless the node has changed.
func (r *worker) claim(ctx context.Context, session *zk.Session, version int32) error {
	data, err := balance.Empty(r.n).Encode()
	if err != nil {
		return err
	}
	err = zk.Retry(ctx, func() error {
		_, err := session.Set(ctx, r.node.Path, data, version)
		return err
	})
	if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrConnectionLoss) {
		return nil // look again
	}
	return err
}

// learn notes a plan, unless we know a later one: a server that we read from may be behind.
func (r *worker) learn(p storedPlan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.mzxid <= r.latest.mzxid {
		return
	}
	r.latest = p
	select {
	case r.planned <- struct{}{}:
	default:
	}
}

// stored is the latest plan that is known.
func (r *worker) stored() storedPlan {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latest
}
