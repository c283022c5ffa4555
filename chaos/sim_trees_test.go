package chaos_test

import (
	"holdfast"
	"holdfast/chaos"
	"holdfast/zk"
)

// trees returns the paths of a tree. To the oracles, every path is a read-write lock: a holder is the writer
// of its path, and a reader of those above it.
func trees(_ *world, path string) lockSpec {
	node := map[string]string{"": path + "/%2F", "a": path + "/%2Fa", "a/b": path + "/%2Fa%2Fb", "a/c": path + "/%2Fa%2Fc"}
	spec := lockSpec{path: node[""], layout: holdfast.LayoutCurator}
	for _, p := range []string{"", "a", "a/b", "a/c"} {
		spec.ids = append(spec.ids, lockID{node[p], node[p]})
		spec.dirs = append(spec.dirs, node[p])
	}
	reader := func(p string) chaos.Op { return chaos.Op{Lock: node[p], Type: chaos.ReadWrite, Shared: true} }
	writer := func(p string) chaos.Op { return chaos.Op{Lock: node[p], Type: chaos.ReadWrite} }
	spec.of = func(c *zk.Client) []locker {
		t := holdfast.NewTree(c, path)
		var ls []locker
		for _, l := range []struct {
			path  string
			parts []chaos.Op
		}{
			{"", []chaos.Op{writer("")}},
			{"a", []chaos.Op{reader(""), writer("a")}},
			{"a/b", []chaos.Op{reader(""), reader("a"), writer("a/b")}},
			{"a/c", []chaos.Op{reader(""), reader("a"), writer("a/c")}},
		} {
			of := t.Path(l.path)
			ls = append(ls, locker{parts: l.parts, lock: of.Lock, try: of.TryLock})
		}
		return ls
	}
	return spec
}
