package tree

import (
	"fmt"
	"slices"
	"strings"

	"holdfast/zkproto"
)

// Create creates a node and returns its path, with the sequence number if the request asks for one.
// req.Op is OpCreate, OpCreate2, OpCreateContainer or OpCreateTTL.
func (t *Tree) Create(tx Txn, req *zkproto.MultiOp) (string, zkproto.Stat, zkproto.Code) {
	path, stat, code := t.create(tx, req)
	t.finish(code)
	return path, stat, code
}

// sequenceDigits is how many digits the number of a sequential node has. A negative number has one more
// character.
const sequenceDigits = 10

// A kind is the kind of node that the operation and the flags of a create ask for.
type kind struct{ ephemeral, sequential, container, ttl bool }

func (t *Tree) kindOf(req *zkproto.MultiOp) (kind, zkproto.Code) {
	var k kind
	switch req.Flags {
	case zkproto.FlagPersistent:
	case zkproto.FlagEphemeral:
		k.ephemeral = true
	case zkproto.FlagPersistentSequential:
		k.sequential = true
	case zkproto.FlagEphemeralSequential:
		k.ephemeral, k.sequential = true, true
	case zkproto.FlagContainer:
		// In an ordinary create, Apache's server, too, makes a persistent node of this flag; only
		// createContainer makes a container.
		k.container = req.Op == zkproto.OpCreateContainer
	case zkproto.FlagTTL:
		k.ttl = true
	case zkproto.FlagSequentialTTL:
		k.ttl, k.sequential = true, true
	default:
		return k, zkproto.CodeBadArguments
	}
	switch {
	case k.container != (req.Op == zkproto.OpCreateContainer), k.ttl != (req.Op == zkproto.OpCreateTTL):
		return k, zkproto.CodeBadArguments
	case k.ttl && t.bounds.NoTTL:
		return k, zkproto.CodeUnimplemented
	case k.ttl && (req.TTL <= 0 || req.TTL > zkproto.MaxTTL):
		return k, zkproto.CodeBadArguments
	}
	return k, zkproto.CodeOK
}

func (t *Tree) create(tx Txn, req *zkproto.MultiOp) (string, zkproto.Stat, zkproto.Code) {
	refuse := func(code zkproto.Code) (string, zkproto.Stat, zkproto.Code) { return "", zkproto.Stat{}, code }
	kind, code := t.kindOf(req)
	if code != zkproto.CodeOK {
		return refuse(code)
	}
	path := req.Path
	if !wellFormed(path) {
		return refuse(zkproto.CodeBadArguments)
	}
	acl, code := t.checkACL(req.ACL, tx.As)
	if code != zkproto.CodeOK {
		return refuse(code)
	}
	parentPath := parentOf(path)
	parent := t.nodes[parentPath]
	if parent == nil {
		return refuse(zkproto.CodeNoNode)
	}
	if !t.mayWrite(parent, zkproto.PermCreate, tx.As) {
		return refuse(zkproto.CodeNoAuth)
	}
	if kind.sequential {
		// The sequence number counts creations. It is neither the number of children nor
		// Stat.Cversion: a number must not be reused while the parent exists. It wraps, as
		// ZooKeeper documents.
		path += fmt.Sprintf("%0*d", sequenceDigits, parent.creations)
	}
	if zkproto.ValidatePath(path) != nil {
		return refuse(zkproto.CodeBadArguments)
	}
	if t.nodes[path] != nil {
		return refuse(zkproto.CodeNodeExists)
	}
	if parent.owner != 0 {
		return refuse(zkproto.CodeNoChildrenForEphemerals)
	}
	var owner int64
	if kind.ephemeral {
		owner = tx.Session
	}
	if t.outOfBounds(parent, nameOf(path), len(req.Data), owner) || t.bounds.Quotas && t.overQuota(t.quotaFor(path, parent), 1, int64(len(req.Data))) {
		return refuse(zkproto.CodeQuotaExceeded)
	}
	n := &node{
		path: path, data: cloneData(req.Data), acl: acl,
		czxid: tx.Zxid, mzxid: tx.Zxid, pzxid: tx.Zxid, ctime: tx.Time, mtime: tx.Time,
		container: kind.container, owner: owner,
	}
	if kind.ttl {
		n.ttl = req.TTL
	}
	creations, pzxid := parent.creations, parent.pzxid
	t.onUndo(func() {
		t.unlink(n)
		parent.creations, parent.pzxid = creations, pzxid
	})
	t.link(n)
	parent.creations++
	parent.pzxid = tx.Zxid
	t.touch(n, n.parts())
	t.touchQuietly(parent, PartChildren)
	t.account(n, 1, int64(len(n.data)))
	t.trigger(zkproto.EventNodeCreated, path, n, parent)
	return path, n.stat(), zkproto.CodeOK
}

// Delete removes a node without children. Version -1 matches any.
func (t *Tree) Delete(tx Txn, path string, version int32) zkproto.Code {
	code := t.delete(tx, path, version)
	t.finish(code)
	return code
}

func (t *Tree) delete(tx Txn, path string, version int32) zkproto.Code {
	// There are no further checks: another invalid path just names no node.
	if !wellFormed(path) || builtIn(path) {
		return zkproto.CodeBadArguments
	}
	parent := t.nodes[parentOf(path)]
	if parent == nil {
		return zkproto.CodeNoNode
	}
	if !t.mayWrite(parent, zkproto.PermDelete, tx.As) {
		return zkproto.CodeNoAuth
	}
	n := t.nodes[path]
	switch {
	case n == nil:
		return zkproto.CodeNoNode
	case version != -1 && version != n.version:
		return zkproto.CodeBadVersion
	case n.count() > 0:
		return zkproto.CodeNotEmpty
	}
	t.remove(tx, n)
	return zkproto.CodeOK
}

// remove removes a node that has no children.
func (t *Tree) remove(tx Txn, n *node) {
	parent := n.parent
	pzxid := parent.pzxid
	t.onUndo(func() {
		t.relink(n)
		parent.pzxid = pzxid
	})
	t.unlink(n)
	parent.pzxid = tx.Zxid
	some := n.parts()
	t.touched = append(t.touched, touch{n, some, n.removed(some)})
	t.lasts = t.lasts || n.owner == 0
	t.touchQuietly(parent, PartChildren)
	t.account(n, -1, -int64(len(n.data)))
	t.trigger(zkproto.EventNodeDeleted, n.path, n, parent)
}

// Set replaces the data of a node. Version -1 matches any.
func (t *Tree) Set(tx Txn, path string, data []byte, version int32) (zkproto.Stat, zkproto.Code) {
	stat, code := t.set(tx, path, data, version)
	t.finish(code)
	return stat, code
}

func (t *Tree) set(tx Txn, path string, data []byte, version int32) (zkproto.Stat, zkproto.Code) {
	if zkproto.ValidatePath(path) != nil {
		return zkproto.Stat{}, zkproto.CodeBadArguments
	}
	n := t.nodes[path]
	switch {
	case n == nil:
		return zkproto.Stat{}, zkproto.CodeNoNode
	case !t.mayWrite(n, zkproto.PermWrite, tx.As):
		return zkproto.Stat{}, zkproto.CodeNoAuth
	}
	oldData, oldVersion, mzxid, mtime := n.data, n.version, n.mzxid, n.mtime
	grown := int64(len(data) - len(oldData))
	switch { // the order is part of the protocol
	case t.bounds.Quotas && t.overQuota(t.quotaOver(n), 0, grown):
		return zkproto.Stat{}, zkproto.CodeQuotaExceeded
	case version != -1 && version != n.version:
		return zkproto.Stat{}, zkproto.CodeBadVersion
	case grown > 0 && t.full(0, grown):
		return zkproto.Stat{}, zkproto.CodeQuotaExceeded
	}
	t.onUndo(func() {
		n.data, n.version, n.mzxid, n.mtime = oldData, oldVersion, mzxid, mtime
		t.dataBytes -= grown
		t.grow(n, -grown)
	})
	t.dataBytes += grown
	t.grow(n, grown)
	n.data, n.version, n.mzxid, n.mtime = cloneData(data), n.version+1, tx.Zxid, tx.Time
	t.touch(n, setOf(PartNode))
	t.account(n, 0, grown)
	t.trigger(zkproto.EventNodeDataChanged, path, n, nil)
	return n.stat(), zkproto.CodeOK
}

// check succeeds if the node exists and has that version; -1 checks existence only.
func (t *Tree) check(tx Txn, path string, version int32) zkproto.Code {
	if zkproto.ValidatePath(path) != nil {
		return zkproto.CodeBadArguments
	}
	n := t.nodes[path]
	switch {
	case n == nil:
		return zkproto.CodeNoNode
	case !t.permits(n.acl, zkproto.PermRead, tx.As):
		return zkproto.CodeNoAuth
	case version != -1 && version != n.version:
		return zkproto.CodeBadVersion
	}
	return zkproto.CodeOK
}

// CloseSession removes the ephemeral nodes of a session.
func (t *Tree) CloseSession(tx Txn) {
	for t.EndSession(tx) {
	}
}

// These constants bound a transaction of EndSession. It removes at most endNodes nodes, and fewer if
// their paths are long or deep. The removal of a node visits all its ancestors.
const (
	endNodes  = 3000
	endBytes  = 1 << 20
	endLevels = 64 << 10
)

// EndSession removes ephemeral nodes of a session in one transaction, and reports whether some
// are left.
func (t *Tree) EndSession(tx Txn) (more bool) {
	var nodes []*node
	if owned := t.ephemerals[tx.Session]; owned != nil {
		bytes, levels := 0, 0
		for _, n := range owned.nodes {
			if len(nodes) == endNodes || bytes > endBytes || levels > endLevels {
				more = true
				break
			}
			nodes = append(nodes, n)
			bytes += len(n.path)
			levels += strings.Count(n.path, "/")
		}
	}
	slices.SortFunc(nodes, func(a, b *node) int { return strings.Compare(a.path, b.path) })
	for _, n := range nodes {
		t.remove(tx, n)
	}
	t.finish(zkproto.CodeOK)
	return more
}

// wellFormed is the first check of a path in a create or a delete.
func wellFormed(path string) bool {
	return strings.IndexByte(path, '/') >= 0 && strings.IndexByte(path, 0) < 0
}

func builtIn(path string) bool {
	switch path {
	case "/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config":
		return true
	}
	return false
}
