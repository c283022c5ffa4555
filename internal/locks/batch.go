package locks

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"holdfast/internal/budget"
	"holdfast/zk"
)

const (
	batch   = 200 // reads in one request
	batches = 8   // requests under way, for servers that are far away
)

// each reads n nodes, in batches, and calls take with the answers as they come, one at a time. A result has no error but
// zk.ErrNoAuth: take gets no answer about a node that does not exist.
func (r *reader) each(ctx context.Context, n int, op func(int) zk.Op, take func(int, zk.Result) error) error {
	var group sync.WaitGroup
	var taking sync.Mutex
	slots := make(chan struct{}, batches)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for from := 0; from < n; from += batch {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		group.Go(func() {
			defer func() { <-slots }()
			ops := make([]zk.Op, min(batch, n-from))
			for j := range ops {
				ops[j] = op(from + j)
			}
			var answers []zk.Result
			err := zk.Retry(ctx, func() (err error) {
				answers, err = r.read(ctx, ops)
				return err
			})
			taking.Lock()
			defer taking.Unlock()
			for j, res := range answers {
				if err == nil && (res.Err == nil || errors.Is(res.Err, zk.ErrNoAuth)) {
					err = take(from+j, res)
				}
			}
			if err != nil {
				cancel(err) // the others need not go on
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
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
		if results, err = r.pipeline(ctx, ops); results == nil {
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

// pipeline sends requests one by one. If their answers are too long together, it sends fewer at a time.
func (r *reader) pipeline(ctx context.Context, ops []zk.Op) ([]zk.Result, error) {
	results, err := r.client.Pipeline(ctx, ops...)
	if n := len(ops) / 2; n > 0 && errors.Is(err, zk.ErrTooLarge) {
		if results, err = r.pipeline(ctx, ops[:n]); results != nil {
			cutData(results)
			rest, err := r.pipeline(ctx, ops[n:])
			return append(results, rest...), err
		}
	}
	return results, err
}

// cutData drops what nobody keeps.
func cutData(results []zk.Result) {
	for i := range results {
		if len(results[i].Data) > budget.MaxData {
			results[i].Data = bytes.Clone(results[i].Data[:budget.MaxData])
		}
	}
}
