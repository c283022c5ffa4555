package tree

import "holdfast/zkproto"

// Reap removes a node that Reapable named, if it still would.
func (t *Tree) Reap(tx Txn, path string) {
	if n := t.nodes[path]; n != nil && n.idle(tx.Time) {
		t.remove(tx, n)
	}
	t.finish(zkproto.CodeOK)
}

// A call of Reapable ends when it has looked at so many nodes, or found so many: everybody
// waits for it, and there may be millions.
const (
	reapLooks = 10_000
	reapMost  = 1000
)

// Reapable lists what nobody needs any more: containers that had children and have none
// now, and nodes without children that were not changed for their time to live. now is
// in milliseconds since 1970. If Reaping says so then, the next call has more.
func (t *Tree) Reapable(now int64) []string {
	var paths []string
	nodes := t.reapable.nodes
	if !t.Reaping() {
		t.unreaped = len(nodes)
	}
	// From the end, since a node that goes leaves its place to the last one.
	t.unreaped = min(t.unreaped, len(nodes))
	for looks := 0; t.unreaped > 0 && looks < reapLooks && len(paths) < reapMost; looks++ {
		t.unreaped--
		if n := nodes[t.unreaped]; n.idle(now) {
			paths = append(paths, n.path)
		}
	}
	return paths
}

// Reaping reports whether there are nodes that Reapable has not looked at.
func (t *Tree) Reaping() bool { return t.unreaped > 0 }

func (n *node) reapable() bool { return n.container || n.ttl > 0 }

func (n *node) idle(now int64) bool {
	if n.count() > 0 {
		return false
	}
	return n.container && n.creations != 0 || n.ttl > 0 && now-n.mtime > n.ttl
}
