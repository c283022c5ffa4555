package tree

import (
	"fmt"
	"strings"

	"holdfast/zkproto"
)

// A node is one znode. Its children are kept by name, its data is its own copy.
type node struct {
	data      []byte
	acl       []zkproto.ACL
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
	ttl       int64 // milliseconds; 0 if the node stays
	children  map[string]struct{}

	parent      *node // nil for the root
	descendants int32 // nodes below, on all levels
	nameBytes   int32 // of children, as they are on the wire
}

// stat is the public record. Cversion counts creations and deletions of children,
// but only creations are stored: those that are gone must have been deleted.
func (n *node) stat() zkproto.Stat {
	return zkproto.Stat{
		Czxid: n.czxid, Mzxid: n.mzxid, Ctime: n.ctime, Mtime: n.mtime,
		Version: n.version, Cversion: 2*n.creations - int32(len(n.children)), Aversion: n.aversion,
		EphemeralOwner: n.owner, DataLength: int32(len(n.data)),
		NumChildren: int32(len(n.children)), Pzxid: n.pzxid,
	}
}

// AppendNode appends the record of path for the store and reports whether the node
// exists. Children are not part of it: their own records name their parent.
func (t *Tree) AppendNode(b []byte, path string) ([]byte, bool) {
	n := t.nodes[path]
	if n == nil {
		return b, false
	}
	b = zkproto.AppendBytes(b, n.data)
	b = zkproto.AppendACLs(b, n.acl)
	for _, v := range [...]int64{n.czxid, n.mzxid, n.pzxid, n.ctime, n.mtime, n.owner} {
		b = zkproto.AppendInt64(b, v)
	}
	for _, v := range [...]int32{n.version, n.creations, n.aversion} {
		b = zkproto.AppendInt32(b, v)
	}
	b = zkproto.AppendBool(b, n.container)
	if n.ttl > 0 { // absent otherwise, as in records from before there was one
		b = zkproto.AppendInt64(b, n.ttl)
	}
	return b, true
}

// LoadNode puts back a record that AppendNode made. Records may come in any order;
// Loaded must be called behind the last.
func (t *Tree) LoadNode(path string, record []byte) error {
	if err := zkproto.ValidatePath(path); err != nil {
		return err
	}
	r := zkproto.NewReader(record)
	n := &node{data: cloneData(r.Bytes()), acl: sharedACL(zkproto.DecodeACLs(r))}
	for _, v := range [...]*int64{&n.czxid, &n.mzxid, &n.pzxid, &n.ctime, &n.mtime, &n.owner} {
		*v = r.Int64()
	}
	for _, v := range [...]*int32{&n.version, &n.creations, &n.aversion} {
		*v = r.Int32()
	}
	n.container = r.Bool()
	if r.Remaining() > 0 {
		n.ttl = r.Int64()
	}
	if err := r.Complete(); err != nil {
		return fmt.Errorf("record of node %s: %w", path, err)
	}
	t.loading = append(t.loading, loaded{path, n})
	return nil
}

// A loaded record waits for the others: a map of a million nodes is better made at once.
type loaded struct {
	path string
	node *node
}

// Loaded links the records to each other and to their sessions.
func (t *Tree) Loaded() error {
	nodes := make(map[string]*node, len(t.loading)+len(t.nodes))
	for _, l := range t.loading {
		nodes[l.path] = l.node
	}
	for path, n := range t.nodes { // those of New, where there is no record
		if nodes[path] == nil {
			n.children, n.parent, n.descendants, n.nameBytes = nil, nil, 0, 0
			nodes[path] = n
			t.loading = append(t.loading, loaded{path, n})
		}
	}
	t.nodes = nodes
	// Nothing that New has left may be counted twice.
	clear(t.ephemerals)
	clear(t.reapable)
	t.ephemeralCount, t.dataBytes = 0, int64(len("/")+len(nodes["/"].data))
	var parent *node
	var parentPath string
	for _, l := range t.loading {
		if l.path == "/" {
			continue
		}
		// Brothers are often together, as they were made.
		if p := parentOf(l.path); parent == nil || p != parentPath {
			if parent, parentPath = nodes[p], p; parent == nil {
				return fmt.Errorf("node %s has no parent", l.path)
			}
		}
		t.index(l.path, l.node, parent)
	}
	t.loading = nil
	t.loadQuotas()
	return nil
}

// parentOf is the path above path, which has a slash in it.
func parentOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

func nameOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// cloneData copies what may alias a connection's buffer; null stays null and empty
// stays empty.
func cloneData(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}
