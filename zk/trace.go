package zk

import (
	"context"
	"errors"
	"time"

	"holdfast/zkproto"
)

// A Trace is a set of hooks that report what happens to a Client, as net/http/httptrace does
// for requests. Any of them may be nil. The client's own goroutines call them, one at a time
// for each client. RequestDone is called by the goroutine that made the request. Hooks must
// return soon and must not call the client.
type Trace struct {
	// ConnectDone: an attempt to connect to a server, with TLS, handshake and authentication,
	// has ended. err is nil if the session is attached.
	ConnectDone func(server string, took time.Duration, err error)
	// Disconnected: the connection of the session broke, or the client closed it because the
	// server was silent.
	Disconnected func(session int64, cause error)
	// Reattaching: the client closed the session's connection on purpose, when no request was
	// outstanding. The session re-attaches, which proves it; see Session.Lease. Disconnected is
	// not called for it.
	Reattaching func(session int64)
	// SessionCreated: a new session has begun.
	SessionCreated func(session int64, timeout time.Duration)
	// SessionResumed: the session goes on over another connection.
	SessionResumed func(session int64)
	// SessionOver: the session has ended, with the cause of its Context.
	SessionOver func(session int64, cause error)
	// RequestDone: a request has been answered, or its caller has stopped waiting. ctx is the
	// context that the caller gave to the operation, so that its values can be used. It may have ended.
	// Session.StartMulti takes no context: ctx is context.Background, and the goroutine that waits for
	// the answer calls the hook. That a node is missing is an answer to exists, and no error.
	RequestDone func(ctx context.Context, op, path string, took time.Duration, err error)
}

var origin = time.Now()

// tick reads the monotonic clock, if requests are traced. time.Now takes longer, because it also reads the wall clock.
func (t *Trace) tick() time.Duration {
	if t == nil || t.RequestDone == nil {
		return 0
	}
	return time.Since(origin)
}

func (t *Trace) requestDone(ctx context.Context, r *request, took time.Duration, err error) {
	if t != nil && t.RequestDone != nil {
		if r.op == zkproto.OpExists && errors.Is(err, ErrNoNode) {
			err = nil
		}
		t.RequestDone(ctx, r.op.String(), r.path, took, err)
	}
}

func (t *Trace) connectDone(server string, took time.Duration, err error) {
	if t != nil && t.ConnectDone != nil {
		t.ConnectDone(server, took, err)
	}
}

func (t *Trace) disconnected(session int64, cause error) {
	if t != nil && t.Disconnected != nil {
		t.Disconnected(session, cause)
	}
}

func (t *Trace) reattaching(session int64) {
	if t != nil && t.Reattaching != nil {
		t.Reattaching(session)
	}
}

func (t *Trace) sessionCreated(session int64, timeout time.Duration) {
	if t != nil && t.SessionCreated != nil {
		t.SessionCreated(session, timeout)
	}
}

func (t *Trace) sessionResumed(session int64) {
	if t != nil && t.SessionResumed != nil {
		t.SessionResumed(session)
	}
}

func (t *Trace) sessionOver(session int64, cause error) {
	if t != nil && t.SessionOver != nil {
		t.SessionOver(session, cause)
	}
}
