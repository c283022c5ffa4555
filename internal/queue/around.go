package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// A tree locks its path with everything below it. So it must not be held together with a lock of another kind at
// its path or below. Both look: a lock looks at the trees above it, and a tree at the locks below it. Each makes
// its own node before it looks. So if the two come together, at least one sees the other.

// lookAround reads what is around q.
func (q *Queue) lookAround(ctx context.Context, s *zk.Session) (*Around, error) {
	ops, around := q.looks(s, nil)
	if len(ops) == 0 {
		return around, nil
	}
	err := zk.Retry(ctx, func() error {
		results, err := s.Pipeline(ctx, ops...)
		if results == nil {
			return err
		}
		around.take(results)
		for _, r := range results {
			if r.Err != nil && !errors.Is(r.Err, zk.ErrNoNode) {
				return r.Err
			}
		}
		return nil
	})
	return around, err
}

// CheckAround fails with ErrKind if a lock of another kind is around q, and would not exclude it. around was read after
// our own node was made. If that is missing or does not show everything, CheckAround reads again.
func (q *Queue) CheckAround(ctx context.Context, s *zk.Session, around *Around) (err error) {
	for around == nil || !around.shows(q) {
		if around, err = q.lookAround(ctx, s); err != nil {
			return q.hidden(err)
		}
	}
	for i, tree := range around.trees {
		if around.results[i].Stat.NumChildren == 0 { // it was left over, or does not exist
			continue
		}
		node, err := placeIn(ctx, s, tree)
		switch {
		case err != nil:
			return q.hidden(err)
		case node != "":
			return q.otherKind(ofTree(node))
		}
	}
	if q.outer == nil {
		return nil
	}
	return q.outer.checkOuter(ctx, s, around.results[len(around.trees)].Children)
}

// hidden adds to err what a client that may not read a node cannot see.
func (q *Queue) hidden(err error) error {
	if !errors.Is(err, zk.ErrNoAuth) {
		return err
	}
	what := "a tree holds " + q.Path
	if q.Kind == Tree {
		what = "there are other locks in the tree " + q.Path
	}
	return fmt.Errorf("%w: without the right to read that node, holdfast cannot see whether %s", err, what)
}

// withdrawal is how long a lock of another kind at the path of shards may take to see the shards and withdraw.
const (
	withdrawal  = time.Second
	withdrawals = 5
)

// checkOuter is CheckAround for the lock that a queue is a part of.
func (q *Queue) checkOuter(ctx context.Context, s *zk.Session, listed []string) error {
	err := q.CheckKind(ctx, listed)
	// A lock that was tried at the path of shards in use withdraws. It must not end the workers meanwhile.
	for range withdrawals {
		if q.Kind != Shards || !errors.Is(err, ErrKind) {
			break
		}
		pause := time.NewTimer(withdrawal / withdrawals)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return context.Cause(ctx)
		}
		if listed, err = Children(ctx, q.Client, q.Path); err == nil {
			err = q.CheckKind(ctx, listed)
		}
	}
	if err == nil && q.Kind == Tree {
		err = q.checkBelow(ctx, s, listed)
	}
	return err
}

// Bounds of the look below a tree. Tests lower MostBelow.
var MostBelow = 10_000

const longestBelow = 5 * time.Second

// checkBelow fails with ErrKind if a lock below the path of a tree, q, is not the tree's. listed are the children of
// the path. Mostly all of them are queues of the tree.
func (q *Queue) checkBelow(ctx context.Context, s *zk.Session, listed []string) error {
	watch := &stopwatch{inner: s}
	var level []string
	add := func(dir string, listed []string) {
		for _, name := range listed {
			if dir != q.Path || !strings.HasPrefix(name, TreePart) {
				level = append(level, dir+"/"+name)
			}
		}
	}
	add(q.Path, listed)
	seen := 0
	for len(level) > 0 {
		now, named := turnstilesFirst(level)
		level = nil
		for some := range slices.Chunk(now, readsInFlight) {
			if seen += len(some); seen+len(level) > MostBelow { // also if there is no end of changes
				return q.tooMuchBelow(fmt.Sprintf("more than %d nodes", MostBelow))
			}
			found, err := q.listAll(ctx, watch, some)
			switch {
			case err != nil:
				return err
			case watch.spent > longestBelow:
				return q.tooMuchBelow(fmt.Sprintf("more nodes than the server lists in %v", longestBelow))
			}
			for i, r := range found {
				node := some[i]
				cut := strings.LastIndexByte(node, '/')
				switch {
				case r.Err != nil:
					if named[node] && names.Numbered(node[cut+1:]) {
						level = append(level, placesAfter(node[:cut])...)
					}
					continue
				case node != q.Path:
					found, err := lockAt(ctx, s, node, r.Stat)
					if err != nil {
						return err
					}
					if found.Node != "" {
						return q.otherKind(found)
					}
				}
				add(node, r.Children)
			}
		}
	}
	return nil
}

// listAll lists nodes. The only error that a result can have is ErrNoNode. A node that we may not read has no lock
// below it if it has no children.
func (q *Queue) listAll(ctx context.Context, c pipeliner, nodes []string) (found []zk.Result, _ error) {
	var lists []zk.Op
	for _, node := range nodes {
		lists = append(lists, zk.ChildrenOp(node))
	}
	var hidden []int
	err := zk.Retry(ctx, func() (err error) {
		hidden = nil
		if found, err = c.Pipeline(ctx, lists...); found == nil {
			return err
		}
		for i, r := range found {
			switch {
			case errors.Is(r.Err, zk.ErrNoAuth):
				hidden = append(hidden, i)
			case r.Err != nil && !errors.Is(r.Err, zk.ErrNoNode):
				return r.Err
			}
		}
		return nil
	})
	if err != nil || len(hidden) == 0 {
		return found, err
	}
	var looks []zk.Op
	for _, i := range hidden {
		looks = append(looks, zk.ExistsOp(nodes[i]))
	}
	seen, err := pipeline(ctx, c, looks) // some servers answer this without the right to read
	if err != nil {
		return nil, q.hidden(err)
	}
	for j, i := range hidden {
		if seen[j].Stat.NumChildren > 0 {
			return nil, q.hidden(found[i].Err)
		}
		found[i] = seen[j]
	}
	return found, nil
}

// placesAfter returns the directories where another node may have taken the place of one that has gone from dir: its
// own, and that of the permits if dir is a turnstile.
func placesAfter(dir string) []string {
	dirs := []string{dir}
	for _, g := range semaphores() {
		if of, ok := strings.CutSuffix(dir, g.Semaphore.Turnstile); ok {
			dirs = append(dirs, of+g.Semaphore.Leases)
		}
	}
	return dirs
}

// A stopwatch adds up how long the server takes to answer. A lost connection does not count.
type stopwatch struct {
	inner pipeliner
	spent time.Duration
}

func (w *stopwatch) Pipeline(ctx context.Context, ops ...zk.Op) ([]zk.Result, error) {
	began := time.Now()
	results, err := w.inner.Pipeline(ctx, ops...)
	if err == nil || errors.Is(err, zk.ErrNoNode) {
		w.spent += time.Since(began)
	}
	return results, err
}

func (q *Queue) tooMuchBelow(what string) error {
	return fmt.Errorf("%w: there are %s below %s, so holdfast cannot see whether other locks are among them: give the tree a path of its own, with nothing else below it",
		ErrKind, what, q.Path)
}

// turnstilesFirst sorts nodes so that the turnstile of a semaphore comes before its permits: the place in the
// turnstile goes when the permit is there. The directory of the permits may be younger than the names that we have,
// so it is added. named are the nodes that were given.
func turnstilesFirst(nodes []string) (sorted []string, named map[string]bool) {
	named = make(map[string]bool)
	for _, node := range nodes {
		named[node] = true
	}
	all := semaphores()
	var permits, rest []string
	for _, node := range nodes {
		turnstile := false
		for _, g := range all {
			of, ok := strings.CutSuffix(node, g.Semaphore.Turnstile)
			if leases := of + g.Semaphore.Leases; ok && !named[leases] {
				permits = append(permits, leases)
			}
			turnstile = turnstile || ok
		}
		if turnstile {
			sorted = append(sorted, node)
		} else {
			rest = append(rest, node)
		}
	}
	return slices.Concat(sorted, permits, rest), named
}

// lockAt says which lock a node below a tree is of. It returns no node if it is of none that this package knows.
func lockAt(ctx context.Context, s *zk.Session, node string, stat zk.Stat) (Stranger, error) {
	cut := strings.LastIndexByte(node, '/')
	dir, name := node[:cut], node[cut+1:]
	switch {
	case names.Numbered(name) && isPlace(name, stat):
		return placeOf(dir, name), nil
	case stat.EphemeralOwner == 0:
		return Stranger{}, nil
	case isBarePermit(name):
		return ofSemaphore(node, names.Compile(names.Kazoo)), nil
	case stat.DataLength == 0:
		return Stranger{}, nil
	}
	found, err := pipeline(ctx, s, []zk.Op{zk.GetOp(node)})
	if err != nil {
		return Stranger{}, err
	}
	if n, ok := ParseNote(found[0].Data); ok && n.ID != "" {
		return ofNode(node), nil
	}
	return Stranger{}, nil
}

// placeOf says which lock a place is of, by its name and its directory.
func placeOf(dir, name string) Stranger {
	node := dir + "/" + name
	if strings.HasSuffix(dir, "/"+TreeRoot) {
		return ofTree(node)
	}
	for _, g := range semaphores() {
		s := &g.Semaphore
		if s.Numbered && (strings.HasSuffix(dir, s.Leases) || strings.HasSuffix(dir, s.Turnstile)) {
			return ofSemaphore(node, g)
		}
	}
	if g := names.Detect(name); g != nil {
		return ofLock(node, g.Label)
	}
	return ofUnknown(node)
}
