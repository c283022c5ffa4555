package zk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"holdfast/zkproto"
)

// Errors that servers report. Compare them with errors.Is. ErrNoNode is also fs.ErrNotExist,
// ErrNodeExists is fs.ErrExist, and ErrNoAuth and ErrAuthFailed are fs.ErrPermission.
const (
	ErrNoNode                  = zkproto.CodeNoNode
	ErrNodeExists              = zkproto.CodeNodeExists
	ErrBadVersion              = zkproto.CodeBadVersion
	ErrNotEmpty                = zkproto.CodeNotEmpty
	ErrNoChildrenForEphemerals = zkproto.CodeNoChildrenForEphemerals
	ErrNoAuth                  = zkproto.CodeNoAuth
	ErrInvalidACL              = zkproto.CodeInvalidACL
	ErrBadArguments            = zkproto.CodeBadArguments
	// ErrUnimplemented: the server does not have the operation. If it does not know the
	// operation at all, it has closed the connection, and every other outstanding request
	// failed with ErrConnectionLoss. The session goes on. Some servers just close the connection, or
	// do not answer. Then the first requests fail with ErrConnectionLoss, and later ones with
	// ErrUnimplemented, for which MayHaveHappened is true.
	ErrUnimplemented = zkproto.CodeUnimplemented
	// ErrThrottled: the server is overloaded and did not execute the request.
	ErrThrottled = zkproto.CodeThrottled
	// ErrQuotaExceeded: a quota on the node or above it, or the server's limit per client, is
	// exceeded.
	ErrQuotaExceeded = zkproto.CodeQuotaExceeded
	// ErrAuthFailed: every server refuses the client's Auth, or requires an identity that the
	// client does not have. The client creates no further session.
	ErrAuthFailed = zkproto.CodeAuthFailed
	// ErrNotTried marks the results of a failed Multi after the failed operation.
	ErrNotTried = zkproto.CodeRuntimeInconsistency
)

// Errors of the client.
var (
	// ErrConnectionLoss: the connection broke before the answer came.
	ErrConnectionLoss = errors.New("connection lost")
	// ErrSessionExpired: the session is over for good, and its ephemeral nodes are gone or
	// about to go.
	ErrSessionExpired = errors.New("session expired")
	// ErrClosed: the Client has been closed.
	ErrClosed = errors.New("client closed")
	// ErrTooLarge: the request exceeds the default limit of all servers, or the answer exceeds
	// the client's limit.
	ErrTooLarge = errors.New("too large")
	// ErrInvalidPath: the path breaks ZooKeeper's rules. Nothing was sent.
	ErrInvalidPath = zkproto.ErrInvalidPath
)

// An Error is the error of a failed operation.
type Error struct {
	Op   string // the verb: "create", "get", …
	Path string // as the caller gave it; "" if the operation has none
	Err  error

	unanswered bool // sent, and no answer read
	reads      bool // the operation has no effect
}

// Error returns text such as "zk: create /a: node exists".
func (e *Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("zk: %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("zk: %s %s: %v", e.Op, e.Path, e.Err)
}

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }

// MayHaveHappened reports whether the operation that returned err may have been executed: it
// was sent, and no answer came. False means that it was not executed.
func MayHaveHappened(err error) bool {
	if err == nil {
		return false
	}
	var e *Error
	return errors.As(err, &e) && e.unanswered
}

// SafeToRetry reports whether the operation that returned err certainly had no effect and is
// worth a retry. That holds if the connection broke before the request was sent or during a
// read, or if the server throttled. It is false for errors that a retry repeats (a context that
// has ended, a session that is over, a refusal of the server). It is false if MayHaveHappened,
// except for reads.
func SafeToRetry(err error) bool {
	var e *Error
	switch {
	case !errors.As(err, &e), e.unanswered && !e.reads, errors.Is(err, zkproto.ErrMalformed):
		return false
	}
	return errors.Is(err, ErrConnectionLoss) || errors.Is(err, ErrThrottled)
}

// ended returns the error of a call whose context has ended: the context's cause. But a context
// may have ended because another call failed (errgroup.WithContext does that). A server's error
// in that call, or the loss of its connection, says nothing about this call: errors.Is(err,
// ErrNoNode) must not be true. So in that case the error only has the cause's text.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	var code zkproto.Code
	if errors.As(cause, &code) && code != ErrAuthFailed || errors.Is(cause, ErrConnectionLoss) {
		return &otherCall{cause}
	}
	return cause
}

// otherCall is the error of another call that ended the context of this one.
type otherCall struct{ cause error }

func (o *otherCall) Error() string { return o.cause.Error() }

// Is finds everything in the cause except the outcome of the other call.
func (o *otherCall) Is(target error) bool {
	if _, ok := target.(zkproto.Code); ok || target == ErrConnectionLoss {
		return false
	}
	switch target {
	case fs.ErrNotExist, fs.ErrExist, fs.ErrPermission: // a Code matches these
		return false
	}
	return errors.Is(o.cause, target)
}

// As does the same for errors.As.
func (o *otherCall) As(target any) bool {
	switch target.(type) {
	case **Error, *zkproto.Code:
		return false
	}
	return errors.As(o.cause, target)
}
