package queue

import (
	"context"
	"errors"
	"slices"

	"holdfast/zk"
)

// Children lists a directory. It has no children if it does not exist.
func Children(ctx context.Context, c *zk.Client, path string) (listed []string, err error) {
	err = Retry(ctx, func() (err error) {
		listed, _, err = c.Children(ctx, path)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		err = nil
	}
	return listed, err
}

// readsInFlight is how many nodes are read in one go.
const readsInFlight = 256

// Read reads nodes of a directory. The only error that a result can have is ErrNoNode.
func Read(ctx context.Context, c *zk.Client, dir string, nodes []string) ([]zk.Result, error) {
	var all []zk.Result
	for some := range slices.Chunk(nodes, readsInFlight) {
		gets := make([]zk.Op, len(some))
		for i, node := range some {
			gets[i] = zk.GetOp(dir + "/" + node)
		}
		results, err := pipeline(ctx, c, gets)
		if err != nil {
			return nil, err
		}
		all = append(all, results...)
	}
	return all, nil
}

// A pipeliner is a zk.Client or a zk.Session.
type pipeliner interface {
	Pipeline(ctx context.Context, ops ...zk.Op) ([]zk.Result, error)
}

// pipeline sends reads together. The only error that a result can have is ErrNoNode, unless pipeline
// returns an error.
func pipeline(ctx context.Context, c pipeliner, ops []zk.Op) (results []zk.Result, err error) {
	err = Retry(ctx, func() (err error) {
		if results, err = c.Pipeline(ctx, ops...); results == nil {
			return err
		}
		for _, r := range results {
			if r.Err != nil && !errors.Is(r.Err, zk.ErrNoNode) {
				return r.Err
			}
		}
		return nil
	})
	return results, err
}
