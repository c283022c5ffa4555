package tree

import "holdfast/zkproto"

// Reap removes a node that Reapable returned, if it may still be removed.
func (t *Tree) Reap(tx Txn, path string) {
	if n := t.nodes[path]; n != nil && n.idle(tx.Time) {
		t.remove(tx, n)
	}
	t.finish(zkproto.CodeOK)
}

// These constants bound one call of Reapable. It visits at most reapLooks nodes. It returns at most
// reapMost nodes, and fewer if their paths reach reapBytes. All clients wait for it, and there may
// be millions of nodes.
const (
	reapLooks = 10_000
	reapMost  = 1000
	reapBytes = 256 << 10
)

// Reapable returns nodes that may be removed. These are containers that had children and have none
// now, and nodes without children that were not changed for their time to live. It visits a portion
// of the nodes. now is in milliseconds since 1970. If Reaping reports true afterwards, the next call
// continues.
func (t *Tree) Reapable(now int64) []string {
	var paths []string
	nodes := t.reapable.nodes
	if !t.Reaping() {
		t.unreaped = len(nodes)
	}
	// Visit the last node first: a removed node leaves its index to the last one.
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

// Reaping reports whether Reapable has nodes left to visit in the current round.
func (t *Tree) Reaping() bool { return t.unreaped > 0 }

// reapable reports whether n may one day be removed without a client's request.
func (n *node) reapable() bool { return n.container || n.ttl > 0 }

func (n *node) idle(now int64) bool {
	if n.count() > 0 {
		return false
	}
	return n.container && n.creations != 0 || n.ttl > 0 && now-n.mtime > n.ttl
}
