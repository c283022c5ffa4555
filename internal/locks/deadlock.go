package locks

import (
	"context"
	"slices"
	"time"

	"holdfast/internal/waitgraph"
	"holdfast/zk"
)

// Shown is Read for what the server shows, which can be behind: it does not write. It keeps no more than most nodes.
func Shown(ctx context.Context, c *zk.Client, q Query, most int64) (*Survey, error) {
	r := newReader(c, q.Layout)
	r.budget.Lower(most)
	return r.survey(ctx, q)
}

// keptPatience is how long a program may take to give up a lock that it keeps, or to record that it has taken the
// lock again.
const keptPatience = time.Second

// Confirmed makes the graph of the locks of one reading. If it has cycles, it reads the locks of those who are stuck
// again: see waitgraph.Stable.
func Confirmed(ctx context.Context, c *zk.Client, found []waitgraph.Lock, layout *Layout) (*waitgraph.Graph, error) {
	first := waitgraph.Analyze(found)
	if len(first.Cycles) == 0 {
		return first, nil
	}
	suspects := first.Suspects()
	if slices.ContainsFunc(suspects, func(l waitgraph.Lock) bool {
		return slices.ContainsFunc(l.Queue, func(p waitgraph.Place) bool { return p.Kept })
	}) {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(keptPatience):
		}
	}
	again, err := Again(ctx, c, suspects, layout)
	if err != nil {
		return nil, err
	}
	return waitgraph.Analyze(waitgraph.Replace(found, suspects, waitgraph.Stable(suspects, again))), nil
}

// Changes returns how often the children of each directory have changed, as the server shows it. It is -1 if the directory
// does not exist or cannot be read.
func Changes(ctx context.Context, c *zk.Client, dirs []string) (map[string]int32, error) {
	counts := make(map[string]int32)
	for _, dir := range dirs {
		counts[dir] = -1
	}
	err := newReader(c, nil).each(ctx, len(dirs), func(i int) zk.Op { return zk.GetOp(dirs[i]) }, func(i int, res zk.Result) error {
		if res.Err == nil {
			counts[dirs[i]] = res.Stat.Cversion
		}
		return nil
	})
	return counts, err
}

// Children returns the names of the children of each directory, as the server shows them. A directory that does not exist, or
// cannot be read, has none.
func Children(ctx context.Context, c *zk.Client, dirs []string) (map[string]map[string]bool, error) {
	all := make(map[string]map[string]bool)
	for _, dir := range dirs {
		all[dir] = make(map[string]bool)
	}
	err := newReader(c, nil).each(ctx, len(dirs), func(i int) zk.Op { return zk.ChildrenOp(dirs[i]) }, func(i int, res zk.Result) error {
		for _, name := range res.Children {
			all[dirs[i]][name] = true
		}
		return nil
	})
	return all, err
}
