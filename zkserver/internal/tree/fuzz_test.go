package tree

import (
	"reflect"
	"testing"

	"holdfast/zkproto"
)

// FuzzTree runs a program of small instructions. After each one it checks that the
// indexes agree with the nodes, and that a failed write left no trace. It also checks that the
// records alone restore the whole state.
func FuzzTree(f *testing.F) {
	f.Add([]byte{0, 1, 0, 9, 1, 0, 2, 1, 0, 3, 1, 0})
	f.Add([]byte{0, 1, 1, 0, 2, 2, 4, 9, 0, 1, 0, 2, 5, 0, 0})
	f.Add([]byte{6, 3, 4, 0, 1, 4, 7, 2, 0, 1, 2, 2, 1, 3, 5, 1, 1})
	paths := []string{"/a", "/b", "/a/a", "/a/b", "/a/a/", "/b/c", "/", "/zookeeper/quota", "", "/a/../b", "/a/a/a",
		"/zookeeper/quota/a", "/zookeeper/quota/a/zookeeper_limits", "/zookeeper/quota/a/zookeeper_stats"}
	f.Fuzz(func(t *testing.T, program []byte) {
		tr := New()
		tr.AddWatch(1, "/a", zkproto.ModePersistentRecursive)
		known := snapshot(tr) // the records that a store would have
		zxid := int64(0)
		for len(program) >= 3 {
			instr, arg, mode := program[0], program[1], int32(program[2]%6)
			program = program[3:]
			zxid++
			tx := Txn{Zxid: zxid, Time: zxid, Session: int64(mode%2) + 1}
			path := paths[int(arg)%len(paths)]
			before, order := snapshot(tr), orders(tr)
			failed, worst := false, -1
			op := func(instr byte) zkproto.MultiOp {
				o := zkproto.MultiOp{Path: path, ACL: openACL.entries, Flags: mode, Version: mode - 1, Data: []byte{arg}}
				o.Op = []zkproto.Op{zkproto.OpCreate2, zkproto.OpDelete, zkproto.OpSetData, zkproto.OpCheck, zkproto.OpCreateContainer}[instr%5]
				if o.Op == zkproto.OpCreateContainer && arg%2 == 1 {
					o.Op, o.Flags, o.TTL = zkproto.OpCreateTTL, mode+2, int64(arg%3)
				}
				return o
			}
			switch instr % 9 {
			case 0, 1, 2, 3, 4: // a transaction of one operation must equal the plain write
				o := op(instr)
				worst = tr.Worst(&o)
				results, code := tr.Multi(tx, []zkproto.MultiOp{o})
				failed = code != zkproto.CodeOK || results[0].Err != zkproto.CodeOK
			case 5:
				ops := []zkproto.MultiOp{op(arg), op(arg + 1), op(arg + 2), op(arg + 3)}
				worst = 0
				for i := range ops {
					worst += tr.Worst(&ops[i])
				}
				results, code := tr.Multi(tx, ops)
				failed = code != zkproto.CodeOK || results[0].Op == zkproto.OpError
			case 6:
				tr.CloseSession(tx)
			case 7:
				for _, p := range tr.Reapable(zxid) {
					tr.Reap(tx, p)
				}
			case 8:
				acl := []zkproto.ACL{{Perms: mode * 7, Scheme: "world", ID: "anyone"}}
				worst = tr.Worst(&zkproto.MultiOp{Op: zkproto.OpSetACL, Path: path, ACL: acl})
				_, code := tr.SetACL(tx, path, acl, mode-1)
				failed = code != zkproto.CodeOK
			}
			assertConsistent(t, tr)
			if failed && (!reflect.DeepEqual(before, snapshot(tr)) || !reflect.DeepEqual(order, orders(tr))) {
				t.Fatal("a failed write changed the tree")
			}
			tr.TakeEvents()
			bound, written := tr.Unsaved(), 0
			tr.TakeChanges(func(path string, p Part, record []byte) {
				if written += len(path) + len(record) + 12; record != nil {
					known[string(p)+path] = string(record)
				} else {
					delete(known, string(p)+path)
				}
			})
			if worst >= 0 && written > worst {
				t.Fatalf("%d bytes were written; %d were the most", written, worst)
			}
			if written > bound || bound == 0 && written > 0 {
				t.Fatalf("%d bytes were written; the bound is %d", written, bound)
			}
			if !reflect.DeepEqual(known, snapshot(tr)) {
				t.Fatal("a change was not reported")
			}
		}
		again := reload(t, tr)
		assertConsistent(t, again)
		for path := range tr.nodes {
			a, _ := tr.Exists(path)
			b, _ := again.Exists(path)
			if a != b {
				t.Fatalf("%s after a restart: %+v; before: %+v", path, b, a)
			}
		}
	})
}

// orders returns the lists of children.
func orders(tr *Tree) map[string][]string {
	m := make(map[string][]string)
	for path := range tr.nodes {
		m[path], _, _ = tr.Children(path, Identity{Super, ""})
	}
	return m
}
