package chaos_test

import (
	"context"

	"holdfast"
	"holdfast/chaos"
	"holdfast/layout"
	"holdfast/zk"
)

// trees returns the paths of a tree. To the oracles, every path is a read-write lock: a holder is the writer
// of its path, and a reader of those above it.
func trees(w *world, path string) lockSpec {
	node := map[string]string{"": path + "/%2F", "a": path + "/%2Fa", "a/b": path + "/%2Fa%2Fb", "a/c": path + "/%2Fa%2Fc"}
	spec := lockSpec{path: node[""], layout: layout.Curator}
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

// rooted returns a tree and another lock at its path or below it, as if by mistake. They refuse each other instead of
// waiting, as strangers do. The paths of the tree exclude each other too, so to the oracles all are one lock.
func rooted(w *world, path string) lockSpec {
	root := path + "/%2F"
	spec := lockSpec{ // the tokens in the history are those of the root, so an admin deletes no other nodes of the tree
		ids: []lockID{{path, path}}, dirs: []string{root, path + "/other", path + "/locks", path + "/leases"}, path: path, layout: layout.Curator, clashes: true,
	}
	writer := chaos.Op{Lock: path, Type: chaos.ReadWrite}
	reader := chaos.Op{Lock: path, Type: chaos.ReadWrite, Shared: true}
	spec.of = func(c *zk.Client) []locker {
		t := holdfast.NewTree(c, path, w.options()...)
		var ls []locker
		for _, p := range []string{"", "a", "a/b"} {
			of := t.Path(p)
			ls = append(ls, locker{parts: []chaos.Op{writer}, lock: of.Lock, try: of.TryLock})
		}
		below := path + "/other/lock"
		rw := holdfast.NewRWMutex(c, path, w.options(holdfast.WithLocalHandoff(2))...)
		others := []holdfast.Locker{
			rw, holdfast.NewMutex(c, below, w.options(holdfast.WithKeep(w.idle()))...), holdfast.NewNodeLock(c, below, w.options()...), rw.RLocker(),
			holdfast.NewSemaphore(c, path, 16, w.options()...).Locker(1), holdfast.NewMutex(c, path, holdfast.WithLayout(layout.Kazoo)),
		}
		n := w.seed / 16 % uint64(len(others)+1)
		if n == uint64(len(others)) {
			e := holdfast.NewElection(c, path, w.options()...)
			return append(ls, locker{parts: []chaos.Op{writer}, lock: func(ctx context.Context) (*holdfast.Hold, error) { return e.Campaign(ctx, nil) }})
		}
		other := locker{parts: []chaos.Op{writer}, lock: others[n].Lock, try: others[n].TryLock}
		if n == 3 || n == 4 {
			other.parts, other.try = []chaos.Op{reader}, nil // no try, as in strangers
		}
		return append(ls, other, other)
	}
	return spec
}
