package tree

import (
	"fmt"
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
					{Op: zkproto.OpCreate, Path: "/n", ACL: openACL.entries},
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
		left        []Event // watches left after a deletion of /a/e
	}{
		{"data", true, true, zkproto.WatchData, ok, []Event{{1, deleted, "/a/e"}}},
		{"children", true, true, zkproto.WatchChildren, ok, []Event{{1, deleted, "/a/e"}}},
		{"any", true, true, zkproto.WatchAny, ok, nil},
		{"any of one", true, false, zkproto.WatchAny, ok, nil},
		{"none there", true, false, zkproto.WatchChildren, zkproto.CodeNoWatcher, []Event{{1, deleted, "/a/e"}}},
		{"unknown kind", true, true, 6, zkproto.CodeMarshallingError, []Event{{1, deleted, "/a/e"}}},
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

func TestPersistentWatches(t *testing.T) {
	const persistent, recursive = zkproto.ModePersistent, zkproto.ModePersistentRecursive
	everything := func(t *testing.T, tr *Tree) {
		mustCreate(t, tr, "/a/n", 0)
		mustCreate(t, tr, "/a/n/x", 0)
		tr.Set(tx(), "/a/n", nil, -1)
		tr.Delete(tx(), "/a/n/x", -1)
		tr.Delete(tx(), "/a/n", -1)
		tr.Set(tx(), "/a", nil, -1)
	}
	for _, tt := range []struct {
		name string
		arm  func(*Tree)
		want []Event
	}{
		{"persistent hears of its node and its list of children, again and again",
			func(tr *Tree) { tr.AddWatch(1, "/a", persistent) },
			[]Event{{1, children, "/a"}, {1, children, "/a"}, {1, changed, "/a"}}},
		{"persistent survives the node",
			func(tr *Tree) { tr.AddWatch(1, "/a/n", persistent) },
			[]Event{{1, created, "/a/n"}, {1, children, "/a/n"}, {1, changed, "/a/n"}, {1, children, "/a/n"}, {1, deleted, "/a/n"}}},
		{"recursive hears of all nodes below and of no list of children",
			func(tr *Tree) { tr.AddWatch(1, "/a", recursive) },
			[]Event{{1, created, "/a/n"}, {1, created, "/a/n/x"}, {1, changed, "/a/n"}, {1, deleted, "/a/n/x"}, {1, deleted, "/a/n"}, {1, changed, "/a"}}},
		{"recursive on the root",
			func(tr *Tree) { tr.AddWatch(1, "", recursive) },
			[]Event{{1, created, "/a/n"}, {1, created, "/a/n/x"}, {1, changed, "/a/n"}, {1, deleted, "/a/n/x"}, {1, deleted, "/a/n"}, {1, changed, "/a"}}},
		{"recursive beside, with a name that begins alike",
			func(tr *Tree) { tr.AddWatch(1, "/a/n/", recursive); tr.AddWatch(1, "/a/nn", recursive) },
			nil},
		{"whatever matches, each event once",
			func(tr *Tree) {
				for _, path := range []string{"/", "/a", "/a/n"} {
					tr.AddWatch(1, path, recursive)
					tr.AddWatch(1, path, persistent)
					tr.WatchData(1, path)
					tr.WatchChildren(1, path)
				}
			},
			[]Event{
				{1, created, "/a/n"}, {1, children, "/a"}, {1, created, "/a/n/x"}, {1, children, "/a/n"}, {1, changed, "/a/n"},
				{1, deleted, "/a/n/x"}, {1, children, "/a/n"}, {1, deleted, "/a/n"}, {1, children, "/a"}, {1, changed, "/a"},
			}},
		{"a one-shot watch beside does not end it",
			func(tr *Tree) { tr.AddWatch(1, "/a", persistent); tr.WatchChildren(1, "/a") },
			[]Event{{1, children, "/a"}, {1, children, "/a"}, {1, changed, "/a"}}},
		{"removed with its own kind",
			func(tr *Tree) { tr.AddWatch(1, "/a", persistent); tr.RemoveWatches(1, "/a", 4) },
			nil},
		{"removed with any",
			func(tr *Tree) {
				tr.AddWatch(1, "/a", persistent)
				tr.AddWatch(1, "/a", recursive)
				tr.RemoveWatches(1, "/a", zkproto.WatchAny)
			},
			nil},
		{"not removed with those of data and children",
			func(tr *Tree) {
				tr.AddWatch(1, "/a", persistent)
				tr.RemoveWatches(1, "/a", zkproto.WatchData)
				tr.RemoveWatches(1, "/a", zkproto.WatchChildren)
			},
			[]Event{{1, children, "/a"}, {1, children, "/a"}, {1, changed, "/a"}}},
		{"taken over from another connection without catching up",
			func(tr *Tree) {
				tr.SetWatches(1, &zkproto.SetWatches2Request{Persistent: []string{"/a", "/none"}, PersistentRecursive: []string{"/a/n/x"}})
			},
			[]Event{{1, children, "/a"}, {1, created, "/a/n/x"}, {1, deleted, "/a/n/x"}, {1, children, "/a"}, {1, changed, "/a"}}},
		{"dropped with the connection",
			func(tr *Tree) { tr.AddWatch(1, "/a", persistent); tr.AddWatch(1, "/a", recursive); tr.DropWatcher(1) },
			nil},
		{"unknown mode",
			func(tr *Tree) {
				if code := tr.AddWatch(1, "/a", 2); code != zkproto.CodeMarshallingError {
					t.Errorf("got %v", code)
				}
			},
			nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := sample(t)
			tt.arm(tr)
			var got []Event
			everything(t, tr)
			got = append(got, tr.TakeEvents()...)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v; want %v", got, tt.want)
			}
			tr.DropWatcher(1)
			if tr.watches.entries() != 0 {
				t.Errorf("the watch table is not empty: %+v", tr.watches)
			}
		})
	}
}

func TestCheckWatches(t *testing.T) {
	tr := sample(t)
	tr.WatchData(1, "/a")
	tr.AddWatch(1, "/none", zkproto.ModePersistentRecursive)
	for _, tt := range []struct {
		by   Watcher
		path string
		kind int32
		want zkproto.Code
	}{
		{1, "/a", zkproto.WatchData, ok}, {1, "/a", zkproto.WatchAny, ok}, {1, "/a", zkproto.WatchChildren, zkproto.CodeNoWatcher},
		{2, "/a", zkproto.WatchData, zkproto.CodeNoWatcher}, {1, "/none", zkproto.WatchAny, ok}, {1, "/none", 5, ok},
		{1, "/none", 4, zkproto.CodeNoWatcher}, {1, "/a", 0, zkproto.CodeMarshallingError},
	} {
		for range 2 { // reading changes nothing
			if code := tr.CheckWatches(tt.by, tt.path, tt.kind); code != tt.want {
				t.Errorf("%d %s %d: got %v; want %v", tt.by, tt.path, tt.kind, code, tt.want)
			}
		}
	}
}

func TestSetWatchesCatchesUpOrArms(t *testing.T) {
	tr := sample(t)
	rel := lastZxid
	mustCreate(t, tr, "/new", 0)      // changes the root's children
	tr.Set(tx(), "/a", nil, -1)       // changes /a's data, not its children
	tr.Delete(tx(), "/nodelete/x", 9) // fails: changes nothing
	tr.SetWatches(1, &zkproto.SetWatches2Request{SetWatchesRequest: zkproto.SetWatchesRequest{
		RelativeZxid: rel,
		Data:         []string{"/a", "/c", "/gone"},
		Exist:        []string{"/new", "/later"},
		Child:        []string{"/", "/a", "/gone2"},
	}})
	assertEvents(t, tr,
		Event{1, changed, "/a"}, Event{1, deleted, "/gone"},
		Event{1, created, "/new"},
		Event{1, children, "/"}, Event{1, deleted, "/gone2"})
	mustCreate(t, tr, "/later", 0)
	mustCreate(t, tr, "/a/x", 0)
	tr.Set(tx(), "/c", nil, -1)
	tr.Set(tx(), "/a", nil, -1) // not set again
	assertEvents(t, tr, Event{1, created, "/later"}, Event{1, children, "/a"}, Event{1, changed, "/c"})
	if tr.watches.entries() != 0 {
		t.Errorf("empty entries stay in the watch table: %+v", tr.watches)
	}
}

// A write takes a bounded number of steps to notify watchers. The other watchers lose their
// watches, and TakeOverrun returns them.
func TestNotificationsOfAWriteAreBounded(t *testing.T) {
	tr := New()
	const watchers, nodes = 1200, 1000
	for i := range nodes {
		mustCreate(t, tr, fmt.Sprint("/e", i), zkproto.FlagEphemeral)
	}
	for by := range Watcher(watchers) {
		tr.AddWatch(by+1, "/", zkproto.ModePersistentRecursive)
	}
	tr.TakeEvents()
	tr.CloseSession(Txn{Zxid: 1 << 30, Session: 7})
	for tr.TellMore() {
	}
	events, overrun := len(tr.TakeEvents()), tr.TakeOverrun()
	if most := maxTelling/(tellSteps+emitSteps) + nodes; events > most || events < most/2 || len(overrun) != watchers-events/nodes {
		t.Errorf("%d events, %d watchers lost their watches", events, len(overrun))
	}
	mustCreate(t, tr, "/again", 0)
	if n := len(tr.TakeEvents()); n != watchers-len(overrun) {
		t.Errorf("%d events; %d of %d watchers have lost their watches", n, len(overrun), watchers)
	}
}
