package tree

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"holdfast/zkproto"
)

// deepTree returns a tree with a path of this many levels.
func deepTree(t *testing.T, levels int) (tr *Tree, deepest string) {
	t.Helper()
	tr = New()
	for range levels {
		deepest += "/d"
		mustCreate(t, tr, deepest, 0)
	}
	return tr, deepest
}

// A write looks for recursive watches on all ancestors of the node. It looks up no paths, which
// would take a hundred times as long.
func TestRecursiveWatchesOnEveryLevelAreNear(t *testing.T) {
	const levels = 2000
	took := func(tr *Tree, path string) time.Duration { // the shortest of many tries
		least := time.Hour
		for range 200 {
			began := time.Now()
			tr.Set(tx(), path, nil, -1)
			least = min(least, time.Since(began))
			if n := len(tr.TakeEvents()); n > 1 {
				t.Fatalf("%d events", n)
			}
		}
		return least
	}
	tr, deepest := deepTree(t, levels)
	without := took(tr, deepest)
	for n := tr.nodes[deepest]; n != nil; n = n.parent {
		tr.AddWatch(1, n.path, zkproto.ModePersistentRecursive)
	}
	tr.TakeSteps()
	with := took(tr, deepest)
	if most := max(20*without, 200*time.Microsecond); with > most {
		t.Errorf("a write takes %v with the watches, %v without; want at most %v", with, without, most)
	}
	if steps := tr.TakeSteps() / 200; steps < levels*tellSteps {
		t.Errorf("a write takes %d steps", steps)
	}
	assertConsistent(t, tr)
}

// The watches of a closed connection no longer fire. Their memory is freed in portions, even
// while other connections set watches.
func TestManyWatchesAreDroppedInPortions(t *testing.T) {
	const watches, portion = 50_000, 1000
	tr := New()
	mustCreate(t, tr, "/n", 0)
	for i := range watches {
		tr.AddWatch(1, fmt.Sprint("/", i), zkproto.ModePersistentRecursive)
	}
	tr.AddWatch(1, "/n", zkproto.ModePersistentRecursive)
	tr.AddWatch(2, "/n", zkproto.ModePersistentRecursive)
	tr.WatchData(1, "/n")
	entries := tr.watches.entries()
	tr.DropWatcher(1)
	if freed := entries - tr.watches.entries(); freed > portion {
		t.Errorf("%d watches were freed at once", freed)
	}
	if n := tr.WatchCount(); n != 1 {
		t.Errorf("%d watches are left", n)
	}
	if own, all := tr.WatchWeights(1); own != 0 || all != 1 {
		t.Errorf("the watches have weight %d of %d", own, all)
	}
	tr.Set(tx(), "/n", nil, -1)
	assertEvents(t, tr, Event{2, changed, "/n"})
	if code := tr.CheckWatches(1, "/n", zkproto.WatchAny); code != zkproto.CodeNoWatcher {
		t.Errorf("check: %v", code)
	}
	before := tr.watches.entries()
	for i := range 1000 {
		tr.WatchData(3, fmt.Sprint("/other", i))
	}
	if after := tr.watches.entries(); after >= before-1000 {
		t.Errorf("%d entries; %d before other clients set watches", after, before)
	}
	for range watches/portion + 1 {
		tr.Sweep()
	}
	tr.DropWatcher(2)
	tr.DropWatcher(3)
	if n := tr.watches.entries(); n != 0 {
		t.Errorf("%d entries are left", n)
	}
	assertConsistent(t, tr)
}

// A dropped watcher may set watches again.
func TestDroppedWatcherWatchesAgain(t *testing.T) {
	tr := New()
	for i := range 3000 {
		tr.WatchData(1, fmt.Sprint("/", i))
	}
	tr.DropWatcher(1)
	for i := range 2000 {
		tr.WatchData(1, fmt.Sprint("/", i))
	}
	for range 5 {
		tr.Sweep()
	}
	for i := range 3000 {
		mustCreate(t, tr, fmt.Sprint("/", i), 0)
	}
	if n := len(tr.TakeEvents()); n != 2000 {
		t.Errorf("%d events for 2,000 watches", n)
	}
	if n := tr.watches.entries(); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}

// The time of a transaction is bounded by its work, which depends on the tree. A transaction that
// exceeds the bound changes nothing.
func TestWorkOfATransactionIsBounded(t *testing.T) {
	const work = 200_000
	long := make([]zkproto.ACL, MaxACLEntries)
	for i := range long {
		long[i] = zkproto.ACL{Perms: zkproto.PermAll, Scheme: "digest", ID: fmt.Sprintf("stranger%d:x", i)}
	}
	long[63].ID = "me:x"
	var me []Identity
	for i := range 64 {
		me = append(me, Identity{"digest", fmt.Sprintf("i%d:x", i)})
	}
	me[63].ID = "me:x"
	for _, tt := range []struct {
		name  string
		watch bool
		op    func(i int, deepest string) zkproto.MultiOp
		most  int // operations that succeed
	}{
		{"creates", false, func(i int, _ string) zkproto.MultiOp {
			return zkproto.MultiOp{Op: zkproto.OpCreate, Path: fmt.Sprint("/n", i), ACL: openACL.entries}
		}, work / 500},
		{"writes", false, func(int, string) zkproto.MultiOp {
			return zkproto.MultiOp{Op: zkproto.OpSetData, Path: "/d", Version: -1}
		}, work / 340},
		{"checks", false, func(int, string) zkproto.MultiOp {
			return zkproto.MultiOp{Op: zkproto.OpCheck, Path: "/d", Version: -1}
		}, work / 64},
		{"checks of a long ACL", false, func(int, string) zkproto.MultiOp {
			return zkproto.MultiOp{Op: zkproto.OpCheck, Path: "/acl", Version: -1}
		}, work / 300},
		{"ACLs", false, func(i int, _ string) zkproto.MultiOp {
			return zkproto.MultiOp{Op: zkproto.OpCreate, Path: fmt.Sprint("/n", i), ACL: long}
		}, work / 3700},
		{"writes of a deep node", false, func(_ int, deepest string) zkproto.MultiOp {
			return zkproto.MultiOp{Op: zkproto.OpSetData, Path: deepest, Version: -1}
		}, work / 800},
		{"writes of a deep node with watches on all levels", true, func(_ int, deepest string) zkproto.MultiOp {
			return zkproto.MultiOp{Op: zkproto.OpSetData, Path: deepest, Version: -1}
		}, work / 4000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr, deepest := deepTree(t, 500)
			exceeded := 0
			tr.Bound(Bounds{Work: work, Exceeded: func(by Bound) {
				if by == BoundWork {
					exceeded++
				}
			}})
			if _, _, code := tr.Create(Txn{Zxid: lastZxid, As: me}, &zkproto.MultiOp{Op: zkproto.OpCreate, Path: "/acl", ACL: long}); code != ok {
				t.Fatal(code)
			}
			for n := tr.nodes[deepest]; tt.watch && n != nil; n = n.parent {
				tr.AddWatch(1, n.path, zkproto.ModePersistentRecursive)
			}
			discard(tr)
			tr.TakeEvents()
			do := func(n int) zkproto.Code {
				ops := make([]zkproto.MultiOp, n)
				for i := range ops {
					ops[i] = tt.op(i, deepest)
				}
				x := tx()
				x.As = me
				results, code := tr.Multi(x, ops)
				if code == ok && results[0].Op == zkproto.OpError {
					t.Errorf("the transaction fails: %v", results[0].Err)
				}
				return code
			}
			if code := do(tt.most + 1); code != zkproto.CodeBadArguments || exceeded != 1 {
				t.Errorf("%d: %v, exceeded %d times", tt.most+1, code, exceeded)
			}
			assertUntouched(t, tr)
			if code := do(tt.most / 2); code != ok {
				t.Errorf("%d: %v", tt.most/2, code)
			}
			assertConsistent(t, tr)
		})
	}
}

// A session ends in portions, which are bounded in nodes, bytes of paths, and levels.
func TestASessionEndsInPortions(t *testing.T) {
	tr, deepest := deepTree(t, 2000)
	for name, tt := range map[string]struct {
		path    func(i int) string
		nodes   int
		portion int
	}{
		"few":   {func(i int) string { return fmt.Sprint("/", i) }, 10, 10},
		"many":  {func(i int) string { return fmt.Sprint("/", i) }, 2*endNodes + 1, endNodes},
		"exact": {func(i int) string { return fmt.Sprint("/", i) }, endNodes, endNodes},
		"long":  {func(i int) string { return fmt.Sprintf("/%04000d", i) }, 600, endBytes/4001 + 1},
		"deep":  {func(i int) string { return fmt.Sprint(deepest, "/", i) }, 100, endLevels/2001 + 1},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range tt.nodes {
				if _, _, code := tr.Create(tx(), &zkproto.MultiOp{Op: zkproto.OpCreate, Path: tt.path(i), ACL: openACL.entries, Flags: zkproto.FlagEphemeral}); code != ok {
					t.Fatal(code)
				}
			}
			for left := tt.nodes; ; {
				more := tr.EndSession(tx())
				left -= min(left, tt.portion)
				if n := tr.EphemeralCount(); n != left || more != (left > 0) {
					t.Errorf("%d nodes are left, and more is %v; want %d", n, more, left)
				}
				if assertConsistent(t, tr); !more {
					break
				}
			}
		})
	}
}

// One portion of reaped nodes is bounded in bytes of paths, and in levels.
func TestReapingOfDeepNodesIsDoneInShares(t *testing.T) {
	tr, deepest := deepTree(t, 2000)
	for i := range 200 {
		tr.Create(Txn{Zxid: 1, Time: 1}, &zkproto.MultiOp{Op: zkproto.OpCreateTTL, Path: fmt.Sprint(deepest, "/", i), ACL: openACL.entries, Flags: zkproto.FlagTTL, TTL: 1})
	}
	if n := len(tr.Reapable(10)); n*len(deepest) > reapBytes+2*len(deepest) || !tr.Reaping() {
		t.Errorf("one call reaped %d nodes", n)
	}
}

// One write with many watchers does not make later writes slower.
func TestManyWatchersLeaveNoWorkBehind(t *testing.T) {
	tr := New()
	mustCreate(t, tr, "/n", 0)
	mustCreate(t, tr, "/told", 0)
	tr.AddWatch(1, "/n", zkproto.ModePersistent)
	took := func() time.Duration {
		least := time.Hour
		for range 1000 {
			began := time.Now()
			tr.Set(tx(), "/n", nil, -1)
			least = min(least, time.Since(began))
			tr.TakeEvents()
		}
		return least
	}
	before := took()
	for by := range Watcher(50_000) {
		tr.WatchData(by+1, "/told")
	}
	tr.Set(tx(), "/told", []byte(strings.Repeat("x", 10)), -1)
	for tr.TellMore() {
	}
	if n := len(tr.TakeEvents()); n != 50_000 {
		t.Fatalf("%d events", n)
	}
	if after := took(); after > 10*before+5*time.Microsecond {
		t.Errorf("a write takes %v; it took %v before there were many watchers", after, before)
	}
}
