package queue

import (
	"context"
	"errors"
	"slices"

	"holdfast/zk"
)

// Children lists a directory. It has no children if it does not exist.
func Children(ctx context.Context, c *zk.Client, path string) (listed []string, err error) {
	err = zk.Retry(ctx, func() (err error) {
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
func Read(ctx context.Context, c *zk.Client, dir string, nodes []string) (all []zk.Result, err error) {
	err = ReadEach(ctx, c, dir, nodes, func(_ int, r zk.Result) { all = append(all, r) })
	if err != nil {
		return nil, err
	}
	return all, nil
}

// ReadEach is Read for many nodes, or nodes with much data: it calls take with the results as they come, in order.
func ReadEach(ctx context.Context, c *zk.Client, dir string, nodes []string, take func(i int, r zk.Result)) error {
	i := 0
	for some := range slices.Chunk(nodes, readsInFlight) {
		gets := make([]zk.Op, len(some))
		for i, node := range some {
			gets[i] = zk.GetOp(dir + "/" + node)
		}
		err := inParts(gets, func(gets []zk.Op) error {
			results, err := pipeline(ctx, c, gets)
			if err != nil {
				return err
			}
			for _, r := range results {
				take(i, r)
				i++
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// inParts reads ops, and halves them if the answers are too long together.
func inParts(ops []zk.Op, read func([]zk.Op) error) error {
	err := read(ops)
	if n := len(ops) / 2; n > 0 && errors.Is(err, zk.ErrTooLarge) {
		if err = inParts(ops[:n], read); err == nil {
			err = inParts(ops[n:], read)
		}
	}
	return err
}

// A pipeliner is a zk.Client or a zk.Session.
type pipeliner interface {
	Pipeline(ctx context.Context, ops ...zk.Op) ([]zk.Result, error)
}

// pipeline sends reads together. The only error that a result can have is ErrNoNode, unless pipeline
// returns an error.
func pipeline(ctx context.Context, c pipeliner, ops []zk.Op) (results []zk.Result, err error) {
	err = zk.Retry(ctx, func() (err error) {
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
