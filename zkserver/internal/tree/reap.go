package tree

import "holdfast/zkproto"

// Reap removes a node that Reapable named, if it still would.
func (t *Tree) Reap(tx Txn, path string) {
	if n := t.nodes[path]; n != nil && n.idle(tx.Time) {
		t.remove(tx, n)
	}
	t.finish(zkproto.CodeOK)
}

// Reapable lists what nobody needs any more: containers that had children and have none
// now, and nodes without children that were not changed for their time to live. now is
// in milliseconds since 1970.
func (t *Tree) Reapable(now int64) []string {
	var paths []string
	for path := range t.reapable {
		if t.nodes[path].idle(now) {
			paths = append(paths, path)
		}
	}
	return paths
}

func (n *node) idle(now int64) bool {
	if n.count() > 0 {
		return false
	}
	return n.container && n.creations != 0 || n.ttl > 0 && now-n.mtime > n.ttl
}
