package survey

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

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
	err := r.each(ctx, slices.Compact(paths), zk.GetOp, func(path string, res zk.Result) { nodes[path] = res })
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
	if l.Limit == 0 {
		l.Permits = withoutPending(l)
	}
	return l
}

// withoutPending returns the permits of Curator's semaphore without the one of the first waiter. Curator makes
// the node of a permit first, and then waits until there are few enough of them. It stores no limit.
func withoutPending(l waitgraph.Lock) []waitgraph.Place {
	if len(l.Queue) == 0 {
		return l.Permits
	}
	first, pending := l.Queue[0], -1
	for i, p := range l.Permits {
		if p.Session == first.Session && p.Zxid > first.Zxid && (pending < 0 || p.Zxid > l.Permits[pending].Zxid) {
			pending = i
		}
	}
	if pending < 0 {
		return l.Permits
	}
	return slices.Delete(l.Permits, pending, pending+1)
}

func placeOf(path string, res zk.Result) waitgraph.Place {
	n := queue.ReadNote(res.Data)
	return waitgraph.Place{
		Node: path, Zxid: res.Stat.Czxid, Session: res.Stat.EphemeralOwner, Within: n.Within,
		Since: time.UnixMilli(res.Stat.Ctime), Owner: n.Owner, Reason: n.Reason,
	}
}
