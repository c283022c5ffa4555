package survey

import (
	"context"
	"errors"
	"slices"
	"sync"

	"holdfast/internal/queue"
	"holdfast/zk"
)

const (
	batch   = 200 // reads in one request
	batches = 8   // requests under way, for servers that are far away
)

// each reads nodes, in batches, and calls take with the answers of those that exist, in order. It notes the nodes
// that we may not read.
func (r *reader) each(ctx context.Context, paths []string, op func(string) zk.Op, take func(string, zk.Result)) error {
	chunks := slices.Collect(slices.Chunk(paths, batch))
	answers := make([][]zk.Result, len(chunks))
	var group sync.WaitGroup
	slots := make(chan struct{}, batches)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for i, some := range chunks {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			ops := make([]zk.Op, len(some))
			for j, path := range some {
				ops[j] = op(path)
			}
			err := queue.Retry(ctx, func() (err error) {
				answers[i], err = r.read(ctx, ops)
				return err
			})
			if err != nil {
				cancel(err) // the others need not go on
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for i, some := range chunks {
		for j, res := range answers[i] {
			switch {
			case res.Err == nil:
				take(some[j], res)
			case errors.Is(res.Err, zk.ErrNoAuth):
				r.denied = append(r.denied, some[j])
			}
		}
	}
	return nil
}

// read sends one batch. The only errors that a result can have are ErrNoNode and ErrNoAuth.
//
// Apache's servers execute a MultiRead twenty times as fast as so many reads. Servers before 3.6 do not know it,
// and an answer can be too long for one message: then read sends the requests one by one.
func (r *reader) read(ctx context.Context, ops []zk.Op) (results []zk.Result, err error) {
	if !r.single.Load() {
		if results, err = r.client.MultiRead(ctx, ops...); results == nil {
			r.single.Store(true)
			if ctx.Err() != nil || zk.SafeToRetry(err) {
				return nil, err
			}
		}
	}
	if results == nil {
		if results, err = r.client.Pipeline(ctx, ops...); results == nil {
			return nil, err
		}
	}
	for _, res := range results {
		if res.Err != nil && !errors.Is(res.Err, zk.ErrNoNode) && !errors.Is(res.Err, zk.ErrNoAuth) {
			return nil, res.Err
		}
	}
	return results, nil
}
