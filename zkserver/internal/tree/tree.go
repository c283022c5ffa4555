package tree

// A Tree holds all nodes and watches. It is not safe for concurrent use.
type Tree struct {
	nodes      map[string]*node // by full path
	ephemerals map[int64]map[string]struct{}
	reapable   map[string]struct{} // containers and nodes with a time to live

	watches    watchTable
	identities map[Watcher][]Identity
	events     []Event
	told       map[Watcher]struct{} // of fire

	changed map[string]struct{}
	loading []loaded // between LoadNode and Loaded

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
	As      []Identity // of who writes
}

// New returns a tree with the nodes that every ZooKeeper server has.
func New() *Tree {
	t := &Tree{
		nodes:      make(map[string]*node),
		ephemerals: make(map[int64]map[string]struct{}),
		reapable:   make(map[string]struct{}),
		watches:    newWatchTable(),
		identities: make(map[Watcher][]Identity),
		told:       make(map[Watcher]struct{}),
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
	t.index(path, n, t.nodes[parentOf(path)])
}

// index is link for a node that is there already.
func (t *Tree) index(path string, n, parent *node) {
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
	if n.container || n.ttl > 0 {
		t.reapable[path] = struct{}{}
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
	delete(t.reapable, path)
}
