//go:build unix

package interop

import (
	"holdfast/zkproto"
)

// Requests that no well-meaning client sends.

func (d *diffStream) anyOp() zkproto.Op {
	return pick(d, zkproto.OpCreate, zkproto.OpDelete, zkproto.OpExists, zkproto.OpGetData, zkproto.OpSetData, zkproto.OpGetACL,
		zkproto.OpSetACL, zkproto.OpGetChildren, zkproto.OpSync, zkproto.OpGetChildren2, zkproto.OpMulti, zkproto.OpCreate2,
		zkproto.OpReconfig, zkproto.OpCheckWatches, zkproto.OpRemoveWatches, zkproto.OpCreateContainer, zkproto.OpCreateTTL,
		zkproto.OpMultiRead, zkproto.OpSetWatches, zkproto.OpGetEphemerals, zkproto.OpGetAllChildrenNumber,
		zkproto.OpSetWatches2, zkproto.OpAddWatch)
}

// nonsense returns a record with impossible lengths.
func (d *diffStream) nonsense() diffRequest {
	length := pick(d, "\xff\xff\xff\xfe", "\x80\x00\x00\x00", "\x7f\xff\xff\xff", "\x00\x10\x00\x00", "\x00\x00\x00\x7f")
	path := string(zkproto.AppendString(nil, d.tree()+"/a"))
	zeros := "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	switch d.n(4) {
	case 0: // the path's length
		return diffRequest{op: d.anyOp(), message: rawRecord(length + zeros)}
	case 1: // the data's length
		return diffRequest{op: pick(d, zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpSetData, zkproto.OpCreateTTL), message: rawRecord(path + length + zeros)}
	case 2: // the number of ACLs or watches; see knownDifferences for one below -1
		length = pick(d, "\x7f\xff\xff\xff", "\x00\x00\x00\x7f")
		op := pick(d, zkproto.OpCreate, zkproto.OpSetACL, zkproto.OpSetWatches, zkproto.OpSetWatches2)
		switch op {
		case zkproto.OpCreate:
			path += zeros[:4]
			length = pick(d, length, "\xff\xff\xff\xff") // null is equivalent to empty
		case zkproto.OpSetWatches, zkproto.OpSetWatches2:
			path = zeros[:8]
		}
		return diffRequest{op: op, message: rawRecord(path + length + zeros)}
	}
	// Extra bytes, which both servers ignore.
	o := d.write()
	return diffRequest{op: o.Op, message: rawRecord(string(writeMessage(o).Append(nil)) + zeros)}
}

// strangeMulti returns a transaction with parts that do not belong in one.
func (d *diffStream) strangeMulti() diffRequest {
	op := zkproto.OpMulti
	var b []byte
	header := func(op zkproto.Op, done bool) {
		b = zkproto.AppendInt32(zkproto.AppendBool(zkproto.AppendInt32(b, int32(op)), done), -1)
	}
	write := func() {
		o := d.write()
		if o.Flags == zkproto.FlagTTL || o.Flags == zkproto.FlagSequentialTTL {
			o.Flags = 0
		}
		header(o.Op, false)
		b = writeMessage(o).Append(b)
	}
	read := func(op zkproto.Op) {
		header(op, false)
		b = (&zkproto.ReadRequest{Path: d.path()}).Append(b)
	}
	switch d.n(4) {
	case 0:
		write()
		header(pick[zkproto.Op](d, 3, 6, 7, 9, 12, 14, 16, 20, 99, -1, 0), false)
		b = append(b, "\x00\x00\x00\x02/a\x00\x00\x00\x00"...)
	case 1: // reads and writes
		write()
		read(pick(d, zkproto.OpGetData, zkproto.OpGetChildren))
	case 2:
		op = zkproto.OpMultiRead
		read(pick(d, zkproto.OpGetData, zkproto.OpGetChildren))
		write()
	case 3: // the end is missing
		write()
		return diffRequest{op: op, message: rawRecord(b)}
	}
	header(-1, true)
	return diffRequest{op: op, message: rawRecord(b)}
}

// watchesAgain returns a client's watches after a reconnect, in several requests if they are many.
func (d *diffStream) watchesAgain() []diffRequest {
	var requests []diffRequest
	for range 1 + d.n(4) {
		r := d.setWatches()
		if d.n(2) == 0 {
			r.xid = new(zkproto.XidSetWatches)
		}
		requests = append(requests, r)
	}
	return requests
}

// ownWatch returns a request about a node that only this client watches. Apache's server
// answers checkWatches by the watches of all clients together, so only there it agrees with
// ours.
func (d *diffStream) ownWatch() diffRequest {
	d.secret = false
	path := d.root + "/own" + string(rune('0'+d.client))
	switch d.n(6) {
	case 0:
		return diffRequest{op: zkproto.OpCreate, message: &zkproto.CreateRequest{Path: path, ACL: openACL}}
	case 1:
		return diffRequest{op: zkproto.OpSetData, message: &zkproto.SetDataRequest{Path: path, Version: -1}}
	case 2:
		return diffRequest{
			op:      pick(d, zkproto.OpExists, zkproto.OpGetData, zkproto.OpGetChildren2),
			message: &zkproto.ReadRequest{Path: path, Watch: true},
		}
	}
	return diffRequest{
		op:      pick(d, zkproto.OpCheckWatches, zkproto.OpCheckWatches, zkproto.OpRemoveWatches),
		message: &zkproto.RemoveWatchesRequest{Path: path, Kind: pick[int32](d, 0, 1, 2, 3, 6)},
	}
}
