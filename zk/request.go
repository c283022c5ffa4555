package zk

import (
	"context"
	"encoding/binary"
	"fmt"
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
	covers     map[string]WatchMode // nodes whose persistent watches this arms
	uncovers   string               // node whose watches this removes

	sent time.Time // just before it was written; zero if it never was. Guarded by Session.mu
	err  error     // guarded by done
	done chan struct{}
	left error // set by the caller when it stops waiting for a request that was sent
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
	return &request{op: op, path: path, frame: zkproto.EndFrame(frame, 0), reply: reply, done: make(chan struct{})}
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
	close(r.done)
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
	select {
	case <-r.done:
		return r.err
	default:
		return r.left
	}
}

// again makes r ready for another session.
func (r *request) again() {
	r.err, r.left, r.sent, r.done, r.rearm = nil, nil, time.Time{}, make(chan struct{}), false
}

// await waits for all of reqs. When ctx ends first, it takes back what was not sent
// yet; what was sent completes unheard.
func (s *Session) await(ctx context.Context, reqs []*request) {
	for _, r := range reqs {
		select {
		case <-r.done:
		case <-ctx.Done():
			s.withdraw(reqs, context.Cause(ctx))
			return
		}
	}
}
