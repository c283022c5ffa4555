package zkserver

import (
	"slices"
	"sync"
	"time"

	"holdfast/internal/proc"
	"holdfast/zkproto"
	"holdfast/zkserver/internal/tree"
)

type requestKind uint8

const (
	kindOperation  requestKind = iota // one frame of a connected client
	kindConnect                       // the first frame of a connection
	kindWord                          // a four-letter word instead of a connect request
	kindDisconnect                    // the reader's last request
	kindResume                        // the client has read, see resume
	kindCall                          // a call of the program that runs the server
	kindStop                          // Shutdown: no request follows
)

// A reader passes a request to the owner. Byte slices in it alias frame; strings do not. The owner
// returns it to the pool when it has been applied.
type request struct {
	kind  requestKind
	conn  *conn
	frame []byte
	room  int           // bytes that it takes of the buffers, see reserve
	at    time.Duration // when it had been read: 1 + the time since Server.opened

	xid int32
	op  zkproto.Op
	bad bool // the header is valid, the rest is not

	undecoded bool // see decodedEarly
	more      bool // a portion of setWatches that is not the last; only the last is answered, see portions

	connect         zkproto.ConnectRequest
	certificate     []tree.Identity // the identity of a connecting client
	group           *proc.Group     // the processes that its session belongs to, as confirmed
	word            string
	disk            int64 // bytes, for the four-letter words
	files, maxFiles int64 // see openFiles
	call            func()

	write         zkproto.MultiOp     // create, delete, setData, setACL
	read          zkproto.ReadRequest // has the path for every read
	sync          zkproto.SyncRequest
	multi         zkproto.MultiRequest
	multiRead     zkproto.MultiReadRequest
	setWatches    zkproto.SetWatches2Request
	addWatch      zkproto.AddWatchRequest
	removeWatches zkproto.RemoveWatchesRequest // also for checkWatches
	auth          zkproto.AuthRequest
	sasl          zkproto.SASLToken
}

// A request in the pool has a small frame or none, because each client's reader holds one request
// while it waits. Large frames are pooled apart, as *[]byte.
var (
	requestPool = sync.Pool{New: func() any { return new(request) }}
	framePool   sync.Pool
)

// newRequest returns a request, with room for a frame of n bytes if there is one in the pool.
func newRequest(n int) *request {
	r := requestPool.Get().(*request)
	if n > largeRequest {
		if frame, _ := framePool.Get().(*[]byte); frame != nil && cap(*frame) >= n {
			r.frame = *frame
		}
	}
	return r
}

func (r *request) recycle() {
	frame := r.frame
	if cap(frame) > largeRequest {
		large := frame // a variable of its own: the next user of the pool may change it
		framePool.Put(&large)
		frame = nil
	}
	*r = request{frame: frame}
	requestPool.Put(r)
}

// decodedEarly is the greatest length of a transaction or a setWatches that its reader decodes. A
// few bytes of these become a hundred in memory, and a connection may have hundreds of waiting
// requests. The owner decodes longer ones when it applies them, and reuses the same memory for
// transactions. If readers decoded them, they would take all processors at once, and so would the
// garbage collector.
const decodedEarly = 512

// decodeMulti completes decode for an undecoded request.
func (s *Server) decodeMulti(r *request) {
	in := zkproto.NewReader(r.frame)
	new(zkproto.RequestHeader).Decode(in)
	if r.op == zkproto.OpMulti {
		r.multi.Ops = s.owner.ops
		r.multi.Decode(in)
	} else {
		r.decodeWatches(in)
	}
	r.bad = in.Err() != nil
}

// doneMulti takes back the memory of a transaction, and clears its pointers for the garbage
// collector.
func (s *Server) doneMulti(r *request) {
	clear(r.multi.Ops)
	if n := cap(r.multi.Ops); 0 < n && n <= keptOps {
		s.owner.ops = r.multi.Ops
	}
}

const keptOps = 16 << 10 // operations for which memory is kept

func (r *request) decodeWatches(in *zkproto.Reader) {
	if r.op == zkproto.OpSetWatches {
		r.setWatches.SetWatchesRequest.Decode(in)
	} else {
		r.setWatches.Decode(in)
	}
}

// watchPortion is the most watches that a connection sets again in one turn.
const watchPortion = 1000

// portions splits a long setWatches into requests of at most watchPortion paths, so that other
// clients have their turn in between. It returns r alone if r is another operation, short, or
// invalid. Writes in between are not missed: each path is compared with the client's zxid in its own
// turn.
func (r *request) portions() []*request {
	if !r.undecoded || r.op == zkproto.OpMulti {
		return []*request{r}
	}
	lists := 5
	if r.op == zkproto.OpSetWatches {
		lists = 3
	}
	in := zkproto.NewReader(r.frame)
	var h zkproto.RequestHeader
	h.Decode(in)
	since := in.Int64()
	read := func() int { return len(r.frame) - in.Remaining() }
	var rs []*request
	var counts [5]int32
	var paths [5][]byte // as encoded in the frame
	room := watchPortion
	cut := func() {
		frame := zkproto.AppendInt64(h.Append(nil), since)
		for i := range lists {
			frame = append(zkproto.AppendInt32(frame, counts[i]), paths[i]...)
			counts[i], paths[i] = 0, nil
		}
		rs = append(rs, &request{kind: r.kind, conn: r.conn, frame: frame, xid: r.xid, op: r.op, undecoded: true, more: true})
		room = watchPortion
	}
	for i := range lists {
		n := in.Count(4)
		for begin := read(); n > 0; n-- {
			if room == 0 {
				cut()
				begin = read()
			}
			in.Bytes()
			counts[i], paths[i] = counts[i]+1, r.frame[begin:read()]
			room--
		}
	}
	if in.Err() != nil || len(rs) == 0 {
		return []*request{r}
	}
	cut()
	last := rs[len(rs)-1]
	last.more, last.room = false, r.room
	return rs
}

// keptACL returns acl. If acl is too long, it returns just enough of it to be refused, so that the
// rest takes no memory while the request waits.
func keptACL(acl []zkproto.ACL) []zkproto.ACL {
	if len(acl) > tree.MaxACLEntries {
		return slices.Clone(acl[:tree.MaxACLEntries+1])
	}
	return acl
}

// decode reads header and record from r.frame. It fails if the header is incomplete; then no answer
// is possible. Like Apache's server, it ignores bytes after the record.
func (r *request) decode() error {
	in := zkproto.NewReader(r.frame)
	var h zkproto.RequestHeader
	h.Decode(in)
	if err := in.Err(); err != nil {
		return err
	}
	r.xid, r.op = h.Xid, h.Op
	switch h.Op {
	case zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpCreateContainer:
		var m zkproto.CreateRequest
		m.Decode(in)
		r.write = zkproto.MultiOp{Op: h.Op, Path: m.Path, Data: m.Data, ACL: keptACL(m.ACL), Flags: m.Flags}
	case zkproto.OpCreateTTL:
		var m zkproto.CreateTTLRequest
		m.Decode(in)
		r.write = zkproto.MultiOp{Op: h.Op, Path: m.Path, Data: m.Data, ACL: keptACL(m.ACL), Flags: m.Flags, TTL: m.TTL}
	case zkproto.OpDelete:
		var m zkproto.DeleteRequest
		m.Decode(in)
		r.write = zkproto.MultiOp{Op: h.Op, Path: m.Path, Version: m.Version}
	case zkproto.OpSetData:
		var m zkproto.SetDataRequest
		m.Decode(in)
		r.write = zkproto.MultiOp{Op: h.Op, Path: m.Path, Data: m.Data, Version: m.Version}
	case zkproto.OpSetACL:
		var m zkproto.SetACLRequest
		m.Decode(in)
		r.write = zkproto.MultiOp{Op: h.Op, Path: m.Path, ACL: keptACL(m.ACL), Version: m.Version}
	case zkproto.OpGetACL, zkproto.OpGetEphemerals, zkproto.OpGetAllChildrenNumber:
		r.read.Path = in.String()
	case zkproto.OpExists, zkproto.OpGetData, zkproto.OpGetChildren, zkproto.OpGetChildren2:
		r.read.Decode(in)
	case zkproto.OpSync:
		r.sync.Decode(in)
	case zkproto.OpMulti:
		if len(r.frame) > decodedEarly {
			r.undecoded = true
			return nil
		}
		r.multi.Decode(in)
	case zkproto.OpMultiRead:
		r.multiRead.Decode(in)
	case zkproto.OpReconfig:
		new(zkproto.ReconfigRequest).Decode(in) // only to detect an invalid record
	case zkproto.OpAuth:
		r.auth.Decode(in)
	case zkproto.OpSASL:
		r.sasl.Decode(in)
	case zkproto.OpSetWatches, zkproto.OpSetWatches2:
		if len(r.frame) > decodedEarly {
			r.undecoded = true
			return nil
		}
		r.decodeWatches(in)
	case zkproto.OpAddWatch:
		r.addWatch.Decode(in)
	case zkproto.OpRemoveWatches, zkproto.OpCheckWatches:
		r.removeWatches.Decode(in)
	}
	r.bad = in.Err() != nil
	return nil
}
