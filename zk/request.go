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

// maxRequest is the longest request body: the limit of Apache's servers.
const maxRequest = zkproto.MaxFrame

// A request is one operation from the call to its answer. The caller waits for done. The
// goroutine that takes the request out of the session's queue or out of a connection's pending
// list completes it, once.
type request struct {
	op    zkproto.Op
	path  string // as the caller gave it, for errors
	frame []byte // length, header and body; the xid is filled in when it is sent
	xid   int32
	reply decoder // where the reply's body goes; nil if there is none
	watch *Watch  // armed if the reply says that the server armed it

	persistent *PersistentWatch // likewise
	rearm      bool             // a removal behind it may have hit watch. Guarded by Session.mu
	upkeep     bool             // it keeps this connection's server informed about our watches
	asksMode   bool             // see askMode; each connection sends its own
	belongs    bool             // see belongTo

	probesOthers bool                 // see probeOthers; likewise
	covers       map[string]WatchMode // nodes whose persistent watches this arms
	uncovers     string               // node whose watches this removes

	sent time.Time // just before it was written; zero if it never was. Guarded by Session.mu

	held atomic.Int64 // bytes of a long answer that the caller has not taken
	gone atomic.Bool  // nobody will take it

	err      error         // set before finished
	finished atomic.Bool   // it has its outcome
	done     chan struct{} // then holds a token for the caller

	// Used by the caller only:
	answered bool  // the caller has taken the token
	left     error // the outcome if the caller stopped waiting after the request was sent

	pool *sync.Pool // where it came from

	// Room for the common operations. With it, a request from the pool allocates nothing but
	// the data that it returns.
	self    [1]*request
	data    dataReply
	stat    zkproto.StatResponse
	created zkproto.Create2Response
}

// request begins a request from the client's pool. The caller appends the body to frame, seals
// it, and may put the request back once it has the answer.
//
// The pool belongs to the client, not to the package: a channel made in one synctest bubble
// must not be used in another.
func (c *Calls) request(op zkproto.Op, path string) *request {
	r, _ := c.pool.Get().(*request)
	if r == nil {
		r = &request{pool: c.pool, done: make(chan struct{}, 1)}
	}
	r.path = path
	r.self[0] = r
	r.begin(op)
	return r
}

// begin starts the frame, or starts it anew.
func (r *request) begin(op zkproto.Op) {
	r.op = op
	r.frame = (&zkproto.RequestHeader{Op: op}).Append(zkproto.BeginFrame(r.frame[:0]))
}

func (r *request) seal() { r.frame = zkproto.EndFrame(r.frame, 0) }

// put returns r to the pool, unless the session may still use it because the caller stopped
// waiting.
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
	r.gone.Store(false)
	r.data, r.stat, r.created = dataReply{}, zkproto.StatResponse{}, zkproto.Create2Response{}
	r.pool.Put(r)
}

type encoder interface{ Append(b []byte) []byte }
type decoder interface{ Decode(r *zkproto.Reader) }

// newRequest encodes body (nil for none) in the caller's goroutine, so that the writer only
// copies.
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

// check refuses a request for which the server would drop the connection.
func (r *request) check() error {
	if n := len(r.frame) - 4; n > maxRequest {
		return fmt.Errorf("%w: %d bytes, ZooKeeper accepts %d", ErrTooLarge, n, maxRequest)
	}
	return nil
}

// registers sets whether the read r registers its watch at the server: the last byte of a
// ReadRequest.
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
	r.done <- struct{}{} // never blocks: a request completes once
}

// fail wraps err in an Error with r's operation and path.
func (r *request) fail(err error, unanswered bool) error {
	return &Error{Op: r.op.String(), Path: r.path, Err: err, unanswered: unanswered, reads: r.reads()}
}

// reads reports whether r leaves nothing behind at the server once the connection is gone:
// watches end with their connection.
func (r *request) reads() bool {
	switch r.op {
	case zkproto.OpExists, zkproto.OpGetData, zkproto.OpGetACL, zkproto.OpGetChildren2, zkproto.OpSync, zkproto.OpMultiRead,
		zkproto.OpAddWatch, zkproto.OpGetEphemerals, zkproto.OpGetAllChildrenNumber, zkproto.OpWhoAmI:
		return true
	}
	return false
}

// result returns r's outcome to the caller once it waits no longer. If the caller has given a
// watch up, no later answer brings it back.
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

// again prepares r for another session.
func (r *request) again() {
	r.err, r.left, r.sent, r.answered, r.rearm = nil, nil, time.Time{}, false, false
	r.finished.Store(false)
	r.gone.Store(false)
}

// await waits for all of reqs. If ctx ends first, it withdraws the requests that were not sent
// yet; the others complete with nobody waiting. It waits for the last request first: answers
// come in order, so the caller wakes once.
func (s *Session) await(ctx context.Context, reqs []*request) {
	for _, r := range slices.Backward(reqs) {
		select {
		case <-r.done:
			r.answered = true
		case <-ctx.Done():
			s.withdraw(reqs, ended(ctx))
			for _, r := range reqs {
				r.gone.Store(true)
				s.takeAnswer(r)
			}
			return
		}
	}
	for _, r := range reqs {
		s.takeAnswer(r)
	}
}
