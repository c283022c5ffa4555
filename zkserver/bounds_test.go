package zkserver

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/tree"
)

var (
	boundsOps   = flag.Int("bounds", 20_000, "operations of TestNoOperationIsUnbounded")
	boundsTimed = flag.Bool("bounds-timed", false, "TestNoOperationIsUnbounded: print how long the longest of each kind took")
)

// worstCase makes requests with the largest permitted arguments, on a tree that makes them as
// costly as possible.
type worstCase struct {
	*Server
	t     *testing.T
	rand  *rand.Rand
	conn  *conn
	acls  int // nodes with an ACL of their own, of the largest size
	wide  int // children of one node
	deep  string
	acl   []zkproto.ACL
	left  int // 1 while the nodes of the large transaction exist
	quota bool
}

// do applies one request and returns its work, without the bytes of request and answer.
func (w *worstCase) do(op zkproto.Op, m message) (work int, took time.Duration) {
	o := &w.owner
	frame := (&zkproto.RequestHeader{Xid: 1, Op: op}).Append(nil)
	if m != nil {
		frame = m.Append(frame)
	}
	if len(frame) > zkproto.MaxFrame {
		w.t.Errorf("%v: a request of %d bytes", op, len(frame))
	}
	r := &request{kind: kindOperation, conn: w.conn, frame: frame}
	if err := r.decode(); err != nil {
		w.t.Error(err)
	}
	o.work = requestWork
	began := time.Now()
	w.handle(r)
	took = time.Since(began)
	if code := zkproto.Code(0); len(w.conn.owned.staged) >= 20 {
		var h zkproto.ReplyHeader
		h.Decode(zkproto.NewReader(w.conn.owned.staged[4:]))
		if code = h.Err; h.Xid == 1 && code != zkproto.CodeOK {
			w.t.Errorf("%v is refused: %v", op, code)
		}
	}
	work = o.work - len(w.conn.owned.staged)
	o.batch.bytes -= len(w.conn.owned.staged)
	w.conn.owned.staged, w.conn.owned.weighed = w.conn.owned.staged[:0], 0
	return work, took
}

func (w *worstCase) create(path string, acl []zkproto.ACL) {
	w.do(zkproto.OpCreate, &zkproto.CreateRequest{Path: path, ACL: acl})
}

// longACL returns an ACL with as many entries as permitted. Only the last two are about the client.
func longACL(n int) []zkproto.ACL {
	acl := entries(64, "digest", func(i int) string { return fmt.Sprintf("%0100d:%d", i, n) })
	acl[63] = zkproto.ACL{Perms: zkproto.PermAll, Scheme: "world", ID: "anyone"}
	acl[63].Perms = zkproto.PermAll &^ zkproto.PermRead
	acl[62] = zkproto.ACL{Perms: zkproto.PermRead, Scheme: "digest", ID: identityOf(63)}
	return acl
}

// identityOf returns identity i of the client. An ACL of all 64 has about the permitted size.
func identityOf(i int) string { return fmt.Sprintf("%0100d:me", 1000+i) }

func (w *worstCase) setUp() {
	ids := make([]tree.Identity, 64)
	for i := range ids {
		ids[i] = tree.Identity{Scheme: "digest", ID: identityOf(i)}
	}
	w.conn.owned.identities, w.conn.owned.admitted = ids, true
	w.conn.owned.session = w.newSession(time.Minute)
	w.conn.owned.session.conn = w.conn
	w.owner.watchers[w.conn.id] = w.conn
	w.owner.tree.Identify(w.conn.id, ids)
	for _, path := range []string{"/acl", "/wide", "/deep", "/made", "/e", "/zookeeper/quota/deep", "/zookeeper/quota/wide"} {
		w.create(path, openACL)
	}
	for i := range w.acls {
		w.create(fmt.Sprintf("/acl/%d", i), longACL(i))
	}
	for i := range w.wide {
		w.create(fmt.Sprintf("/wide/%d", i), openACL)
	}
	for w.deep = "/deep"; len(w.deep) < 4090; w.deep += "/d" {
		if w.deep != "/deep" {
			w.create(w.deep, openACL)
		}
	}
	w.deep = w.deep[:len(w.deep)-2]
	for i := range 1000 {
		w.do(zkproto.OpCreate, &zkproto.CreateRequest{Path: fmt.Sprintf("/e/%d", i), ACL: openACL, Flags: zkproto.FlagEphemeral})
	}
	for _, path := range []string{"/deep", "/wide"} {
		text := "count=9000000,bytes=9000000=;byteHardLimit=9000000;countHardLimit=9000000"
		for i := 0; len(text) < 1000; i++ {
			text += fmt.Sprintf(";x%d=%d", i, i)
		}
		for _, name := range []string{"zookeeper_limits", "zookeeper_stats"} {
			w.do(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/zookeeper/quota" + path + "/" + name, Data: []byte(text), ACL: openACL})
		}
		w.do(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/zookeeper/quota" + path + "/zookeeper_stats", Data: []byte(strings.Replace(text, "bytes=9", "bytes=1", 1)), Version: -1})
	}
	for _, path := range []string{"/", "/deep", "/wide"} {
		w.do(zkproto.OpAddWatch, &zkproto.AddWatchRequest{Path: path, Mode: zkproto.ModePersistentRecursive})
	}
	w.acl = longACL(-1)
}

// operation returns a random request, and its name.
func (w *worstCase) operation() (name string, op zkproto.Op, m message) {
	read := func(path string) *zkproto.ReadRequest { return &zkproto.ReadRequest{Path: path} }
	someACL := func() string { return fmt.Sprintf("/acl/%d", w.rand.IntN(w.acls)) }
	// Large requests are rare, or nothing else would happen.
	switch n := w.rand.IntN(200); n {
	case 0:
		ops := make([]zkproto.MultiOp, 10_000)
		for i := range ops {
			ops[i] = zkproto.MultiOp{Op: zkproto.OpCheck, Path: someACL(), Version: -1}
		}
		return "10,000 checks", zkproto.OpMulti, &zkproto.MultiRequest{Ops: ops}
	case 1:
		ops := make([]zkproto.MultiOp, 240)
		for i := range ops {
			ops[i] = zkproto.MultiOp{Op: zkproto.OpSetData, Path: w.deep, Data: []byte{byte(i)}, Version: -1}
		}
		return "240 sets 2,000 levels deep", zkproto.OpMulti, &zkproto.MultiRequest{Ops: ops}
	case 2:
		ops := make([]zkproto.MultiOp, 10_000)
		name, op := "10,000 creates", zkproto.OpCreate
		if w.left > 0 {
			name, op = "10,000 deletes", zkproto.OpDelete
		}
		for i := range ops {
			ops[i] = zkproto.MultiOp{Op: op, Path: fmt.Sprintf("/made/%d", i), Version: -1}
			if op == zkproto.OpCreate {
				ops[i].ACL = openACL
			}
		}
		w.left = 1 - w.left
		return name, zkproto.OpMulti, &zkproto.MultiRequest{Ops: ops}
	case 3:
		ops := make([]zkproto.MultiOp, 220)
		for i := range ops {
			ops[i] = zkproto.MultiOp{Op: zkproto.OpCreate, Path: fmt.Sprintf("/made/auth%d", i/2), ACL: []zkproto.ACL{{Perms: 31, Scheme: "auth"}}}
			if i%2 == 1 {
				ops[i] = zkproto.MultiOp{Op: zkproto.OpDelete, Path: ops[i-1].Path, Version: -1}
			}
		}
		return "110 creates with auth", zkproto.OpMulti, &zkproto.MultiRequest{Ops: ops}
	case 4:
		ops := make([]zkproto.MultiReadOp, 10_000)
		for i := range ops {
			ops[i] = zkproto.MultiReadOp{Op: zkproto.OpGetData, Path: someACL()}
		}
		return "10,000 reads", zkproto.OpMultiRead, &zkproto.MultiReadRequest{Ops: ops}
	case 5:
		var paths []string
		for i := range 240 {
			paths = append(paths, w.deep[:len(w.deep)-2*(i%9)])
		}
		return "watches again", zkproto.OpSetWatches, &zkproto.SetWatchesRequest{RelativeZxid: 1 << 40, Data: paths}
	case 6:
		return "an identity again, with a megabyte", zkproto.OpAuth, &zkproto.AuthRequest{Scheme: "ip", Auth: make([]byte, 1_000_000)}
	case 7:
		return "set a megabyte", zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/made", Data: make([]byte, 1_000_000), Version: -1}
	case 8:
		return "children of a wide node", zkproto.OpGetChildren, read("/wide")
	}
	switch w.rand.IntN(12) {
	case 0:
		return "check of a long ACL", zkproto.OpGetData, read(someACL())
	case 1:
		return "set 2,000 levels deep", zkproto.OpSetData, &zkproto.SetDataRequest{Path: w.deep, Data: make([]byte, w.rand.IntN(1000)), Version: -1}
	case 2:
		return "set ACL", zkproto.OpSetACL, &zkproto.SetACLRequest{Path: someACL(), ACL: w.acl, Version: -1}
	case 3:
		return "get ACL", zkproto.OpGetACL, read(someACL())
	case 4:
		return "ephemerals", zkproto.OpGetEphemerals, read("/")
	case 5:
		return "all children number", zkproto.OpGetAllChildrenNumber, read("/")
	case 6:
		return "who am I", zkproto.OpWhoAmI, nil
	case 7, 8: // begin to count, and end
		w.quota = !w.quota
		path := "/zookeeper/quota/wide/zookeeper_stats"
		if w.quota {
			return "end of a quota", zkproto.OpDelete, &zkproto.DeleteRequest{Path: path, Version: -1}
		}
		return "start of a quota", zkproto.OpCreate, &zkproto.CreateRequest{Path: path, ACL: openACL}
	case 9:
		return "create 2,000 levels deep", zkproto.OpMulti, &zkproto.MultiRequest{Ops: []zkproto.MultiOp{
			{Op: zkproto.OpCreate, Path: w.deep + "/x", ACL: w.acl}, {Op: zkproto.OpDelete, Path: w.deep + "/x", Version: -1}}}
	case 10:
		return "watch", zkproto.OpExists, &zkproto.ReadRequest{Path: w.deep, Watch: true}
	}
	return "data", zkproto.OpGetData, read(w.deep)
}

// No operation keeps the owner busy for long, whatever a client sends. The test asserts the work
// that the owner counts, without the bytes of request and answer. Time depends on the machine;
// the flag -bounds-timed prints it. For a long run, use -bounds 1000000.
func TestNoOperationIsUnbounded(t *testing.T) {
	const mostWork = 16 << 10 // of an operation, also of each in a transaction: some 80 µs
	s, err := Open(Config{QuotaWritable: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	seed := rand.Uint64()
	w := &worstCase{Server: s, t: t, rand: rand.New(rand.NewPCG(seed, 0)), conn: newConn(s, 1<<40, near), acls: 200, wide: 5000}
	if *boundsTimed {
		w.acls, w.wide = 10_000, 100_000
		defer debug.SetGCPercent(debug.SetGCPercent(400))
	}
	w.conn.owned.inBatch = true
	type worst struct {
		count, work int
		took        time.Duration
	}
	kinds := make(map[string]worst)
	inOwner := func(f func()) {
		done := make(chan struct{})
		s.queue.push(&request{kind: kindCall, call: func() { f(); close(done) }})
		<-done
	}
	inOwner(w.setUp)
	for n := 0; n < *boundsOps && !t.Failed(); n += 100 {
		inOwner(func() {
			for range 100 {
				name, op, m := w.operation()
				work, took := w.do(op, m)
				k := kinds[name]
				kinds[name] = worst{k.count + 1, max(k.work, work), max(k.took, took)}
				ops := 1
				switch m := m.(type) {
				case *zkproto.MultiRequest:
					ops = len(m.Ops)
				case *zkproto.MultiReadRequest:
					ops = len(m.Ops)
				case *zkproto.SetWatchesRequest:
					ops = len(m.Data)
				}
				if work > ops*mostWork {
					t.Errorf("seed %d: %s: work %d; want at most %d for each of %d", seed, name, work, mostWork, ops)
				}
			}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		k := kinds[name]
		if *boundsTimed {
			t.Logf("%-35s %8d times, work %8d, longest %v", name, k.count, k.work, k.took.Round(time.Microsecond))
		}
	}
}
