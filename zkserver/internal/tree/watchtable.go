package tree

import (
	"iter"
	"maps"
	"slices"
)

type watchKind uint8

const (
	watchData       watchKind = iota // of getData and exists
	watchChildren                    // of getChildren
	watchPersistent                  // of addWatch: like the two above
	watchRecursive                   // of addWatch: nodes at and below the path, not their lists of children
	watchKindCount
)

func (k watchKind) oneShot() bool { return k == watchData || k == watchChildren }

// A watchTable has the watches by kind and path, and by watcher. A disconnect needs the index
// by watcher.
type watchTable struct {
	armed     [watchKindCount]map[string]*watchers
	byWatcher map[Watcher]map[watchKey]struct{}
	count     int
	weight    int // of all
	weights   map[Watcher]int

	// dropped has the watches of dropped watchers. A connection may have 100,000 watches,
	// and all clients would wait while they are removed at once. The watches of a dropped watcher
	// stay in armed until sweep removes them.
	dropped map[Watcher][]watchKey
}

// watchers are the watchers of one kind on one path. Most paths have one watcher. If each had a map,
// these maps would be most of the memory that the garbage collector scans.
type watchers struct {
	one  Watcher
	more map[Watcher]struct{} // all watchers, once there have been several
}

func (w *watchers) add(by Watcher) {
	switch {
	case w.more != nil:
		w.more[by] = struct{}{}
	case w.one == 0:
		w.one = by
	default:
		w.more = map[Watcher]struct{}{w.one: {}, by: {}}
	}
}

// remove removes by, which must be in w.
func (w *watchers) remove(by Watcher) {
	w.one = 0 // ignored once there have been several
	delete(w.more, by)
}

// count returns the number of watchers in w.
func (w *watchers) count() int { return max(1, len(w.more)) }

// has reports whether by is in w.
func (w *watchers) has(by Watcher) bool {
	if w.more == nil {
		return w.one == by
	}
	_, ok := w.more[by]
	return ok
}

// none reports whether w is nil or empty.
func (w *watchers) none() bool { return w == nil || w.one == 0 && len(w.more) == 0 }

// all returns the watchers in w, which may be nil. The caller may remove them during the iteration.
func (w *watchers) all() iter.Seq[Watcher] {
	return func(yield func(Watcher) bool) {
		if w == nil {
			return
		}
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

// WatchWeight returns the weight of a watch on path in WatchWeights. Long paths weigh more, because
// they take memory.
func WatchWeight(path string) int { return 1 + len(path)/256 }

type watchKey struct {
	kind watchKind
	path string
}

func newWatchTable() watchTable {
	w := watchTable{
		byWatcher: make(map[Watcher]map[watchKey]struct{}), weights: make(map[Watcher]int),
		dropped: make(map[Watcher][]watchKey),
	}
	for kind := range w.armed {
		w.armed[kind] = make(map[string]*watchers)
	}
	return w
}

func (w *watchTable) add(by Watcher, k watchKey) {
	if w.has(by, k) {
		return
	}
	w.sweep(sweepPerAdd)
	if w.dropped[by] != nil {
		w.sweepAll(by)
	}
	w.count++
	w.weight += WatchWeight(k.path)
	w.weights[by] += WatchWeight(k.path)
	armed := w.armed[k.kind]
	if armed[k.path] == nil {
		armed[k.path] = new(watchers)
	}
	armed[k.path].add(by)
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
	w.disarm(by, k)
	return true
}

func (w *watchTable) disarm(by Watcher, k watchKey) {
	armed := w.armed[k.kind]
	if armed[k.path].remove(by); armed[k.path].none() {
		delete(armed, k.path)
	}
}

// drop removes all watches of by. sweep frees their memory in portions.
func (w *watchTable) drop(by Watcher) {
	keys := w.byWatcher[by]
	if keys == nil {
		return
	}
	w.count -= len(keys)
	w.weight -= w.weights[by]
	delete(w.byWatcher, by)
	delete(w.weights, by)
	w.dropped[by] = slices.AppendSeq(make([]watchKey, 0, len(keys)), maps.Keys(keys))
}

// sweepPerAdd is how many watches of dropped watchers are removed for each new watch, so that they
// do not accumulate.
const sweepPerAdd = 4

// sweep removes up to n watches of dropped watchers.
func (w *watchTable) sweep(n int) {
	for by, keys := range w.dropped {
		for ; len(keys) > 0 && n > 0; n-- {
			last := len(keys) - 1
			w.disarm(by, keys[last])
			keys[last] = watchKey{}
			keys = keys[:last]
		}
		if len(keys) > 0 {
			w.dropped[by] = keys
			return
		}
		delete(w.dropped, by)
	}
}

// sweepAll removes the remaining watches of one dropped watcher.
func (w *watchTable) sweepAll(by Watcher) {
	for _, k := range w.dropped[by] {
		w.disarm(by, k)
	}
	delete(w.dropped, by)
}

// isDropped reports whether by is dropped, so that its watches in armed do not count.
func (w *watchTable) isDropped(by Watcher) bool {
	return len(w.dropped) > 0 && w.dropped[by] != nil
}
