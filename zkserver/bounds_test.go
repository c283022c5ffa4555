package zkserver

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/login"
	"holdfast/zkserver/internal/sched"
	"holdfast/zkserver/internal/tree"
)

var operationsFlag = flag.Int("operations", fewOperations, "operations of TestNoOperationIsUnbounded")

// longestOperation bounds the time that one operation takes the owner, including the encoding of its
// changes for the store.
const longestOperation = 5 * time.Millisecond

// Each notification takes extra time. mostAtOnce bounds those of a request or a portion, and mostNotifications those
// of a write until it drops the other watchers, see tree.TakeOverrun.
const (
	longestNotification = 2 * time.Microsecond
	mostAtOnce          = 7000
	mostNotifications   = 140_000
)

// An extreme is an operation with the largest permitted arguments.
type extreme struct {
	name    string
	large   bool                         // it is chosen rarely, so that the others have their turn
	refused zkproto.Code                 // its answer, if not CodeOK
	prepare func()                       // makes the tree as costly as possible; nil if it already is
	request func() (zkproto.Op, message) // nil for an operation without a request:
	run     func()
}

// A worstCase is a tree that makes operations as costly as possible. Everything in it runs in
// the owner's goroutine.
type worstCase struct {
	events int // of the last operation at a time at most
	*Server
	t         *testing.T
	rand      *rand.Rand
	nc        net.Conn
	next      tree.Watcher
	conn      *conn    // the client's connection
	others    []*conn  // all connections
	told      []*conn  // watch /told
	hidden    []*conn  // watch /hidden, and have 64 identities each
	recursive []*conn  // see watchDeep
	deep      []string // a deep path and its ancestors
}

// connect makes a session and a connection with these identities.
func (w *worstCase) connect(ids []tree.Identity) *conn {
	w.next++
	c := newConn(w.Server, 1<<40+w.next, w.nc)
	c.owned.identities, c.owned.admitted, c.owned.inBatch = ids, true, true
	c.owned.session = w.newSession(time.Hour, nil)
	c.owned.session.conn = c
	w.owner.watchers[c.id] = c
	w.owner.tree.Identify(c.id, ids)
	w.others = append(w.others, c)
	return c
}

// do applies one request, or run, and encodes the changes. It returns the work without the bytes of
// request and answer, and the time.
func (w *worstCase) do(e *extreme, again bool) (work int, took time.Duration) {
	if e.prepare != nil {
		e.prepare()
	}
	w.watchDeep()
	w.settle()
	if again {
		runtime.GC() // so that it does not run now for the test's garbage
	}
	o := &w.owner
	told := o.notifications
	var requests []*request
	if e.request != nil {
		op, m := e.request()
		frame := (&zkproto.RequestHeader{Xid: 1, Op: op}).Append(nil)
		if m != nil {
			frame = m.Append(frame)
		}
		if len(frame) > zkproto.MaxFrame {
			w.t.Errorf("%s: a request of %d bytes", e.name, len(frame))
		}
		r := &request{kind: kindOperation, conn: w.conn, frame: frame}
		if err := r.decode(); err != nil {
			w.t.Error(err)
		}
		requests = r.portions()
	}
	c := w.conn
	w.events = 0
	once := func(f func()) (written int) {
		o.work = 0
		told := o.notifications
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var b batch
		began := threadTime()
		f()
		bound := o.tree.Unsaved() + 32
		w.seal(&b)
		took, work = max(took, threadTime()-began), max(work, o.work)
		if w.events = max(w.events, int(o.notifications-told)); w.events > mostAtOnce {
			w.t.Errorf("%s: %d notifications at a time", e.name, w.events)
		}
		if written = b.changes.Len(); written > bound || bound > maxWrite {
			w.t.Errorf("%s: %d bytes for the store; the bound was %d", e.name, written, bound)
		}
		return written
	}
	if e.run != nil {
		o.tree.TakeSteps()
		once(e.run)
		work += o.tree.TakeSteps()
	}
	for _, r := range requests {
		frame, undecoded := len(r.frame), r.undecoded
		size, _ := w.large(r)
		if written := once(func() { w.handle(r) }); written > requestWork+frame+o.work || written > size && !undecoded {
			w.t.Errorf("%s: %d bytes for the store; work %d was counted, and %d before", e.name, written, requestWork+frame+o.work, size)
		}
	}
	for len(o.portions) > 0 {
		next := o.portions[0]
		o.portions = o.portions[1:]
		once(next)
	}
	if n := int(o.notifications - told); n > mostNotifications {
		w.t.Errorf("%s: %d notifications", e.name, n)
	}
	code, answered := zkproto.Code(0), false
	for staged := c.owned.staged; len(staged) >= 20; {
		in := zkproto.NewReader(staged)
		frame := in.Bytes()
		var h zkproto.ReplyHeader
		h.Decode(zkproto.NewReader(frame))
		if staged = staged[4+len(frame):]; h.Xid == 1 || h.Xid == zkproto.XidPing {
			code, answered = h.Err, true
		}
	}
	if e.run == nil && (code != e.refused || !answered) {
		w.t.Errorf("%s: answer %v (there is one: %v); want %v", e.name, code, answered, e.refused)
	}
	if c.owned.session == nil {
		w.client()
	}
	w.settle()
	return work, took
}

// settle discards the answers, notifications and changes so far.
func (w *worstCase) settle() {
	w.owner.tree.TakeChanges(func(string, tree.Part, []byte) {})
	for _, c := range w.others {
		if c.owned.staged != nil {
			w.owner.batch.bytes -= c.owned.weighed
			c.owned.staged, c.owned.weighed, c.owned.answers = nil, 0, 0
		}
	}
	w.owner.batch.arrivals = nil
}

// make creates a node without a request.
func (w *worstCase) make(by *conn, path string, acl []zkproto.ACL, flags int32, data string) {
	tx := w.nextTxn(by.owned.session.id)
	tx.As = by.owned.identities
	if _, _, code := w.owner.tree.Create(tx, &zkproto.MultiOp{Op: zkproto.OpCreate, Path: path, ACL: acl, Flags: flags, Data: []byte(data)}); code != zkproto.CodeOK {
		w.t.Errorf("create %.60s: %v", path, code)
	}
	w.owner.tree.TakeEvents()
}

// longACL returns an ACL of 64 entries and nearly 8 KiB. Only the last entry permits anything: it lets
// a client with these identities read.
func longACL(n int, ids []tree.Identity) []zkproto.ACL {
	acl := entries(64, "digest", func(i int) string { return fmt.Sprintf("%0100d:%d", i, n) })
	last := ids[len(ids)-1]
	acl[63] = zkproto.ACL{Perms: zkproto.PermAll, Scheme: last.Scheme, ID: last.ID}
	return acl
}

// identitiesNumber returns 64 identities, 63 of them as long as permitted.
func identitiesNumber(n int) []tree.Identity {
	ids := make([]tree.Identity, login.MaxIdentities)
	for i := range ids {
		ids[i] = tree.Identity{Scheme: "digest", ID: fmt.Sprintf("%0*d:me", login.MaxIdentityBytes-len("digest:me"), n*login.MaxIdentities+i)}
	}
	ids[63].ID = fmt.Sprintf("%0100d:me", n)
	return ids
}

const (
	wideNodes = 70_000 // nodes whose names have nearly a mebibyte
	manyTold  = 10_000 // watchers of one node
	longACLs  = 200    // nodes with an ACL of the largest size, all different
	heavies   = 50     // nodes of a megabyte with such an ACL
	crowd     = 100_000
	manyOwned = 50_000 // nodes of one session
	strangers = 1000   // watchers with 64 identities each
)

func heavy(i int) string { return fmt.Sprintf("/heavy%d", i%heavies) }

func (w *worstCase) setUp() {
	w.conn = w.connect(identitiesNumber(0))
	for _, path := range []string{"/acl", "/wide", "/made", "/e", "/told", "/watched", "/held"} {
		w.make(w.conn, path, openACL, 0, "")
	}
	for i := range longACLs {
		w.make(w.conn, fmt.Sprintf("/acl/%d", i), longACL(i, w.conn.owned.identities), 0, "")
	}
	for i := range wideNodes {
		w.make(w.conn, fmt.Sprintf("/wide/%010d", i), openACL, 0, "")
	}
	for i := range heavies {
		w.make(w.conn, heavy(i), append(longACL(i, w.conn.owned.identities)[1:], openACL...), 0, strings.Repeat("x", 1_000_000))
	}
	w.make(w.conn, "/crowd", openACL, 0, "")
	for i := range crowd {
		w.make(w.conn, fmt.Sprintf("/crowd/%d", i), openACL, 0, "")
	}
	// A path as deep as permitted, with quotas and recursive watches on all levels.
	quota := func(path string) string { return "/zookeeper/quota" + path }
	for path := "/d"; len(path) <= w.limits().PathBytes-2; path += "/d" {
		w.deep = append(w.deep, path)
		w.make(w.conn, path, openACL, 0, "")
	}
	slices.Reverse(w.deep)
	text := "count=9000000,bytes=9000000=;byteHardLimit=9000000;countHardLimit=9000000"
	for i := 0; len(text) < 1000; i++ {
		text += fmt.Sprintf(";x%d=%d", i, i)
	}
	for _, path := range slices.Backward(w.deep) {
		w.make(w.conn, quota(path), openACL, 0, "")
		w.make(w.conn, quota(path)+"/zookeeper_limits", openACL, 0, text)
		w.make(w.conn, quota(path)+"/zookeeper_stats", openACL, 0, "")
	}
	w.watchDeep()
	w.watch(&w.told, "/told", manyTold, func(int) []tree.Identity { return nil })
	// The strangers may not read the node, and the check takes as long as possible.
	w.make(w.conn, "/hidden", longACL(0, w.conn.owned.identities), 0, "")
}

// watch makes n connections that watch path. They replace those of cs that have ended.
func (w *worstCase) watch(cs *[]*conn, path string, n int, ids func(i int) []tree.Identity) {
	*cs = slices.DeleteFunc(*cs, func(c *conn) bool { return c.owned.session == nil })
	for _, sess := range w.owner.sessions {
		if sess.conn == nil {
			w.endSession(sess, func() {}) // the session of a dropped connection
		}
	}
	for i := len(*cs); i < n; i++ {
		c := w.connect(ids(i))
		w.owner.tree.AddWatch(c.id, path, zkproto.ModePersistent)
		*cs = append(*cs, c)
	}
}

// watchDeep makes a connection with recursive watches on all levels of the deepest path.
func (w *worstCase) watchDeep() {
	before := slices.Clone(w.recursive)
	w.watch(&w.recursive, "/", 1, func(i int) []tree.Identity { return identitiesNumber(1) })
	for _, c := range w.recursive {
		if slices.Contains(before, c) {
			continue
		}
		for _, path := range w.deep {
			w.owner.tree.AddWatch(c.id, path, zkproto.ModePersistentRecursive)
		}
	}
}

func (w *worstCase) watchHidden() {
	w.watch(&w.hidden, "/hidden", strangers, func(i int) []tree.Identity { return identitiesNumber(2 + i) })
}

// client replaces the client, for operations that end its connection.
func (w *worstCase) client() *conn {
	if sess := w.conn.owned.session; sess != nil {
		w.endSession(sess, func() {})
	}
	w.settle()
	w.others = slices.DeleteFunc(w.others, func(c *conn) bool { return c.owned.session == nil })
	w.conn = w.connect(identitiesNumber(0))
	return w.conn
}

// multi returns a transaction of n operations.
func multi(n int, op func(i int) zkproto.MultiOp) func() (zkproto.Op, message) {
	return func() (zkproto.Op, message) {
		ops := make([]zkproto.MultiOp, n)
		for i := range ops {
			ops[i] = op(i)
			if ops[i].Version = -1; ops[i].Op == zkproto.OpCreate && ops[i].ACL == nil {
				ops[i].ACL = openACL
			}
		}
		return zkproto.OpMulti, &zkproto.MultiRequest{Ops: ops}
	}
}

func (w *worstCase) extremes() []*extreme {
	t := w.owner.tree
	deepest := w.deep[0]
	fixed := func(op zkproto.Op, m message) func() (zkproto.Op, message) {
		return func() (zkproto.Op, message) { return op, m }
	}
	read := func(path string, watch bool) message { return &zkproto.ReadRequest{Path: path, Watch: watch} }
	someACL := func() string { return fmt.Sprintf("/acl/%d", w.rand.IntN(longACLs)) }
	reading := func(op zkproto.Op) func() (zkproto.Op, message) {
		return func() (zkproto.Op, message) { return op, &zkproto.ReadRequest{Path: someACL(), Watch: true} }
	}
	remove := func(paths ...string) {
		for _, path := range paths {
			tx := w.nextTxn(0)
			tx.As = []tree.Identity{{Scheme: tree.Super}}
			t.Delete(tx, path, -1)
		}
		t.TakeEvents()
	}
	made := func(there bool) func() { // 10,000 nodes below /made
		return func() {
			kids, _, _ := t.Children("/made")
			for _, name := range kids {
				remove("/made/" + name)
			}
			for i := 0; there && i < w.limits().MultiOps; i++ {
				w.make(w.conn, fmt.Sprintf("/made/%d", i), openACL, 0, "")
			}
		}
	}
	op := func(op zkproto.Op, format string) func(i int) zkproto.MultiOp {
		return func(i int) zkproto.MultiOp { return zkproto.MultiOp{Op: op, Path: fmt.Sprintf(format, i)} }
	}
	// Ephemeral nodes, as many or as deep as one transaction can remove.
	flat := func(c *conn) {
		for i := range 3000 {
			w.make(c, fmt.Sprintf("/e/%x-%d", c.id, i), openACL, zkproto.FlagEphemeral, "")
		}
	}
	sunk := func(c *conn) {
		for i := range min(1<<20/(len(w.deep[1])+30)-1, 1<<16/len(w.deep)) {
			w.make(c, fmt.Sprintf("%s/%x-%d", w.deep[1], c.id, i), openACL, zkproto.FlagEphemeral, "")
		}
	}
	var victim *conn
	ending := func(name string, nodes func(c *conn)) []*extreme {
		return []*extreme{
			{name: "closeSession: " + name, large: true, prepare: func() { nodes(w.client()) }, request: fixed(zkproto.OpCloseSession, nil)},
			{name: "expiry: " + name, large: true,
				prepare: func() {
					victim = w.connect(nil)
					nodes(victim)
				},
				run: func() { w.endSession(victim.owned.session, func() {}) }},
			{name: "getEphemerals: " + name, large: true, prepare: func() { nodes(w.client()) }, request: fixed(zkproto.OpGetEphemerals, read("/", false))},
		}
	}
	watches := func() *zkproto.SetWatches2Request {
		m := &zkproto.SetWatches2Request{SetWatchesRequest: zkproto.SetWatchesRequest{RelativeZxid: 1 << 40}}
		for i := range 15_000 {
			m.Data = append(m.Data, fmt.Sprintf("/wide/%010d", i))
			m.Exist = append(m.Exist, fmt.Sprintf("/gone/%d", i))
			m.PersistentRecursive = append(m.PersistentRecursive, fmt.Sprintf("/wide/%010d", i))
		}
		return m
	}
	again := func() {
		t.DropWatcher(w.conn.id)
		for range 200 {
			t.Sweep()
		}
		t.Identify(w.conn.id, w.conn.owned.identities)
	}
	grow := func(op zkproto.Op, m func(path string) message) func() (zkproto.Op, message) {
		return func() (zkproto.Op, message) { return op, m(w.deep[1] + "/x") }
	}
	gone := func() { remove(w.deep[1] + "/x") }
	there := func() { gone(); w.make(w.conn, w.deep[1]+"/x", openACL, 0, "") }
	long := longACL(-1, w.conn.owned.identities)
	owning := func() { // with many nodes, in a crowd and below heavy nodes
		victim = w.connect(nil)
		for i := range manyOwned {
			path := fmt.Sprintf("/crowd/%x-%d", victim.id, i)
			if i%2 == 1 {
				path = fmt.Sprintf("%s/%x-%d", heavy(i), victim.id, i)
			}
			w.make(victim, path, openACL, zkproto.FlagEphemeral, "")
		}
	}
	owned := func() { owning(); w.client(); w.conn, victim = victim, w.conn }
	atHeavy := func() { remove(heavy(0) + "/x") }
	es := []*extreme{
		// Heavy nodes, and nodes with many children.
		{name: "create below a heavy node", prepare: atHeavy, request: fixed(zkproto.OpCreate, &zkproto.CreateRequest{Path: heavy(0) + "/x", ACL: openACL})},
		{name: "delete below a heavy node", prepare: func() { atHeavy(); w.make(w.conn, heavy(0)+"/x", openACL, 0, "") },
			request: fixed(zkproto.OpDelete, &zkproto.DeleteRequest{Path: heavy(0) + "/x", Version: -1})},
		{name: "setACL of a heavy node", request: func() (zkproto.Op, message) {
			return zkproto.OpSetACL, &zkproto.SetACLRequest{Path: heavy(w.rand.IntN(heavies)), ACL: append(longACL(-1, w.conn.owned.identities)[1:], openACL...), Version: -1}
		}},
		{name: "create in a crowd", prepare: func() { remove("/crowd/x") }, request: fixed(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/crowd/x", ACL: openACL})},
		{name: "delete in a crowd", prepare: func() { remove("/crowd/x"); w.make(w.conn, "/crowd/x", openACL, 0, "") },
			request: fixed(zkproto.OpDelete, &zkproto.DeleteRequest{Path: "/crowd/x", Version: -1})},
		{name: "setData of a node with a crowd", request: fixed(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/crowd", Data: []byte("x"), Version: -1})},
		{name: "multi, 1,550 creates below heavy nodes", large: true,
			prepare: func() {
				for i := range 1550 {
					remove(fmt.Sprintf("%s/m%d", heavy(i), i))
				}
			},
			request: multi(1550, func(i int) zkproto.MultiOp {
				return zkproto.MultiOp{Op: zkproto.OpCreate, Path: fmt.Sprintf("%s/m%d", heavy(i), i)}
			})},
		{name: "multi, 240 creates with long paths", large: true,
			prepare: func() {
				for i := range 240 {
					remove(fmt.Sprintf("/made/%04000d", i))
				}
			},
			request: multi(240, func(i int) zkproto.MultiOp {
				return zkproto.MultiOp{Op: zkproto.OpCreate, Path: fmt.Sprintf("/made/%04000d", i)}
			})},
		{name: "expiry: 50,000 nodes", large: true, prepare: owning, run: func() { w.endSession(victim.owned.session, func() {}) }},
		{name: "closeSession: 50,000 nodes", large: true, prepare: owned, request: fixed(zkproto.OpCloseSession, nil)},

		// One node.
		{name: "create", prepare: gone, request: grow(zkproto.OpCreate, func(p string) message { return &zkproto.CreateRequest{Path: p, ACL: long} })},
		{name: "create2", prepare: gone, request: grow(zkproto.OpCreate2, func(p string) message { return &zkproto.CreateRequest{Path: p, ACL: long} })},
		{name: "createContainer", prepare: gone, request: grow(zkproto.OpCreateContainer, func(p string) message {
			return &zkproto.CreateRequest{Path: p, ACL: openACL, Flags: zkproto.FlagContainer}
		})},
		{name: "createTTL", prepare: gone, request: grow(zkproto.OpCreateTTL, func(p string) message {
			return &zkproto.CreateTTLRequest{Path: p, ACL: openACL, Flags: zkproto.FlagTTL, TTL: 1}
		})},
		{name: "create, with auth for all identities", prepare: gone, refused: zkproto.CodeInvalidACL, request: grow(zkproto.OpCreate, func(p string) message {
			return &zkproto.CreateRequest{Path: p, ACL: entries(1, "auth", func(int) string { return "" })}
		})},
		{name: "create, with an ACL of a megabyte", refused: zkproto.CodeInvalidACL, request: grow(zkproto.OpCreate, func(p string) message {
			return &zkproto.CreateRequest{Path: p, ACL: make([]zkproto.ACL, 80_000)}
		})},
		{name: "delete", prepare: there, request: grow(zkproto.OpDelete, func(p string) message { return &zkproto.DeleteRequest{Path: p, Version: -1} })},
		{name: "setData", request: func() (zkproto.Op, message) {
			return zkproto.OpSetData, &zkproto.SetDataRequest{Path: deepest, Data: make([]byte, w.rand.IntN(1000)), Version: -1}
		}},
		{name: "setData, a megabyte", large: true, request: fixed(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/held", Data: make([]byte, 1_000_000), Version: -1})},
		{name: fmt.Sprintf("setData, %d watchers", manyTold), large: true, request: fixed(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/told", Version: -1})},
		{name: fmt.Sprintf("setData, %d watchers with 64 identities", strangers), large: true, prepare: w.watchHidden, request: fixed(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/hidden", Version: -1})},
		{name: "setData of a quota", request: fixed(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/zookeeper/quota" + w.deep[30] + "/zookeeper_limits", Data: []byte("count=1000000,bytes=1000000"), Version: -1})},
		{name: "setACL", request: func() (zkproto.Op, message) {
			return zkproto.OpSetACL, &zkproto.SetACLRequest{Path: someACL(), ACL: long, Version: -1}
		}},
		{name: "reconfig", refused: zkproto.CodeReconfigDisabled, request: fixed(zkproto.OpReconfig, &zkproto.ReconfigRequest{Joining: strings.Repeat("x", 1_000_000)})},

		// Reads.
		{name: "exists", request: reading(zkproto.OpExists)},
		{name: "getData", request: reading(zkproto.OpGetData)},
		{name: "getData, a megabyte", large: true, request: fixed(zkproto.OpGetData, read("/held", false))},
		{name: "getChildren", request: reading(zkproto.OpGetChildren)},
		{name: "getChildren2", request: reading(zkproto.OpGetChildren2)},
		{name: "getChildren, a mebibyte", large: true, request: fixed(zkproto.OpGetChildren, read("/wide", false))},
		{name: "getACL", request: reading(zkproto.OpGetACL)},
		{name: "getAllChildrenNumber", request: fixed(zkproto.OpGetAllChildrenNumber, read("/", false))},
		{name: "whoAmI", request: fixed(zkproto.OpWhoAmI, nil)},
		{name: "multiRead, 10,000 ACLs", large: true, refused: zkproto.CodeMarshallingError, request: func() (zkproto.Op, message) {
			m := new(zkproto.MultiReadRequest)
			for range w.limits().MultiOps {
				m.Ops = append(m.Ops, zkproto.MultiReadOp{Op: zkproto.OpGetData, Path: someACL()})
			}
			return zkproto.OpMultiRead, m
		}},
		{name: "multiRead, two megabytes", large: true, request: fixed(zkproto.OpMultiRead, &zkproto.MultiReadRequest{Ops: []zkproto.MultiReadOp{
			{Op: zkproto.OpGetData, Path: "/held"}, {Op: zkproto.OpGetChildren, Path: "/wide"}}})},
		{name: "multiRead, too long", large: true, refused: zkproto.CodeMarshallingError, request: fixed(zkproto.OpMultiRead, &zkproto.MultiReadRequest{Ops: slices.Repeat(
			[]zkproto.MultiReadOp{{Op: zkproto.OpGetChildren, Path: "/wide"}}, 10_000)})},

		// Watches.
		{name: "addWatch", request: fixed(zkproto.OpAddWatch, &zkproto.AddWatchRequest{Path: deepest, Mode: zkproto.ModePersistentRecursive})},
		{name: "checkWatches", refused: zkproto.CodeNoWatcher, request: fixed(zkproto.OpCheckWatches, &zkproto.RemoveWatchesRequest{Path: w.deep[5], Kind: zkproto.WatchAny})},
		{name: "removeWatches", refused: zkproto.CodeNoWatcher, request: fixed(zkproto.OpRemoveWatches, &zkproto.RemoveWatchesRequest{Path: w.deep[5], Kind: zkproto.WatchAny})},
		{name: "setWatches", large: true, prepare: again, request: func() (zkproto.Op, message) { return zkproto.OpSetWatches, &watches().SetWatchesRequest }},
		{name: "setWatches2", large: true, prepare: again, request: func() (zkproto.Op, message) { return zkproto.OpSetWatches2, watches() }},
		{name: "setWatches of what has changed", large: true, request: func() (zkproto.Op, message) {
			m := new(zkproto.SetWatches2Request)
			for range 50_000 {
				m.Data = append(m.Data, someACL())
			}
			return zkproto.OpSetWatches2, m
		}},
		{name: "disconnect with 100,000 watches", large: true,
			prepare: func() {
				victim = w.connect(nil)
				for i := range 50_000 {
					t.WatchData(victim.id, fmt.Sprintf("/wide/%010d", i))
					t.WatchChildren(victim.id, fmt.Sprintf("/wide/%010d", i))
				}
			},
			run: func() { w.detach(victim) }},

		// The session.
		{name: fmt.Sprintf("look at %d sessions", manyTold+strangers), large: true, prepare: w.watchHidden, run: func() { w.expire() }},
		{name: "ping", request: fixed(zkproto.OpPing, nil)},
		{name: "sync", request: fixed(zkproto.OpSync, &zkproto.SyncRequest{Path: strings.Repeat("x", 4096)})},
		{name: "auth, a megabyte", large: true, refused: zkproto.CodeAuthFailed, prepare: func() { w.client() },
			request: fixed(zkproto.OpAuth, &zkproto.AuthRequest{Scheme: "digest", Auth: make([]byte, 1_000_000)})},
		{name: "sasl, a megabyte", large: true, refused: zkproto.CodeAuthFailed, prepare: func() { w.client() },
			request: fixed(zkproto.OpSASL, &zkproto.SASLToken{Token: []byte(strings.Repeat(`a="b",`, 160_000))})},

		// Transactions.
		{name: "multi, 10,000 checks", large: true, prepare: made(true), request: multi(10_000, op(zkproto.OpCheck, "/made/%d"))},
		{name: "multi, 2,200 sets", large: true, prepare: made(true), request: multi(2200, op(zkproto.OpSetData, "/made/%d"))},
		{name: "multi, 2,300 deletes", large: true, prepare: made(true), request: multi(2300, op(zkproto.OpDelete, "/made/%d"))},
		{name: "multi, 1,550 creates", large: true, prepare: made(false), request: multi(1550, op(zkproto.OpCreate, "/made/%d"))},
		{name: "multi, 10,000 creates", large: true, refused: zkproto.CodeBadArguments, prepare: made(false), request: multi(10_000, op(zkproto.OpCreate, "/made/%d"))},
		{name: "multi, 50,000 checks", large: true, refused: zkproto.CodeBadArguments, request: multi(50_000, func(int) zkproto.MultiOp { return zkproto.MultiOp{Op: zkproto.OpCheck, Path: "/"} })},
		{name: "multi, creates with different ACLs", large: true, prepare: made(false), request: multi(120, func(i int) zkproto.MultiOp {
			return zkproto.MultiOp{Op: zkproto.OpCreate, Path: fmt.Sprintf("/made/%d", i), ACL: longACL(1000+i, w.conn.owned.identities)}
		})},
		{name: "multi, checks of long ACLs", large: true, refused: zkproto.CodeBadArguments, request: multi(10_000, func(int) zkproto.MultiOp {
			return zkproto.MultiOp{Op: zkproto.OpCheck, Path: someACL()}
		})},
		{name: "multi, 2,000 checks of long ACLs", large: true, request: multi(2000, func(int) zkproto.MultiOp {
			return zkproto.MultiOp{Op: zkproto.OpCheck, Path: someACL()}
		})},
		{name: "multi, 2,000 levels deep", large: true, request: multi(15, func(i int) zkproto.MultiOp {
			return zkproto.MultiOp{Op: zkproto.OpSetData, Path: deepest, Data: make([]byte, i)}
		})},
		{name: "multi, 2,000 levels deep, too much", large: true, refused: zkproto.CodeBadArguments, request: multi(240, func(i int) zkproto.MultiOp {
			return zkproto.MultiOp{Op: zkproto.OpSetData, Path: deepest, Data: make([]byte, i)}
		})},
		{name: fmt.Sprintf("multi, 1,000 sets, %d watchers with 64 identities", strangers), large: true, prepare: w.watchHidden,
			request: multi(1000, func(int) zkproto.MultiOp { return zkproto.MultiOp{Op: zkproto.OpSetData, Path: "/hidden"} })},
		{name: fmt.Sprintf("multi, 1000 sets, %d watchers", manyTold), large: true,
			prepare: func() { w.watch(&w.told, "/told", manyTold, func(int) []tree.Identity { return nil }) },
			request: multi(1000, func(int) zkproto.MultiOp { return zkproto.MultiOp{Op: zkproto.OpSetData, Path: "/told"} })},
	}
	es = append(es, ending("many nodes", flat)...)
	return append(es, ending("deep nodes", sunk)...)
}

// No operation keeps the owner busy for long, whatever a client sends. The work that the owner
// counts has a bound on every machine. A run of -operations 1000000 also bounds the time. It repeats
// an operation that takes longer, since another process may have slowed it down, and
// the shortest time counts.
func TestNoOperationIsUnbounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	s, err := Open(Config{QuotaWritable: true, EnforceQuota: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	timed := *operationsFlag > fewOperations && !raceDetector
	seed := rand.Uint64()
	w := &worstCase{Server: s, t: t, rand: rand.New(rand.NewPCG(seed, 0)), nc: near}
	inOwner := func(f func()) {
		done := make(chan struct{})
		s.queue.push(&request{kind: kindCall, call: func() { defer close(done); f() }})
		<-done
	}
	var all []*extreme
	inOwner(func() { w.setUp(); all = w.extremes() })
	small := slices.DeleteFunc(slices.Clone(all), func(e *extreme) bool { return e.large })
	type worst struct {
		count, work int
		took, least time.Duration
	}
	kinds := make(map[string]worst)
	once := func(e *extreme) {
		work, took := w.do(e, false)
		k := kinds[e.name]
		bound := longestOperation + time.Duration(w.events)*longestNotification
		least := took
		for tries := 0; least > bound && tries < 50 && timed; tries++ {
			_, again := w.do(e, tries%2 == 1)
			least = min(least, again)
		}
		if least > bound && timed {
			t.Errorf("seed %d: %s: %v at least; want at most %v", seed, e.name, least, bound)
		}
		if most := 2 << 20; work-notifyWork*w.events > most {
			t.Errorf("seed %d: %s: work %d without its %d notifications; want at most %d", seed, e.name, work-notifyWork*w.events, w.events, most)
		}
		kinds[e.name] = worst{k.count + 1, max(k.work, work), max(k.took, took), max(k.least, least)}
	}
	for _, e := range all { // each at least once
		inOwner(func() { once(e) })
	}
	for n := len(all); n < *operationsFlag && !t.Failed(); n += 100 {
		inOwner(func() {
			for range 100 {
				e := small[w.rand.IntN(len(small))]
				if w.rand.IntN(1000) == 0 {
					e = all[w.rand.IntN(len(all))]
				}
				once(e)
			}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		k := kinds[name]
		t.Logf("%-55s %7d times, work %8d, longest %9v, shortest of the longest when repeated %v", name, k.count, k.work, k.took.Round(time.Microsecond), k.least.Round(time.Microsecond))
	}
}

var batchesFlag = flag.Int("batches", fewBatches, "batches of TestNoBatchHoldsTheOwnerLong")

// fewBatches is the number of batches without -batches.
const fewBatches = 200

// longestBatch bounds the time that the owner takes for one batch, without its notifications.
const longestBatch = 20 * time.Millisecond

// mostBatch is the work of the waiting requests of a batch at most, without notifications: a full one, and one transaction
// of the largest size. Each notification takes tellWork at most: all identities of its client are compared with an ACL.
const (
	mostBatch = sched.Full + 2<<20
	tellWork  = notifyWork + 64*login.MaxIdentities
)

// A clientOfMany is one of many connections that send at the same time.
type clientOfMany struct {
	*conn
	quiet bool // it sends small requests only
}

// An ownedTime is of a batch: the work of what waited, the notifications and the time.
type ownedTime struct {
	work, events int
	took         time.Duration
}

// batches lets each connection send a random request, and applies batches until none waits.
func (w *worstCase) batches(conns []*clientOfMany, all []*extreme) (hs []ownedTime) {
	o := &w.owner
	var requests []*request
	for _, c := range conns {
		e := all[w.rand.IntN(len(all))]
		for c.quiet && e.large {
			e = all[w.rand.IntN(len(all))]
		}
		if e.prepare != nil {
			e.prepare()
		}
		op, m := e.request()
		frame := (&zkproto.RequestHeader{Xid: 1, Op: op}).Append(nil)
		if m != nil {
			frame = m.Append(frame)
		}
		r := &request{kind: kindOperation, conn: c.conn, frame: frame}
		if err := r.decode(); err != nil {
			w.t.Error(err)
		}
		requests = append(requests, r.portions()...)
	}
	w.settle()
	o.turns.HandedOver()
	for first := true; first || o.turns.Ready() || len(o.portions) > 0; first = false {
		told, before := o.notifications, o.batch.backlog
		runtime.LockOSThread()
		began := threadTime()
		if first {
			for _, r := range requests {
				w.arrive(r)
			}
		}
		w.applyWaiting()
		if len(o.portions) > 0 {
			next := o.portions[0]
			next()
			o.portions = o.portions[1:]
		}
		var b batch
		w.seal(&b)
		h := ownedTime{work: o.batch.backlog - before, events: int(o.notifications - told), took: threadTime() - began}
		runtime.UnlockOSThread()
		hs = append(hs, h)
		w.settle()
		o.turns.HandedOver()
	}
	return hs
}

// Many clients send the costliest requests at the same time. No batch holds the owner for long. A run of more batches than
// usual also bounds the time, by the processor time of the owner's thread.
//
//	go test -run NoBatchHolds . -batches 20000 -v -timeout 1h
func TestNoBatchHoldsTheOwnerLong(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	s, err := Open(Config{QuotaWritable: true, EnforceQuota: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	seed := rand.Uint64()
	w := &worstCase{Server: s, t: t, rand: rand.New(rand.NewPCG(seed, 0)), nc: near}
	var hs []ownedTime
	onOwner(s, func() {
		w.setUp()
		all := slices.DeleteFunc(w.extremes(), func(e *extreme) bool {
			for _, ends := range []string{"closeSession", "getEphemerals", "auth", "sasl", "disconnect"} { // they replace the connection
				if strings.HasPrefix(e.name, ends) {
					return true
				}
			}
			return e.request == nil
		})
		var conns []*clientOfMany
		for i := range 100 {
			conns = append(conns, &clientOfMany{w.connect(identitiesNumber(0)), i%4 > 0})
		}
		if *batchesFlag > fewBatches { // the garbage of the test is not the owner's
			defer debug.SetGCPercent(debug.SetGCPercent(-1))
		}
		for n := 0; len(hs) < *batchesFlag; n++ {
			if w.watchDeep(); n%20 == 0 && *batchesFlag > fewBatches {
				runtime.GC()
			}
			hs = append(hs, w.batches(conns, all)...)
		}
	})
	var worst ownedTime
	late := 0
	for _, h := range hs {
		bound := longestBatch + time.Duration(h.events)*longestNotification
		if h.took > bound {
			if late++; *batchesFlag > fewBatches && !raceDetector {
				t.Errorf("seed %d: a batch took %v; want at most %v", seed, h.took, bound)
			}
		}
		if h.work > mostBatch+tellWork*h.events {
			t.Errorf("seed %d: a batch of work %d with %d notifications; want at most %d", seed, h.work, h.events, mostBatch+tellWork*h.events)
		}
		if h.took > worst.took {
			worst = h
		}
	}
	slices.SortFunc(hs, func(a, b ownedTime) int { return int(a.took - b.took) })
	t.Logf("%d batches: half took the owner %v, 99 %% %v, the longest %v (work %d, %d notifications); %d longer than %v and their notifications",
		len(hs), hs[len(hs)/2].took, hs[len(hs)*99/100].took, worst.took, worst.work, worst.events, late, longestBatch)
}
