package txlog

import (
	"maps"
	"slices"
	"strings"

	"holdfast/internal/budget"
	"holdfast/internal/locks"
	"holdfast/zk"
)

// A node is one of the copy.
type node struct {
	data     []byte
	stat     zk.Stat
	children map[string]struct{}

	line  *locks.Line // the queue in it, as far as it is known; see history.line
	other bool        // by its path, it is no plain queue
	told  bool        // all that the line says is in history.known
}

// A tree is a copy of the servers' tree.
type tree struct {
	nodes    map[string]*node
	sessions map[int64]map[string]struct{} // paths of ephemeral nodes
}

func newTree() *tree {
	return &tree{nodes: map[string]*node{"/": {}}, sessions: make(map[int64]map[string]struct{})}
}

// look returns a node, for package locks.
func (t *tree) look(path string) (locks.Copy, bool) {
	n, ok := t.nodes[path]
	if !ok {
		return locks.Copy{}, false
	}
	c := locks.Copy{Data: n.data, Stat: n.stat}
	if len(n.children) > 0 {
		c.Children = func() []string { return slices.Sorted(maps.Keys(n.children)) }
	}
	return c, true
}

func split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 1)], path[i+1:]
}

// put adds a node, or replaces it: a snapshot can have it already.
func (t *tree) put(path string, data []byte, stat zk.Stat) {
	if len(data) > budget.MaxData {
		data = data[:budget.MaxData:budget.MaxData]
	}
	n := t.nodes[path]
	if n == nil {
		n = &node{}
		t.nodes[path] = n
	}
	n.data, n.stat = data, stat
	if path == "/" {
		return
	}
	dir, name := split(path)
	above := t.nodes[dir]
	if above == nil { // the logs begin after its creation
		t.put(dir, nil, zk.Stat{})
		above = t.nodes[dir]
	}
	if above.children == nil {
		above.children = make(map[string]struct{})
	}
	above.children[name] = struct{}{}
	if above.line != nil {
		above.line.Put(name, data, stat)
	}
	if s := stat.EphemeralOwner; s != 0 {
		if t.sessions[s] == nil {
			t.sessions[s] = make(map[string]struct{})
		}
		t.sessions[s][path] = struct{}{}
	}
}

func (t *tree) remove(path string) {
	n := t.nodes[path]
	if n == nil {
		return
	}
	delete(t.nodes, path)
	dir, name := split(path)
	if above := t.nodes[dir]; above != nil {
		delete(above.children, name)
		if above.line != nil {
			above.line.Remove(name)
		}
	}
	if of := t.sessions[n.stat.EphemeralOwner]; of != nil {
		if delete(of, path); len(of) == 0 {
			delete(t.sessions, n.stat.EphemeralOwner)
		}
	}
}

// late reports whether the logs begin after the queue of a lock was made. Then they do not tell all its places.
func (t *tree) late(l *locks.Lock) bool {
	if l.Kind != locks.Queue && l.Kind != locks.Tree {
		return false
	}
	n := t.nodes[l.Dirs[0]]
	return n != nil && n.stat.Czxid == 0
}
