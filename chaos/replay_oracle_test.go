package chaos_test

import (
	"cmp"
	"fmt"
	"slices"

	"holdfast/zkproto"
)

// A found is a write whose reply was lost, and which was later found in the tree with its zxid: a create
// whose connection was cut, or the end of a session.
type found struct {
	zxid    int64
	session int64
	write   zkproto.MultiOp // a create; none for the end of the session
	wire    *wire           // the connection that was read to its end, if any
}

// A zxidHistory is everything that came over all connections of some clients, and what they found.
type zxidHistory struct {
	clients [][]*wire // per client, in the order in which it made them
	found   []found
}

// A zxidOracle replays a history in the order of its zxids.
type zxidOracle struct {
	tree    *refTree
	watches map[zxidWatch]map[*wire]bool
	due     map[*wire][]expectation
	times   map[int64]int64 // milliseconds, for each zxid that a Stat names
	last    int64           // the current write
	bad     []string

	ops, writes, refused, reads, events, closed, found int
	numbered                                           int   // nodes with a sequence number
	holes                                              int64 // unknown zxids between two known writes
}

// A zxidStep is one thing to replay: a reply or a found.
type zxidStep struct {
	zxid  int64
	write bool
	wire  *wire
	reply *answered
	found *found
}

// replayZxids checks a history and returns its counts and violations.
func replayZxids(h *zxidHistory) *zxidOracle {
	o := &zxidOracle{
		tree: newRefTree(), watches: map[zxidWatch]map[*wire]bool{},
		due: map[*wire][]expectation{}, times: map[int64]int64{},
	}
	var steps []zxidStep
	for _, wires := range h.clients {
		last := map[int64]int64{} // per session
		for _, w := range wires {
			for i := range w.replies {
				a := &w.replies[i]
				write := takesZxid(a.op)
				if a.zxid < last[w.session] || write && a.zxid == last[w.session] {
					o.violation(a.zxid, w, "the zxid of %v follows 0x%x", a.op, last[w.session])
				}
				if a.zxid < a.floor {
					o.violation(a.zxid, w, "%v is answered from before 0x%x, which somebody knew when it was asked", a.op, a.floor)
				}
				last[w.session] = a.zxid
				steps = append(steps, zxidStep{zxid: a.zxid, write: write, wire: w, reply: a})
			}
		}
	}
	for i := range h.found {
		f := &h.found[i]
		steps = append(steps, zxidStep{zxid: f.zxid, write: true, wire: f.wire, found: f})
	}
	// Stable: replies of one connection stay in order.
	slices.SortStableFunc(steps, func(a, b zxidStep) int {
		if c := cmp.Compare(a.zxid, b.zxid); c != 0 || a.write == b.write {
			return c
		}
		if a.write {
			return -1
		}
		return 1
	})
	for _, s := range steps {
		if s.write {
			if s.zxid == o.last {
				o.violation(s.zxid, s.wire, "two writes have this zxid")
			} else if o.last != 0 {
				o.holes += s.zxid - o.last - 1
			}
			o.last = s.zxid
		}
		if s.found != nil {
			o.takeFound(s.found)
		} else {
			o.take(s.wire, s.reply)
		}
	}
	for _, wires := range h.clients {
		for _, w := range wires {
			o.eventsAre(w, w.tail, o.last, true)
		}
	}
	return o
}

func takesZxid(op zkproto.Op) bool {
	switch op {
	case zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpCreateTTL,
		zkproto.OpDelete, zkproto.OpSetData, zkproto.OpMulti, zkproto.OpCloseSession:
		return true
	}
	return false
}

func (o *zxidOracle) violation(zxid int64, w *wire, format string, args ...any) {
	var session int64
	if w != nil {
		session = w.session
	}
	o.bad = append(o.bad, fmt.Sprintf("zxid 0x%x, session 0x%x: %s", zxid, session, fmt.Sprintf(format, args...)))
}

func (o *zxidOracle) takeFound(f *found) {
	o.found++
	if f.write.Op == 0 {
		o.tree.end(f.zxid, f.session)
	} else if d := o.tree.do(f.zxid, f.session, &f.write); d.reasons != nil {
		o.violation(f.zxid, nil, "%v %s was done in spite of %v", f.write.Op, f.write.Path, d.reasons)
	}
	o.fire(f.zxid)
	if w := f.wire; w != nil && w.drained {
		o.eventsAre(w, w.tail, f.zxid, false)
		w.tail = nil
		o.forget(w)
	}
}

// take replays one reply. The tree has the state at its zxid or, for a write, just before it.
func (o *zxidOracle) take(w *wire, a *answered) {
	o.ops++
	if ended, ok := o.tree.ended[w.session]; ok {
		o.violation(a.zxid, w, "%v is answered after the end of the session at 0x%x", a.op, ended)
	}
	if !takesZxid(a.op) {
		o.reads++
		if a.op == zkproto.OpSetWatches {
			o.resume(w, a)
		}
		o.eventsAre(w, a.events, a.zxid, false)
		o.read(w, a)
		return
	}
	switch a.op {
	case zkproto.OpMulti:
		o.multi(w, a)
	case zkproto.OpCloseSession:
		o.closed++
		if a.code != zkproto.CodeOK {
			o.violation(a.zxid, w, "close session: %v", a.code)
		}
		o.tree.end(a.zxid, w.session)
	default:
		d := o.tree.do(a.zxid, w.session, &a.write)
		o.count(a.code == zkproto.CodeOK, &a.write)
		if o.outcome(w, a.zxid, &a.write, a.code, d) && d.reasons == nil {
			if a.path != d.path {
				o.violation(a.zxid, w, "create %s made %s; want %s", a.write.Path, a.path, d.path)
			}
			if a.op != zkproto.OpCreate && a.op != zkproto.OpDelete {
				o.statIs(w, a.zxid, d.path+a.write.Path, a.stat, d.stat)
			}
		}
	}
	o.fire(a.zxid)
	o.eventsAre(w, a.events, a.zxid, false)
	if a.op == zkproto.OpCloseSession {
		o.forget(w)
	}
}

func (o *zxidOracle) count(done bool, op *zkproto.MultiOp) {
	if !done {
		o.refused++
		return
	}
	o.writes++
	switch op.Flags {
	case zkproto.FlagPersistentSequential, zkproto.FlagEphemeralSequential, zkproto.FlagSequentialTTL:
		o.numbered++
	}
}

// outcome compares whether an operation failed, and why.
func (o *zxidOracle) outcome(w *wire, zxid int64, op *zkproto.MultiOp, code zkproto.Code, d refDone) bool {
	ok := code == zkproto.CodeOK && d.reasons == nil || slices.Contains(d.reasons, code)
	if !ok {
		o.violation(zxid, w, "%v %s, version %d, flags %d: %d (%v); the reference has reasons to refuse it: %v",
			op.Op, op.Path, op.Version, op.Flags, int32(code), code, d.reasons)
	}
	return ok
}

func (o *zxidOracle) multi(w *wire, a *answered) {
	done, failed := o.tree.multi(a.zxid, w.session, a.multi)
	if a.code != zkproto.CodeOK || len(a.results) != len(a.multi) {
		o.violation(a.zxid, w, "multi of %d: %v, %d results", len(a.multi), a.code, len(a.results))
		return
	}
	for i, r := range a.results {
		op := &a.multi[i]
		switch {
		case failed && i < len(done)-1:
			if r.Err != zkproto.CodeOK || r.Op != zkproto.OpError {
				o.violation(a.zxid, w, "multi: %v before the one that failed: %v", op.Op, r.Err)
			}
			continue
		case failed && i >= len(done):
			if r.Err != zkproto.CodeRuntimeInconsistency {
				o.violation(a.zxid, w, "multi: %v behind the one that failed: %v", op.Op, r.Err)
			}
			continue
		}
		if !o.outcome(w, a.zxid, op, r.Err, done[i]) || failed {
			continue
		}
		if r.Path != done[i].path {
			o.violation(a.zxid, w, "multi: create %s made %s; want %s", op.Path, r.Path, done[i].path)
		}
		if op.Op == zkproto.OpSetData {
			o.statIs(w, a.zxid, op.Path, r.Stat, done[i].stat)
		}
		o.count(true, op)
	}
	if failed {
		o.refused++
	}
}

// read compares a read with the tree, and arms its watch.
func (o *zxidOracle) read(w *wire, a *answered) {
	path := a.write.Path
	n := o.tree.nodes[path]
	switch a.op {
	case zkproto.OpSync, zkproto.OpSetWatches:
		if a.code != zkproto.CodeOK {
			o.violation(a.zxid, w, "%v: %v", a.op, a.code)
		}
		return
	case zkproto.OpGetEphemerals:
		want := o.tree.owned(w.session)
		if a.code != zkproto.CodeOK || !slices.Equal(sorted(a.names), want) {
			o.violation(a.zxid, w, "the session has %v, %v; want %v", a.names, a.code, want)
		}
		return
	}
	kind := watchData
	switch {
	case n == nil && a.code == zkproto.CodeNoNode:
		if a.op != zkproto.OpExists {
			return
		}
	case n == nil || a.code != zkproto.CodeOK:
		o.violation(a.zxid, w, "%v %s: %d (%v); in the reference it exists: %v", a.op, path, int32(a.code), a.code, n != nil)
		return
	case a.op == zkproto.OpGetChildren || a.op == zkproto.OpGetChildren2:
		kind = watchChildren
		want := make([]string, 0, len(n.children))
		for name := range n.children {
			want = append(want, name)
		}
		if !slices.Equal(sorted(a.names), sorted(want)) {
			o.violation(a.zxid, w, "children of %s: %v; want %v", path, sorted(a.names), sorted(want))
		}
	case a.op == zkproto.OpGetData && a.data != n.data:
		o.violation(a.zxid, w, "data of %s: %q; want %q", path, a.data, n.data)
	}
	if n != nil && a.op != zkproto.OpGetChildren {
		o.statIs(w, a.zxid, path, a.stat, o.tree.statOf(n))
	}
	if a.watch {
		o.arm(w, kind, path)
	}
}

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }

// statIs compares a whole Stat. The server's clock is unknown, but one transaction has one time.
func (o *zxidOracle) statIs(w *wire, zxid int64, path string, got, want zkproto.Stat) {
	for _, at := range [][2]int64{{got.Czxid, got.Ctime}, {got.Mzxid, got.Mtime}} {
		if known, ok := o.times[at[0]]; ok && known != at[1] {
			o.violation(zxid, w, "stat of %s: zxid 0x%x was at %d ms, and at %d ms", path, at[0], known, at[1])
		}
		o.times[at[0]] = at[1]
	}
	got.Ctime, got.Mtime = 0, 0
	if got != want {
		o.violation(zxid, w, "stat of %s: %+v; want %+v", path, got, want)
	}
}
