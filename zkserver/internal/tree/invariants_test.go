package tree

import "testing"

// assertUntouched fails the test if the last write left events or changes.
func assertUntouched(t *testing.T, tr *Tree) {
	t.Helper()
	if ev := tr.TakeEvents(); len(ev) != 0 {
		t.Errorf("a failed write caused events %v", ev)
	}
	tr.TakeChanges(func(path string, _ Part, _ []byte) { t.Errorf("a failed write changed %s", path) })
	assertConsistent(t, tr)
}

// discard takes the changes of a tree.
func discard(tr *Tree) { tr.TakeChanges(func(string, Part, []byte) {}) }

// snapshot returns the whole state that survives a restart: the record of each part, by its letter and the path.
func snapshot(tr *Tree) map[string]string {
	m := make(map[string]string)
	for path, n := range tr.nodes {
		for _, p := range Parts() {
			if n.parts()&setOf(p) != 0 {
				m[string(p)+path] = string(n.append(nil, p))
			}
		}
	}
	return m
}

// load loads the records of a snapshot.
func load(tr *Tree, records map[string]string) error {
	for key, record := range records {
		if err := tr.LoadNode(key[1:], Part(key[0]), []byte(record)); err != nil {
			return err
		}
	}
	return tr.Loaded()
}

// reload returns the tree as a restart would load it.
func reload(t *testing.T, tr *Tree) *Tree {
	t.Helper()
	again := New()
	if err := load(again, snapshot(tr)); err != nil {
		t.Fatal(err)
	}
	return again
}

// assertConsistent checks the indexes against the nodes.
func assertConsistent(t *testing.T, tr *Tree) {
	t.Helper()
	children, ephemerals, reapable, owned, size := 0, 0, 0, 0, int64(0)
	for path, n := range tr.nodes {
		size += int64(len(path) + len(n.data))
		if path != "/" {
			parent := tr.nodes[parentOf(path)]
			if parent == nil {
				t.Fatalf("%s has no parent", path)
			}
			if n.parent != parent || parent.children.nodes[n.place] != n {
				t.Errorf("%s is not among its parent's children", path)
			}
			if parent.owner != 0 {
				t.Errorf("%s is below an ephemeral node", path)
			}
		}
		if n.path != path {
			t.Errorf("%s is called %s", path, n.path)
		}
		if nodes, bytes := sum(n); nodes != 1+int64(n.descendants) || bytes != n.bytes {
			t.Errorf("from %s on there are %d nodes and %d bytes; %d and %d are counted", path, nodes, bytes, 1+n.descendants, n.bytes)
		}
		if q := tr.quotas[path]; n.quota != (q != nil) {
			t.Errorf("%s has a quota %v; its mark says %v", path, q != nil, n.quota)
		}
		if armed := tr.watches.armed[watchRecursive][path]; armed != n.recursive && !(armed.none() && n.recursive.none()) {
			t.Errorf("%s knows other recursive watches than those of its path", path)
		}
		nameBytes := int32(0)
		for _, child := range n.below() {
			nameBytes += wireBytes(nameOf(child.path))
		}
		if int(nameBytes) != n.nameBytes() {
			t.Errorf("the children of %s take %d bytes; %d are counted", path, nameBytes, n.nameBytes())
		}
		children += n.count()
		if n.owner != 0 {
			ephemerals++
			if tr.ephemerals[n.owner].nodes[n.rank] != n {
				t.Errorf("%s is not among the ephemerals of %d", path, n.owner)
			}
		}
		if n.container || n.ttl > 0 {
			reapable++
			if tr.reapable.nodes[n.due] != n {
				t.Errorf("%s is not among the reapable", path)
			}
		}
	}
	if children != len(tr.nodes)-1 {
		t.Errorf("%d children for %d nodes", children, len(tr.nodes))
	}
	owned = ephemerals
	for session, o := range tr.ephemerals {
		ephemerals -= o.count()
		for _, n := range o.nodes {
			if n.owner != session {
				t.Errorf("%s is among the nodes of %d", n.path, session)
			}
		}
	}
	if size != tr.DataBytes() || owned != tr.EphemeralCount() {
		t.Errorf("%d bytes and %d ephemerals are counted; want %d and %d", tr.DataBytes(), tr.EphemeralCount(), size, owned)
	}
	watches, weight := 0, 0
	for by, keys := range tr.watches.byWatcher {
		watches += len(keys)
		for k := range keys {
			weight += WatchWeight(k.path)
		}
		if _, all := tr.WatchWeights(by); all != tr.watches.weight {
			t.Errorf("weight %d; want %d", all, tr.watches.weight)
		}
		weight -= tr.watches.weights[by]
	}
	if watches != tr.WatchCount() || weight != 0 || len(tr.watches.weights) != len(tr.watches.byWatcher) {
		t.Errorf("%d watches are counted; want %d", tr.WatchCount(), watches)
	}
	if ephemerals != 0 || reapable != len(tr.reapable.nodes) {
		t.Errorf("stale index: %d ephemerals too few, reapable %v", ephemerals, tr.reapable.nodes)
	}
	if len(tr.undo)+len(tr.triggers)+len(tr.touched)+len(tr.told) != 0 || tr.nested {
		t.Error("the last write was not finished")
	}
}

// sum counts n and all nodes below it, and the bytes of their data.
func sum(n *node) (nodes, size int64) {
	nodes, size = 1, int64(len(n.data))
	for _, child := range n.below() {
		c, b := sum(child)
		nodes, size = nodes+c, size+b
	}
	return nodes, size
}

// entries returns how many entries the table has, including empty ones.
func (w *watchTable) entries() int {
	n := len(w.byWatcher) + len(w.dropped)
	for _, armed := range w.armed {
		n += len(armed)
	}
	return n
}
