package tree

import (
	"fmt"
	"strings"
	"testing"

	"holdfast/zkproto"
)

// quotaTree has nodes below /a, and creates, deletes and sets others by short commands.
type quotaTree struct {
	*testing.T
	*Tree
	zxid int64
	over []string
}

func newQuotaTree(t *testing.T, enforce bool) *quotaTree {
	q := &quotaTree{T: t, Tree: New()}
	q.Bound(Bounds{Quotas: enforce, Exceeded: func(by Bound) {
		if by != BoundQuota {
			t.Errorf("bound %v", by)
		}
	}, OverQuota: func(subtree string) { q.over = append(q.over, subtree) }})
	return q
}

func (q *quotaTree) tx() Txn { q.zxid++; return Txn{Zxid: q.zxid, Time: 1, Session: 7} }

func (q *quotaTree) create(path, data string) zkproto.Code {
	_, _, code := q.Create(q.tx(), &zkproto.MultiOp{Op: zkproto.OpCreate, Path: path, Data: []byte(data), ACL: openACL.entries})
	return code
}

// limit sets a quota as zkCli.sh does.
func (q *quotaTree) limit(path, limits string) {
	q.Helper()
	at := quotaRoot
	for part := range strings.SplitSeq(path[1:], "/") {
		at += "/" + part
		if code := q.create(at, ""); code != zkproto.CodeOK && code != zkproto.CodeNodeExists {
			q.Fatal(code)
		}
	}
	for name, data := range map[string]string{limitsName: limits, statsName: "count=0,bytes=0"} {
		if code := q.create(at+"/"+name, data); code != zkproto.CodeOK {
			q.Fatal(code)
		}
	}
}

func (q *quotaTree) wantStats(path, want string) {
	q.Helper()
	if got := string(q.nodes[quotaRoot+path+"/"+statsName].data); got != want {
		q.Errorf("the stats of %s are %q; want %q", path, got, want)
	}
}

func TestQuotaCountsWhatIsThereAndWhatComesAndGoes(t *testing.T) {
	q := newQuotaTree(t, false)
	q.create("/a", "12")
	q.create("/a/b", "345")
	q.limit("/a", "count=3,bytes=-1")
	q.wantStats("/a", "count=2,bytes=5")
	q.create("/a/b/c", "6789")
	q.create("/ab", "another one")
	q.wantStats("/a", "count=3,bytes=9")
	if q.Set(q.tx(), "/a/b", []byte("3"), -1); len(q.over) != 0 {
		t.Errorf("over its quota: %v", q.over)
	}
	q.wantStats("/a", "count=3,bytes=7")
	q.create("/a/d", "")
	q.wantStats("/a", "count=4,bytes=7")
	if len(q.over) != 1 || q.over[0] != "/a" {
		t.Errorf("over its quota: %v; want /a once", q.over)
	}
	// Only the nearest quota counts.
	q.limit("/a/b", "count=9,bytes=9=;countHardLimit=1")
	q.wantStats("/a/b", "count=2,bytes=5")
	q.Delete(q.tx(), "/a/b/c", -1)
	q.wantStats("/a/b", "count=1,bytes=1")
	q.wantStats("/a", "count=4,bytes=7")
	// Hard limits are not enforced unless configured.
	if code := q.create("/a/b/e", ""); code != zkproto.CodeOK {
		t.Errorf("create over a hard limit: %v", code)
	}
	// Without limits nothing is counted.
	q.Delete(q.tx(), quotaRoot+"/a/b/"+limitsName, -1)
	q.create("/a/b/f", "")
	q.wantStats("/a/b", "count=2,bytes=1")
	q.wantStats("/a", "count=5,bytes=7")
}

func TestQuotaOfAFailedTransactionIsAsBefore(t *testing.T) {
	q := newQuotaTree(t, false)
	q.create("/a", "")
	q.limit("/a", "count=5,bytes=5")
	before, bytes := string(q.nodes[quotaRoot+"/a/"+statsName].data), q.DataBytes()
	create := func(path string) zkproto.MultiOp {
		return zkproto.MultiOp{Op: zkproto.OpCreate, Path: path, Data: []byte("12"), ACL: openACL.entries}
	}
	results, _ := q.Multi(q.tx(), []zkproto.MultiOp{create("/a/b"), {Op: zkproto.OpDelete, Path: quotaRoot + "/a/" + limitsName, Version: -1}, create("/a/c"), create("/no/parent")})
	if results[3].Err != zkproto.CodeNoNode {
		t.Fatalf("%+v", results)
	}
	q.wantStats("/a", before)
	if q.DataBytes() != bytes {
		t.Errorf("%d bytes; want %d", q.DataBytes(), bytes)
	}
	q.create("/a/b", "1")
	q.wantStats("/a", "count=2,bytes=1")
}

func TestHardQuotaIsKeptIfAskedFor(t *testing.T) {
	q := newQuotaTree(t, true)
	q.create("/a", "12345678")
	q.limit("/a", "count=1,bytes=-1=;byteHardLimit=10;countHardLimit=2")
	for _, c := range []struct {
		name string
		do   func() zkproto.Code
		want zkproto.Code
	}{
		{"too many bytes in a create", func() zkproto.Code { return q.create("/a/b", "123") }, zkproto.CodeQuotaExceeded},
		{"few enough", func() zkproto.Code { return q.create("/a/b", "12") }, zkproto.CodeOK},
		{"too many nodes", func() zkproto.Code { return q.create("/a/c", "") }, zkproto.CodeQuotaExceeded},
		{"too many bytes in a set", func() zkproto.Code { _, code := q.Set(q.tx(), "/a/b", []byte("123"), 99); return code }, zkproto.CodeQuotaExceeded},
		{"a byte less than too many", func() zkproto.Code { _, code := q.Set(q.tx(), "/a", []byte("123456789"), -1); return code }, zkproto.CodeQuotaExceeded},
		{"fewer bytes", func() zkproto.Code { _, code := q.Set(q.tx(), "/a/b", nil, -1); return code }, zkproto.CodeOK},
		{"somewhere else", func() zkproto.Code { return q.create("/c", "1234567890") }, zkproto.CodeOK},
		{"after a delete", func() zkproto.Code { q.Delete(q.tx(), "/a/b", -1); return q.create("/a/c", "") }, zkproto.CodeOK},
	} {
		if got := c.do(); got != c.want {
			t.Errorf("%s: %v; want %v", c.name, got, c.want)
		}
	}
	q.wantStats("/a", "count=2,bytes=8")
	if len(q.over) == 0 {
		t.Error("the soft limit was not reported")
	}
}

func TestQuotaIsThereAfterARestart(t *testing.T) {
	q := newQuotaTree(t, false)
	q.create("/a", "1")
	q.limit("/a", "count=5,bytes=5")
	again := &quotaTree{T: t, Tree: reload(t, q.Tree), zxid: q.zxid}
	again.create("/a/b", "23")
	again.wantStats("/a", "count=2,bytes=3")
}

// An invalid text in a quota's node does no harm.
func TestQuotaThatCannotBeReadCountsNothing(t *testing.T) {
	q := newQuotaTree(t, true)
	q.create("/a", "1")
	q.limit("/a", "count=0,bytes=0=;countHardLimit=0")
	for _, text := range []string{"nonsense", "count=x", "count=99999999999999999999", "=", "\xff", ",;,"} {
		q.Set(q.tx(), quotaRoot+"/a/"+statsName, []byte(text), -1)
		q.Set(q.tx(), quotaRoot+"/a/"+limitsName, []byte(text), -1)
		if code := q.create("/a/b", "1"); code != zkproto.CodeOK {
			t.Errorf("with %q: %v", text, code)
		}
		q.Delete(q.tx(), "/a/b", -1)
	}
}

// A write that shrinks a node is refused if too much is left, as in Apache's server. A write that
// leaves no more than allowed succeeds, and so does a delete.
func TestShrinkingWriteOverAHardQuotaIsRefused(t *testing.T) {
	q := newQuotaTree(t, true)
	q.create("/a", "12345678")
	q.create("/a/b", "1234")
	q.limit("/a", "count=-1,bytes=-1=;byteHardLimit=5;countHardLimit=1")
	set := func(data string) zkproto.Code { _, code := q.Set(q.tx(), "/a", []byte(data), -1); return code }
	for _, c := range []struct {
		name string
		code zkproto.Code
		want zkproto.Code
	}{
		{"fewer, but too many", set("1234567"), zkproto.CodeQuotaExceeded},
		{"as many", set("abcdefgh"), zkproto.CodeOK},
		{"few enough", set("1"), zkproto.CodeOK},
		{"delete", q.Delete(q.tx(), "/a/b", -1), zkproto.CodeOK},
	} {
		if c.code != c.want {
			t.Errorf("%s: %v; want %v", c.name, c.code, c.want)
		}
	}
	q.wantStats("/a", "count=1,bytes=1")
}

// Setting a quota takes no longer for a large subtree than for a small one. A walk would make a
// path for every node.
func TestQuotaIsSetWithoutAWalk(t *testing.T) {
	q := newQuotaTree(t, false)
	q.create("/a", "12")
	for i := range 20_000 {
		q.create(fmt.Sprintf("/a/%d", i), "3")
	}
	q.limit("/a", "count=-1,bytes=-1")
	stats := quotaRoot + "/a/" + statsName
	if n := testing.AllocsPerRun(10, func() {
		q.Delete(q.tx(), stats, -1)
		q.create(stats, "")
	}); n > 100 {
		t.Errorf("%v allocations for a quota over 20,000 nodes", n)
	}
	q.wantStats("/a", "count=20001,bytes=20002")
	assertConsistent(t, q.Tree)
}

// A text that is too long is ignored, like one that cannot be parsed.
func TestQuotaTextHasABound(t *testing.T) {
	q := newQuotaTree(t, true)
	q.create("/a", "1")
	q.limit("/a", "count=0,bytes=0=;countHardLimit=1")
	stats, limits := quotaRoot+"/a/"+statsName, quotaRoot+"/a/"+limitsName
	text := func(n int) string { return "count=1,bytes=1=;countHardLimit=1;x" + strings.Repeat("y", n-37) + "=7" }
	for _, tt := range []struct {
		stats, limits int
		want          zkproto.Code
		after         string // of the stats
	}{
		{1024, 1024, zkproto.CodeQuotaExceeded, text(1024)},
		{1024, 1025, zkproto.CodeOK, strings.Replace(text(1024), "count=1,bytes=1", "count=2,bytes=3", 1)},
		{1025, 1024, zkproto.CodeOK, text(1025)},
	} {
		q.Set(q.tx(), stats, []byte(text(tt.stats)), -1)
		q.Set(q.tx(), limits, []byte(text(tt.limits)), -1)
		if code := q.create("/a/b", "12"); code != tt.want {
			t.Errorf("stats of %d and limits of %d bytes: %v; want %v", tt.stats, tt.limits, code, tt.want)
		}
		q.wantStats("/a", tt.after)
		q.Delete(q.tx(), "/a/b", -1)
	}
}

func TestOnlyTheSuperuserSetsQuotas(t *testing.T) {
	root, stats := quotaRoot+"/a", quotaRoot+"/a/"+statsName
	for _, tt := range []struct {
		name    string
		bySuper bool
		as      []Identity
		want    zkproto.Code
	}{
		{"anybody", true, nil, noAuth},
		{"with a login", true, []Identity{local, alice}, noAuth},
		{"the superuser", true, []Identity{local, alice, {Super, ""}}, ok},
		{"anybody, where all may", false, nil, ok},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := newQuotaTree(t, false)
			q.limit("/a", "count=5,bytes=5")
			q.Bound(Bounds{QuotasBySuper: tt.bySuper})
			tx := func() Txn { tx := q.tx(); tx.As = tt.as; return tx }
			create := &zkproto.MultiOp{Op: zkproto.OpCreate, Path: root + "/x", ACL: openACL.entries}
			_, _, created := q.Create(tx(), create)
			_, _, top := q.Create(tx(), &zkproto.MultiOp{Op: zkproto.OpCreate, Path: quotaRoot + "/b", ACL: openACL.entries})
			_, set := q.Set(tx(), stats, []byte("count=1"), -1)
			_, setTop := q.Set(tx(), quotaRoot, nil, -1)
			_, acl := q.SetACL(tx(), stats, openACL.entries, -1)
			_, aclTop := q.SetACL(tx(), quotaRoot, openACL.entries, -1)
			results, _ := q.Multi(tx(), []zkproto.MultiOp{{Op: zkproto.OpSetData, Path: stats, Version: -1}})
			for what, code := range map[string]zkproto.Code{
				"create": created, "create at the top": top, "set": set, "set at the top": setTop, "setACL": acl, "setACL at the top": aclTop,
				"transaction": results[0].Err, "delete": q.Delete(tx(), stats, -1),
			} {
				if code != tt.want {
					t.Errorf("%s: %v; want %v", what, code, tt.want)
				}
			}
			if _, _, code := q.Get(root+"/"+limitsName, tt.as...); code != ok {
				t.Errorf("read: %v", code)
			}
			if code := q.create("/zookeeper/quotas", ""); code != ok {
				t.Errorf("a node whose name merely begins the same way: %v", code)
			}
		})
	}
}

// FuzzParseUsage checks that a usage that was parsed and formatted parses to the same usage.
func FuzzParseUsage(f *testing.F) {
	for _, text := range []string{"count=1,bytes=2", "count=-1,bytes=-1=;byteHardLimit=5;countHardLimit=7", "", "bytes=", "a=1,a=2", "count", "=1"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		u, ok := parseUsage(text)
		if !ok {
			return
		}
		again, ok := parseUsage([]byte(u.String()))
		if !ok || again != u || again.String() != u.String() {
			t.Errorf("%q is %q, and that is %q, %v", text, &u, &again, ok)
		}
	})
}
