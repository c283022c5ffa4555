package tree

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"holdfast/zkproto"
)

func TestNodesWithATTLAreReapedWhenUnchangedAndEmpty(t *testing.T) {
	tr := New()
	born := tx()
	path, stat, code := tr.Create(born, &zkproto.MultiOp{Op: zkproto.OpCreateTTL, Path: "/t-", ACL: openACL.entries, Flags: zkproto.FlagSequentialTTL, TTL: 100})
	if code != ok || path != "/t-0000000000" || stat.EphemeralOwner != 0 {
		t.Fatalf("got %q, %+v, %v", path, stat, code)
	}
	due := func(tr *Tree, now int64) bool { return slices.Equal(tr.Reapable(now), []string{path}) }
	if due(tr, born.Time+100) || !due(tr, born.Time+101) || !due(reload(t, tr), born.Time+101) {
		t.Error("want it due once its time has passed, no sooner, and also after a restart")
	}
	changed := tx()
	tr.Set(changed, path, nil, -1)
	if due(tr, changed.Time+100) || !due(tr, changed.Time+101) {
		t.Error("the time does not start at the last change")
	}
	mustCreate(t, tr, path+"/x", zkproto.FlagPersistent)
	if due(tr, math.MaxInt64) {
		t.Error("due although it has a child")
	}
	tr.Delete(tx(), path+"/x", -1)
	tr.Reap(Txn{Zxid: 5000, Time: changed.Time + 100}, path)
	if _, code := tr.Exists(path); code != ok {
		t.Fatal("reaped before it is due")
	}
	tr.WatchData(1, path)
	tr.Reap(Txn{Zxid: 5001, Time: changed.Time + 101}, path)
	assertEvents(t, tr, Event{1, deleted, path})
	assertConsistent(t, tr)
}

// Each call of Reapable visits a bounded number of nodes, however many there are. All calls
// together miss no node, even if others are created and removed meanwhile.
func TestReapingIsDoneInShares(t *testing.T) {
	tr := New()
	create := func(format string, i int, ttl int64) {
		tr.Create(Txn{Zxid: 1, Time: 1}, &zkproto.MultiOp{Op: zkproto.OpCreateTTL, Path: fmt.Sprintf(format, i), ACL: openACL.entries, Flags: zkproto.FlagTTL, TTL: ttl})
	}
	const idle, others = 2 * reapMost, 2 * reapLooks
	for i := range others {
		create("/other%d", i, zkproto.MaxTTL)
		if i%(others/idle) == 0 {
			create("/idle%d", i, 1)
		}
	}
	calls := 0
	for done := false; !done; calls++ {
		paths := tr.Reapable(10)
		if len(paths) > reapMost {
			t.Fatalf("one call visited %d nodes", len(paths))
		}
		done = !tr.Reaping()
		for _, path := range paths {
			tr.Reap(Txn{Zxid: 2, Time: 10}, path)
		}
		tr.Delete(tx(), fmt.Sprintf("/other%d", calls), -1)
		create("/late%d", calls, zkproto.MaxTTL)
	}
	if left := tr.Len() - len(New().nodes); left != others || calls < 3 || calls > 10 {
		t.Errorf("%d nodes are left after %d calls; want %d", left, calls, others)
	}
	assertConsistent(t, tr)
}

func TestTTLsHaveLimits(t *testing.T) {
	for ttl, want := range map[int64]zkproto.Code{
		math.MinInt64: badArgs, -1: badArgs, 0: badArgs, 1: ok, zkproto.MaxTTL: ok, zkproto.MaxTTL + 1: badArgs,
	} {
		if _, _, code := New().Create(tx(), &zkproto.MultiOp{Op: zkproto.OpCreateTTL, Path: "/t", ACL: openACL.entries, Flags: zkproto.FlagTTL, TTL: ttl}); code != want {
			t.Errorf("%d ms: got %v; want %v", ttl, code, want)
		}
	}
}

func TestTransactionsWithATTL(t *testing.T) {
	for _, tt := range []struct {
		name   string
		op     zkproto.MultiOp
		before zkproto.Code // of an earlier operation
		header zkproto.Code
		result zkproto.Op
	}{
		{"flags and record", zkproto.MultiOp{Op: zkproto.OpCreateTTL, Flags: 5, TTL: 1}, ok, ok, zkproto.OpCreate2},
		{"flags without the record", zkproto.MultiOp{Op: zkproto.OpCreate2, Flags: 6}, ok, zkproto.CodeMarshallingError, 0},
		{"record without the flags", zkproto.MultiOp{Op: zkproto.OpCreateTTL, Flags: 0, TTL: 1}, ok, ok, zkproto.OpCreate},
		{"behind one that fails", zkproto.MultiOp{Op: zkproto.OpCreate, Flags: 5}, noNode, ok, zkproto.OpError},
		{"not a valid TTL", zkproto.MultiOp{Op: zkproto.OpCreateTTL, Flags: 5}, ok, ok, zkproto.OpError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := sample(t)
			first := zkproto.MultiOp{Op: zkproto.OpSetData, Path: "/a", Version: -1}
			if tt.before == noNode {
				first.Path = "/none"
			}
			tt.op.Path, tt.op.ACL = "/t", openACL.entries
			results, code := tr.Multi(tx(), []zkproto.MultiOp{first, tt.op})
			if code != tt.header || code == ok && results[1].Op != tt.result || code != ok && results != nil {
				t.Fatalf("got %+v, %v; want %v, header %v", results, code, tt.result, tt.header)
			}
			if code != ok || tt.result == zkproto.OpError {
				assertUntouched(t, tr)
			}
		})
	}
}
