package tree

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"holdfast/zkproto"
)

const (
	ok         = zkproto.CodeOK
	badArgs    = zkproto.CodeBadArguments
	noNode     = zkproto.CodeNoNode
	noAuth     = zkproto.CodeNoAuth
	badVersion = zkproto.CodeBadVersion
	notEmpty   = zkproto.CodeNotEmpty
	nodeExists = zkproto.CodeNodeExists
	invalidACL = zkproto.CodeInvalidACL
)

var lastZxid int64 = 1000

// tx returns the next transaction, of session 7, at a time that its zxid determines.
func tx() Txn {
	lastZxid++
	return Txn{Zxid: lastZxid, Time: lastZxid * 10, Session: 7}
}

func mustCreate(t *testing.T, tr *Tree, path string, flags int32) string {
	t.Helper()
	op := zkproto.OpCreate2
	if flags == zkproto.FlagContainer {
		op = zkproto.OpCreateContainer
	}
	p, _, code := tr.Create(tx(), &zkproto.MultiOp{Op: op, Path: path, Data: []byte("d"), ACL: openACL.entries, Flags: flags})
	if code != ok {
		t.Fatalf("create %s: %v", path, code)
	}
	return p
}

func worldACL(perms int32) []zkproto.ACL {
	return []zkproto.ACL{{Perms: perms, Scheme: "world", ID: "anyone"}}
}

// sample returns a tree with nodes of every kind.
func sample(t *testing.T) *Tree {
	t.Helper()
	tr := New()
	mustCreate(t, tr, "/a", zkproto.FlagPersistent)
	mustCreate(t, tr, "/a/e", zkproto.FlagEphemeral)
	mustCreate(t, tr, "/c", zkproto.FlagContainer)
	for path, perms := range map[string]int32{
		"/noread":   zkproto.PermAll &^ zkproto.PermRead,
		"/nocreate": zkproto.PermAll &^ zkproto.PermCreate,
		"/nodelete": zkproto.PermAll &^ zkproto.PermDelete,
		"/nowrite":  zkproto.PermAll &^ zkproto.PermWrite,
	} {
		if _, _, code := tr.Create(tx(), &zkproto.MultiOp{Op: zkproto.OpCreate, Path: path, ACL: worldACL(perms)}); code != ok {
			t.Fatalf("create %s: %v", path, code)
		}
	}
	mustCreate(t, tr, "/nodelete/x", zkproto.FlagPersistent)
	tr.TakeEvents()
	discard(tr)
	return tr
}

func TestCreateChecksInOrder(t *testing.T) {
	bogus := []zkproto.ACL{{Perms: 31, Scheme: "bogus", ID: "u:h"}}
	for _, tt := range []struct {
		name  string
		op    zkproto.Op
		path  string
		flags int32
		acl   []zkproto.ACL
		want  zkproto.Code
		made  string
	}{
		{"plain", zkproto.OpCreate, "/n", 0, openACL.entries, ok, "/n"},
		{"unknown flags before everything", zkproto.OpCreate, "x", 7, bogus, badArgs, ""},
		{"negative flags", zkproto.OpCreate, "/n", -1, openACL.entries, badArgs, ""},
		{"TTL flags without a TTL", zkproto.OpCreate, "/n", 5, openACL.entries, badArgs, ""},
		{"no TTL", zkproto.OpCreateTTL, "/n", 5, openACL.entries, badArgs, ""},
		{"TTL with other flags", zkproto.OpCreateTTL, "/n", 0, openACL.entries, badArgs, ""},
		{"container with other flags", zkproto.OpCreateContainer, "/n", 1, openACL.entries, badArgs, ""},
		{"container flag on an ordinary create", zkproto.OpCreate2, "/n", 4, openACL.entries, ok, "/n"},
		{"no slash before ACL", zkproto.OpCreate, "n", 0, bogus, badArgs, ""},
		{"NUL before ACL", zkproto.OpCreate, "/n\x00", 0, bogus, badArgs, ""},
		{"ACL before parent", zkproto.OpCreate, "/none/n", 0, bogus, invalidACL, ""},
		{"no ACL", zkproto.OpCreate, "/n", 0, nil, invalidACL, ""},
		{"world but not anyone", zkproto.OpCreate, "/n", 0, []zkproto.ACL{{Perms: 31, Scheme: "world", ID: "me"}}, invalidACL, ""},
		{"one good entry does not save a bad one", zkproto.OpCreate, "/n", 0, append(bogus, openACL.entries...), invalidACL, ""},
		{"parent missing", zkproto.OpCreate, "/none/n", 0, openACL.entries, noNode, ""},
		{"parent missing before path", zkproto.OpCreate, "/none/./n", 0, openACL.entries, noNode, ""},
		{"CREATE on the parent before path", zkproto.OpCreate, "/nocreate/.", 0, openACL.entries, noAuth, ""},
		{"path", zkproto.OpCreate, "/a/..", 0, openACL.entries, badArgs, ""},
		{"path ends with slash", zkproto.OpCreate, "/a/", 0, openACL.entries, badArgs, ""},
		{"slash and sequence", zkproto.OpCreate, "/a/", 2, openACL.entries, ok, "/a/0000000001"},
		{"exists", zkproto.OpCreate, "/a", 0, openACL.entries, nodeExists, ""},
		{"the root exists", zkproto.OpCreate, "/", 0, openACL.entries, nodeExists, ""},
		{"child of an ephemeral", zkproto.OpCreate, "/a/e/x", 0, openACL.entries, zkproto.CodeNoChildrenForEphemerals, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := sample(t)
			path, stat, code := tr.Create(tx(), &zkproto.MultiOp{Op: tt.op, Path: tt.path, ACL: tt.acl, Flags: tt.flags})
			if code != tt.want || path != tt.made {
				t.Fatalf("got %q, %v; want %q, %v", path, code, tt.made, tt.want)
			}
			if code != ok {
				assertUntouched(t, tr)
			} else if stat.Czxid != lastZxid || stat.Mzxid != lastZxid || stat.Pzxid != lastZxid || stat.Ctime != lastZxid*10 || stat.Mtime != stat.Ctime {
				t.Errorf("stat of a new node: %+v", stat)
			}
		})
	}
}

func TestDeleteChecksInOrder(t *testing.T) {
	for _, tt := range []struct {
		name, path string
		version    int32
		want       zkproto.Code
	}{
		{"leaf", "/a/e", -1, ok},
		{"right version", "/a/e", 0, ok},
		{"empty path", "", -1, badArgs},
		{"root", "/", -1, badArgs},
		{"built in", "/zookeeper/quota", -1, badArgs},
		{"no full validation", "/.", -1, noNode},
		{"parent missing", "/none/x", -1, noNode},
		{"DELETE on the parent before the node", "/nodelete/none", -1, noAuth},
		{"node missing", "/none", -1, noNode},
		{"version before children", "/a", 3, badVersion},
		{"children", "/a", 0, notEmpty},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := sample(t)
			if code := tr.Delete(tx(), tt.path, tt.version); code != tt.want {
				t.Fatalf("got %v; want %v", code, tt.want)
			} else if code != ok {
				assertUntouched(t, tr)
			}
		})
	}
}

func TestSetAndCheckInOrder(t *testing.T) {
	for _, tt := range []struct {
		name, path string
		version    int32
		set, check zkproto.Code
	}{
		{"any version", "/a", -1, ok, ok},
		{"right version", "/a", 0, ok, ok},
		{"wrong version", "/a", 1, badVersion, badVersion},
		{"invalid path", "/.", -1, badArgs, badArgs},
		{"empty path", "", -1, badArgs, badArgs},
		{"missing", "/none", 1, noNode, noNode},
		{"no WRITE before version", "/nowrite", 5, noAuth, badVersion},
		{"no READ before version", "/noread", 5, badVersion, noAuth},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := sample(t)
			if code := tr.check(Txn{}, tt.path, tt.version); code != tt.check {
				t.Errorf("check: got %v; want %v", code, tt.check)
			}
			if _, code := tr.Set(tx(), tt.path, nil, tt.version); code != tt.set {
				t.Errorf("set: got %v; want %v", code, tt.set)
			} else if code != ok {
				assertUntouched(t, tr)
			}
		})
	}
}

func TestReads(t *testing.T) {
	for _, tt := range []struct {
		path        string
		exists, get zkproto.Code
	}{
		{"/a", ok, ok}, {"/", ok, ok}, {"", ok, ok}, {"/zookeeper/config", ok, ok},
		{"/none", noNode, noNode}, {"/.", noNode, noNode}, {"/a/", noNode, noNode},
		{"/a\x00", badArgs, noNode}, {"/noread", noAuth, noAuth},
	} {
		tr := sample(t)
		if _, code := tr.Exists(tt.path); code != tt.exists {
			t.Errorf("exists %q: got %v; want %v", tt.path, code, tt.exists)
		}
		if _, _, code := tr.Get(tt.path); code != tt.get {
			t.Errorf("get %q: got %v; want %v", tt.path, code, tt.get)
		}
		if _, _, code := tr.Children(tt.path); code != tt.get {
			t.Errorf("children %q: got %v; want %v", tt.path, code, tt.get)
		}
	}
}

func TestNullAndEmptyDataDiffer(t *testing.T) {
	tr := New()
	buf := []byte("shared")
	for path, data := range map[string][]byte{"/null": nil, "/empty": {}, "/some": buf} {
		tr.Create(tx(), &zkproto.MultiOp{Op: zkproto.OpCreate, Path: path, Data: data, ACL: openACL.entries})
	}
	copy(buf, "XXXXXX") // a connection's buffer is reused
	check := func(tr *Tree) {
		t.Helper()
		null, _, _ := tr.Get("/null")
		empty, _, _ := tr.Get("/empty")
		some, _, _ := tr.Get("/some")
		if null != nil || empty == nil || len(empty) != 0 || string(some) != "shared" {
			t.Errorf("got %#v, %#v, %q", null, empty, some)
		}
	}
	check(tr)
	check(reload(t, tr))
}

func TestStatArithmetic(t *testing.T) {
	tr := New()
	root, _ := tr.Exists("/")
	if root.Cversion != -1 || root.Pzxid != 0 || root.NumChildren != 1 {
		t.Errorf("fresh root: %+v; want cversion -1, pzxid 0, 1 child", root)
	}
	if config, _ := tr.Exists("/zookeeper/config"); config.Aversion != -1 {
		t.Errorf("/zookeeper/config: %+v; want aversion -1, as Apache's server has it", config)
	}
	mustCreate(t, tr, "/p", zkproto.FlagPersistent)
	born, _ := tr.Exists("/p")
	mustCreate(t, tr, "/p/x", zkproto.FlagPersistent)
	mustCreate(t, tr, "/p/y", zkproto.FlagPersistent)
	tr.Delete(tx(), "/p/x", -1)
	want := born
	want.Cversion, want.NumChildren, want.Pzxid = 3, 1, lastZxid
	if got, _ := tr.Exists("/p"); got != want {
		t.Errorf("after two creations and a deletion: got %+v; want %+v", got, want)
	}
	got, _ := tr.Set(tx(), "/p", []byte("four"), 0)
	want.Version, want.Mzxid, want.Mtime, want.DataLength = 1, lastZxid, lastZxid*10, 4
	if got != want {
		t.Errorf("after set: got %+v; want %+v", got, want)
	}
}

func TestSequenceCountsCreationsAndWraps(t *testing.T) {
	tr := New()
	mustCreate(t, tr, "/p", zkproto.FlagPersistent)
	mustCreate(t, tr, "/p/plain", zkproto.FlagPersistent)
	if got := mustCreate(t, tr, "/p/s", zkproto.FlagEphemeralSequential); got != "/p/s0000000001" {
		t.Errorf("after a plain create: %s", got)
	}
	tr.Delete(tx(), "/p/s0000000001", -1)
	tr.Delete(tx(), "/p/plain", -1)
	if got := mustCreate(t, tr, "/p/s", zkproto.FlagPersistentSequential); got != "/p/s0000000002" {
		t.Errorf("after deletions: %s; want a number not used before", got)
	}
	tr.nodes["/p"].creations = math.MaxInt32
	if got := mustCreate(t, tr, "/p/s", zkproto.FlagPersistentSequential); got != "/p/s2147483647" {
		t.Errorf("the last positive number: %s", got)
	}
	if got := mustCreate(t, tr, "/p/s", zkproto.FlagPersistentSequential); got != "/p/s-2147483648" {
		t.Errorf("after the last positive number: %s", got)
	}
}

func TestMultiIsAllOrNothing(t *testing.T) {
	create := func(path string, flags int32) zkproto.MultiOp {
		return zkproto.MultiOp{Op: zkproto.OpCreate, Path: path, ACL: openACL.entries, Flags: flags}
	}
	for _, tt := range []struct {
		name string
		ops  []zkproto.MultiOp
		want []zkproto.Code // nil: success
	}{
		{"empty", nil, nil},
		{"sees its own effects", []zkproto.MultiOp{
			create("/p", 0), create("/p/x", zkproto.FlagEphemeral),
			{Op: zkproto.OpSetData, Path: "/p", Version: 0}, {Op: zkproto.OpCheck, Path: "/p", Version: 1},
			{Op: zkproto.OpDelete, Path: "/p/x", Version: -1}, {Op: zkproto.OpDelete, Path: "/p", Version: 1},
		}, nil},
		{"create2", []zkproto.MultiOp{{Op: zkproto.OpCreate2, Path: "/n", ACL: openACL.entries}}, nil},
		{"container", []zkproto.MultiOp{{Op: zkproto.OpCreateContainer, Path: "/c2", ACL: openACL.entries, Flags: 4}}, nil},
		{"the flags make a container", []zkproto.MultiOp{{Op: zkproto.OpCreate, Path: "/c2", ACL: openACL.entries, Flags: 4}}, nil},
		{"the operation does not", []zkproto.MultiOp{{Op: zkproto.OpCreateContainer, Path: "/c2", ACL: openACL.entries}}, nil},
		{"fails in the middle", []zkproto.MultiOp{
			create("/a/n", 0), {Op: zkproto.OpDelete, Path: "/a/e", Version: -1}, {Op: zkproto.OpSetData, Path: "/a", Data: []byte("new"), Version: -1},
			create("/c/s", zkproto.FlagEphemeralSequential), {Op: zkproto.OpDelete, Path: "/c", Version: -1}, create("/z", 0),
		}, []zkproto.Code{ok, ok, ok, ok, notEmpty, zkproto.CodeRuntimeInconsistency}},
		{"fails at once", []zkproto.MultiOp{{Op: zkproto.OpCheck, Path: "/a", Version: 9}}, []zkproto.Code{badVersion}},
		{"container deleted and made again, then failed", []zkproto.MultiOp{
			{Op: zkproto.OpDelete, Path: "/c", Version: -1}, {Op: zkproto.OpCreateContainer, Path: "/c", ACL: openACL.entries, Flags: 4},
			create("/c/x", 0), create("/c/x", 0),
		}, []zkproto.Code{ok, ok, ok, nodeExists}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := sample(t)
			tr.WatchData(1, "/a/e")
			tr.WatchChildren(1, "/a")
			before := snapshot(tr)
			results, code := tr.Multi(tx(), tt.ops)
			if code != ok {
				t.Fatalf("header: %v", code)
			}
			if len(results) != len(tt.ops) {
				t.Fatalf("%d results for %d operations", len(results), len(tt.ops))
			}
			if tt.want == nil {
				for i, r := range results {
					want := tt.ops[i].Op
					switch want { // Apache's server does the same
					case zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpCreateContainer:
						want = zkproto.OpCreate
						container := tt.ops[i].Flags == zkproto.FlagContainer
						if container {
							want = zkproto.OpCreate2
						}
						if n := tr.nodes[tt.ops[i].Path]; n != nil && n.container != container {
							t.Errorf("result %d: container %v; want %v", i, n.container, container)
						}
					}
					if r.Op != want || r.Err != ok {
						t.Errorf("result %d: %+v", i, r)
					}
				}
				return
			}
			for i, r := range results {
				if want := (zkproto.MultiResult{Op: zkproto.OpError, Err: tt.want[i]}); r != want {
					t.Errorf("result %d: got %+v; want %+v", i, r, want)
				}
			}
			assertUntouched(t, tr)
			if after := snapshot(tr); !reflect.DeepEqual(before, after) {
				t.Errorf("the tree differs:\nbefore %+v\nafter  %+v", before, after)
			}
			tr.Delete(tx(), "/a/e", -1) // the watches must still be set
			if n := len(tr.TakeEvents()); n != 2 {
				t.Errorf("%d events after the failed transaction; want 2", n)
			}
		})
	}
}

func TestCloseSessionRemovesOnlyItsEphemerals(t *testing.T) {
	tr := sample(t)
	other := tx()
	other.Session = 8
	tr.Create(other, &zkproto.MultiOp{Op: zkproto.OpCreate, Path: "/a/other", ACL: openACL.entries, Flags: zkproto.FlagEphemeral})
	mustCreate(t, tr, "/a/e2", zkproto.FlagEphemeral)
	end := tx()
	tr.CloseSession(end)
	names, stat, _ := tr.Children("/a")
	if len(names) != 1 || names[0] != "other" || stat.Pzxid != end.Zxid {
		t.Errorf("below /a: %v, pzxid %d; want other alone, pzxid %d", names, stat.Pzxid, end.Zxid)
	}
	if got := tr.Owners(); len(got) != 1 || got[0] != 8 {
		t.Errorf("owners: %v; want 8 alone", got)
	}
}

func TestReapTakesOnlyUsedEmptyContainers(t *testing.T) {
	tr := sample(t)
	if got := tr.Reapable(lastZxid * 10); len(got) != 0 {
		t.Errorf("a container that was never used is idle: %v", got)
	}
	mustCreate(t, tr, "/c/x", zkproto.FlagPersistent)
	if got := tr.Reapable(lastZxid * 10); len(got) != 0 {
		t.Errorf("a container in use is idle: %v", got)
	}
	tr.Delete(tx(), "/c/x", -1)
	if got := tr.Reapable(lastZxid * 10); len(got) != 1 || got[0] != "/c" {
		t.Fatalf("idle: %v; want /c", got)
	}
	mustCreate(t, tr, "/c/y", zkproto.FlagPersistent)
	tr.Reap(tx(), "/c")
	if _, code := tr.Exists("/c"); code != ok {
		t.Errorf("a container in use was reaped: %v", code)
	}
	tr.Delete(tx(), "/c/y", -1)
	tr.Reap(tx(), "/c")
	if _, code := tr.Exists("/c"); code != noNode {
		t.Errorf("/c after reaping: %v", code)
	}
}

func TestDescendantsAndEphemerals(t *testing.T) {
	tr := sample(t)
	mustCreate(t, tr, "/a/p", zkproto.FlagPersistent)
	mustCreate(t, tr, "/a/p/e", zkproto.FlagEphemeral)
	mustCreate(t, tr, "/ab", zkproto.FlagEphemeral)
	for path, want := range map[string]int{"/a": 3, "/a/p": 1, "/ab": 0, "/": tr.Len() - 1, "": tr.Len() - 1} {
		if got, code := tr.Descendants(path); got != want || code != ok {
			t.Errorf("below %q: got %d, %v; want %d", path, got, code, want)
		}
	}
	if _, code := tr.Descendants("/none"); code != noNode {
		t.Errorf("below nothing: %v", code)
	}
	for prefix, want := range map[string][]string{
		"": {"/a/e", "/a/p/e", "/ab"}, "/": {"/a/e", "/a/p/e", "/ab"}, " / ": {"/a/e", "/a/p/e", "/ab"},
		"/a/": {"/a/e", "/a/p/e"}, "/a": {"/a/e", "/a/p/e", "/ab"}, "/a/p": {"/a/p/e"}, "/none": nil,
	} {
		if got := tr.EphemeralsBelow(7, prefix); !slices.Equal(got, want) {
			t.Errorf("ephemerals below %q: got %q; want %q", prefix, got, want)
		}
	}
	if got := tr.EphemeralsBelow(8, "/"); len(got) != 0 {
		t.Errorf("another session's ephemerals: %q", got)
	}
}

func TestLoadRefusesWhatCannotBe(t *testing.T) {
	n := New().nodes["/zookeeper"]
	good, children, acl := n.append(nil, PartNode), n.append(nil, PartChildren), n.append(nil, PartACL)
	for _, tt := range []struct {
		name, path string
		part       Part
		record     []byte
		says       string
	}{
		{"orphan", "/x/y", PartNode, good, "no parent"},
		{"cut off", "/x", PartNode, good[:len(good)-1], "record n of node /x"},
		{"too long", "/x", PartNode, append(good[:len(good):len(good)], 0), "record n of node /x"},
		{"bad path", "x", PartNode, good, "invalid path"},
		{"children of no node", "/x", PartChildren, children, "node /x has no record of its own"},
		{"children, cut off", "/", PartChildren, children[1:], "record c of node /"},
		{"ACL of no node", "/x", PartACL, acl, "node /x has no record of its own"},
		{"ACL, cut off", "/", PartACL, acl[:len(acl)-1], "record a of node /"},
	} {
		tr := New()
		err := tr.LoadNode(tt.path, tt.part, tt.record)
		if err == nil {
			err = tr.Loaded()
		}
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v; want an error with %q", tt.name, err, tt.says)
		}
	}
}

// The paths of a session's nodes have a bound, since one answer lists all of them.
func TestPathsOfASessionsNodesAreBounded(t *testing.T) {
	tr := New()
	exceeded := 0
	tr.Bound(Bounds{Exceeded: func(by Bound) {
		if by == BoundEphemerals {
			exceeded++
		}
	}})
	long := "/" + strings.Repeat("x", 4<<10)
	zxid := int64(0)
	create := func(i int, session int64) zkproto.Code {
		zxid++
		_, _, code := tr.Create(Txn{Zxid: zxid, Session: session}, &zkproto.MultiOp{
			Op: zkproto.OpCreate, Path: fmt.Sprint(long, i), ACL: openACL.entries, Flags: zkproto.FlagEphemeral})
		return code
	}
	n := 0
	for create(n, 7) == zkproto.CodeOK {
		n++
	}
	if size := tr.EphemeralsSize(7); exceeded != 1 || size > maxOwnedBytes || size < maxOwnedBytes-len(long)-20 {
		t.Errorf("%d nodes whose paths have %d bytes; exceeded %d times", n, size, exceeded)
	}
	if code := create(n+1, 8); code != zkproto.CodeOK {
		t.Errorf("another session: %v", code)
	}
}
