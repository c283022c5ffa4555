package zkserver

import (
	"bufio"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/tree"
)

type requestKind uint8

const (
	kindOperation  requestKind = iota // one frame of a connected client
	kindConnect                       // the first frame of a connection
	kindWord                          // a four-letter word instead of it
	kindDisconnect                    // the reader's last
	kindResume                        // its client has read, see resume
	kindCall                          // from inside the process
	kindStop                          // Shutdown: nothing comes behind it
)

// A request is what a reader hands to the owner. Byte slices in it alias frame,
// strings do not; the owner gives it back to the pool when it has been applied.
type request struct {
	kind  requestKind
	conn  *conn
	frame []byte
	at    time.Duration // when it had been read: 1 + the time since Server.opened

	xid int32
	op  zkproto.Op
	bad bool // the header is sound, the rest is not

	undecoded bool // see decodedEarly
	more      bool // a portion of setWatches, of which the last is answered, see portions

	connect         zkproto.ConnectRequest
	certificate     []tree.Identity // of who connects
	word            string
	disk            int64 // bytes, for the words that tell
	files, maxFiles int64 // see openFiles
	call            func()

	write         zkproto.MultiOp     // create, delete, setData, setACL
	read          zkproto.ReadRequest // the path also of those that ask for nothing more
	sync          zkproto.SyncRequest
	multi         zkproto.MultiRequest
	multiRead     zkproto.MultiReadRequest
	setWatches    zkproto.SetWatches2Request
	addWatch      zkproto.AddWatchRequest
	removeWatches zkproto.RemoveWatchesRequest // and to check them
	auth          zkproto.AuthRequest
	sasl          zkproto.SASLToken
}

// A request in the pool has a small frame or none: readers have one in their hands while
// they wait, for each client that there is. Large frames are kept apart, as *[]byte.
var (
	requestPool = sync.Pool{New: func() any { return new(request) }}
	framePool   sync.Pool
)

// newRequest returns a request with room for the frame that in has the length of next.
func newRequest(in *bufio.Reader) *request {
	r := requestPool.Get().(*request)
	head, err := in.Peek(4)
	if err != nil {
		return r // ReadFrame finds out, too
	}
	if n := binary.BigEndian.Uint32(head); n > largeRequest {
		if frame, _ := framePool.Get().(*[]byte); frame != nil && uint32(cap(*frame)) >= n {
			r.frame = *frame
		}
	}
	return r
}

func (r *request) recycle() {
	frame := r.frame
	if cap(frame) > largeRequest {
		large := frame // frame itself is another's when it is in the pool
		framePool.Put(&large)
		frame = nil
	}
	*r = request{frame: frame}
	requestPool.Put(r)
}

// decodedEarly is the greatest length of a transaction or a setWatches that its reader decodes. A
// few bytes of these become a hundred, and a connection may have hundreds of requests that wait.
// The owner decodes longer ones when their turn comes, transactions into the same room: readers
// would take all processors at once, and the collector after them.
const decodedEarly = 512

// decodeMulti is the rest of decode for a request that is undecoded.
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

// doneMulti takes the room of a transaction back. Nothing in it may keep what it points to alive.
func (s *Server) doneMulti(r *request) {
	clear(r.multi.Ops)
	if n := cap(r.multi.Ops); 0 < n && n <= keptOps {
		s.owner.ops = r.multi.Ops
	}
}

const keptOps = 16 << 10 // of the room for operations

func (r *request) decodeWatches(in *zkproto.Reader) {
	if r.op == zkproto.OpSetWatches {
		r.setWatches.SetWatchesRequest.Decode(in)
	} else {
		r.setWatches.Decode(in)
	}
}

// watchPortion is the most watches that a connection takes over in one turn.
const watchPortion = 1000

// portions cuts a long setWatches into requests of at most watchPortion paths, so that others have
// their turn in between. It returns r alone if r is something else, is short, or is not sound.
// Writes in between are not missed: each path is compared with the client's zxid in its own turn.
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
	var paths [5][]byte // as they are in the frame
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
	rs[len(rs)-1].more = false
	return rs
}

// keptACL returns acl, or as much of it as is refused for its length. The rest would be kept in
// memory while the request waits.
func keptACL(acl []zkproto.ACL) []zkproto.ACL {
	if len(acl) > tree.MaxACLEntries {
		return slices.Clone(acl[:tree.MaxACLEntries+1])
	}
	return acl
}

// decode reads header and record from r.frame. It fails if not even the header is
// there; then nobody knows what to answer. Bytes behind the record are ignored, as
// Apache's server does.
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
		new(zkproto.ReconfigRequest).Decode(in) // only to tell nonsense
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
