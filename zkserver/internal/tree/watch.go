package tree

import "holdfast/zkproto"

// A Watcher is one connection. The server numbers them from 1. Watches end with their connection.
type Watcher int64

// An Event is a notification for one watcher.
type Event struct {
	Watcher Watcher
	Type    zkproto.EventType
	Path    string
}

// Identify sets the identities of a watcher. The caller must not change the slice afterwards. The tree
// checks them for each event: a watcher that may not read a node gets no event of it
// (CVE-2024-23944).
func (t *Tree) Identify(by Watcher, as []Identity) {
	if len(as) > 0 {
		t.identities[by] = newKeyring(as)
	}
}

// WatchData sets a watch of getData or exists; the node need not exist.
func (t *Tree) WatchData(by Watcher, path string) {
	t.watches.add(by, watchKey{watchData, rooted(path)})
}

// WatchChildren sets a watch of getChildren.
func (t *Tree) WatchChildren(by Watcher, path string) {
	t.watches.add(by, watchKey{watchChildren, rooted(path)})
}

// AddWatch sets a watch that stays when it fires; the node need not exist. A node can have one watch
// of each mode at the same time.
func (t *Tree) AddWatch(by Watcher, path string, mode int32) zkproto.Code {
	switch mode {
	case zkproto.ModePersistent:
		t.watches.add(by, watchKey{watchPersistent, rooted(path)})
	case zkproto.ModePersistentRecursive:
		t.watches.add(by, watchKey{watchRecursive, rooted(path)})
		if n := t.lookup(path); n != nil {
			n.recursive = t.watches.armed[watchRecursive][n.path]
		}
	default:
		return zkproto.CodeMarshallingError
	}
	return zkproto.CodeOK
}

// DropWatcher removes all watches of a connection.
func (t *Tree) DropWatcher(by Watcher) {
	t.drop(by)
	t.Sweep()
}

func (t *Tree) drop(by Watcher) {
	delete(t.identities, by)
	t.watches.drop(by)
}

// Sweep frees the memory of some watches that DropWatcher has removed. The owner calls it at each
// check of the sessions.
func (t *Tree) Sweep() { t.watches.sweep(1000) }

// RemoveWatches removes watches of one kind, without an event.
func (t *Tree) RemoveWatches(by Watcher, path string, kind int32) zkproto.Code {
	return t.eachWatch(path, kind, func(k watchKey) bool { return t.watches.remove(by, k) })
}

// CheckWatches reports whether there is a watch that RemoveWatches would remove.
func (t *Tree) CheckWatches(by Watcher, path string, kind int32) zkproto.Code {
	return t.eachWatch(path, kind, func(k watchKey) bool { return t.watches.has(by, k) })
}

func (t *Tree) eachWatch(path string, kind int32, f func(watchKey) bool) zkproto.Code {
	kinds, ok := watchKinds[kind]
	if !ok {
		return zkproto.CodeMarshallingError
	}
	code := zkproto.CodeNoWatcher
	for _, k := range kinds {
		if f(watchKey{k, rooted(path)}) {
			code = zkproto.CodeOK
		}
	}
	return code
}

// watchKinds has the kinds of watch that a client can name. The kinds for persistent watches alone
// exist since ZooKeeper 3.9.
var watchKinds = map[int32][]watchKind{
	zkproto.WatchChildren:            {watchChildren},
	zkproto.WatchData:                {watchData},
	zkproto.WatchAny:                 {watchData, watchChildren, watchPersistent, watchRecursive},
	zkproto.WatchPersistent:          {watchPersistent},
	zkproto.WatchPersistentRecursive: {watchRecursive},
}

// SetWatches sets the watches again that a client had on an earlier connection. A change since
// RelativeZxid becomes an event now; without a change, the watch is set. Persistent watches are
// only set.
func (t *Tree) SetWatches(by Watcher, req *zkproto.SetWatches2Request) {
	rel := req.RelativeZxid
	for _, path := range req.Data {
		n := t.lookup(path)
		switch {
		case n == nil:
			t.emit(by, zkproto.EventNodeDeleted, path)
		case n.mzxid > rel:
			t.emitIf(n.acl, by, zkproto.EventNodeDataChanged, path)
		default:
			t.WatchData(by, path)
		}
	}
	for _, path := range req.Exist {
		if n := t.lookup(path); n != nil {
			t.emitIf(n.acl, by, zkproto.EventNodeCreated, path)
		} else {
			t.WatchData(by, path)
		}
	}
	for _, path := range req.Child {
		n := t.lookup(path)
		switch {
		case n == nil:
			t.emit(by, zkproto.EventNodeDeleted, path)
		case n.pzxid > rel:
			t.emitIf(n.acl, by, zkproto.EventNodeChildrenChanged, path)
		default:
			t.WatchChildren(by, path)
		}
	}
	for _, path := range req.Persistent {
		t.AddWatch(by, path, zkproto.ModePersistent)
	}
	for _, path := range req.PersistentRecursive {
		t.AddWatch(by, path, zkproto.ModePersistentRecursive)
	}
}

// TakeEvents returns the events since the last call, in the order of the writes. The slice is valid
// until the next write.
func (t *Tree) TakeEvents() []Event {
	events := t.events
	if t.events = t.events[:0]; cap(events) > 1<<16 {
		t.events = nil
	}
	return events
}

// maxTelling bounds the steps that a telling takes to notify its watchers: some 130,000 events of a node
// that everybody may read. Beyond that, watchers lose their watches, see TakeOverrun.
const (
	maxTelling = 4 << 20
	tellSteps  = 8  // for each matching watch
	emitSteps  = 24 // for each notified watcher, besides the check of the ACL
)

// TakeOverrun returns the watchers that have lost their watches since the last call, because writes
// had too many watchers to notify. The caller closes their connections, so that their clients know.
func (t *Tree) TakeOverrun() []Watcher {
	overrun := t.overrun
	t.overrun = nil
	return overrun
}

// A trigger is an event before its watchers are found.
type trigger struct {
	kind      zkproto.EventType
	path      string
	node      *node
	acl       *acl
	hasParent bool
	parentACL *acl
}

// trigger records a change of n. The node's current ACL decides whether a watcher may learn of the
// change, because the node cannot be looked up after a deletion. parent is nil if its list of children
// did not change.
func (t *Tree) trigger(kind zkproto.EventType, path string, n, parent *node) {
	tr := trigger{kind: kind, path: path, node: n, acl: n.acl}
	if parent != nil {
		tr.hasParent, tr.parentACL = true, parent.acl
	}
	t.triggers = append(t.triggers, tr)
	t.foresee(n)
}

// fewLevels is the number of ancestors up to which recursive watches cost no more than their
// events.
const fewLevels = 16

// foresee adds to t.foreseen the steps that fire will take for recursive watches on many ancestors of
// n. A transaction with too many of them is refused before it fires.
func (t *Tree) foresee(n *node) {
	if !t.nested || len(t.watches.armed[watchRecursive]) <= fewLevels {
		return
	}
	levels := 0
	for above := n; above != nil; above = above.parent {
		t.steps++
		if above.recursive == nil {
			continue
		}
		if levels++; levels > fewLevels {
			t.foreseen += tellSteps * above.recursive.count()
		}
	}
}

// fire notifies the watchers of an event, each connection once however many of its watches match.
// It removes one-shot watches, also if the ACL hides the event.
func (t *Tree) fire(tr trigger) {
	t.tell(watchData, tr.path)
	t.tell(watchPersistent, tr.path)
	if tr.kind == zkproto.EventNodeDeleted {
		t.tell(watchChildren, tr.path)
	}
	if len(t.watches.armed[watchRecursive]) > 0 {
		// A removed node still has the pointers to its ancestors.
		for above := tr.node; above != nil; above = above.parent {
			t.steps++
			switch {
			case above.recursive == nil:
			case above.recursive.none():
				above.recursive = nil
			default:
				t.add(above.recursive)
			}
		}
	}
	t.emitTold(tr.acl, tr.kind, tr.path)
	if tr.hasParent {
		parent := parentOf(tr.path)
		t.tell(watchChildren, parent)
		t.tell(watchPersistent, parent)
		t.emitTold(tr.parentACL, zkproto.EventNodeChildrenChanged, parent)
	}
}

// tell adds the watchers that have a watch of a kind on path to t.told.
func (t *Tree) tell(kind watchKind, path string) {
	armed := t.watches.armed[kind][path]
	if armed == nil {
		return
	}
	t.add(armed)
	if kind.oneShot() {
		for by := range armed.all() {
			t.watches.remove(by, watchKey{kind, path})
		}
	}
}

func (t *Tree) add(armed *watchers) {
	for by := range armed.all() {
		t.steps += tellSteps
		if !t.watches.isDropped(by) {
			t.told[by] = struct{}{}
		}
	}
}

func (t *Tree) emitTold(a *acl, kind zkproto.EventType, path string) {
	for by := range t.told {
		t.steps += emitSteps
		t.emitIf(a, by, kind, path)
	}
	clear(t.told)
}

func (t *Tree) emitIf(a *acl, by Watcher, kind zkproto.EventType, path string) {
	var as []Identity
	if k := t.identities[by]; k != nil {
		t.last, as = k, k.as
	}
	if t.permits(a, zkproto.PermRead, as) {
		t.emit(by, kind, path)
	}
}

func (t *Tree) emit(by Watcher, kind zkproto.EventType, path string) {
	t.events = append(t.events, Event{Watcher: by, Type: kind, Path: path})
}

func rooted(path string) string {
	if path == "" {
		return "/"
	}
	return path
}
