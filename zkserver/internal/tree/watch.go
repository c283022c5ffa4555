package tree

import "holdfast/zkproto"

// A Watcher is one connection, numbered by the server: watches end with it.
type Watcher int64

// An Event is for one watcher.
type Event struct {
	Watcher Watcher
	Type    zkproto.EventType
	Path    string
}

// A watchTable holds the one-shot watches: those of getData and exists in data,
// those of getChildren in child. The index by watcher is what a disconnect needs.
type watchTable struct {
	data      map[string]map[Watcher]struct{}
	child     map[string]map[Watcher]struct{}
	byWatcher map[Watcher]map[watchKey]struct{}
}

type watchKey struct {
	child bool
	path  string
}

func newWatchTable() watchTable {
	return watchTable{
		data:      make(map[string]map[Watcher]struct{}),
		child:     make(map[string]map[Watcher]struct{}),
		byWatcher: make(map[Watcher]map[watchKey]struct{}),
	}
}

func (w *watchTable) side(child bool) map[string]map[Watcher]struct{} {
	if child {
		return w.child
	}
	return w.data
}

func (w *watchTable) add(by Watcher, k watchKey) {
	side := w.side(k.child)
	if side[k.path] == nil {
		side[k.path] = make(map[Watcher]struct{})
	}
	side[k.path][by] = struct{}{}
	if w.byWatcher[by] == nil {
		w.byWatcher[by] = make(map[watchKey]struct{})
	}
	w.byWatcher[by][k] = struct{}{}
}

func (w *watchTable) remove(by Watcher, k watchKey) bool {
	if _, ok := w.byWatcher[by][k]; !ok {
		return false
	}
	delete(w.byWatcher[by], k)
	if len(w.byWatcher[by]) == 0 {
		delete(w.byWatcher, by)
	}
	side := w.side(k.child)
	delete(side[k.path], by)
	if len(side[k.path]) == 0 {
		delete(side, k.path)
	}
	return true
}

// WatchData arms a watch of getData or exists; the node need not exist.
func (t *Tree) WatchData(by Watcher, path string) { t.watches.add(by, watchKey{false, rooted(path)}) }

// WatchChildren arms a watch of getChildren.
func (t *Tree) WatchChildren(by Watcher, path string) {
	t.watches.add(by, watchKey{true, rooted(path)})
}

// DropWatcher disarms all watches of a connection.
func (t *Tree) DropWatcher(by Watcher) {
	for k := range t.watches.byWatcher[by] {
		t.watches.remove(by, k)
	}
}

// RemoveWatches disarms watches of one kind, without an event.
func (t *Tree) RemoveWatches(by Watcher, path string, kind int32) zkproto.Code {
	if kind < zkproto.WatchChildren || kind > zkproto.WatchAny {
		return zkproto.CodeMarshallingError
	}
	found := false
	if kind != zkproto.WatchData {
		found = t.watches.remove(by, watchKey{true, rooted(path)})
	}
	if kind != zkproto.WatchChildren {
		found = t.watches.remove(by, watchKey{false, rooted(path)}) || found
	}
	if !found {
		return zkproto.CodeNoWatcher
	}
	return zkproto.CodeOK
}

// SetWatches takes over the watches that a client had on an earlier connection.
// What happened behind the client's back since RelativeZxid becomes an event now,
// everything else is armed again.
func (t *Tree) SetWatches(by Watcher, req *zkproto.SetWatchesRequest) {
	rel := req.RelativeZxid
	for _, path := range req.Data {
		n := t.lookup(path)
		switch {
		case n == nil:
			t.emit(by, zkproto.EventNodeDeleted, path)
		case n.mzxid > rel:
			t.emitIf(n, by, zkproto.EventNodeDataChanged, path)
		default:
			t.WatchData(by, path)
		}
	}
	for _, path := range req.Exist {
		if n := t.lookup(path); n != nil {
			t.emitIf(n, by, zkproto.EventNodeCreated, path)
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
			t.emitIf(n, by, zkproto.EventNodeChildrenChanged, path)
		default:
			t.WatchChildren(by, path)
		}
	}
}

// TakeEvents returns the events since the last call, in the order in which the
// writes happened. The slice is valid until the next write.
func (t *Tree) TakeEvents() []Event {
	events := t.events
	t.events = t.events[:0]
	return events
}

// A trigger is an event before it is known who waits for it.
type trigger struct {
	kind           zkproto.EventType
	path           string
	readable       bool
	parentReadable bool
	hasParent      bool
}

// trigger notes what happened to n. Whether the watchers may know of it is decided
// by the ACL of now: after a deletion nobody could look it up. parent is nil if its
// list of children did not change.
func (t *Tree) trigger(kind zkproto.EventType, path string, n, parent *node) {
	tr := trigger{kind: kind, path: path, readable: n.permits(zkproto.PermRead)}
	if parent != nil {
		tr.hasParent, tr.parentReadable = true, parent.permits(zkproto.PermRead)
	}
	t.triggers = append(t.triggers, tr)
}

func (t *Tree) fire(tr trigger) {
	told := t.fireSide(false, tr.kind, tr.path, tr.readable, nil)
	if tr.kind == zkproto.EventNodeDeleted {
		// Who watched data and children of the node is told once.
		t.fireSide(true, tr.kind, tr.path, tr.readable, told)
	}
	if tr.hasParent {
		t.fireSide(true, zkproto.EventNodeChildrenChanged, parentOf(tr.path), tr.parentReadable, nil)
	}
}

// fireSide disarms the watches on path and tells their watchers, except those in
// told. It returns all whose watches it disarmed. A watcher that may not read the
// node is not told (CVE-2024-23944).
func (t *Tree) fireSide(child bool, kind zkproto.EventType, path string, readable bool, told map[Watcher]struct{}) map[Watcher]struct{} {
	watchers := t.watches.side(child)[path]
	if watchers == nil {
		return nil
	}
	k := watchKey{child, path}
	delete(t.watches.side(child), path)
	for by := range watchers {
		delete(t.watches.byWatcher[by], k)
		if len(t.watches.byWatcher[by]) == 0 {
			delete(t.watches.byWatcher, by)
		}
		if _, again := told[by]; !again && readable {
			t.emit(by, kind, path)
		}
	}
	return watchers
}

func (t *Tree) emitIf(n *node, by Watcher, kind zkproto.EventType, path string) {
	if n.permits(zkproto.PermRead) {
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
