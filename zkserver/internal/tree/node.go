package tree

import (
	"slices"
	"strings"

	"holdfast/zkproto"
)

// A node is one znode. It owns a copy of its data, which is replaced as a whole.
type node struct {
	path      string // the key in Tree.nodes
	data      []byte
	acl       *acl
	czxid     int64
	mzxid     int64
	pzxid     int64
	ctime     int64
	mtime     int64
	owner     int64 // session id; 0 if not ephemeral
	version   int32
	creations int32 // children ever created, wrapping: the next sequence number
	aversion  int32
	container bool
	quota     bool  // Tree.quotas has the path
	dirty     parts // see Tree.changed
	ttl       int64 // milliseconds; 0 if there is none

	recursive *watchers // recursive watches on the path; nil or empty if there are none

	parent      *node      // nil for the root
	children    *childList // nil if there has never been one
	place       int32      // index among the parent's children
	rank        int32      // index among the nodes of the owner
	due         int32      // index in Tree.reapable
	descendants int32      // nodes below, on all levels
	bytes       int64      // of data, here and below
}

// A childList has the children of one node. Their order changes only when a child is created or
// removed, so a client that reads an unchanged list twice gets the same answer.
type childList struct {
	list
	nameBytes int32 // as they are on the wire
}

// A list is an ordered set of nodes. Each node knows its index.
type list struct{ nodes []*node }

func (l *list) add(n *node, index *int32) {
	*index = int32(len(l.nodes))
	l.nodes = append(l.nodes, n)
}

// remove moves the last node to the index of n. It leaves the index that n has stored.
func (l *list) remove(n *node, index func(*node) *int32) {
	at, last := *index(n), len(l.nodes)-1
	moved := l.nodes[last]
	l.nodes[at], l.nodes[last] = moved, nil
	l.nodes = l.nodes[:last]
	if moved != n {
		*index(moved) = at
	}
	if cap(l.nodes) > 64 && last < cap(l.nodes)/4 {
		l.nodes = slices.Clone(l.nodes) // with less room
	}
}

// restore undoes remove of n, which must be the last change of the list.
func (l *list) restore(n *node, index func(*node) *int32) {
	at := *index(n)
	if int(at) == len(l.nodes) {
		l.nodes = append(l.nodes, n)
		return
	}
	l.add(l.nodes[at], index(l.nodes[at]))
	l.nodes[at] = n
}

func place(n *node) *int32 { return &n.place }
func rank(n *node) *int32  { return &n.rank }
func due(n *node) *int32   { return &n.due }

// count returns the number of children.
func (n *node) count() int {
	if n.children == nil {
		return 0
	}
	return len(n.children.nodes)
}

// below returns the children. The caller must not change the slice.
func (n *node) below() []*node {
	if n.children == nil {
		return nil
	}
	return n.children.nodes
}

// nameBytes returns the length of the encoded list of children.
func (n *node) nameBytes() int {
	if n.children == nil {
		return 0
	}
	return int(n.children.nameBytes)
}

// grow adds to the bytes of n and of all its ancestors.
func (t *Tree) grow(n *node, bytes int64) {
	for ; n != nil; n = n.parent {
		n.bytes += bytes
		t.steps++
	}
}

// stat returns the node's Stat. Cversion counts creations and deletions of children,
// but only creations are stored: the missing children must have been deleted.
func (n *node) stat() zkproto.Stat {
	return zkproto.Stat{
		Czxid: n.czxid, Mzxid: n.mzxid, Ctime: n.ctime, Mtime: n.mtime,
		Version: n.version, Cversion: 2*n.creations - int32(n.count()), Aversion: n.aversion,
		EphemeralOwner: n.owner, DataLength: int32(len(n.data)),
		NumChildren: int32(n.count()), Pzxid: n.pzxid,
	}
}

// parentOf returns the path of the parent. path has a slash in it.
func parentOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

func nameOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// cloneData copies data that may alias a connection's buffer. null stays null and empty
// stays empty.
func cloneData(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}
