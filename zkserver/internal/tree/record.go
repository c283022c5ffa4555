package tree

import (
	"fmt"
	"math/bits"

	"holdfast/zkproto"
)

// A Part is one of the records that a node has in the store. A part that says no more than that the
// node exists has no record. So a node without children and with the usual ACL has one record.
type Part byte

const (
	PartNode     Part = 'n' // the data, and the rest of the Stat
	PartChildren Part = 'c' // the part of the Stat that changes with the children
	PartACL      Part = 'a' // the ACL and its version
)

// Parts returns all parts, in the order in which TakeChanges reports those of one node.
func Parts() [3]Part { return [...]Part{PartNode, PartACL, PartChildren} }

// parts is a set of Parts.
type parts uint8

func setOf(p Part) parts {
	switch p {
	case PartNode:
		return 1
	case PartACL:
		return 2
	}
	return 4
}

// parts returns the parts of n that have a record.
func (n *node) parts() parts {
	all := setOf(PartNode)
	if n.creations != 0 || n.pzxid != n.czxid {
		all |= setOf(PartChildren)
	}
	if n.acl != openACL || n.aversion != 0 || builtIn(n.path) { // the ACLs of New are not all the usual one
		all |= setOf(PartACL)
	}
	return all
}

// recordBytes bounds the length of a record with its key, without the path, the data and the ACL.
const recordBytes = 72

// written returns a bound of the bytes that some parts of n take in the store.
func (n *node) written(some parts) int {
	size := n.removed(some)
	if some&setOf(PartNode) != 0 {
		size += len(n.data)
	}
	if some&setOf(PartACL) != 0 {
		size += wireSize(n.acl.entries)
	}
	return size
}

// removed is written for parts that have no record any more.
func (n *node) removed(some parts) int {
	return bits.OnesCount8(uint8(some)) * (len(n.path) + recordBytes)
}

// quotaBytes bounds the text that the server writes into the node of a quota's usage. It is as long as
// the text that it has read, and a missing number takes two bytes more.
const quotaBytes = 3 * maxQuotaText

// Worst returns a bound of the bytes that an operation will take in the store, whatever the tree is.
func (t *Tree) Worst(o *zkproto.MultiOp) int {
	path := len(o.Path) + sequenceDigits + recordBytes
	size := 0
	switch o.Op {
	case zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpCreateTTL:
		size = 3*path + len(o.Data) + t.worstACL(o.ACL) // the node, its ACL and its parent
	case zkproto.OpDelete:
		size = 4 * path // its three records and its parent
	case zkproto.OpSetData:
		size = path + len(o.Data)
	case zkproto.OpSetACL:
		return path + t.worstACL(o.ACL)
	default:
		return 0
	}
	if len(t.quotas) > 0 {
		size += len(quotaRoot) + path + len(statsName) + quotaBytes
	}
	return size
}

// WorstEnd is Worst for one call of EndSession.
func (t *Tree) WorstEnd(session int64) int {
	o := t.ephemerals[session]
	n, paths := min(o.count(), endNodes), t.EphemeralsSize(session)
	size := 3*paths + 4*n*recordBytes // the nodes, their ACLs and their parents
	if len(t.quotas) > 0 {
		size += paths + n*(len(quotaRoot)+len(statsName)+recordBytes+quotaBytes)
	}
	return size
}

// worstACL returns a bound of the length of the ACL that checkACL makes of list.
func (t *Tree) worstACL(list []zkproto.ACL) int {
	size := wireSize(list)
	for i := range list {
		if list[i].Scheme == "auth" {
			return maxACLBytes
		}
	}
	return min(size, maxACLBytes)
}

// AppendRecord appends the record of a part of a node, and reports whether there is one.
func (t *Tree) AppendRecord(b []byte, path string, p Part) ([]byte, bool) {
	n := t.nodes[path]
	if n == nil || n.parts()&setOf(p) == 0 {
		return b, false
	}
	return n.append(b, p), true
}

// append appends the record of a part of n.
func (n *node) append(b []byte, p Part) []byte {
	switch p {
	case PartChildren:
		return zkproto.AppendInt32(zkproto.AppendInt64(b, n.pzxid), n.creations)
	case PartACL:
		return zkproto.AppendInt32(zkproto.AppendACLs(b, n.acl.entries), n.aversion)
	}
	b = zkproto.AppendBytes(b, n.data)
	for _, v := range [...]int64{n.czxid, n.mzxid, n.ctime, n.mtime, n.owner} {
		b = zkproto.AppendInt64(b, v)
	}
	b = zkproto.AppendBool(zkproto.AppendInt32(b, n.version), n.container)
	if n.ttl > 0 {
		b = zkproto.AppendInt64(b, n.ttl)
	}
	return b
}

// loading has the nodes between LoadNode and Loaded. The found parts of a node are its dirty ones.
type loading struct {
	nodes map[string]*node
	order []*node // siblings often follow each other, in the order in which they were created
}

// LoadNode restores a record that TakeChanges has reported. Records may come in any order. Call Loaded
// after the last one.
func (t *Tree) LoadNode(path string, p Part, record []byte) error {
	n := t.loading.nodes[path]
	if n == nil {
		if err := zkproto.ValidatePath(path); err != nil {
			return err
		}
		n = &node{path: path, acl: openACL}
		if b := t.nodes[path]; b != nil { // one of New, whose other parts may have no records
			*n = *b
			n.children, n.parent, n.descendants = nil, nil, 0
		}
		t.loading.add(n)
	}
	n.dirty |= setOf(p)
	r := zkproto.NewReader(record)
	switch p {
	case PartChildren:
		n.pzxid, n.creations = r.Int64(), r.Int32()
	case PartACL:
		n.acl, n.aversion = newACL(zkproto.DecodeACLs(r)), r.Int32()
	default:
		n.decode(r)
	}
	if err := r.Complete(); err != nil {
		return fmt.Errorf("record %c of node %s: %w", p, path, err)
	}
	return nil
}

// decode reads a record of PartNode.
func (n *node) decode(r *zkproto.Reader) {
	n.data = cloneData(r.Bytes())
	for _, v := range [...]*int64{&n.czxid, &n.mzxid, &n.ctime, &n.mtime, &n.owner} {
		*v = r.Int64()
	}
	if n.version, n.container = r.Int32(), r.Bool(); r.Remaining() > 0 {
		n.ttl = r.Int64()
	}
}

// DecodeNode reads a record of PartNode. Of the Stat, it has what this record says.
func DecodeNode(record []byte) (data []byte, stat zkproto.Stat, err error) {
	var n node
	r := zkproto.NewReader(record)
	n.decode(r)
	stat = zkproto.Stat{Czxid: n.czxid, Mzxid: n.mzxid, Ctime: n.ctime, Mtime: n.mtime, Version: n.version, EphemeralOwner: n.owner}
	return n.data, stat, r.Complete()
}

// DecodeChildren reads a record of PartChildren. It returns the zxid of the last change of the children.
func DecodeChildren(record []byte) (pzxid int64, err error) {
	r := zkproto.NewReader(record)
	pzxid, _ = r.Int64(), r.Int32()
	return pzxid, r.Complete()
}

func (l *loading) add(n *node) {
	if l.nodes == nil {
		l.nodes = make(map[string]*node)
	}
	l.nodes[n.path] = n
	l.order = append(l.order, n)
}

// Loaded links the loaded nodes to each other and to their sessions.
func (t *Tree) Loaded() error {
	l := &t.loading
	for path, n := range t.nodes { // those of New, of which the store has no record
		if l.nodes[path] == nil {
			n.children, n.parent, n.descendants = nil, nil, 0
			l.add(n)
		}
	}
	for _, n := range l.order {
		if n.dirty&setOf(PartNode) == 0 {
			if !builtIn(n.path) {
				return fmt.Errorf("node %s has no record of its own", n.path)
			}
		} else if n.dirty&setOf(PartChildren) == 0 {
			n.pzxid = n.czxid // see parts
		}
		n.dirty, n.bytes = 0, int64(len(n.data))
	}
	t.nodes = l.nodes
	// Count no node of New twice.
	clear(t.ephemerals)
	t.reapable, t.unreaped = list{}, 0
	t.ephemeralCount, t.dataBytes = 0, int64(len("/")+len(t.nodes["/"].data))
	var parent *node
	var parentPath string
	for _, n := range l.order {
		if n.path == "/" {
			continue
		}
		if p := parentOf(n.path); parent == nil || p != parentPath {
			if parent, parentPath = t.nodes[p], p; parent == nil {
				return fmt.Errorf("node %s has no parent", n.path)
			}
		}
		t.index(n, parent)
	}
	*l = loading{}
	t.loadQuotas()
	return nil
}
