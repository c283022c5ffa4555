package tree

import (
	"slices"
	"testing"

	"holdfast/zkproto"
)

const (
	created  = zkproto.EventNodeCreated
	deleted  = zkproto.EventNodeDeleted
	changed  = zkproto.EventNodeDataChanged
	children = zkproto.EventNodeChildrenChanged
)

func assertEvents(t *testing.T, tr *Tree, want ...Event) {
	t.Helper()
	if got := tr.TakeEvents(); !slices.Equal(got, want) {
		t.Errorf("events: got %v; want %v", got, want)
	}
}

func TestWritesTriggerWatches(t *testing.T) {
	for _, tt := range []struct {
		name  string
		arm   func(*Tree)
		write func(*testing.T, *Tree)
		want  []Event
	}{
		{"create fires exists and the parent's children",
			func(tr *Tree) { tr.WatchData(1, "/n"); tr.WatchChildren(1, "/") },
			func(t *testing.T, tr *Tree) { mustCreate(t, tr, "/n", 0) },
			[]Event{{1, created, "/n"}, {1, children, "/"}}},
		{"create does not fire data of the parent",
			func(tr *Tree) { tr.WatchData(1, "/a"); tr.WatchChildren(1, "/a/n") },
			func(t *testing.T, tr *Tree) { mustCreate(t, tr, "/a/n", 0) },
			nil},
		{"delete fires data, children of the node once, and the parent's children",
			func(tr *Tree) { tr.WatchData(1, "/a/e"); tr.WatchChildren(1, "/a/e"); tr.WatchChildren(1, "/a") },
			func(t *testing.T, tr *Tree) { tr.Delete(tx(), "/a/e", -1) },
			[]Event{{1, deleted, "/a/e"}, {1, children, "/a"}}},
		{"delete fires children of the node for who watches nothing else",
			func(tr *Tree) { tr.WatchChildren(2, "/a/e") },
			func(t *testing.T, tr *Tree) { tr.Delete(tx(), "/a/e", -1) },
			[]Event{{2, deleted, "/a/e"}}},
		{"set fires data alone",
			func(tr *Tree) { tr.WatchData(1, "/a"); tr.WatchChildren(1, "/a"); tr.WatchChildren(1, "/") },
			func(t *testing.T, tr *Tree) { tr.Set(tx(), "/a", nil, -1) },
			[]Event{{1, changed, "/a"}}},
		{"the end of a session fires like deletions",
			func(tr *Tree) { tr.WatchData(1, "/a/e"); tr.WatchChildren(2, "/a") },
			func(t *testing.T, tr *Tree) { tr.CloseSession(tx()) },
			[]Event{{1, deleted, "/a/e"}, {2, children, "/a"}}},
		{"a transaction fires in the order of its operations",
			func(tr *Tree) { tr.WatchData(1, "/n"); tr.WatchData(1, "/a"); tr.WatchData(1, "/a/e") },
			func(t *testing.T, tr *Tree) {
				tr.Multi(tx(), []zkproto.MultiOp{
					{Op: zkproto.OpDelete, Path: "/a/e", Version: -1},
					{Op: zkproto.OpCreate, Path: "/n", ACL: openACL},
					{Op: zkproto.OpSetData, Path: "/a", Version: -1},
				})
			},
			[]Event{{1, deleted, "/a/e"}, {1, created, "/n"}, {1, changed, "/a"}}},
		{"watches fire once",
			func(tr *Tree) { tr.WatchData(1, "/a") },
			func(t *testing.T, tr *Tree) { tr.Set(tx(), "/a", nil, -1); tr.Set(tx(), "/a", nil, -1) },
			[]Event{{1, changed, "/a"}}},
		{"arming twice fires once",
			func(tr *Tree) { tr.WatchData(1, "/a"); tr.WatchData(1, "/a") },
			func(t *testing.T, tr *Tree) { tr.Set(tx(), "/a", nil, -1) },
			[]Event{{1, changed, "/a"}}},
		{"the root has two names",
			func(tr *Tree) { tr.WatchChildren(1, "") },
			func(t *testing.T, tr *Tree) { mustCreate(t, tr, "/n", 0) },
			[]Event{{1, children, "/"}}},
		{"a dropped watcher hears nothing",
			func(tr *Tree) { tr.WatchData(1, "/a"); tr.WatchChildren(1, "/a"); tr.DropWatcher(1) },
			func(t *testing.T, tr *Tree) { tr.Delete(tx(), "/a/e", -1); tr.Set(tx(), "/a", nil, -1) },
			nil},
		{"who may not read a node hears nothing of it",
			func(tr *Tree) { tr.WatchData(1, "/noread"); tr.WatchChildren(1, "/noread") },
			func(t *testing.T, tr *Tree) {
				mustCreate(t, tr, "/noread/x", 0)
				tr.Set(tx(), "/noread", nil, -1)
			},
			nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := sample(t)
			tt.arm(tr)
			tt.write(t, tr)
			assertEvents(t, tr, tt.want...)
		})
	}
}

func TestRemoveWatches(t *testing.T) {
	for _, tt := range []struct {
		name        string
		data, child bool
		kind        int32
		want        zkproto.Code
		left        []Event // of a deletion of /a/e
	}{
		{"data", true, true, zkproto.WatchData, ok, []Event{{1, deleted, "/a/e"}}},
		{"children", true, true, zkproto.WatchChildren, ok, []Event{{1, deleted, "/a/e"}}},
		{"any", true, true, zkproto.WatchAny, ok, nil},
		{"any of one", true, false, zkproto.WatchAny, ok, nil},
		{"none there", true, false, zkproto.WatchChildren, zkproto.CodeNoWatcher, []Event{{1, deleted, "/a/e"}}},
		{"unknown kind", true, true, 4, zkproto.CodeMarshallingError, []Event{{1, deleted, "/a/e"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := sample(t)
			if tt.data {
				tr.WatchData(1, "/a/e")
			}
			if tt.child {
				tr.WatchChildren(1, "/a/e")
			}
			if code := tr.RemoveWatches(1, "/a/e", tt.kind); code != tt.want {
				t.Errorf("got %v; want %v", code, tt.want)
			}
			tr.Delete(tx(), "/a/e", -1)
			assertEvents(t, tr, tt.left...)
		})
	}
}

func TestSetWatchesCatchesUpOrArms(t *testing.T) {
	tr := sample(t)
	rel := lastZxid
	mustCreate(t, tr, "/new", 0)      // changes the root's children
	tr.Set(tx(), "/a", nil, -1)       // changes /a's data, not its children
	tr.Delete(tx(), "/nodelete/x", 9) // fails: changes nothing
	tr.SetWatches(1, &zkproto.SetWatchesRequest{
		RelativeZxid: rel,
		Data:         []string{"/a", "/c", "/gone"},
		Exist:        []string{"/new", "/later"},
		Child:        []string{"/", "/a", "/gone2"},
	})
	assertEvents(t, tr,
		Event{1, changed, "/a"}, Event{1, deleted, "/gone"},
		Event{1, created, "/new"},
		Event{1, children, "/"}, Event{1, deleted, "/gone2"})
	mustCreate(t, tr, "/later", 0)
	mustCreate(t, tr, "/a/x", 0)
	tr.Set(tx(), "/c", nil, -1)
	tr.Set(tx(), "/a", nil, -1) // not armed again
	assertEvents(t, tr, Event{1, created, "/later"}, Event{1, children, "/a"}, Event{1, changed, "/c"})
	if len(tr.watches.byWatcher)+len(tr.watches.data)+len(tr.watches.child) != 0 {
		t.Errorf("empty entries stay in the watch table: %+v", tr.watches)
	}
}
