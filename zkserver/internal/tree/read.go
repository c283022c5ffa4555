package tree

import (
	"slices"
	"strings"

	"holdfast/zkproto"
)

// lookup returns a node for a read. The root has two names.
func (t *Tree) lookup(path string) *node {
	if path == "" {
		path = "/"
	}
	return t.nodes[path]
}

// Exists returns the Stat of a node.
func (t *Tree) Exists(path string, as ...Identity) (zkproto.Stat, zkproto.Code) {
	if strings.IndexByte(path, 0) >= 0 {
		return zkproto.Stat{}, zkproto.CodeBadArguments
	}
	n, code := t.readable(path, as)
	if n == nil {
		return zkproto.Stat{}, code
	}
	return n.stat(), zkproto.CodeOK
}

// Get returns the data of a node. The data belongs to the tree: the caller must not
// change it, nor read it after the next write.
func (t *Tree) Get(path string, as ...Identity) ([]byte, zkproto.Stat, zkproto.Code) {
	n, code := t.readable(path, as)
	if n == nil {
		return nil, zkproto.Stat{}, code
	}
	return n.data, n.stat(), zkproto.CodeOK
}

// Children returns the names of a node's children. Their order stays the same until a child
// is created or removed, or the server restarts.
func (t *Tree) Children(path string, as ...Identity) ([]string, zkproto.Stat, zkproto.Code) {
	n, code := t.readable(path, as)
	if n == nil {
		return nil, zkproto.Stat{}, code
	}
	names := make([]string, n.count())
	for i, child := range n.below() {
		names[i] = nameOf(child.path)
	}
	return names, n.stat(), zkproto.CodeOK
}

// DataSize returns the length of a node's data, or 0 if there is no such node.
func (t *Tree) DataSize(path string) int {
	if n := t.lookup(path); n != nil {
		return len(n.data)
	}
	return 0
}

// NamesSize returns the length of the encoded list of a node's children, or 0 if there is no such
// node.
func (t *Tree) NamesSize(path string) int {
	if n := t.lookup(path); n != nil {
		return n.nameBytes()
	}
	return 0
}

// ACLSize returns the length of a node's encoded ACL, or 0 if there is no such node.
func (t *Tree) ACLSize(path string) int {
	if n := t.lookup(path); n != nil {
		return wireSize(n.acl.entries)
	}
	return 0
}

func (t *Tree) readable(path string, as []Identity) (*node, zkproto.Code) {
	n := t.lookup(path)
	switch {
	case n == nil:
		return nil, zkproto.CodeNoNode
	case !t.permits(n.acl, zkproto.PermRead, as):
		return nil, zkproto.CodeNoAuth
	}
	return n, zkproto.CodeOK
}

// Ephemerals returns the nodes of a session, sorted.
func (t *Tree) Ephemerals(session int64) []string {
	paths := t.EphemeralsBelow(session, "")
	slices.Sort(paths)
	return paths
}

// EphemeralsSize returns the length of the encoded list of a session's nodes.
func (t *Tree) EphemeralsSize(session int64) int {
	if o := t.ephemerals[session]; o != nil {
		return o.pathBytes
	}
	return 0
}

// Owners returns the sessions that own ephemeral nodes.
func (t *Tree) Owners() []int64 {
	ids := make([]int64, 0, len(t.ephemerals))
	for id := range t.ephemerals {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// EphemeralsBelow returns the nodes of a session whose path begins with prefix, byte by
// byte; "" and "/" match all of them. The order stays the same until one of the session's
// nodes is created or removed, or the server restarts.
func (t *Tree) EphemeralsBelow(session int64, prefix string) []string {
	if all := strings.TrimSpace(prefix); all == "" || all == "/" {
		prefix = "/"
	}
	paths := make([]string, 0, t.ephemerals[session].count())
	if len(paths) == cap(paths) {
		return paths
	}
	for _, n := range t.ephemerals[session].nodes {
		if strings.HasPrefix(n.path, prefix) {
			paths = append(paths, n.path)
		}
	}
	return paths
}

// Descendants returns the number of nodes below a node, on all levels.
func (t *Tree) Descendants(path string, as ...Identity) (int, zkproto.Code) {
	n, code := t.readable(path, as)
	if n == nil {
		return 0, code
	}
	return int(n.descendants), zkproto.CodeOK
}
