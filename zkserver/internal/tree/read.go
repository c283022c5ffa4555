package tree

import (
	"slices"
	"strings"

	"holdfast/zkproto"
)

// lookup finds a node for a read; the root has two names.
func (t *Tree) lookup(path string) *node {
	if path == "" {
		path = "/"
	}
	return t.nodes[path]
}

// Exists answers with the Stat of a node.
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

// Get answers with the data of a node, which stays the tree's: the caller must not
// change it, nor read it after the next write.
func (t *Tree) Get(path string, as ...Identity) ([]byte, zkproto.Stat, zkproto.Code) {
	n, code := t.readable(path, as)
	if n == nil {
		return nil, zkproto.Stat{}, code
	}
	return n.data, n.stat(), zkproto.CodeOK
}

// Children answers with the names below a node, in no particular order.
func (t *Tree) Children(path string, as ...Identity) ([]string, zkproto.Stat, zkproto.Code) {
	n, code := t.readable(path, as)
	if n == nil {
		return nil, zkproto.Stat{}, code
	}
	names := make([]string, 0, len(n.children))
	for name := range n.children {
		names = append(names, name)
	}
	return names, n.stat(), zkproto.CodeOK
}

// DataSize is how long the data of a node are, 0 if there is none.
func (t *Tree) DataSize(path string) int {
	if n := t.lookup(path); n != nil {
		return len(n.data)
	}
	return 0
}

// NamesSize is how long the list of a node's children is on the wire, 0 if there is none.
func (t *Tree) NamesSize(path string) int {
	if n := t.lookup(path); n != nil {
		return int(n.nameBytes)
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

// Ephemerals lists the nodes of a session, sorted.
func (t *Tree) Ephemerals(session int64) []string {
	paths := make([]string, 0, len(t.ephemerals[session]))
	for path := range t.ephemerals[session] {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}

// Owners lists the sessions that own ephemeral nodes.
func (t *Tree) Owners() []int64 {
	ids := make([]int64, 0, len(t.ephemerals))
	for id := range t.ephemerals {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// EphemeralsBelow lists the nodes of a session whose path begins with prefix, byte by
// byte; "" and "/" stand for all of them.
func (t *Tree) EphemeralsBelow(session int64, prefix string) []string {
	paths := t.Ephemerals(session)
	if all := strings.TrimSpace(prefix); all == "" || all == "/" {
		return paths
	}
	return slices.DeleteFunc(paths, func(path string) bool { return !strings.HasPrefix(path, prefix) })
}

// Descendants counts the nodes below a node, on all levels.
func (t *Tree) Descendants(path string, as ...Identity) (int, zkproto.Code) {
	n, code := t.readable(path, as)
	if n == nil {
		return 0, code
	}
	return int(n.descendants), zkproto.CodeOK
}
