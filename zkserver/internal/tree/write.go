package tree

import (
	"fmt"
	"strings"

	"holdfast/zkproto"
)

// Create makes a node and returns its path, with the sequence number if one was
// asked for. op is OpCreate, OpCreate2 or OpCreateContainer.
func (t *Tree) Create(tx Txn, op zkproto.Op, req *zkproto.CreateRequest) (string, zkproto.Stat, zkproto.Code) {
	path, stat, code := t.create(tx, op, req)
	t.finish(code)
	return path, stat, code
}

func (t *Tree) create(tx Txn, op zkproto.Op, req *zkproto.CreateRequest) (string, zkproto.Stat, zkproto.Code) {
	refuse := func(code zkproto.Code) (string, zkproto.Stat, zkproto.Code) { return "", zkproto.Stat{}, code }
	if (req.Flags == 5 || req.Flags == 6) && op != zkproto.OpCreateContainer {
		return refuse(zkproto.CodeUnimplemented) // TTL nodes, as on a server of Apache's without them
	}
	if req.Flags < zkproto.FlagPersistent || req.Flags > zkproto.FlagContainer ||
		op == zkproto.OpCreateContainer && req.Flags != zkproto.FlagContainer {
		return refuse(zkproto.CodeBadArguments)
	}
	ephemeral := req.Flags == zkproto.FlagEphemeral || req.Flags == zkproto.FlagEphemeralSequential
	sequential := req.Flags == zkproto.FlagPersistentSequential || req.Flags == zkproto.FlagEphemeralSequential
	path := req.Path
	if !wellFormed(path) {
		return refuse(zkproto.CodeBadArguments)
	}
	acl, code := checkACL(req.ACL)
	if code != zkproto.CodeOK {
		return refuse(code)
	}
	parentPath := parentOf(path)
	parent := t.nodes[parentPath]
	if parent == nil {
		return refuse(zkproto.CodeNoNode)
	}
	if !parent.permits(zkproto.PermCreate) {
		return refuse(zkproto.CodeNoAuth)
	}
	if sequential {
		// The count of creations, not of children and not Stat.Cversion: a number must
		// not come back while the parent lives. It wraps, as ZooKeeper documents.
		path += fmt.Sprintf("%010d", parent.creations)
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
	n := &node{
		data: cloneData(req.Data), acl: acl,
		czxid: tx.Zxid, mzxid: tx.Zxid, pzxid: tx.Zxid, ctime: tx.Time, mtime: tx.Time,
		// Flag 4 on an ordinary create makes a persistent node in Apache's server too;
		// only the operation of its own makes a container.
		container: op == zkproto.OpCreateContainer,
	}
	if ephemeral {
		n.owner = tx.Session
	}
	creations, pzxid := parent.creations, parent.pzxid
	t.onUndo(func() {
		t.unlink(path, n)
		parent.creations, parent.pzxid = creations, pzxid
	})
	t.link(path, n)
	parent.creations++
	parent.pzxid = tx.Zxid
	t.touched = append(t.touched, path, parentPath)
	t.trigger(zkproto.EventNodeCreated, path, n, parent)
	return path, n.stat(), zkproto.CodeOK
}

// Delete removes a node without children. Version -1 stands for any.
func (t *Tree) Delete(tx Txn, path string, version int32) zkproto.Code {
	code := t.delete(tx, path, version)
	t.finish(code)
	return code
}

func (t *Tree) delete(tx Txn, path string, version int32) zkproto.Code {
	// Only these checks: a path that is otherwise invalid just names no node.
	if !wellFormed(path) || builtIn(path) {
		return zkproto.CodeBadArguments
	}
	parent := t.nodes[parentOf(path)]
	if parent == nil {
		return zkproto.CodeNoNode
	}
	if !parent.permits(zkproto.PermDelete) {
		return zkproto.CodeNoAuth
	}
	n := t.nodes[path]
	switch {
	case n == nil:
		return zkproto.CodeNoNode
	case version != -1 && version != n.version:
		return zkproto.CodeBadVersion
	case len(n.children) > 0:
		return zkproto.CodeNotEmpty
	}
	t.remove(tx, path, n)
	return zkproto.CodeOK
}

// remove takes out a node that has no children.
func (t *Tree) remove(tx Txn, path string, n *node) {
	parentPath := parentOf(path)
	parent := t.nodes[parentPath]
	pzxid := parent.pzxid
	t.onUndo(func() {
		t.link(path, n)
		parent.pzxid = pzxid
	})
	t.unlink(path, n)
	parent.pzxid = tx.Zxid
	t.touched = append(t.touched, path, parentPath)
	t.trigger(zkproto.EventNodeDeleted, path, n, parent)
}

// Set replaces the data of a node. Version -1 stands for any.
func (t *Tree) Set(tx Txn, path string, data []byte, version int32) (zkproto.Stat, zkproto.Code) {
	stat, code := t.set(tx, path, data, version)
	t.finish(code)
	return stat, code
}

func (t *Tree) set(tx Txn, path string, data []byte, version int32) (zkproto.Stat, zkproto.Code) {
	n, code := t.versioned(path, version, zkproto.PermWrite)
	if code != zkproto.CodeOK {
		return zkproto.Stat{}, code
	}
	oldData, oldVersion, mzxid, mtime := n.data, n.version, n.mzxid, n.mtime
	t.onUndo(func() { n.data, n.version, n.mzxid, n.mtime = oldData, oldVersion, mzxid, mtime })
	n.data, n.version, n.mzxid, n.mtime = cloneData(data), n.version+1, tx.Zxid, tx.Time
	t.touched = append(t.touched, path)
	t.trigger(zkproto.EventNodeDataChanged, path, n, nil)
	return n.stat(), zkproto.CodeOK
}

// check succeeds if the node exists at that version; -1 asks only for existence.
func (t *Tree) check(path string, version int32) zkproto.Code {
	_, code := t.versioned(path, version, zkproto.PermRead)
	return code
}

func (t *Tree) versioned(path string, version, perm int32) (*node, zkproto.Code) {
	if zkproto.ValidatePath(path) != nil {
		return nil, zkproto.CodeBadArguments
	}
	n := t.nodes[path]
	switch {
	case n == nil:
		return nil, zkproto.CodeNoNode
	case !n.permits(perm):
		return nil, zkproto.CodeNoAuth
	case version != -1 && version != n.version:
		return nil, zkproto.CodeBadVersion
	}
	return n, zkproto.CodeOK
}

// CloseSession removes the ephemeral nodes of a session, all in one transaction.
func (t *Tree) CloseSession(tx Txn) {
	for _, path := range t.Ephemerals(tx.Session) {
		t.remove(tx, path, t.nodes[path])
	}
	t.finish(zkproto.CodeOK)
}

// Reap removes a container that IdleContainers named, if it is still idle.
func (t *Tree) Reap(tx Txn, path string) {
	if n := t.nodes[path]; n != nil && n.container && len(n.children) == 0 {
		t.remove(tx, path, n)
	}
	t.finish(zkproto.CodeOK)
}

// IdleContainers lists the containers that had children and have none now.
func (t *Tree) IdleContainers() []string {
	var paths []string
	for path := range t.containers {
		if n := t.nodes[path]; len(n.children) == 0 && n.creations != 0 {
			paths = append(paths, path)
		}
	}
	return paths
}

// wellFormed is the little that creates and deletes ask of a path at first.
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
