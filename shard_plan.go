package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"holdfast/internal/balance"
	"holdfast/internal/queue"
	"holdfast/zk"
)

// A ShardWorker is a worker in an Assignment.
type ShardWorker struct {
	ID      string // of one Run, in all of its sessions
	Owner   string // see WithOwner; the first 64 bytes of it
	Weight  int    // see WithWeight
	Session int64  // 0: the worker is absent, and others get its shards soon
	Shards  []int  // in order; none: the worker has just joined, has weight 0, or there are more workers than shards
}

// Assignment returns the workers and the shards that each of them should have, by the plan, at some moment
// after the call. A shard that is moving may still be with another worker: List with Path shows the present
// holder. A shard in nobody's list has no worker yet. Assignment takes four round trips, and one request
// for each worker. The error is ErrShardCount if the stored number differs from that of NewShards.
func (s *Shards) Assignment(ctx context.Context) ([]ShardWorker, error) {
	all, err := s.assignment(ctx)
	if err != nil {
		return nil, &Error{Op: "assignment", Path: s.lock.Path, Err: err}
	}
	return all, nil
}

func (s *Shards) assignment(ctx context.Context) (all []ShardWorker, err error) {
	if err := s.lock.valid(); err != nil {
		return nil, err
	}
	err = queue.BehindWrite(ctx, s.lock.Client, s.lock.Path, func() (err error) {
		all, err = s.assignmentNow(ctx)
		return err
	})
	return all, err
}

// assignmentNow is assignment for what the server shows.
func (s *Shards) assignmentNow(ctx context.Context) (all []ShardWorker, err error) {
	c := s.lock.Client
	var data []byte
	err = queue.Retry(ctx, func() (err error) {
		data, _, err = c.Get(ctx, s.lock.Path)
		return err
	})
	var plan balance.Plan
	switch {
	case errors.Is(err, zk.ErrNoNode), err == nil && queue.Unclaimed(data):
	case err != nil:
		return nil, err
	default:
		if plan, err = s.checked(data); err != nil {
			return nil, err
		}
	}
	listed, err := queue.Children(ctx, c, s.workers.Path)
	if err != nil {
		return nil, err
	}
	var nodes []string
	for _, place := range s.workers.Grammar.InQueue(listed) {
		nodes = append(nodes, place.Name)
	}
	results, err := queue.Read(ctx, c, s.workers.Path, nodes)
	if err != nil {
		return nil, err
	}
	sessions := make(map[string]int64)
	workers := slices.Clone(plan.Workers)
	for _, r := range results {
		if w, err := balance.ParseWorker(r.Data); r.Err == nil && err == nil {
			if _, again := sessions[w.ID]; !again && !plan.Has(w.ID) {
				workers = append(workers, w)
			}
			sessions[w.ID] = r.Stat.EphemeralOwner
		}
	}
	slices.SortFunc(workers, func(a, b balance.Worker) int { return strings.Compare(a.ID, b.ID) })
	for _, w := range workers {
		all = append(all, ShardWorker{ID: w.ID, Owner: w.Owner, Weight: w.Weight, Session: sessions[w.ID], Shards: plan.Of(w.ID)})
	}
	return all, nil
}

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
		return p, fmt.Errorf("%w: the data of the node are %w", ErrShardCount, err)
	case len(p.Shards) != s.n:
		return p, fmt.Errorf("%w: it is %d, not %d", ErrShardCount, len(p.Shards), s.n)
	}
	return p, nil
}

// refresh reads the plan as it is at some moment after the call.
func (r *shardWorker) refresh(ctx context.Context) error {
	err := queue.Retry(ctx, func() error { return r.lock.Client.Sync(ctx, r.lock.Path) })
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
func (r *shardWorker) look(ctx context.Context) (*zk.Watch, error) {
	session, err := r.lock.Client.Session(ctx)
	if err != nil {
		return nil, err
	}
	place := &queue.Place{Queue: r.lock.Queue, Session: session}
	for {
		var data []byte
		var stat zk.Stat
		var watch *zk.Watch
		err := queue.Retry(ctx, func() (err error) {
			data, stat, watch, err = session.GetW(ctx, r.lock.Path)
			return err
		})
		switch {
		case errors.Is(err, zk.ErrNoNode):
			if err := place.Ensure(ctx, r.lock.Path); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, err
		case stat.EphemeralOwner != 0:
			watch.Stop()
			return nil, r.lock.HasNodeLock()
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
func (r *shardWorker) replaceable(ctx context.Context, data []byte, wrong error) error {
	listed, err := queue.Children(ctx, r.lock.Client, r.lock.Path)
	if err != nil {
		return err
	}
	if err := r.lock.CheckKind(ctx, listed); err != nil || wrong == nil {
		return err
	}
	if _, err := strconv.Atoi(string(data)); err != nil && !queue.HasPlan(data) {
		return wrong
	}
	user, err := queue.ShardsIn(ctx, r.lock.Client, r.lock.Path, listed)
	if err == nil && user.Node != "" {
		err = fmt.Errorf("%w, and the session of %s uses it: stop all workers before the number changes", wrong, user.Node)
	}
	return err
}

// claim stores the number of shards, unless the node has changed.
func (r *shardWorker) claim(ctx context.Context, session *zk.Session, version int32) error {
	data, err := balance.Empty(r.n).Encode()
	if err != nil {
		return err
	}
	err = queue.Retry(ctx, func() error {
		_, err := session.Set(ctx, r.lock.Path, data, version)
		return err
	})
	if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrConnectionLoss) {
		return nil // look again
	}
	return err
}

// learn notes a plan, unless we know a later one: a server that we read from may be behind.
func (r *shardWorker) learn(p storedPlan) {
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
func (r *shardWorker) stored() storedPlan {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latest
}
