package tree

import "iter"

type watchKind uint8

const (
	watchData       watchKind = iota // of getData and exists
	watchChildren                    // of getChildren
	watchPersistent                  // of addWatch: like the two above
	watchRecursive                   // of addWatch: nodes at and below the path, not their lists of children
	watchKindCount
)

func (k watchKind) oneShot() bool { return k == watchData || k == watchChildren }

// A watchTable holds the watches: who has one of which kind on which path. The index by
// watcher is what a disconnect needs.
type watchTable struct {
	armed     [watchKindCount]map[string]watchers
	byWatcher map[Watcher]map[watchKey]struct{}
	count     int
	weight    int // of all
	weights   map[Watcher]int
}

// watchers are those of one kind on one path: one of them, or more. Most paths have one, and
// a map for each of those would be most of what the collector has to look at.
type watchers struct {
	one  Watcher
	more map[Watcher]struct{} // if there have been several, all of them
}

func (w watchers) with(by Watcher) watchers {
	switch {
	case w.more != nil:
		w.more[by] = struct{}{}
	case w.one == 0:
		w.one = by
	default:
		w.more = map[Watcher]struct{}{w.one: {}, by: {}}
	}
	return w
}

// without says whether any are left.
func (w watchers) without(by Watcher) bool {
	delete(w.more, by)
	return len(w.more) > 0
}

// all may be changed while it goes on.
func (w watchers) all() iter.Seq[Watcher] {
	return func(yield func(Watcher) bool) {
		if w.more == nil {
			if w.one != 0 {
				yield(w.one)
			}
			return
		}
		for by := range w.more {
			if !yield(by) {
				return
			}
		}
	}
}

// WatchWeight is what a watch on path counts for in WatchWeights: paths are memory.
func WatchWeight(path string) int { return 1 + len(path)/256 }

type watchKey struct {
	kind watchKind
	path string
}

func newWatchTable() watchTable {
	w := watchTable{byWatcher: make(map[Watcher]map[watchKey]struct{}), weights: make(map[Watcher]int)}
	for kind := range w.armed {
		w.armed[kind] = make(map[string]watchers)
	}
	return w
}

func (w *watchTable) add(by Watcher, k watchKey) {
	if w.has(by, k) {
		return
	}
	w.count++
	w.weight += WatchWeight(k.path)
	w.weights[by] += WatchWeight(k.path)
	armed := w.armed[k.kind]
	armed[k.path] = armed[k.path].with(by)
	if w.byWatcher[by] == nil {
		w.byWatcher[by] = make(map[watchKey]struct{})
	}
	w.byWatcher[by][k] = struct{}{}
}

func (w *watchTable) has(by Watcher, k watchKey) bool {
	_, ok := w.byWatcher[by][k]
	return ok
}

func (w *watchTable) remove(by Watcher, k watchKey) bool {
	if !w.has(by, k) {
		return false
	}
	w.count--
	w.weight -= WatchWeight(k.path)
	w.weights[by] -= WatchWeight(k.path)
	delete(w.byWatcher[by], k)
	if len(w.byWatcher[by]) == 0 {
		delete(w.byWatcher, by)
		delete(w.weights, by)
	}
	if armed := w.armed[k.kind]; !armed[k.path].without(by) {
		delete(armed, k.path)
	}
	return true
}
