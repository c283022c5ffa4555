package chaos_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"holdfast/zkproto"
)

// A refNode is a node as ZooKeeper documents it, with its Stat counted step by step.
type refNode struct {
	data     string
	stat     zkproto.Stat // without times, DataLength and NumChildren
	children map[string]bool
	created  int // children ever created

	container bool
	acl       []zkproto.ACL
}

// A refTree is the reference for a server, in the plainest form. It shares no code with the server.
type refTree struct {
	nodes map[string]*refNode
	ended map[int64]int64     // zxid at which a session ended
	saved map[string]*refNode // in a transaction: the nodes before it, nil for none
	fired []refEvent          // events of the current write
	now   int64               // time of the current write, in milliseconds; 0 leaves times out
}

// A refEvent is an event and the kind of watch that gets it.
type refEvent struct {
	kind  watchOn
	event zkproto.WatcherEvent
}

type watchOn byte

const (
	watchData watchOn = iota
	watchChildren
)

// newRefTree returns a tree with a root of which nothing else is known.
func newRefTree() *refTree {
	return &refTree{nodes: map[string]*refNode{"/": {children: map[string]bool{}}}, ended: map[int64]int64{}}
}

func (t *refTree) statOf(n *refNode) zkproto.Stat {
	s := n.stat
	s.DataLength, s.NumChildren = int32(len(n.data)), int32(len(n.children))
	return s
}

// keep saves a node before its first change in a transaction.
func (t *refTree) keep(path string) {
	if t.saved == nil {
		return
	}
	if _, kept := t.saved[path]; kept {
		return
	}
	n := t.nodes[path]
	if n != nil {
		c := *n
		c.children = maps.Clone(n.children)
		n = &c
	}
	t.saved[path] = n
}

func (t *refTree) fire(e zkproto.EventType, path string, kinds ...watchOn) {
	for _, k := range kinds {
		t.fired = append(t.fired, refEvent{k, zkproto.WatcherEvent{Type: e, State: zkproto.StateSyncConnected, Path: path}})
	}
}

func split(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 1)], path[i+1:]
}

// A refDone is the result of a write, or every valid reason for its failure.
type refDone struct {
	path    string
	stat    zkproto.Stat
	reasons []zkproto.Code
}

// do applies one operation of a session.
func (t *refTree) do(zxid, session int64, o *zkproto.MultiOp) (d refDone) {
	because := func(c zkproto.Code, holds bool) {
		if holds {
			d.reasons = append(d.reasons, c)
		}
	}
	path := o.Path
	n := t.nodes[path]
	switch o.Op {
	case zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpCreateTTL:
		dir, _ := split(path)
		p := t.nodes[dir]
		if p == nil {
			because(zkproto.CodeNoNode, true)
			return d
		}
		switch o.Flags {
		case zkproto.FlagPersistentSequential, zkproto.FlagEphemeralSequential, zkproto.FlagSequentialTTL:
			path = fmt.Sprintf("%s%010d", path, p.created)
		}
		because(zkproto.CodeNodeExists, t.nodes[path] != nil)
		because(zkproto.CodeNoChildrenForEphemerals, p.stat.EphemeralOwner != 0)
		if d.reasons != nil {
			return d
		}
		t.keep(dir)
		t.keep(path)
		_, name := split(path)
		n = &refNode{data: string(o.Data), children: map[string]bool{}, stat: zkproto.Stat{Czxid: zxid, Mzxid: zxid, Pzxid: zxid, Ctime: t.now, Mtime: t.now}}
		n.container, n.acl = o.Op == zkproto.OpCreateContainer, o.ACL
		if o.Flags == zkproto.FlagEphemeral || o.Flags == zkproto.FlagEphemeralSequential {
			n.stat.EphemeralOwner = session
		}
		t.nodes[path] = n
		p = t.nodes[dir]
		p.children[name] = true
		p.created++
		p.stat.Cversion++
		p.stat.Pzxid = zxid
		t.fire(zkproto.EventNodeCreated, path, watchData)
		t.fire(zkproto.EventNodeChildrenChanged, dir, watchChildren)
		d.path, d.stat = path, t.statOf(n)
	case zkproto.OpDelete:
		if n == nil {
			because(zkproto.CodeNoNode, true)
			return d
		}
		because(zkproto.CodeBadVersion, o.Version != -1 && o.Version != n.stat.Version)
		because(zkproto.CodeNotEmpty, len(n.children) > 0)
		if d.reasons == nil {
			t.remove(zxid, path)
		}
	case zkproto.OpSetACL:
		if n == nil {
			because(zkproto.CodeNoNode, true)
			return d
		}
		because(zkproto.CodeBadVersion, o.Version != -1 && o.Version != n.stat.Aversion)
		if d.reasons == nil {
			t.keep(path)
			n.acl = o.ACL
			n.stat.Aversion++
			d.stat = t.statOf(n)
		}
	case zkproto.OpSetData, zkproto.OpCheck:
		if n == nil {
			because(zkproto.CodeNoNode, true)
			return d
		}
		because(zkproto.CodeBadVersion, o.Version != -1 && o.Version != n.stat.Version)
		if d.reasons != nil || o.Op == zkproto.OpCheck {
			return d
		}
		t.keep(path)
		n.data = string(o.Data)
		n.stat.Version++
		n.stat.Mzxid, n.stat.Mtime = zxid, t.now
		t.fire(zkproto.EventNodeDataChanged, path, watchData)
		d.stat = t.statOf(n)
	}
	return d
}

func (t *refTree) remove(zxid int64, path string) {
	dir, name := split(path)
	t.keep(dir)
	t.keep(path)
	delete(t.nodes, path)
	p := t.nodes[dir]
	delete(p.children, name)
	p.stat.Cversion++
	p.stat.Pzxid = zxid
	t.fire(zkproto.EventNodeDeleted, path, watchData, watchChildren)
	t.fire(zkproto.EventNodeChildrenChanged, dir, watchChildren)
}

// multi applies all of ops or none. It returns the result of each, up to the first that failed.
func (t *refTree) multi(zxid, session int64, ops []zkproto.MultiOp) (done []refDone, failed bool) {
	t.saved = map[string]*refNode{}
	defer func() { t.saved = nil }()
	for i := range ops {
		done = append(done, t.do(zxid, session, &ops[i]))
		if done[i].reasons == nil {
			continue
		}
		for path, n := range t.saved {
			if n == nil {
				delete(t.nodes, path)
			} else {
				t.nodes[path] = n
			}
		}
		t.fired = nil
		return done, true
	}
	return done, false
}

// owned returns the nodes of a session, in order.
func (t *refTree) owned(session int64) []string {
	var paths []string
	for path, n := range t.nodes {
		if n.stat.EphemeralOwner == session {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// end removes all nodes of a session at once.
func (t *refTree) end(zxid, session int64) {
	t.ended[session] = zxid
	for _, path := range t.owned(session) {
		t.remove(zxid, path)
	}
}
