package tree

import (
	"slices"
	"strings"

	"holdfast/zkproto"
)

// A Tree holds all nodes and watches. It is not safe for concurrent use.
type Tree struct {
	nodes      map[string]*node // by full path
	ephemerals map[int64]map[string]struct{}
	containers map[string]struct{}

	watches watchTable
	events  []Event

	changed map[string]struct{}

	// What the write in progress has done so far; see finish.
	undo     []func()
	triggers []trigger
	touched  []string
	nested   bool // inside a transaction, which finishes for its operations
}

// A Txn is the identity of one write.
type Txn struct {
	Zxid    int64
	Time    int64 // wall clock, milliseconds since 1970
	Session int64
}

// New returns a tree with the nodes that every ZooKeeper server has.
func New() *Tree {
	t := &Tree{
		nodes:      make(map[string]*node),
		ephemerals: make(map[int64]map[string]struct{}),
		containers: make(map[string]struct{}),
		watches:    newWatchTable(),
		changed:    make(map[string]struct{}),
	}
	t.nodes["/"] = &node{acl: openACL, data: []byte{}}
	t.link("/zookeeper", &node{acl: openACL, data: []byte{}})
	t.link("/zookeeper/quota", &node{acl: openACL, data: []byte{}})
	t.link("/zookeeper/config", &node{acl: readOnlyACL, data: []byte{}, aversion: -1})
	return t
}

// Len is the number of nodes.
func (t *Tree) Len() int { return len(t.nodes) }

// lookup finds a node for a read; the root has two names.
func (t *Tree) lookup(path string) *node {
	if path == "" {
		path = "/"
	}
	return t.nodes[path]
}

// Exists answers with the Stat of a node.
func (t *Tree) Exists(path string) (zkproto.Stat, zkproto.Code) {
	if strings.IndexByte(path, 0) >= 0 {
		return zkproto.Stat{}, zkproto.CodeBadArguments
	}
	n, code := t.readable(path)
	if n == nil {
		return zkproto.Stat{}, code
	}
	return n.stat(), zkproto.CodeOK
}

// Get answers with the data of a node, which stays the tree's: the caller must not
// change it, nor read it after the next write.
func (t *Tree) Get(path string) ([]byte, zkproto.Stat, zkproto.Code) {
	n, code := t.readable(path)
	if n == nil {
		return nil, zkproto.Stat{}, code
	}
	return n.data, n.stat(), zkproto.CodeOK
}

// Children answers with the names below a node, in no particular order.
func (t *Tree) Children(path string) ([]string, zkproto.Stat, zkproto.Code) {
	n, code := t.readable(path)
	if n == nil {
		return nil, zkproto.Stat{}, code
	}
	names := make([]string, 0, len(n.children))
	for name := range n.children {
		names = append(names, name)
	}
	return names, n.stat(), zkproto.CodeOK
}

func (t *Tree) readable(path string) (*node, zkproto.Code) {
	n := t.lookup(path)
	switch {
	case n == nil:
		return nil, zkproto.CodeNoNode
	case !n.permits(zkproto.PermRead):
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

// TakeChanges calls f for every path whose record may differ since the last call,
// in no particular order. The record, or its absence, is asked for with AppendNode.
func (t *Tree) TakeChanges(f func(path string)) {
	for path := range t.changed {
		f(path)
	}
	clear(t.changed)
}

// Changed reports whether TakeChanges has anything to tell.
func (t *Tree) Changed() bool { return len(t.changed) > 0 }

// link hangs n into every index; its parent exists.
func (t *Tree) link(path string, n *node) {
	t.nodes[path] = n
	parent := t.nodes[parentOf(path)]
	if parent.children == nil {
		parent.children = make(map[string]struct{})
	}
	parent.children[nameOf(path)] = struct{}{}
	if n.owner != 0 {
		if t.ephemerals[n.owner] == nil {
			t.ephemerals[n.owner] = make(map[string]struct{})
		}
		t.ephemerals[n.owner][path] = struct{}{}
	}
	if n.container {
		t.containers[path] = struct{}{}
	}
}

func (t *Tree) unlink(path string, n *node) {
	delete(t.nodes, path)
	delete(t.nodes[parentOf(path)].children, nameOf(path))
	if n.owner != 0 {
		delete(t.ephemerals[n.owner], path)
		if len(t.ephemerals[n.owner]) == 0 {
			delete(t.ephemerals, n.owner)
		}
	}
	delete(t.containers, path)
}
