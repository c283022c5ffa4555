package tree

import (
	"maps"
	"testing"

	"holdfast/zkproto"
)

// The reported changes keep the records of a store as they would be if all were written anew, whatever happens to a node
// between two reports.
func TestChangesKeepTheRecordsOfAStore(t *testing.T) {
	acl := worldACL(zkproto.PermRead | zkproto.PermDelete | zkproto.PermCreate | zkproto.PermAdmin)
	create := func(path string, acl []zkproto.ACL) func(*Tree) zkproto.Code {
		return func(tr *Tree) zkproto.Code {
			_, _, code := tr.Create(tx(), &zkproto.MultiOp{Op: zkproto.OpCreate, Path: path, ACL: acl})
			return code
		}
	}
	remove := func(path string) func(*Tree) zkproto.Code {
		return func(tr *Tree) zkproto.Code { return tr.Delete(tx(), path, -1) }
	}
	setACL := func(path string, acl []zkproto.ACL) func(*Tree) zkproto.Code {
		return func(tr *Tree) zkproto.Code {
			_, code := tr.SetACL(Txn{Zxid: tx().Zxid, As: []Identity{{Scheme: Super}}}, path, acl, -1)
			return code
		}
	}
	var report func(*Tree) zkproto.Code // nil: the changes are reported
	open := openACL.entries
	for name, steps := range map[string][]func(*Tree) zkproto.Code{
		"a node with an ACL":               {create("/a", acl), report, remove("/a")},
		"in one batch":                     {create("/a", acl), remove("/a")},
		"made anew without an ACL":         {create("/a", acl), report, remove("/a"), create("/a", open)},
		"made anew with another ACL":       {create("/a", acl), report, remove("/a"), create("/a", readOnlyACL.entries)},
		"made and removed again":           {create("/a", acl), report, remove("/a"), create("/a", open), remove("/a")},
		"with a child":                     {create("/a", open), create("/a/b", open), report, remove("/a/b"), remove("/a")},
		"made anew without a child":        {create("/a", open), create("/a/b", open), remove("/a/b"), report, remove("/a"), create("/a", open)},
		"made anew with a child":           {create("/a", open), report, remove("/a"), create("/a", open), create("/a/b", acl)},
		"the usual ACL again":              {create("/a", acl), report, setACL("/a", open)},
		"the ACL of the configuration":     {setACL("/zookeeper/config", open)},
		"the ACL of the root, and a child": {setACL("/", acl), create("/a", open), report, setACL("/", open)},
	} {
		tr := New()
		stored := snapshot(tr)
		for i, step := range append(steps, report) {
			if step != nil {
				if code := step(tr); code != ok {
					t.Fatalf("%s: step %d: %v", name, i, code)
				}
				continue
			}
			tr.TakeChanges(func(path string, p Part, record []byte) {
				if record == nil {
					delete(stored, string(p)+path)
				} else {
					stored[string(p)+path] = string(record)
				}
			})
			if want := snapshot(tr); !maps.Equal(stored, want) {
				t.Errorf("%s: after step %d the store has %q; want %q", name, i, stored, want)
			}
		}
		if again := New(); load(again, stored) != nil || !maps.Equal(snapshot(again), snapshot(tr)) {
			t.Errorf("%s: another tree is loaded", name)
		}
	}
}
