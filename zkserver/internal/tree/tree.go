package tree

import "holdfast/zkproto"

// A Tree holds all nodes and watches. It is not safe for concurrent use.
type Tree struct {
	nodes      map[string]*node // by full path
	ephemerals map[int64]map[string]struct{}
	reapable   map[string]struct{} // containers and nodes with a time to live
	quotas     map[string]struct{} // paths that have one

	bounds         Bounds
	ephemeralCount int
	dataBytes      int64 // of paths and data

	watches    watchTable
	identities map[Watcher][]Identity
	events     []Event
	told       map[Watcher]struct{} // of fire

	lastAs  []Identity // whose set lastSet is, see among
	lastSet map[Identity]struct{}

	changed map[string]struct{}
	loading []loaded // between LoadNode and Loaded

	// What the write in progress has done so far; see finish.
	undo     []func()
	triggers []trigger
	touched  []string
	results  []zkproto.MultiResult // of Multi
	grown    int                   // by auth in ACLs, in bytes
	nested   bool                  // inside a transaction, which finishes for its operations
}

// Bounds limit what clients can create; 0 is no limit.
type Bounds struct {
	ChildrenBytes int  // the names of a node's children, as they are on the wire
	Ephemerals    int  // the nodes of one session
	Quotas        bool // whether the hard limits of quotas are kept

	// Exceeded hears of every write that is refused for one of these.
	Exceeded func(by Bound)
	// OverQuota hears of every write after which a subtree has more than its quota allows,
	// and was done all the same.
	OverQuota func(subtree string)
}

// A Bound is one of Bounds.
type Bound uint8

const (
	BoundChildren   Bound = iota // Bounds.Children
	BoundEphemerals              // Bounds.Ephemerals
	BoundQuota                   // Bounds.Quotas
	BoundACL                     // maxACLEntries and others
)

// exceeded tells Exceeded, if there is one.
func (b *Bounds) exceeded(by Bound) {
	if b.Exceeded != nil {
		b.Exceeded(by)
	}
}

// Bound sets the bounds of a tree that has just been made.
func (t *Tree) Bound(b Bounds) { t.bounds = b }

// outOfBounds says whether there is no room for a node called name below parent.
func (t *Tree) outOfBounds(parent *node, name string, owner int64) bool {
	b := &t.bounds
	switch {
	case b.ChildrenBytes > 0 && int(parent.nameBytes)+int(wireBytes(name)) > b.ChildrenBytes:
		b.exceeded(BoundChildren)
		return true
	case owner != 0 && b.Ephemerals > 0 && len(t.ephemerals[owner]) >= b.Ephemerals:
		b.exceeded(BoundEphemerals)
		return true
	}
	return false
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
		quotas:     make(map[string]struct{}),
		watches:    newWatchTable(),
		identities: make(map[Watcher][]Identity),
		told:       make(map[Watcher]struct{}),
		lastSet:    make(map[Identity]struct{}),
		changed:    make(map[string]struct{}),
	}
	t.nodes["/"] = &node{acl: openACL, data: []byte{}}
	t.dataBytes = 1
	t.link("/zookeeper", &node{acl: openACL, data: []byte{}})
	t.link("/zookeeper/quota", &node{acl: openACL, data: []byte{}})
	t.link("/zookeeper/config", &node{acl: readOnlyACL, data: []byte{}, aversion: -1})
	return t
}

// Len is the number of nodes.
func (t *Tree) Len() int { return len(t.nodes) }

// EphemeralCount is the number of nodes that belong to sessions.
func (t *Tree) EphemeralCount() int { return t.ephemeralCount }

// WatchCount is the number of watches that are armed.
func (t *Tree) WatchCount() int { return t.watches.count }

// WatchWeights are the sums of WatchWeight for the watches of one watcher, and for all.
func (t *Tree) WatchWeights(by Watcher) (own, all int) {
	return t.watches.weights[by], t.watches.weight
}

// DataBytes is the length of all paths and data.
func (t *Tree) DataBytes() int64 { return t.dataBytes }

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

// wireBytes is what a name takes in a list of children.
func wireBytes(name string) int32 { return int32(4 + len(name)) }

// link hangs n into every index; its parent exists.
func (t *Tree) link(path string, n *node) {
	t.nodes[path] = n
	t.index(path, n, t.nodes[parentOf(path)])
}

// index is link for a node that can be found already.
func (t *Tree) index(path string, n, parent *node) {
	t.dataBytes += int64(len(path) + len(n.data))
	if parent.children == nil {
		parent.children = make(map[string]struct{})
	}
	name := nameOf(path)
	parent.children[name] = struct{}{}
	parent.nameBytes += wireBytes(name)
	n.parent = parent
	for above := parent; above != nil; above = above.parent {
		above.descendants += 1 + n.descendants
	}
	if n.owner != 0 {
		if t.ephemerals[n.owner] == nil {
			t.ephemerals[n.owner] = make(map[string]struct{})
		}
		t.ephemerals[n.owner][path] = struct{}{}
		t.ephemeralCount++
	}
	if n.container || n.ttl > 0 {
		t.reapable[path] = struct{}{}
	}
}

func (t *Tree) unlink(path string, n *node) {
	delete(t.nodes, path)
	t.dataBytes -= int64(len(path) + len(n.data))
	name := nameOf(path)
	delete(n.parent.children, name)
	n.parent.nameBytes -= wireBytes(name)
	for above := n.parent; above != nil; above = above.parent {
		above.descendants -= 1 + n.descendants
	}
	if n.owner != 0 {
		delete(t.ephemerals[n.owner], path)
		t.ephemeralCount--
		if len(t.ephemerals[n.owner]) == 0 {
			delete(t.ephemerals, n.owner)
		}
	}
	delete(t.reapable, path)
}
