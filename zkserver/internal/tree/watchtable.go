package tree

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
	armed     [watchKindCount]map[string]map[Watcher]struct{}
	byWatcher map[Watcher]map[watchKey]struct{}
	count     int
	weight    int // of all
	weights   map[Watcher]int
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
		w.armed[kind] = make(map[string]map[Watcher]struct{})
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
	if armed[k.path] == nil {
		armed[k.path] = make(map[Watcher]struct{})
	}
	armed[k.path][by] = struct{}{}
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
	armed := w.armed[k.kind]
	delete(armed[k.path], by)
	if len(armed[k.path]) == 0 {
		delete(armed, k.path)
	}
	return true
}
