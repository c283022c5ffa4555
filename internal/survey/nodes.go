package survey

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/budget"
	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/internal/waitgraph"
	"holdfast/zk"
)

// nodes reads the nodes of locks. Nodes that are gone are left out.
func (r *reader) nodes(ctx context.Context, all []*found) (map[string]zk.Result, error) {
	var paths []string
	for _, f := range all {
		paths = append(paths, f.queue...)
		paths = append(paths, f.permits...)
		if f.limited != "" {
			paths = append(paths, f.limited)
		}
	}
	slices.Sort(paths)
	nodes := make(map[string]zk.Result, len(paths))
	err := r.each(ctx, slices.Compact(paths), zk.GetOp, func(path string, res zk.Result) error {
		if len(res.Data) > budget.MaxData {
			res.Data = bytes.Clone(res.Data[:budget.MaxData])
		}
		nodes[path] = res
		return r.budget.Keep(0, len(res.Data))
	})
	return nodes, err
}

// complete returns the lock with its places.
func (f *found) complete(nodes map[string]zk.Result) waitgraph.Lock {
	l := f.lock
	for i, path := range f.queue {
		if res, ok := nodes[path]; ok {
			p := placeOf(path, res)
			p.Shared, p.Idle = f.shared[i], f.idle
			l.Queue = append(l.Queue, p)
		}
	}
	if !l.Counted {
		return l
	}
	if limit, err := strconv.Atoi(string(nodes[f.limited].Data)); err == nil && limit > 0 {
		l.Limit = limit
	}
	for _, path := range f.permits {
		res, ok := nodes[path]
		if !ok {
			continue
		}
		if number, slot := names.SlotOf(path[strings.LastIndexByte(path, '/')+1:]); slot && l.Kind == "slots" && l.Limit > 0 && number >= l.Limit {
			continue // it is not given again
		}
		l.Permits = append(l.Permits, placeOf(path, res))
	}
	if l.Kind == "semaphore" && len(l.Queue) > 0 {
		var permits []zk.Stat
		for _, p := range l.Permits {
			permits = append(permits, nodes[p.Node].Stat)
		}
		if i := queue.Pending(l.Limit, nodes[l.Queue[0].Node].Stat, permits); i >= 0 {
			l.Permits = slices.Delete(l.Permits, i, i+1)
		}
	}
	return l
}

func placeOf(path string, res zk.Result) waitgraph.Place {
	n := queue.ReadNote(res.Data)
	return waitgraph.Place{
		Node: path, Zxid: res.Stat.Czxid, Session: res.Stat.EphemeralOwner, Within: n.Within,
		Since: time.UnixMilli(res.Stat.Ctime), Owner: n.Owner, Reason: n.Reason, Kept: n.Kept,
	}
}
