package tree

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"holdfast/zkproto"
)

// A twin is a tree and what its watchers have heard.
type twin struct {
	*Tree
	heard map[Watcher][]Event
}

func (w *twin) take() {
	for _, e := range w.TakeEvents() {
		w.heard[e.Watcher] = append(w.heard[e.Watcher], e)
	}
}

// apply applies an operation to the tree. seed chooses it; by is the watcher that asks for it.
func (w *twin) apply(seed uint64, by Watcher, zxid int64) {
	r := rand.New(rand.NewPCG(seed, 0))
	paths := []string{"/a", "/a/b", "/a/b/c", "/d", "/d/e", "/"}
	path := paths[r.IntN(len(paths))]
	tx := Txn{Zxid: zxid, Session: 1 + int64(r.IntN(2))}
	acl := openACL.entries
	if r.IntN(6) == 0 {
		acl = []zkproto.ACL{{Perms: zkproto.PermAll &^ zkproto.PermRead, Scheme: "world", ID: "anyone"}, {Perms: zkproto.PermRead, Scheme: "digest", ID: "me:x"}}
	}
	write := func() zkproto.MultiOp {
		path := paths[r.IntN(len(paths))]
		switch r.IntN(3) {
		case 0:
			return zkproto.MultiOp{Op: zkproto.OpCreate, Path: path, ACL: acl, Flags: int32(r.IntN(2))}
		case 1:
			return zkproto.MultiOp{Op: zkproto.OpDelete, Path: path, Version: -1}
		}
		return zkproto.MultiOp{Op: zkproto.OpSetData, Path: path, Version: -1}
	}
	switch r.IntN(12) {
	case 0, 1:
		w.WatchData(by, path)
	case 2:
		w.WatchChildren(by, path)
	case 3:
		w.AddWatch(by, path, zkproto.ModePersistent)
	case 4:
		w.AddWatch(by, path, zkproto.ModePersistentRecursive)
	case 5:
		w.RemoveWatches(by, path, zkproto.WatchAny)
	case 6:
		if r.IntN(4) == 0 {
			w.DropWatcher(by)
			if r.IntN(2) == 0 {
				w.Identify(by, []Identity{{Scheme: "digest", ID: "me:x"}})
			}
		}
	case 7:
		ops := make([]zkproto.MultiOp, 1+r.IntN(4))
		for i := range ops {
			ops[i] = write()
		}
		w.Multi(tx, ops)
	case 8:
		w.CloseSession(tx)
	default:
		switch o := write(); o.Op {
		case zkproto.OpCreate:
			w.Create(tx, &o)
		case zkproto.OpDelete:
			w.Delete(tx, o.Path, -1)
		default:
			w.Set(tx, o.Path, nil, -1)
		}
	}
}

// A watcher that is notified in portions hears the same events, in the same order and before the same request, as one
// that is notified at once.
func TestTellingsChangeNothingForAWatcher(t *testing.T) {
	tellings, ahead := 0, 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		at := &twin{New(), make(map[Watcher][]Event)} // at once
		in := &twin{New(), make(map[Watcher][]Event)} // in portions
		at.many, in.many, in.most = 1<<30, r.IntN(3), 20+r.IntN(100)
		for step := range 300 {
			by := Watcher(1 + r.IntN(6))
			if in.Telling() {
				tellings++
				in.CatchUp(by)
				in.take()
				if slices.ContainsFunc([]Watcher{1, 2, 3, 4, 5, 6}, func(w Watcher) bool { return len(in.heard[w]) < len(at.heard[w]) }) {
					ahead++
				}
			}
			if !slices.Equal(at.heard[by], in.heard[by]) {
				t.Fatalf("seed %d, step %d: before its request, watcher %d has heard %v; want %v", seed, step, by, in.heard[by], at.heard[by])
			}
			what := r.Uint64()
			at.apply(what, by, int64(step+1))
			in.apply(what, by, int64(step+1))
			if in.CatchUp(by); r.IntN(3) == 0 {
				in.TellMore()
			}
			at.take()
			in.take()
			if !slices.Equal(at.heard[by], in.heard[by]) {
				t.Fatalf("seed %d, step %d: before the answer, watcher %d has heard %v; want %v", seed, step, by, in.heard[by], at.heard[by])
			}
		}
		for in.TellMore() {
		}
		in.take()
		for by, want := range at.heard {
			if !slices.Equal(want, in.heard[by]) {
				t.Errorf("seed %d: in the end, watcher %d has heard %v; want %v", seed, by, in.heard[by], want)
			}
		}
		if in.Telling() || in.Untold() != 0 || in.WatchCount() != at.WatchCount() {
			t.Errorf("seed %d: %d untold, %d watches; want 0 and %d", seed, in.Untold(), in.WatchCount(), at.WatchCount())
		}
	}
	if tellings < 10_000 || ahead < 1000 {
		t.Errorf("%d requests met a telling, %d of them one that had to go on; the test shows too little", tellings, ahead)
	}
}

// A portion has few notifications. A watcher that waits for many of them is behind when the portion is over, and
// one that waits for none is not.
func TestTellingHasPortions(t *testing.T) {
	tr := New()
	const watchers, writes = 3000, 20
	mustCreate(t, tr, "/n", 0)
	for by := range Watcher(watchers) {
		tr.AddWatch(by+1, "/n", zkproto.ModePersistent)
	}
	tr.WatchData(watchers+1, "/other")
	tr.TakeEvents()
	ops := make([]zkproto.MultiOp, writes)
	for i := range ops {
		ops[i] = zkproto.MultiOp{Op: zkproto.OpSetData, Path: "/n", Version: -1}
	}
	if _, code := tr.Multi(tx(), ops); code != ok || len(tr.TakeEvents()) != 0 || !tr.Telling() {
		t.Fatalf("code %v; telling: %v", code, tr.Telling())
	}
	told, portions := 0, 0
	for more := true; more; portions++ {
		more = tr.TellMore()
		for by := Watcher(1); more && by <= watchers && !tr.Behind(by); by++ {
			tr.CatchUp(by)
		}
		n := len(tr.TakeEvents())
		if told += n; n > 2*(tellPortion/emitSteps+writes) {
			t.Errorf("a portion of %d", n)
		}
		behind := 0
		for by := range Watcher(watchers) {
			if tr.Behind(by + 1) {
				behind++
			}
		}
		if behind*writes != watchers*writes-told || tr.Behind(watchers+1) {
			t.Errorf("%d watchers are behind, and %v for the other; %d notifications were told", behind, tr.Behind(watchers+1), told)
		}
	}
	if told != watchers*writes || portions < 8 {
		t.Errorf("%d notifications in %d portions", told, portions)
	}
}

// A write with few watchers notifies them although others wait for earlier notifications.
func TestFewWatchersAreToldAtOnce(t *testing.T) {
	tr := New()
	mustCreate(t, tr, "/n", 0)
	mustCreate(t, tr, "/lock", 0)
	for by := range Watcher(1000) {
		tr.WatchData(by+1, "/n")
	}
	tr.WatchData(1, "/lock")
	tr.WatchData(2000, "/lock")
	tr.TakeEvents()
	tr.Set(tx(), "/n", nil, -1)
	tr.Delete(tx(), "/lock", -1)
	got := make(map[Watcher]string)
	for _, e := range tr.TakeEvents() {
		got[e.Watcher] += fmt.Sprint(e.Type, e.Path, " ")
	}
	if want := fmt.Sprint(changed, "/n ", deleted, "/lock "); len(got) != 2 || got[1] != want || got[2000] != fmt.Sprint(deleted, "/lock ") {
		t.Errorf("told at once: %v; want %q for 1", got, want)
	}
}
