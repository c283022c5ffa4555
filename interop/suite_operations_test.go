//go:build unix

package interop

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"

	"holdfast/zk"
	"holdfast/zk/admin"
	"holdfast/zkproto"
)

// Single operations.
var operationCases = map[string]feature{
	"creates nodes of every mode":        {createsEveryMode, v3_5_1},
	"creates nodes with a time to live":  {createsTTL, v3_5_3},
	"tells null data from empty":         {tellsNullFromEmpty, v3_5},
	"sets and deletes by version":        {setsAndDeletesByVersion, v3_5},
	"multi is all or nothing":            {multiIsAllOrNothing, v3_5},
	"multi-read answers each for itself": {multiReads, v3_6},
	"pipeline answers in order":          {pipelineAnswersInOrder, v3_5},
	"changes ACLs":                       {changesACLs, v3_5},
	"knows its ephemeral nodes":          {knowsItsEphemerals, v3_6},
	"counts all nodes below":             {countsAllBelow, v3_6},
	"reads the configuration":            {readsConfiguration, v3_5},
	"refuses what is no path":            {refusesWhatIsNoPath, v3_5},
}

func createsEveryMode(x *exam) {
	owner := x.session(x.client)
	lastSeq, lastZxid := "", int64(0)
	for _, mode := range []struct {
		mode       zk.Mode
		name       string
		sequential bool
		ephemeral  bool
	}{
		{zk.Persistent, "persistent", false, false},
		{zk.Ephemeral, "ephemeral", false, true},
		{zk.PersistentSequential, "persistent-sequential-", true, false},
		{zk.EphemeralSequential, "ephemeral-sequential-", true, true},
		{zk.Container, "container", false, false},
	} {
		data := []byte("data of " + mode.name)
		path, stat, err := x.c.Create(x.ctx, x.at("/"+mode.name), data, mode.mode, x.mine...)
		x.must(err)
		root := regexp.QuoteMeta(x.root)
		pattern := `^` + root + `/` + mode.name + `$`
		if mode.sequential {
			pattern = `^` + root + `/` + mode.name + `\d{10}$`
			seq := path[len(path)-10:]
			if seq <= lastSeq {
				x.Errorf("%s comes after number %s", path, lastSeq)
			}
			lastSeq = seq
		}
		if !regexp.MustCompile(pattern).MatchString(path) {
			x.Errorf("created %s; want %s", path, pattern)
		}
		if stat.Czxid <= lastZxid {
			x.Errorf("czxid of %s is %#x; the node before had %#x", path, stat.Czxid, lastZxid)
		}
		lastZxid = stat.Czxid
		wantOwner := int64(0)
		if mode.ephemeral {
			wantOwner = owner.ID()
		}
		got, read, err := x.c.Get(x.ctx, path)
		x.must(err)
		if string(got) != string(data) {
			x.Errorf("data of %s is %q; want %q", path, got, data)
		}
		if read.EphemeralOwner != wantOwner {
			x.Errorf("ephemeral owner of %s is %#x; want %#x", path, read.EphemeralOwner, wantOwner)
		}
		if read != stat {
			x.Errorf("stat of %s: create answered %+v, get %+v", path, stat, read)
		}
	}
	_, _, err := x.c.Create(x.ctx, x.at("/persistent"), nil, zk.Persistent)
	x.wants("create again", err, zk.ErrNodeExists)
	x.wants("create again", err, fs.ErrExist)
	_, _, err = x.c.Create(x.ctx, x.at("/none/child"), nil, zk.Persistent)
	x.wants("create below nothing", err, zk.ErrNoNode)
	_, _, err = x.c.Create(x.ctx, x.at("/ephemeral/child"), nil, zk.Persistent)
	x.wants("create below an ephemeral node", err, zk.ErrNoChildrenForEphemerals)
}

func createsTTL(x *exam) {
	path, stat, err := x.c.CreateTTL(x.ctx, x.at("/ttl"), []byte("x"), zk.Persistent, time.Hour, x.mine...)
	if x.ttl != nil {
		x.wants("create with a time to live", err, x.ttl)
		x.create("/ttl") // the connection is kept
		return
	}
	x.must(err)
	if path != x.at("/ttl") || stat.EphemeralOwner != 0 {
		x.Errorf("created %s, %+v", path, stat)
	}
	path, _, err = x.c.CreateTTL(x.ctx, x.at("/seq-"), nil, zk.PersistentSequential, time.Millisecond, x.mine...)
	x.must(err)
	if path != x.at("/seq-0000000001") {
		x.Errorf("created %s", path)
	}
	results, err := x.c.Multi(x.ctx, zk.CreateTTLOp(x.at("/multi-"), nil, zk.PersistentSequential, time.Hour, x.mine...), zk.CheckOp(x.at("/ttl"), 0))
	x.must(err)
	if results[0].Path != x.at("/multi-0000000002") || results[0].Stat.Czxid == 0 {
		x.Errorf("in a transaction: %+v", results[0])
	}
	results, err = x.c.Pipeline(x.ctx, zk.CreateTTLOp(x.at("/piped"), nil, zk.Persistent, time.Hour, x.mine...), zk.GetOp(x.at("/piped")))
	x.must(err)
	if results[0].Path != x.at("/piped") || results[0].Stat != results[1].Stat {
		x.Errorf("in a pipeline: %+v", results)
	}
}

func tellsNullFromEmpty(x *exam) {
	for path, data := range map[string][]byte{"/null": nil, "/empty": {}} {
		_, _, err := x.c.Create(x.ctx, x.at(path), data, zk.Persistent, x.mine...)
		x.must(err)
		got, _, err := x.c.Get(x.ctx, x.at(path))
		x.must(err)
		if (got == nil) != (data == nil) || len(got) != 0 {
			x.Errorf("data of %s is %#v; want %#v", path, got, data)
		}
	}
}

func sendsNothingTooLarge(x *exam) {
	s := x.session(x.client)
	as := x.mine
	if as == nil {
		as = openACL
	}
	empty := zkproto.CreateRequest{Path: x.path + "/n", ACL: as}
	most := zkproto.MaxFrame - len((&zkproto.RequestHeader{}).Append(nil)) - len(empty.Append(nil))
	_, _, err := x.c.Create(x.ctx, x.at("/n"), make([]byte, most+1), zk.Persistent, x.mine...)
	x.wants("create of one byte too many", err, zk.ErrTooLarge)
	_, stat, err := x.c.Create(x.ctx, x.at("/n"), make([]byte, most), zk.Persistent, x.mine...)
	x.must(err)
	if int(stat.DataLength) != most {
		x.Errorf("data length %d; want %d", stat.DataLength, most)
	}
	data, _, err := x.c.Get(x.ctx, x.at("/n"))
	x.must(err)
	if len(data) != most {
		x.Errorf("got %d bytes; want %d", len(data), most)
	}
	if x.session(x.client) != s {
		x.Error("the session did not survive")
	}
	x.delete("/n") // Apache's servers have little memory here
}

func setsAndDeletesByVersion(x *exam) {
	_, _, err := x.c.Create(x.ctx, x.at("/n"), []byte("0"), zk.Persistent, x.mine...)
	x.must(err)
	stat, err := x.c.Set(x.ctx, x.at("/n"), []byte("one"), 0)
	x.must(err)
	if stat.Version != 1 || stat.DataLength != 3 || stat.Mzxid <= stat.Czxid {
		x.Errorf("stat after set: %+v", stat)
	}
	_, err = x.c.Set(x.ctx, x.at("/n"), nil, 0)
	x.wants("set with an old version", err, zk.ErrBadVersion)
	_, err = x.c.Set(x.ctx, x.at("/none"), nil, zk.AnyVersion)
	x.wants("set of nothing", err, zk.ErrNoNode)

	x.create("/n/child")
	names, stat, err := x.c.Children(x.ctx, x.at("/n"))
	x.must(err)
	if !slices.Equal(names, []string{"child"}) || stat.NumChildren != 1 || stat.Cversion != 1 {
		x.Errorf("children %q, stat %+v", names, stat)
	}
	x.wants("delete with children", x.c.Delete(x.ctx, x.at("/n"), zk.AnyVersion), zk.ErrNotEmpty)
	x.must(x.c.Delete(x.ctx, x.at("/n/child"), 0))
	x.wants("delete with an old version", x.c.Delete(x.ctx, x.at("/n"), 0), zk.ErrBadVersion)
	x.must(x.c.Delete(x.ctx, x.at("/n"), 1))
	x.wants("delete again", x.c.Delete(x.ctx, x.at("/n"), zk.AnyVersion), zk.ErrNoNode)
	_, _, err = x.c.Get(x.ctx, x.at("/n"))
	x.wants("get", err, fs.ErrNotExist)
	_, exists, err := x.c.Exists(x.ctx, x.at("/n"))
	x.must(err)
	if exists {
		x.Error("/n is still there")
	}
	_, _, err = x.c.Children(x.ctx, x.at("/n"))
	x.wants("children of nothing", err, zk.ErrNoNode)
	x.must(x.c.Sync(x.ctx, x.at("/none"))) // it need not exist
}

func multiIsAllOrNothing(x *exam) {
	results, err := x.c.Multi(x.ctx,
		zk.CreateOp(x.at("/m"), []byte("1"), zk.Persistent, x.mine...),
		zk.CheckOp(x.at("/m"), 0),
		zk.SetOp(x.at("/m"), []byte("2"), 0),
		zk.CreateOp(x.at("/m/s-"), nil, zk.EphemeralSequential, x.mine...),
		zk.CreateOp(x.at("/m/gone"), nil, zk.Persistent, x.mine...),
		zk.DeleteOp(x.at("/m/gone"), 0))
	x.must(err)
	if len(results) != 6 || results[0].Path != x.at("/m") || results[2].Stat.Version != 1 || !strings.HasPrefix(results[3].Path, x.at("/m/s-0")) {
		x.Errorf("results %+v", results)
	}
	if a, b := results[0].Stat.Czxid, results[3].Stat.Czxid; a != b {
		x.Errorf("nodes of one transaction have czxids %#x and %#x", a, b)
	}

	results, err = x.c.Multi(x.ctx,
		zk.SetOp(x.at("/m"), []byte("3"), 1),
		zk.CheckOp(x.at("/m"), 7),
		zk.DeleteOp(results[3].Path, 0))
	x.wants("multi with a failing check", err, zk.ErrBadVersion)
	if len(results) != 3 {
		x.Fatalf("results %+v", results)
	}
	x.wants("the check", results[1].Err, zk.ErrBadVersion)
	x.wants("behind the check", results[2].Err, zk.ErrNotTried)
	data, stat, err := x.c.Get(x.ctx, x.at("/m"))
	x.must(err)
	if string(data) != "2" || stat.Version != 1 || stat.NumChildren != 1 {
		x.Errorf("the refused transaction left data %q, stat %+v", data, stat)
	}
	results, err = x.c.Multi(x.ctx)
	if len(results) != 0 || err != nil {
		x.Errorf("an empty transaction: %v, %v", results, err)
	}
}

func multiReads(x *exam) {
	_, created, err := x.c.Create(x.ctx, x.at("/m"), []byte("data"), zk.Persistent, x.mine...)
	x.must(err)
	x.ephemeral("/m/child")
	results, err := x.c.MultiRead(x.ctx, zk.GetOp(x.at("/m")), zk.GetOp(x.at("/none")), zk.ChildrenOp(x.at("/m")), zk.GetOp(x.at("/m/child")))
	x.wants("multi-read", err, zk.ErrNoNode)
	if len(results) != 4 {
		x.Fatalf("%d results", len(results))
	}
	if string(results[0].Data) != "data" || results[0].Stat.Czxid != created.Czxid || results[0].Err != nil {
		x.Errorf("get: %+v", results[0])
	}
	x.wants("get of nothing", results[1].Err, zk.ErrNoNode)
	if !slices.Equal(results[2].Children, []string{"child"}) || results[2].Err != nil {
		x.Errorf("children: %+v", results[2])
	}
	if results[3].Data != nil || results[3].Err != nil {
		x.Errorf("null data: %+v", results[3])
	}
	results, err = x.c.MultiRead(x.ctx)
	if len(results) != 0 || err != nil {
		x.Errorf("no reads: %v, %v", results, err)
	}
}

func pipelineAnswersInOrder(x *exam) {
	results, err := x.c.Pipeline(x.ctx,
		zk.CreateOp(x.at("/p"), nil, zk.Persistent, x.mine...),
		zk.CreateOp(x.at("/p/s-"), []byte("x"), zk.EphemeralSequential, x.mine...),
		zk.CreateOp(x.at("/p"), nil, zk.Persistent, x.mine...),
		zk.ChildrenOp(x.at("/p")),
		zk.ExistsOp(x.at("/p")),
		zk.GetOp(x.at("/none")),
		zk.SetOp(x.at("/p"), []byte("y"), 0),
		zk.GetOp(x.at("/p")))
	x.wants("the first error", err, zk.ErrNodeExists)
	if len(results) != 8 {
		x.Fatalf("%d results; want 8", len(results))
	}
	x.must(results[1].Err)
	x.wants("create again", results[2].Err, zk.ErrNodeExists)
	if want := []string{strings.TrimPrefix(results[1].Path, x.at("/p/"))}; !slices.Equal(results[3].Children, want) {
		x.Errorf("children %q; want %q", results[3].Children, want)
	}
	if results[4].Stat.NumChildren != 1 {
		x.Errorf("stat %+v", results[4].Stat)
	}
	x.wants("get of nothing", results[5].Err, zk.ErrNoNode)
	if results[6].Stat.Version != 1 || string(results[7].Data) != "y" {
		x.Errorf("set and get: %+v", results[6:])
	}

	// A long pipeline, however the system calls split it.
	var ops []zk.Op
	for range 2000 {
		ops = append(ops, zk.CreateOp(x.at("/p/n-"), nil, zk.PersistentSequential, x.mine...))
	}
	results, err = x.c.Pipeline(x.ctx, ops...)
	x.must(err)
	for i, r := range results {
		if want := x.at(fmt.Sprintf("/p/n-%010d", i+1)); r.Path != want {
			x.Fatalf("number %d is %s; want %s", i, r.Path, want)
		}
	}
}

func changesACLs(x *exam) {
	stat := x.create("/a")
	got, stat2, err := x.c.GetACL(x.ctx, x.at("/a"))
	x.must(err)
	want := []zk.ACL{{Perms: zkproto.PermAll, Scheme: "world", ID: "anyone"}}
	if x.mine != nil {
		want = nil // the server has recorded every identity of ours there
		for _, known := range x.known {
			want = append(want, zk.ACL{Perms: zkproto.PermAll, Scheme: known.Scheme, ID: known.User})
		}
		for i := range got { // for digest, the server's list has only the name
			if got[i].Scheme == "digest" {
				got[i].ID, _, _ = strings.Cut(got[i].ID, ":")
			}
		}
	}
	if !sameSet(got, want) || stat2 != stat {
		x.Errorf("ACL %+v; want %+v", got, want)
	}
	_, err = x.c.SetACL(x.ctx, x.at("/a"), nil, zk.AnyVersion)
	x.wants("empty ACL", err, zk.ErrInvalidACL)
	admin := zk.ACL{Perms: zkproto.PermAdmin, Scheme: "world", ID: "anyone"}
	_, err = x.c.SetACL(x.ctx, x.at("/a"), []zk.ACL{admin}, 7)
	x.wants("wrong version", err, zk.ErrBadVersion)
	stat, err = x.c.SetACL(x.ctx, x.at("/a"), []zk.ACL{admin}, 0)
	x.must(err)
	if stat.Aversion != 1 {
		x.Errorf("version %d after a change", stat.Aversion)
	}
	_, _, err = x.c.Get(x.ctx, x.at("/a"))
	x.wants("get without permission", err, zk.ErrNoAuth)
	x.wants("get without permission", err, fs.ErrPermission)
	got, _, err = x.c.GetACL(x.ctx, x.at("/a"))
	x.must(err)
	if !slices.Equal(got, []zk.ACL{admin}) {
		x.Errorf("ACL %+v", got)
	}
	_, _, err = x.c.GetACL(x.ctx, x.at("/none"))
	x.wants("ACL of nothing", err, zk.ErrNoNode)
}

func sameSet[T comparable](a, b []T) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(v T) bool { return !slices.Contains(b, v) })
}

func knowsItsEphemerals(x *exam) {
	x.create("/dir")
	x.create("/dir/sub")
	for _, path := range []string{"/e", "/dir/e", "/dir/sub/e", "/dir-e"} {
		x.ephemeral(path)
	}
	other := x.by(x.dial())
	other.ephemeral("/dir/another's")
	x.catchUp()
	for prefix, want := range map[string][]string{
		"/":     {"/dir-e", "/dir/e", "/dir/sub/e", "/e"},
		"/dir":  {"/dir-e", "/dir/e", "/dir/sub/e"},
		"/dir/": {"/dir/e", "/dir/sub/e"},
		"/x":    nil,
	} {
		got, err := x.c.Ephemerals(x.ctx, x.root+prefix)
		x.must(err)
		for i := range want {
			want[i] = x.at(want[i])
		}
		if !sameSet(got, want) {
			x.Errorf("ephemerals %s: %q; want %q", prefix, got, want)
		}
	}
}

func countsAllBelow(x *exam) {
	for _, path := range []string{"/dir", "/dir/sub", "/dir/sub/n", "/dir-n"} {
		x.create(path)
	}
	for path, want := range map[string]int{"/": 4, "/dir": 2, "/dir-n": 0} {
		got, err := admin.AllChildrenNumber(x.ctx, x.c, x.at(path))
		x.must(err)
		if got != want {
			x.Errorf("%d nodes below %s; want %d", got, path, want)
		}
	}
	_, err := admin.AllChildrenNumber(x.ctx, x.c, x.at("/none"))
	x.wants("number of children of nothing", err, zk.ErrNoNode)
}

func readsConfiguration(x *exam) {
	e, stat, w, err := admin.ConfigW(x.ctx, x.c)
	x.must(err)
	x.silent(w)
	w.Stop()
	if len(e.Members) != x.members {
		x.Errorf("%d members; want %d", len(e.Members), x.members)
	}
	for i, m := range e.Members {
		if m.ID != int64(i) || m.Observer || !strings.HasPrefix(m.Peers, "127.0.0.1:") || strings.Count(m.Peers, ":") != 2 {
			x.Errorf("member %+v", m)
		}
	}
	again, stat2, err := admin.Config(x.ctx, x.c)
	x.must(err)
	if stat2 != stat || fmt.Sprint(again) != fmt.Sprint(e) {
		x.Errorf("without a watch: %+v; with one: %+v", again, e)
	}
	_, _, err = admin.Reconfig(x.ctx, x.c, admin.Reconfiguration{Leave: []int64{2}}, zk.AnyVersion)
	x.wants("reconfig where it is disabled", err, admin.ErrReconfigDisabled)
	if _, _, err := admin.Config(x.ctx, x.c); err != nil {
		x.Errorf("afterwards: %v", err)
	}
}

// Nothing is sent, and the error has the path as the caller wrote it.
func refusesWhatIsNoPath(x *exam) {
	for _, path := range []string{"", "n", "/n/", "//n", "/./n", "/n/..", "/\x00", "/\x1f"} {
		_, _, err := x.c.Get(x.ctx, path)
		x.wants(fmt.Sprintf("get %q", path), err, zk.ErrInvalidPath)
		if zk.MayHaveHappened(err) || zk.SafeToRetry(err) {
			x.Errorf("%v: may have happened %t, safe to retry %t", err, zk.MayHaveHappened(err), zk.SafeToRetry(err))
		}
	}
}
