package zk

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/zkproto"
)

// maxRequest is the longest body that is sent: what Apache's servers accept.
const maxRequest = zkproto.MaxFrame

// A request is one operation on its way. The caller that made it waits for done;
// whoever takes it out of the session's queue or out of a connection's pending list
// completes it, once.
type request struct {
	op    zkproto.Op
	path  string // as the caller gave it, for errors
	frame []byte // length, header and body; the xid is filled in when it is sent
	xid   int32
	reply decoder // where the reply's body goes; nil if there is none
	watch *Watch  // to be armed if the reply says that the server did

	persistent *PersistentWatch     // likewise
	rearm      bool                 // a removal behind it may have hit watch. Guarded by Session.mu
	upkeep     bool                 // it tells the server of this connection which watches there are
	asksMode   bool                 // see askMode; the next connection asks for itself
	covers     map[string]WatchMode // nodes whose persistent watches this arms
	uncovers   string               // node whose watches this removes

	sent time.Time // just before it was written; zero if it never was. Guarded by Session.mu

	err      error         // set before finished
	finished atomic.Bool   // it has its outcome
	done     chan struct{} // then holds a token, for the one who waits

	// The caller's alone:
	answered bool  // it has taken the token
	left     error // the outcome for a caller that stopped waiting after it was sent

	pool *sync.Pool // where it came from

	// Room for what the common operations need, so that a request from the pool costs no
	// allocation but that of the data it returns.
	self    [1]*request
	data    dataReply
	stat    zkproto.StatResponse
	created zkproto.Create2Response
}

// request begins a request from the client's pool: what is to be its body is appended to
// frame, then it is sealed. Whoever has its answer may put it back.
//
// The pool is the client's, not the package's: a channel made in a synctest bubble must
// not come up in another.
func (c calls) request(op zkproto.Op, path string) *request {
	r, _ := c.pool.Get().(*request)
	if r == nil {
		r = &request{pool: c.pool, done: make(chan struct{}, 1)}
	}
	r.path = path
	r.self[0] = r
	r.begin(op)
	return r
}

// begin begins the frame, again if need be.
func (r *request) begin(op zkproto.Op) {
	r.op = op
	r.frame = (&zkproto.RequestHeader{Op: op}).Append(zkproto.BeginFrame(r.frame[:0]))
}

func (r *request) seal() { r.frame = zkproto.EndFrame(r.frame, 0) }

// put gives r back to the pool, unless somebody may still touch it: the session, if the
// caller has given up waiting.
func (r *request) put() {
	if !r.answered {
		return
	}
	frame := r.frame
	if cap(frame) > 4<<10 {
		frame = nil
	}
	r.frame, r.path, r.reply, r.watch = frame, "", nil, nil
	r.sent, r.err, r.answered, r.left, r.rearm = time.Time{}, nil, false, nil, false
	r.finished.Store(false)
	r.data, r.stat, r.created = dataReply{}, zkproto.StatResponse{}, zkproto.Create2Response{}
	r.pool.Put(r)
}

type encoder interface{ Append(b []byte) []byte }
type decoder interface{ Decode(r *zkproto.Reader) }

// newRequest encodes body (nil for none) in the caller's goroutine, so that the
// writer only copies.
func newRequest(op zkproto.Op, path string, body encoder, reply decoder) *request {
	frame := zkproto.BeginFrame(make([]byte, 0, 64+len(path)))
	frame = (&zkproto.RequestHeader{Op: op}).Append(frame)
	if body != nil {
		frame = body.Append(frame)
	}
	r := &request{op: op, path: path, frame: zkproto.EndFrame(frame, 0), reply: reply, done: make(chan struct{}, 1)}
	r.self[0] = r
	return r
}

// check refuses what would make the server drop the connection.
func (r *request) check() error {
	if n := len(r.frame) - 4; n > maxRequest {
		return fmt.Errorf("%w: %d bytes, ZooKeeper accepts %d", ErrTooLarge, n, maxRequest)
	}
	return nil
}

// registers says whether the read r shall register its watch at the server: the last
// byte of a ReadRequest.
func (r *request) registers(yes bool) {
	r.frame[len(r.frame)-1] = 0
	if yes {
		r.frame[len(r.frame)-1] = 1
	}
}

func (r *request) setXid(xid int32) {
	r.xid = xid
	binary.BigEndian.PutUint32(r.frame[4:], uint32(xid))
}

// complete ends the caller's wait.
func (r *request) complete(err error) {
	r.err = err
	r.finished.Store(true)
	r.done <- struct{}{} // there is room: it happens once
}

// fail wraps err with what the caller asked for.
func (r *request) fail(err error, unanswered bool) error {
	return &Error{Op: r.op.String(), Path: r.path, Err: err, unanswered: unanswered, reads: r.reads()}
}

// reads reports whether the server has nothing to show for r once the connection is
// gone: its watches go with it.
func (r *request) reads() bool {
	switch r.op {
	case zkproto.OpExists, zkproto.OpGetData, zkproto.OpGetACL, zkproto.OpGetChildren2, zkproto.OpSync, zkproto.OpMultiRead,
		zkproto.OpAddWatch, zkproto.OpGetEphemerals, zkproto.OpGetAllChildrenNumber, zkproto.OpWhoAmI:
		return true
	}
	return false
}

// result is r's outcome for the caller that has stopped waiting. Once the caller has
// given a watch up, no answer brings it back.
func (r *request) result() error {
	if r.left != nil && (r.watch != nil || r.persistent != nil) {
		return r.left
	}
	if !r.answered {
		select {
		case <-r.done:
			r.answered = true
		default:
			return r.left
		}
	}
	return r.err
}

// again makes r ready for another session.
func (r *request) again() {
	r.err, r.left, r.sent, r.answered, r.rearm = nil, nil, time.Time{}, false, false
	r.finished.Store(false)
}

// await waits for all of reqs. When ctx ends first, it takes back what was not sent
// yet; what was sent completes unheard. The last is waited for first: answers come in
// order, so the caller is woken once.
func (s *Session) await(ctx context.Context, reqs []*request) {
	for _, r := range slices.Backward(reqs) {
		select {
		case <-r.done:
			r.answered = true
		case <-ctx.Done():
			s.withdraw(reqs, ended(ctx))
			return
		}
	}
}
