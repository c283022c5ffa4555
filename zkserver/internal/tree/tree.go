package tree

import "holdfast/zkproto"

// A Tree has all nodes and watches. It is not safe for concurrent use.
type Tree struct {
	nodes      map[string]*node // by full path
	ephemerals map[int64]*owned
	reapable   list              // containers and nodes with a time to live
	unreaped   int               // those of reapable that are not visited yet; see Reapable
	quotas     map[string]*quota // by the path of their subtree

	bounds         Bounds
	steps          int // see TakeSteps
	ephemeralCount int
	dataBytes      int64 // of paths and data

	watches    watchTable
	identities map[Watcher]*keyring
	events     []Event
	told       map[Watcher]struct{} // reused by fire
	foreseen   int                  // steps of the current transaction when it fires, see foresee
	overrun    []Watcher            // see TakeOverrun

	many     int               // manyMatches; a test has another
	most     int               // tellPortion; a test has another
	tellings []*telling        // oldest first, see telling.go
	newest   int64             // the number of the latest telling
	caughtUp map[Watcher]int64 // the number of the latest telling that a watcher has heard, if there are tellings
	untold   int               // see Untold
	portion  int               // steps of tellings since TellMore began
	hits     []int32           // reused by matched
	spent    []watchKey        // see matched

	last *keyring // of the last client, see find

	changed []*node // nodes with dirty parts, and removed nodes, in the order of their first change
	lasting bool    // see TakeChanges
	unsaved int     // see Unsaved
	record  []byte  // reused memory
	loading loading

	// The state of the current write; see finish.
	undo     []func()
	triggers []trigger
	touched  []touch
	lasts    bool                  // it changes a node that is not ephemeral
	results  []zkproto.MultiResult // of Multi
	grown    int                   // bytes that auth has added to ACLs
	nested   bool                  // inside a transaction, which finishes for its operations
}

// Bounds limit what clients can create; 0 is no limit.
type Bounds struct {
	ChildrenBytes int   // the encoded names of a node's children
	Ephemerals    int   // the nodes of one session
	Work          int   // of one transaction, see workOf
	Data          int64 // all paths and data, with nodeBytes for each node
	Quotas        bool  // whether hard limits of quotas are enforced
	QuotasBySuper bool  // whether the superuser alone may set quotas
	NoTTL         bool  // whether nodes with a time to live are refused

	// Exceeded is called for every write that a bound refuses.
	Exceeded func(by Bound)
	// OverQuota is called after every write that was done although its subtree then exceeds its quota.
	OverQuota func(subtree string)
}

// A Bound is one of Bounds.
type Bound uint8

const (
	BoundChildren   Bound = iota // Bounds.ChildrenBytes
	BoundEphemerals              // Bounds.Ephemerals
	BoundQuota                   // Bounds.Quotas
	BoundACL                     // MaxACLEntries, maxACLBytes and maxGrowth
	BoundWork                    // Bounds.Work
	BoundData                    // Bounds.Data
)

// exceeded calls Exceeded, if it is set.
func (b *Bounds) exceeded(by Bound) {
	if b.Exceeded != nil {
		b.Exceeded(by)
	}
}

// Bound sets the bounds of later writes.
func (t *Tree) Bound(b Bounds) { t.bounds = b }

// nodeBytes is about the memory of a node besides its path and data.
const nodeBytes = 300

// full reports whether there is no room for that many more nodes and bytes.
func (t *Tree) full(nodes int, bytes int64) bool {
	if t.bounds.Data == 0 || t.dataBytes+bytes+nodeBytes*int64(len(t.nodes)+nodes) <= t.bounds.Data {
		return false
	}
	t.bounds.exceeded(BoundData)
	return true
}

// outOfBounds reports whether there is no room for a node called name below parent, with size bytes of data.
func (t *Tree) outOfBounds(parent *node, name string, size int, owner int64) bool {
	b := &t.bounds
	switch {
	case b.ChildrenBytes > 0 && parent.nameBytes()+int(wireBytes(name)) > b.ChildrenBytes:
		b.exceeded(BoundChildren)
		return true
	case t.full(1, int64(len(parent.path)+1+len(name)+size)):
		return true
	case owner != 0 && b.Ephemerals > 0 && t.ephemerals[owner].count() >= b.Ephemerals:
		b.exceeded(BoundEphemerals)
		return true
	case owner != 0 && t.EphemeralsSize(owner)+len(parent.path)+1+len(name) > maxOwnedBytes:
		b.exceeded(BoundEphemerals)
		return true
	}
	return false
}

// maxOwnedBytes bounds the paths of a session's nodes.
const maxOwnedBytes = 32 << 20

// A Txn is the identity of one write.
type Txn struct {
	Zxid    int64
	Time    int64 // wall clock, milliseconds since 1970
	Session int64
	As      []Identity // the identities of the client
}

// New returns a tree with the nodes that every ZooKeeper server has.
func New() *Tree {
	t := &Tree{
		nodes:      make(map[string]*node),
		ephemerals: make(map[int64]*owned),
		quotas:     make(map[string]*quota),
		watches:    newWatchTable(),
		identities: make(map[Watcher]*keyring),
		told:       make(map[Watcher]struct{}),
		last:       newKeyring(nil),
		many:       manyMatches, most: tellPortion,
	}
	t.nodes["/"] = &node{path: "/", acl: openACL, data: []byte{}}
	t.dataBytes = 1
	t.link(&node{path: "/zookeeper", acl: openACL, data: []byte{}})
	t.link(&node{path: "/zookeeper/quota", acl: openACL, data: []byte{}})
	t.link(&node{path: "/zookeeper/config", acl: readOnlyACL, data: []byte{}, aversion: -1})
	return t
}

// TakeSteps returns the work of operations since the last call, beyond a constant for each. It counts
// the compared entries of ACLs, the visits to ancestors of changed nodes, and the
// notified watchers.
func (t *Tree) TakeSteps() int {
	steps := t.steps
	t.steps = 0
	return steps
}

// Steps returns the steps that TakeSteps would return.
func (t *Tree) Steps() int { return t.steps }

// Len returns the number of nodes.
func (t *Tree) Len() int { return len(t.nodes) }

// EphemeralCount returns the number of ephemeral nodes.
func (t *Tree) EphemeralCount() int { return t.ephemeralCount }

// WatchCount returns the number of watches.
func (t *Tree) WatchCount() int { return t.watches.count }

// WatchWeights returns the sums of WatchWeight for the watches of one watcher, and for all watches.
func (t *Tree) WatchWeights(by Watcher) (own, all int) {
	return t.watches.weights[by], t.watches.weight
}

// DataBytes returns the length of all paths and data.
func (t *Tree) DataBytes() int64 { return t.dataBytes }

// TakeChanges calls f for every part of a node that may have changed since the last call. record is nil
// if the part has no record any more, and valid during the call otherwise. The parts of one write
// follow each other. TakeChanges reports whether one of the changes outlives all sessions: a node that
// is not ephemeral was created, removed or written. Changes of ephemeral nodes, and of their parents'
// counters, do not count.
func (t *Tree) TakeChanges(f func(path string, p Part, record []byte)) (lasting bool) {
	for i, n := range t.changed {
		now := t.nodes[n.path]
		for _, p := range Parts() {
			switch {
			case n.dirty&setOf(p) == 0:
			case now == nil || now.parts()&setOf(p) == 0:
				f(n.path, p, nil)
			case now == n: // otherwise a new node has the path, and comes later
				t.record = n.append(t.record[:0], p)
				f(n.path, p, t.record)
			}
		}
		n.dirty, t.changed[i] = 0, nil
	}
	t.changed, t.unsaved = t.changed[:0], 0
	lasting, t.lasting = t.lasting, false
	return lasting
}

// Changed reports whether TakeChanges would call f.
func (t *Tree) Changed() bool { return len(t.changed) > 0 }

// Unsaved returns a bound of the bytes that the changes since the last TakeChanges take in the store.
func (t *Tree) Unsaved() int { return t.unsaved }

// wireBytes returns the length of a name in an encoded list of children.
func wireBytes(name string) int32 { return int32(4 + len(name)) }

// owned has the ephemeral nodes of one session.
type owned struct {
	list
	pathBytes int // of their encoded paths
}

func (o *owned) count() int {
	if o == nil {
		return 0
	}
	return len(o.nodes)
}

// link adds n to every index. Its parent must exist.
func (t *Tree) link(n *node) {
	t.nodes[n.path] = n
	n.bytes = int64(len(n.data))
	_, n.quota = t.quotas[n.path]
	n.recursive = t.watches.armed[watchRecursive][n.path]
	t.index(n, t.nodes[parentOf(n.path)])
}

// index is link for a node that is already in Tree.nodes.
func (t *Tree) index(n, parent *node) {
	n.parent = parent
	if parent.children == nil {
		parent.children = new(childList)
	}
	n.acl = shared(n.acl, parent)
	parent.children.add(n, &n.place)
	if n.owner != 0 {
		if t.ephemerals[n.owner] == nil {
			t.ephemerals[n.owner] = new(owned)
		}
		t.ephemerals[n.owner].add(n, &n.rank)
	}
	t.count(n, 1)
	if n.reapable() {
		t.reapable.add(n, &n.due)
	}
}

// count adds n to all sums, or subtracts it if by is -1.
func (t *Tree) count(n *node, by int32) {
	t.dataBytes += int64(by) * int64(len(n.path)+len(n.data))
	n.parent.children.nameBytes += by * wireBytes(nameOf(n.path))
	levels := 0
	for above := n.parent; above != nil; above = above.parent {
		levels++
		above.descendants += by * (1 + n.descendants)
		above.bytes += int64(by) * n.bytes
	}
	t.steps += levels
	if n.owner != 0 {
		t.ephemeralCount += int(by)
		t.ephemerals[n.owner].pathBytes += int(by * wireBytes(n.path))
	}
}

func (t *Tree) unlink(n *node) {
	delete(t.nodes, n.path)
	t.count(n, -1)
	n.parent.children.remove(n, place)
	if n.owner != 0 {
		t.ephemerals[n.owner].remove(n, rank)
		if t.ephemerals[n.owner].count() == 0 {
			delete(t.ephemerals, n.owner)
		}
	}
	if n.reapable() {
		t.reapable.remove(n, due)
	}
}

// relink undoes unlink, which must be the last change. The children have their old order again.
func (t *Tree) relink(n *node) {
	t.nodes[n.path] = n
	n.parent.children.restore(n, place)
	if n.owner != 0 {
		if t.ephemerals[n.owner] == nil {
			t.ephemerals[n.owner] = new(owned)
		}
		t.ephemerals[n.owner].restore(n, rank)
	}
	t.count(n, 1)
	if n.reapable() {
		t.reapable.add(n, &n.due)
	}
}
