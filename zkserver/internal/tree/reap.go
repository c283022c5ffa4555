package tree

import "holdfast/zkproto"

// Reap removes a node that Reapable named, if it still would.
func (t *Tree) Reap(tx Txn, path string) {
	if n := t.nodes[path]; n != nil && n.idle(tx.Time) {
		t.remove(tx, n)
	}
	t.finish(zkproto.CodeOK)
}

// A call of Reapable looks at reapLooks nodes at most. It finds reapMost nodes at most, or as many as
// have paths of reapBytes. All clients wait for it, and there may be millions of nodes.
const (
	reapLooks = 10_000
	reapMost  = 1000
	reapBytes = 256 << 10
)

// Reapable lists nodes that may be removed. These are containers that had children and have none
// now, and nodes without children that were not changed for their time to live. It looks at a portion
// of the nodes. now is in milliseconds since 1970. If Reaping reports true afterwards, the next call goes on.
func (t *Tree) Reapable(now int64) []string {
	var paths []string
	nodes := t.reapable.nodes
	if !t.Reaping() {
		t.unreaped = len(nodes)
	}
	// From the end, since a node that goes leaves its place to the last one.
	t.unreaped = min(t.unreaped, len(nodes))
	size := 0
	for looks := 0; t.unreaped > 0 && looks < reapLooks && len(paths) < reapMost && size < reapBytes; looks++ {
		t.unreaped--
		if n := nodes[t.unreaped]; n.idle(now) {
			paths = append(paths, n.path)
			size += len(n.path)
		}
	}
	return paths
}

// Reaping reports whether Reapable has still to look at nodes of the present round.
func (t *Tree) Reaping() bool { return t.unreaped > 0 }

// reapable reports whether n may be removed one day without a client's request.
func (n *node) reapable() bool { return n.container || n.ttl > 0 }

func (n *node) idle(now int64) bool {
	if n.count() > 0 {
		return false
	}
	return n.container && n.creations != 0 || n.ttl > 0 && now-n.mtime > n.ttl
}
