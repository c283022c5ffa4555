package tree

import (
	"iter"
	"maps"
	"math"
)

// The lists of watches for the four-letter words. A path on which one watcher has watches of several
// kinds is listed once.

// WatchersAndPaths returns the number of watchers and the number of watched paths.
func (t *Tree) WatchersAndPaths() (watchers, paths int) {
	for range t.WatchedPaths() {
		paths++
	}
	return len(t.watches.byWatcher), paths
}

// WatchedBy returns the paths that a connection watches, in no particular order.
func (t *Tree) WatchedBy(by Watcher) iter.Seq[string] {
	return func(yield func(string) bool) {
		for k := range t.watches.byWatcher[by] {
			if t.watches.first(k, func(other watchKey) bool { return t.watches.has(by, other) }) && !yield(k.path) {
				return
			}
		}
	}
}

// WatchedPaths returns the watched paths, in no particular order, each with its watchers.
func (t *Tree) WatchedPaths() iter.Seq2[string, iter.Seq[Watcher]] {
	w := &t.watches
	return func(yield func(string, iter.Seq[Watcher]) bool) {
		w.sweep(math.MaxInt)
		for kind := range watchKindCount {
			for path, by := range w.armed[kind] {
				k := watchKey{kind, path}
				isArmed := func(other watchKey) bool {
					_, armed := w.armed[other.kind][other.path]
					return armed
				}
				if !w.first(k, isArmed) {
					continue
				}
				if !yield(path, w.union(k, by)) {
					return
				}
			}
		}
	}
}

// first reports whether the path of k has no watch of a lower kind.
func (w *watchTable) first(k watchKey, is func(watchKey) bool) bool {
	for kind := range k.kind {
		if is(watchKey{kind, k.path}) {
			return false
		}
	}
	return true
}

// union returns by and the watchers of the path of k by other kinds.
func (w *watchTable) union(k watchKey, by *watchers) iter.Seq[Watcher] {
	union := make(map[Watcher]struct{})
	for kind := k.kind + 1; kind < watchKindCount; kind++ {
		for other := range w.armed[kind][k.path].all() {
			union[other] = struct{}{}
		}
	}
	if len(union) == 0 {
		return by.all()
	}
	for b := range by.all() {
		union[b] = struct{}{}
	}
	return maps.Keys(union)
}
