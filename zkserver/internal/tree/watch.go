package tree

import "holdfast/zkproto"

// A Watcher is one connection, numbered by the server, from 1: watches end with it.
type Watcher int64

// An Event is for one watcher.
type Event struct {
	Watcher Watcher
	Type    zkproto.EventType
	Path    string
}

// Identify sets the identities of a watcher. The caller must not change the slice afterwards. They
// are checked when something happens: a watcher that may not read a node gets no event of it
// (CVE-2024-23944).
func (t *Tree) Identify(by Watcher, as []Identity) {
	if len(as) > 0 {
		t.identities[by] = newKeyring(as)
	}
}

// WatchData arms a watch of getData or exists; the node need not exist.
func (t *Tree) WatchData(by Watcher, path string) {
	t.watches.add(by, watchKey{watchData, rooted(path)})
}

// WatchChildren arms a watch of getChildren.
func (t *Tree) WatchChildren(by Watcher, path string) {
	t.watches.add(by, watchKey{watchChildren, rooted(path)})
}

// AddWatch arms a watch that stays armed when it fires; the node need not exist. One of
// each mode can be on a node at the same time.
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

// DropWatcher disarms all watches of a connection.
func (t *Tree) DropWatcher(by Watcher) {
	t.drop(by)
	t.Sweep()
}

func (t *Tree) drop(by Watcher) {
	delete(t.identities, by)
	t.watches.drop(by)
}

// Sweep frees the memory of some watches that DropWatcher has disarmed. The owner calls it at each
// check of the sessions.
func (t *Tree) Sweep() { t.watches.sweep(1000) }

// RemoveWatches disarms watches of one kind, without an event.
func (t *Tree) RemoveWatches(by Watcher, path string, kind int32) zkproto.Code {
	return t.eachWatch(path, kind, func(k watchKey) bool { return t.watches.remove(by, k) })
}

// CheckWatches says whether there is a watch that RemoveWatches would disarm.
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

// watchKinds are the kinds that a client can ask for. Those of persistent watches alone
// are known since ZooKeeper 3.9.
var watchKinds = map[int32][]watchKind{
	zkproto.WatchChildren:            {watchChildren},
	zkproto.WatchData:                {watchData},
	zkproto.WatchAny:                 {watchData, watchChildren, watchPersistent, watchRecursive},
	zkproto.WatchPersistent:          {watchPersistent},
	zkproto.WatchPersistentRecursive: {watchRecursive},
}

// SetWatches takes over the watches that a client had on an earlier connection.
// What happened behind the client's back since RelativeZxid becomes an event now,
// everything else is armed again. Persistent watches are armed only.
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

// TakeEvents returns the events since the last call, in the order in which the
// writes happened. The slice is valid until the next write.
func (t *Tree) TakeEvents() []Event {
	events := t.events
	if t.events = t.events[:0]; cap(events) > 1<<16 {
		t.events = nil
	}
	return events
}

// maxTelling bounds the steps that a write takes to tell its watchers: some 130,000 events that
// everybody may read. Beyond that, watchers lose their watches, see TakeOverrun.
const (
	maxTelling = 4 << 20
	tellSteps  = 8  // for each watch that matches
	emitSteps  = 24 // for each watcher that is told, besides the check of the ACL
)

// TakeOverrun returns the watchers that have lost their watches since the last call, because writes
// had too many to tell. Their connections must end, so that they know.
func (t *Tree) TakeOverrun() []Watcher {
	overrun := t.overrun
	t.overrun = nil
	return overrun
}

// A trigger is an event whose watchers are not known yet.
type trigger struct {
	kind      zkproto.EventType
	path      string
	node      *node
	acl       *acl
	hasParent bool
	parentACL *acl
}

// trigger notes a change of n. The present ACL decides whether a watcher may know of the
// change: after a deletion nobody could look it up. parent is nil if its list of children did
// not change.
func (t *Tree) trigger(kind zkproto.EventType, path string, n, parent *node) {
	tr := trigger{kind: kind, path: path, node: n, acl: n.acl}
	if parent != nil {
		tr.hasParent, tr.parentACL = true, parent.acl
	}
	t.triggers = append(t.triggers, tr)
	t.foresee(n)
}

// fewLevels is the number of levels above a node on which recursive watches cost no more than their
// events.
const fewLevels = 16

// foresee adds to t.foreseen the steps that fire will take for recursive watches on many levels
// above n. A transaction with too many of them is refused before it fires.
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

// fire tells the watchers of an event, each connection once however many of its watches match.
// One-shot watches are disarmed, also if the ACL hides the event.
func (t *Tree) fire(tr trigger) {
	t.tell(watchData, tr.path)
	t.tell(watchPersistent, tr.path)
	if tr.kind == zkproto.EventNodeDeleted {
		t.tell(watchChildren, tr.path)
	}
	if len(t.watches.armed[watchRecursive]) > 0 {
		// A node that has been removed still knows the nodes that were above it.
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
		if t.steps-t.firing > maxTelling {
			t.drop(by)
			t.overrun = append(t.overrun, by)
			continue
		}
		t.steps += emitSteps
		t.emitIf(a, by, kind, path)
	}
	if len(t.told) > 100 {
		t.told = make(map[Watcher]struct{}) // clear takes as long as for the most that it had
	} else {
		clear(t.told)
	}
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
