package shards

import (
	"context"
	"errors"
	"slices"
	"strings"

	"holdfast"
	"holdfast/internal/balance"
	"holdfast/internal/queue"
	"holdfast/zk"
)

// A Worker is a worker in an Assignment.
type Worker struct {
	ID      string // of one Run, in all of its sessions
	Owner   string // see WithOwner; the first 64 bytes of it
	Weight  int    // see WithWeight
	Session int64  // 0: the worker is absent, and others get its shards soon
	Shards  []int  // in order; none: the worker has just joined, has weight 0, or there are more workers than shards
}

// Assignment returns the workers and the shards that each of them should have, by the plan, at some moment
// after the call. A shard that is moving may still be with another worker: List with Path shows the present
// holder. A shard in nobody's list has no worker yet. Assignment takes four round trips, and one request
// for each worker. The error is ErrCount if the stored number differs from that of New.
func (s *Shards) Assignment(ctx context.Context) ([]Worker, error) {
	all, err := s.assignment(ctx)
	if err != nil {
		return nil, &holdfast.Error{Op: "assignment", Path: s.node.Path, Err: err}
	}
	return all, nil
}

func (s *Shards) assignment(ctx context.Context) (all []Worker, err error) {
	if err := s.valid(); err != nil {
		return nil, err
	}
	err = queue.BehindWrite(ctx, s.node.Client, s.node.Path, func() (err error) {
		all, err = s.assignmentNow(ctx)
		return err
	})
	return all, err
}

// assignmentNow is assignment for what the server shows.
func (s *Shards) assignmentNow(ctx context.Context) (all []Worker, err error) {
	c := s.node.Client
	var data []byte
	err = zk.Retry(ctx, func() (err error) {
		data, _, err = c.Get(ctx, s.node.Path)
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
	listed, err := queue.Children(ctx, c, s.workers)
	if err != nil {
		return nil, err
	}
	var nodes []string
	for _, place := range s.node.Grammar.InQueue(listed) {
		nodes = append(nodes, place.Name)
	}
	results, err := queue.Read(ctx, c, s.workers, nodes)
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
		all = append(all, Worker{ID: w.ID, Owner: w.Owner, Weight: w.Weight, Session: sessions[w.ID], Shards: plan.Of(w.ID)})
	}
	return all, nil
}
