package zkserver

import (
	"bufio"
	"encoding/binary"
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

	undecoded bool // a large transaction, see decodeMulti

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

// decodeMulti is the rest of decode for a large transaction. A few bytes of it become a
// hundred; so the owner does that, for one after the other into the same room. Readers
// would take all processors at once and the collector after them.
func (s *Server) decodeMulti(r *request) {
	in := zkproto.NewReader(r.frame)
	new(zkproto.RequestHeader).Decode(in)
	r.multi.Ops = s.owner.ops
	r.multi.Decode(in)
	r.bad = in.Err() != nil
}

// doneMulti takes the room back. Nothing in it may keep what it points to alive.
func (s *Server) doneMulti(r *request) {
	clear(r.multi.Ops)
	if cap(r.multi.Ops) <= keptOps {
		s.owner.ops = r.multi.Ops
	}
}

const keptOps = 16 << 10 // of the room for operations

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
		r.write = zkproto.MultiOp{Op: h.Op, Path: m.Path, Data: m.Data, ACL: m.ACL, Flags: m.Flags}
	case zkproto.OpCreateTTL:
		var m zkproto.CreateTTLRequest
		m.Decode(in)
		r.write = zkproto.MultiOp{Op: h.Op, Path: m.Path, Data: m.Data, ACL: m.ACL, Flags: m.Flags, TTL: m.TTL}
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
		r.write = zkproto.MultiOp{Op: h.Op, Path: m.Path, ACL: m.ACL, Version: m.Version}
	case zkproto.OpGetACL, zkproto.OpGetEphemerals, zkproto.OpGetAllChildrenNumber:
		r.read.Path = in.String()
	case zkproto.OpExists, zkproto.OpGetData, zkproto.OpGetChildren, zkproto.OpGetChildren2:
		r.read.Decode(in)
	case zkproto.OpSync:
		r.sync.Decode(in)
	case zkproto.OpMulti:
		if len(r.frame) > largeRequest {
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
	case zkproto.OpSetWatches:
		r.setWatches.SetWatchesRequest.Decode(in)
	case zkproto.OpSetWatches2:
		r.setWatches.Decode(in)
	case zkproto.OpAddWatch:
		r.addWatch.Decode(in)
	case zkproto.OpRemoveWatches, zkproto.OpCheckWatches:
		r.removeWatches.Decode(in)
	}
	r.bad = in.Err() != nil
	return nil
}
