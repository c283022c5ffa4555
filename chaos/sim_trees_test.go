package chaos_test

import (
	"holdfast"
	"holdfast/chaos"
	"holdfast/zk"
)

// trees returns the paths of a tree. To the oracles, every path is a read-write lock: a holder is the writer
// of its path, and a reader of those above it.
func trees(w *world, path string) lockSpec {
	node := map[string]string{"": path + "/%2F", "a": path + "/%2Fa", "a/b": path + "/%2Fa%2Fb", "a/c": path + "/%2Fa%2Fc"}
	spec := lockSpec{path: node[""], layout: holdfast.LayoutCurator}
	for _, p := range []string{"", "a", "a/b", "a/c"} {
		spec.ids = append(spec.ids, lockID{node[p], node[p]})
		spec.dirs = append(spec.dirs, node[p])
	}
	spec.of = func(c *zk.Client) []locker {
		t := holdfast.NewTree(c, path, w.options()...)
		var ls []locker
		for _, p := range []string{"", "a", "a/b", "a/c"} {
			of := t.Path(p)
			ls = append(ls, locker{parts: chaos.TreeLocks(path, p), tree: true, lock: of.Lock, try: of.TryLock})
		}
		return ls
	}
	return spec
}
