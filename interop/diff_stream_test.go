//go:build unix

package interop

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"holdfast/zkproto"
)

// A diffStep is what one client does at once.
type diffStep struct {
	kind     diffKind
	client   int
	requests []diffRequest // of diffRequests and diffEnd
}

type diffKind int

const (
	diffRequests  diffKind = iota // requests, pipelined
	diffReconnect                 // the connection breaks, the session goes on in a new one
	diffMove                      // the session goes on in a new connection while the old one is open
	diffEnd                       // the session is closed, the next one begun
)

type diffRequest struct {
	op      zkproto.Op
	message message
	ends    bool // the server closes the connection behind the answer
}

// forSide makes the zxid of a request that has one that of the server.
func (r diffRequest) forSide(s *diffSide) message {
	if m, ok := r.message.(*zkproto.SetWatchesRequest); ok {
		m := *m
		m.RelativeZxid += s.base
		return &m
	}
	return r.message
}

func (s diffStep) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "client%d %s", s.client, [...]string{"requests", "reconnects", "moves", "ends its session"}[s.kind])
	for _, r := range s.requests {
		fmt.Fprintf(&b, "\n  %v %#v", r.op, r.message)
	}
	return b.String()
}

// A diffStream makes up the steps. They follow from the seed alone.
type diffStream struct {
	rand *rand.Rand
	sent int    // requests in the steps so far
	root string // below which all happens; see next
}

func newDiffStream(seed uint64) *diffStream {
	return &diffStream{rand: rand.New(rand.NewPCG(seed, 0))}
}

func (d *diffStream) n(n int) int { return d.rand.IntN(n) }

func pick[T any](d *diffStream, of ...T) T { return of[d.n(len(of))] }

func (d *diffStream) next() diffStep {
	step := diffStep{client: d.n(diffClients)}
	// A new tree now and then: in an old one every second operation would meet a list of
	// sequential nodes that only grows.
	if root := fmt.Sprintf("/diff%d", d.sent/1000); root != d.root {
		d.root = root
		step.requests = []diffRequest{
			{op: zkproto.OpCreate, message: &zkproto.CreateRequest{Path: root, ACL: openACL}},
			{op: zkproto.OpCreate, message: &zkproto.CreateRequest{Path: root + "/a", ACL: openACL}},
		}
		d.sent += len(step.requests)
		return step
	}
	switch d.n(60) {
	case 0:
		step.kind = diffReconnect
		return step
	case 1:
		step.kind = diffMove
		return step
	case 2:
		step.kind = diffEnd
		step.requests = []diffRequest{{op: zkproto.OpCloseSession, message: noBody{}, ends: true}}
		d.sent++
		return step
	}
	for range 1 + d.n(12) {
		step.requests = append(step.requests, d.request())
	}
	d.sent += len(step.requests)
	return step
}

func (d *diffStream) request() diffRequest {
	switch n := d.n(100); {
	case n < 35:
		o := d.write()
		return diffRequest{op: o.Op, message: writeMessage(o)}
	case n < 70:
		op := pick(d, zkproto.OpExists, zkproto.OpGetData, zkproto.OpGetChildren, zkproto.OpGetChildren2)
		if d.n(100) == 0 {
			// Another name of the root. Without a watch: on Apache's it never fires.
			return diffRequest{op: op, message: &zkproto.ReadRequest{Path: ""}}
		}
		return diffRequest{op: op, message: &zkproto.ReadRequest{Path: d.path(), Watch: d.n(2) == 0}}
	case n < 80:
		var m zkproto.MultiRequest
		for range d.n(6) {
			o := d.write()
			if d.n(5) == 0 {
				o = zkproto.MultiOp{Op: zkproto.OpCheck, Path: d.path(), Version: d.version()}
			}
			m.Ops = append(m.Ops, o)
		}
		return diffRequest{op: zkproto.OpMulti, message: &m}
	case n < 90:
		return diffRequest{op: zkproto.OpRemoveWatches, message: &zkproto.RemoveWatchesRequest{Path: d.path(), Kind: int32(d.n(5))}}
	case n < 98:
		return diffRequest{op: zkproto.OpSetWatches, message: &zkproto.SetWatchesRequest{
			RelativeZxid: int64(d.n(d.sent + 1)), Data: d.paths(), Exist: d.paths(), Child: d.paths(),
		}}
	default:
		return diffRequest{op: zkproto.OpSync, message: &zkproto.SyncRequest{Path: d.path()}}
	}
}

// write is an operation that may also be part of a transaction.
func (d *diffStream) write() zkproto.MultiOp {
	o := zkproto.MultiOp{Path: d.path(), Version: d.version()}
	if d.n(100) == 0 {
		// Where Apache's server sends such a path back, it is not the same any more.
		o.Path = d.root + "/\U0001f512"
	}
	switch d.n(10) {
	case 0, 1, 2, 3:
		o.Op = pick(d, zkproto.OpCreate, zkproto.OpCreate2)
		o.Data, o.ACL, o.Flags = d.data(), d.acl(), d.flags()
	case 4:
		o = zkproto.MultiOp{Op: zkproto.OpCreateContainer, Data: d.data(), ACL: d.acl(), Flags: zkproto.FlagContainer}
	case 5, 6, 7:
		o.Op = zkproto.OpDelete
	default:
		o.Op, o.Data = zkproto.OpSetData, d.data()
	}
	if o.Flags == zkproto.FlagContainer {
		// A leaf: nothing is ever below it, so it is never reaped.
		o.Path = d.root + "/a/x/z"
	}
	return o
}

func writeMessage(o zkproto.MultiOp) message {
	switch o.Op {
	case zkproto.OpDelete:
		return &zkproto.DeleteRequest{Path: o.Path, Version: o.Version}
	case zkproto.OpSetData:
		return &zkproto.SetDataRequest{Path: o.Path, Data: o.Data, Version: o.Version}
	}
	return &zkproto.CreateRequest{Path: o.Path, Data: o.Data, ACL: o.ACL, Flags: o.Flags}
}

func (d *diffStream) path() string {
	switch d.n(40) {
	case 0:
		return pick(d, "b", "a", "/a\x00b", "x/y", "/zookeeper/none/x", "/", "/zookeeper", "/zookeeper/config")
	case 1:
		return d.root + pick(d, "/a/", "//", "/.", "/a/../b", "/\x01", "/ü", "/\u2028", "/\ufffd", "/a/x/")
	case 2, 3: // what sequential nodes are called
		return fmt.Sprintf("%s%010d", d.root+pick(d, "/a", "/a/x", "/b"), d.n(12))
	}
	return d.root + pick(d, "", "/a", "/b", "/a/x", "/a/y", "/a/x/z", "/b/x")
}

func (d *diffStream) paths() []string {
	paths := make([]string, d.n(3))
	for i := range paths {
		paths[i] = d.path()
	}
	return paths
}

func (d *diffStream) version() int32 { return pick[int32](d, -1, -1, -1, 0, 0, 1, 2, -2) }

func (d *diffStream) data() []byte { return pick(d, nil, []byte{}, []byte("abc"), []byte{0, 0xff}) }

func (d *diffStream) acl() []zkproto.ACL {
	switch d.n(25) {
	case 0:
		return nil
	case 1:
		return []zkproto.ACL{openACL[0], openACL[0]}
	case 2:
		return []zkproto.ACL{{Perms: zkproto.PermAll, Scheme: "bogus", ID: "x"}}
	}
	return openACL
}

func (d *diffStream) flags() int32 {
	if d.n(30) == 0 {
		return pick[int32](d, -1, zkproto.FlagContainer, 7, 100)
	}
	return int32(d.n(4))
}
