package tree

import (
	"iter"
	"maps"
	"math"
)

// What the four-letter words tell of watches. A path with watches of several kinds by the
// same watcher comes once.

// WatchersAndPaths counts those who have watches, and the paths that are watched.
func (t *Tree) WatchersAndPaths() (watchers, paths int) {
	for range t.WatchedPaths() {
		paths++
	}
	return len(t.watches.byWatcher), paths
}

// WatchedBy are the paths that a connection watches, in no particular order.
func (t *Tree) WatchedBy(by Watcher) iter.Seq[string] {
	return func(yield func(string) bool) {
		for k := range t.watches.byWatcher[by] {
			if t.watches.first(k, func(other watchKey) bool { return t.watches.has(by, other) }) && !yield(k.path) {
				return
			}
		}
	}
}

// WatchedPaths are the paths that are watched, in no particular order, each with those
// who watch it.
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

// first reports whether there is no watch on the path of k of a lesser kind.
func (w *watchTable) first(k watchKey, is func(watchKey) bool) bool {
	for kind := range k.kind {
		if is(watchKey{kind, k.path}) {
			return false
		}
	}
	return true
}

// union is by and those who watch the path of k by another kind.
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
