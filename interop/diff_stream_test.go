//go:build unix

package interop

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"holdfast/zkproto"
)

// A diffStep is what one client does at one time.
type diffStep struct {
	kind      diffKind
	client    int
	handshake diffHandshake
	requests  []diffRequest // after the handshake, if there is one
}

type diffKind int

const (
	diffRequests  diffKind = iota // requests, pipelined
	diffReconnect                 // the connection breaks, and the session continues on a new one
	diffMove                      // the session moves to a new connection while the old one is open
	diffEnd                       // the session is closed, and the next one begins
	diffRefused                   // the connection breaks, a client is refused, and the session continues
	diffVisit                     // another client comes and goes
	diffExpire                    // the session expires, and the next one begins
)

type diffRequest struct {
	op      zkproto.Op
	message message
	ends    bool   // the server closes the connection after the answer
	xid     *int32 // nil: the client's own count
}

// xidOr returns the xid of the answer, given the client's count.
func (r diffRequest) xidOr(count int32) int32 {
	switch {
	case r.op == zkproto.OpPing:
		return zkproto.XidPing
	case r.xid != nil:
		return *r.xid
	}
	return count
}

// forSide converts the zxid of a request, if it has one, to the server's.
func (r diffRequest) forSide(s *diffSide) message {
	switch m := r.message.(type) {
	case *zkproto.SetWatchesRequest:
		m2 := *m
		m2.RelativeZxid += s.base
		return &m2
	case *zkproto.SetWatches2Request:
		m2 := *m
		m2.RelativeZxid += s.base
		return &m2
	}
	return r.message
}

// rawRecord is a record that may be invalid.
type rawRecord string

func (r rawRecord) Append(b []byte) []byte { return append(b, r...) }

func (s diffStep) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "client%d %s", s.client, [...]string{
		"requests", "reconnects", "moves", "ends its session", "is refused", "sees a visitor", "lets its session expire",
	}[s.kind])
	if s.kind != diffRequests {
		fmt.Fprintf(&b, " %+v", s.handshake)
	}
	for _, r := range s.requests {
		fmt.Fprintf(&b, "\n  %v %.3000s", r.op, fmt.Sprintf("%#v", r.message))
	}
	return b.String()
}

// A diffStream generates the steps, from the seed alone.
//
// One tree is readable by all clients, and one has arbitrary ACLs. In the latter, no client
// asks whether a node exists, nor what happened to it while it was away. Apache's server of
// this version reveals nodes to clients that may not read them (CVE-2024-23944; Debian has
// fixed the notifications), and ours does not.
type diffStream struct {
	rand   *rand.Rand
	sent   int    // requests in the steps so far
	expire int    // when the next session will expire
	root   string // contains everything; see next
	secret bool   // the current request is for the other tree
	client int    // the client of the current step
}

func newDiffStream(seed uint64) *diffStream {
	return &diffStream{rand: rand.New(rand.NewPCG(seed, 0)), expire: 5000}
}

func (d *diffStream) n(n int) int { return d.rand.IntN(n) }

func pick[T any](d *diffStream, of ...T) T { return of[d.n(len(of))] }

func (d *diffStream) next() diffStep {
	d.client = d.n(diffClients)
	step := diffStep{client: d.client}
	// New trees now and then: in old ones, every second operation would meet a list of
	// sequential nodes that only grows.
	if root := fmt.Sprintf("/diff%d", d.sent/1000); root != d.root {
		d.root = root
		for _, path := range []string{root, root + "/a", root + "/large", root + "secret", root + "secret/a"} {
			step.requests = append(step.requests, diffRequest{op: zkproto.OpCreate, message: &zkproto.CreateRequest{Path: path, ACL: openACL}})
		}
		d.sent += len(step.requests)
		return step
	}
	if d.sent > d.expire { // rare, since it takes seconds
		d.expire = d.sent + diffExpireEvery
		step.kind = diffExpire
		return step
	}
	switch d.n(70) {
	case 0, 1:
		step.kind, step.handshake = pick(d, diffReconnect, diffMove), d.handshake()
		if d.n(2) == 0 {
			step.requests = d.watchesAgain()
		}
	case 2:
		step.kind = diffEnd
		step.requests = []diffRequest{{op: zkproto.OpCloseSession, message: noBody{}, ends: true}}
	case 3:
		step.kind, step.handshake = diffRefused, d.refusedHandshake()
	case 4:
		step.kind, step.handshake = diffVisit, d.handshake()
		step.handshake.timeout = pick[int32](d, 0, 1, -5, -1<<31, 1999, 2000, 2001, 20_000, 20_001, 1<<31-1)
	case 5, 6, 7, 8, 9:
		step.requests = []diffRequest{d.lone()}
	default:
		for range 1 + d.n(12) {
			step.requests = append(step.requests, d.request())
		}
	}
	d.sent += len(step.requests)
	return step
}

// lone returns a request that Apache's server does not handle in order with those in flight. It
// authenticates at once, and checks writes by the ACLs from before those being set.
func (d *diffStream) lone() diffRequest {
	d.secret = d.n(2) == 0
	switch d.n(30) {
	case 0:
		return diffRequest{op: pick[zkproto.Op](d, 99, 0, 10, 23, 108, -12, 1<<30), message: noBody{}, ends: true}
	case 1:
		return diffRequest{
			op:      zkproto.OpAuth,
			message: &zkproto.AuthRequest{Scheme: pick(d, "bogus", "world", "auth", "", "Digest"), Auth: []byte("x")}, ends: true,
		}
	case 2:
		return diffRequest{op: zkproto.OpAuth, message: &zkproto.AuthRequest{Scheme: "digest"}, ends: true}
	case 3:
		return diffRequest{op: zkproto.OpAuth, message: &zkproto.AuthRequest{Scheme: "ip", Auth: []byte("10.0.0.1")}}
	case 4: // the flags and the record do not match
		o := d.write()
		if o.Op, o.Flags, o.TTL = zkproto.OpCreate2, pick(d, zkproto.FlagTTL, zkproto.FlagSequentialTTL), 1; d.n(2) == 0 {
			o.Op, o.Flags = zkproto.OpCreateTTL, d.flags()
		}
		if o.Flags == zkproto.FlagContainer {
			o.Path = d.leaf()
		}
		return diffRequest{op: zkproto.OpMulti, message: &zkproto.MultiRequest{Ops: []zkproto.MultiOp{d.write(), o, d.write()}}}
	case 5:
		return diffRequest{op: zkproto.OpReconfig, message: &zkproto.ReconfigRequest{Leaving: "1", Version: -1}}
	case 6:
		return diffRequest{op: d.anyOp(), message: rawRecord("\x00\x00\x00\x09/a/b"[:d.n(9)])}
	case 11, 12:
		return d.nonsense()
	case 13:
		return d.strangeMulti()
	case 15: // there are no users; neither server objects
		return diffRequest{op: zkproto.OpSASL, message: rawRecord(zkproto.AppendBytes(nil, pick(d, []byte{}, []byte("x"))))}
	case 14:
		if d.n(20) == 0 { // a frame that just fits, and one that does not
			fits := d.n(2) == 0
			data := make([]byte, zkproto.MaxFrame-200)
			if !fits {
				data = make([]byte, zkproto.MaxFrame)
			}
			return diffRequest{op: zkproto.OpSetData, message: &zkproto.SetDataRequest{Path: d.root + "/large", Data: data, Version: -1}, ends: !fits}
		}
		m := &zkproto.AuthRequest{Scheme: "digest", Auth: []byte(d.user())}
		return diffRequest{op: zkproto.OpAuth, message: m, xid: new(zkproto.XidAuth)}
	case 7, 8, 9, 10:
		return diffRequest{op: zkproto.OpAuth, message: &zkproto.AuthRequest{Scheme: "digest", Auth: []byte(d.user())}}
	}
	m := &zkproto.SetACLRequest{Path: d.path(), ACL: d.acl(), Version: d.version()}
	if m.Path == "/" || m.Path == "/zookeeper" {
		m.Path = d.tree() // otherwise nothing would be possible any more
	}
	return diffRequest{op: zkproto.OpSetACL, message: m}
}

func (d *diffStream) request() diffRequest {
	d.secret = d.n(4) == 0
	switch n := d.n(125); {
	case n < 35:
		o := d.write()
		return diffRequest{op: o.Op, message: writeMessage(o)}
	case n < 65:
		return d.read()
	case n < 75:
		var m zkproto.MultiRequest
		for range d.n(6) {
			o := d.write()
			if d.n(5) == 0 {
				o = zkproto.MultiOp{Op: zkproto.OpCheck, Path: d.path(), Version: d.version()}
			}
			if o.Op == zkproto.OpCreateContainer {
				// With a TTL's flag, Apache's server answers -5, and continues as if the
				// earlier operations of the transaction had been done: see lone.
				o.Flags, o.Path = zkproto.FlagContainer, d.leaf()
			}
			m.Ops = append(m.Ops, o)
		}
		return diffRequest{op: zkproto.OpMulti, message: &m}
	case n < 80:
		m := &zkproto.MultiReadRequest{}
		for range d.n(5) {
			m.Ops = append(m.Ops, zkproto.MultiReadOp{Op: pick(d, zkproto.OpGetData, zkproto.OpGetChildren), Path: d.path(), Watch: d.n(2) == 0})
		}
		return diffRequest{op: zkproto.OpMultiRead, message: m}
	case n < 95:
		return d.info()
	case n < 98:
		return d.ownWatch()
	case n < 100:
		return diffRequest{op: zkproto.OpPing, message: noBody{}, xid: new(pick(d, zkproto.XidPing, zkproto.XidPing, 1, 0))}
	case n < 102: // any number comes back
		r := d.read()
		r.xid = new(pick[int32](d, 0, -3, -100, 1<<31-1, -1<<31))
		return r
	}
	return d.watch()
}

func (d *diffStream) read() diffRequest {
	op := pick(d, zkproto.OpExists, zkproto.OpGetData, zkproto.OpGetChildren, zkproto.OpGetChildren2)
	m := &zkproto.ReadRequest{Path: d.path(), Watch: d.n(2) == 0}
	switch {
	case d.secret && op == zkproto.OpExists:
		op = pick(d, zkproto.OpGetData, zkproto.OpGetChildren)
		if m.Watch {
			m.Path = d.oneShotPath()
		}
	case d.n(100) == 0:
		// Another name of the root. It has no watch: on Apache's server it never fires.
		m.Path, m.Watch = "", false
	case m.Watch:
		m.Path = d.oneShotPath()
	}
	return diffRequest{op: op, message: m}
}

func (d *diffStream) info() diffRequest {
	switch d.n(6) {
	case 0:
		return diffRequest{op: zkproto.OpSync, message: &zkproto.SyncRequest{Path: d.path()}}
	case 1:
		return diffRequest{op: zkproto.OpWhoAmI, message: noBody{}}
	case 2:
		return diffRequest{op: zkproto.OpGetEphemerals, message: &zkproto.GetEphemeralsRequest{Prefix: pick(d, "", "/", " ", d.path())}}
	case 3:
		return diffRequest{op: zkproto.OpGetAllChildrenNumber, message: &zkproto.GetAllChildrenNumberRequest{Path: d.path()}}
	}
	return diffRequest{op: zkproto.OpGetACL, message: &zkproto.GetACLRequest{Path: d.path()}}
}

// watch returns requests about watches alone. One-shot, persistent and recursive watches are on
// different nodes: Apache's server of this version has only one of them per node and client,
// and the last one wins (ZOOKEEPER-4466).
func (d *diffStream) watch() diffRequest {
	persistent, recursive := d.tree()+pick(d, "/b", "/b/x"), d.tree()+pick(d, "", "/a/y")
	switch d.n(6) {
	case 0:
		return diffRequest{op: zkproto.OpAddWatch, message: &zkproto.AddWatchRequest{Path: persistent, Mode: zkproto.ModePersistent}}
	case 1:
		return diffRequest{op: zkproto.OpAddWatch, message: &zkproto.AddWatchRequest{Path: recursive, Mode: zkproto.ModePersistentRecursive}}
	case 2, 3:
		// Not OpCheckWatches: Apache's server of this version answers it by the watches of all
		// clients together.
		m := &zkproto.RemoveWatchesRequest{Path: d.oneShotPath(), Kind: pick[int32](d, 0, 1, 2, 3, 6)}
		if d.n(3) == 0 {
			m.Path, m.Kind = pick(d, persistent, recursive), zkproto.WatchAny
		}
		return diffRequest{op: zkproto.OpRemoveWatches, message: m}
	}
	return d.setWatches()
}

func (d *diffStream) setWatches() diffRequest {
	d.secret = false
	persistent, recursive := d.tree()+pick(d, "/b", "/b/x"), d.tree()+pick(d, "", "/a/y")
	m := zkproto.SetWatches2Request{SetWatchesRequest: zkproto.SetWatchesRequest{
		RelativeZxid: int64(d.n(d.sent + 1)), Data: d.oneShotPaths(), Exist: d.oneShotPaths(), Child: d.oneShotPaths(),
	}}
	if d.n(2) == 0 {
		return diffRequest{op: zkproto.OpSetWatches, message: &m.SetWatchesRequest}
	}
	m.Persistent, m.PersistentRecursive = []string{persistent}, []string{recursive}
	return diffRequest{op: zkproto.OpSetWatches2, message: &m}
}

// write returns an operation that may also be part of a transaction.
func (d *diffStream) write() zkproto.MultiOp {
	o := zkproto.MultiOp{Path: d.path(), Version: d.version()}
	if d.n(100) == 0 {
		// Apache's server changes such a path when it sends it back.
		o.Path = d.tree() + "/\U0001f512"
	}
	switch d.n(11) {
	case 0, 1, 2, 3:
		o.Op = pick(d, zkproto.OpCreate, zkproto.OpCreate2)
		o.Data, o.ACL, o.Flags = d.data(), d.acl(), d.flags()
	case 4:
		o.Op, o.Data, o.ACL, o.Flags = zkproto.OpCreateContainer, d.data(), d.acl(), zkproto.FlagContainer
		if d.n(10) == 0 {
			o.Flags = pick[int32](d, 5, 6, 7, -1)
		}
	case 5:
		o.Op, o.Data, o.ACL, o.Flags = zkproto.OpCreateTTL, d.data(), d.acl(), pick(d, zkproto.FlagTTL, zkproto.FlagSequentialTTL)
		o.TTL = pick[int64](d, zkproto.MaxTTL, 1_000_000_000, 1_000_000_000, 0, -1, zkproto.MaxTTL+1)
	case 6, 7, 8:
		o.Op = zkproto.OpDelete
	default:
		o.Op, o.Data = zkproto.OpSetData, d.data()
	}
	if o.Flags == zkproto.FlagContainer {
		o.Path = d.leaf()
	}
	return o
}

func writeMessage(o zkproto.MultiOp) message {
	switch o.Op {
	case zkproto.OpDelete:
		return &zkproto.DeleteRequest{Path: o.Path, Version: o.Version}
	case zkproto.OpSetData:
		return &zkproto.SetDataRequest{Path: o.Path, Data: o.Data, Version: o.Version}
	case zkproto.OpCreateTTL:
		return &zkproto.CreateTTLRequest{Path: o.Path, Data: o.Data, ACL: o.ACL, Flags: o.Flags, TTL: o.TTL}
	}
	return &zkproto.CreateRequest{Path: o.Path, Data: o.Data, ACL: o.ACL, Flags: o.Flags}
}
