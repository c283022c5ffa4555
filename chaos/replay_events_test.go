package chaos_test

import "holdfast/zkproto"

// An expectation is an event that a connection must see before a reply of that zxid.
type expectation struct {
	zxid  int64
	event zkproto.WatcherEvent
}

type zxidWatch struct {
	kind watchOn
	path string
}

func (o *zxidOracle) arm(w *wire, kind watchOn, path string) {
	k := zxidWatch{kind, path}
	if o.watches[k] == nil {
		o.watches[k] = map[*wire]bool{}
	}
	o.watches[k][w] = true
}

// fire computes who must get the events of the current write: each connection once per event, and each
// one-shot watch for the last time.
func (o *zxidOracle) fire(zxid int64) {
	told := map[*wire]bool{}
	var before refEvent
	for _, f := range o.tree.fired {
		if f.event != before.event {
			clear(told)
		}
		before = f
		k := zxidWatch{f.kind, f.event.Path}
		for w := range o.watches[k] {
			if !told[w] {
				o.due[w] = append(o.due[w], expectation{zxid, f.event})
			}
			told[w] = true
		}
		delete(o.watches, k)
	}
	o.tree.fired = o.tree.fired[:0]
}

// resume takes over the watches of an earlier connection: missed events are due at once.
func (o *zxidOracle) resume(w *wire, a *answered) {
	tell := func(e zkproto.EventType, path string) {
		event := zkproto.WatcherEvent{Type: e, State: zkproto.StateSyncConnected, Path: path}
		o.due[w] = append(o.due[w], expectation{a.zxid, event})
	}
	for _, path := range a.watches.Data {
		switch n := o.tree.nodes[path]; {
		case n == nil:
			tell(zkproto.EventNodeDeleted, path)
		case n.stat.Mzxid > a.watches.RelativeZxid:
			tell(zkproto.EventNodeDataChanged, path)
		default:
			o.arm(w, watchData, path)
		}
	}
	for _, path := range a.watches.Exist {
		if o.tree.nodes[path] != nil {
			tell(zkproto.EventNodeCreated, path)
		} else {
			o.arm(w, watchData, path)
		}
	}
	for _, path := range a.watches.Child {
		switch n := o.tree.nodes[path]; {
		case n == nil:
			tell(zkproto.EventNodeDeleted, path)
		case n.stat.Pzxid > a.watches.RelativeZxid:
			tell(zkproto.EventNodeChildrenChanged, path)
		default:
			o.arm(w, watchChildren, path)
		}
	}
}

// eventsAre compares the events that a connection got since its last reply with the expected ones. If
// the connection was cut, it may have got fewer.
func (o *zxidOracle) eventsAre(w *wire, got []zkproto.WatcherEvent, zxid int64, cut bool) {
	due := o.due[w]
	delete(o.due, w)
	o.events += len(got)
	for i, e := range got {
		if i >= len(due) {
			o.violation(zxid, w, "%v of %s: nothing was watched, or nothing has happened yet", e.Type, e.Path)
			return
		}
		if e != due[i].event {
			o.violation(zxid, w, "%v of %s; want %v of %s, of zxid 0x%x, first", e.Type, e.Path, due[i].event.Type, due[i].event.Path, due[i].zxid)
			return
		}
	}
	if !cut && len(got) < len(due) {
		d := due[len(got)]
		o.violation(zxid, w, "%v of %s, of zxid 0x%x, has not come before", d.event.Type, d.event.Path, d.zxid)
	}
}

// forget ends the watches of a connection.
func (o *zxidOracle) forget(w *wire) {
	for k, wires := range o.watches {
		if delete(wires, w); len(wires) == 0 {
			delete(o.watches, k)
		}
	}
}
