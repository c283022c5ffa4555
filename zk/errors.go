package zk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"holdfast/zkproto"
)

// Errors that servers report. They are compared with errors.Is; ErrNoNode is also
// fs.ErrNotExist, ErrNodeExists is fs.ErrExist, ErrNoAuth and ErrAuthFailed are
// fs.ErrPermission.
const (
	ErrNoNode                  = zkproto.CodeNoNode
	ErrNodeExists              = zkproto.CodeNodeExists
	ErrBadVersion              = zkproto.CodeBadVersion
	ErrNotEmpty                = zkproto.CodeNotEmpty
	ErrNoChildrenForEphemerals = zkproto.CodeNoChildrenForEphemerals
	ErrNoAuth                  = zkproto.CodeNoAuth
	ErrInvalidACL              = zkproto.CodeInvalidACL
	ErrBadArguments            = zkproto.CodeBadArguments
	// ErrUnimplemented: the server does not have the operation. If it does not even
	// know it, it has closed the connection, and what else was under way on it failed
	// with ErrConnectionLoss; the session goes on.
	ErrUnimplemented = zkproto.CodeUnimplemented
	// ErrThrottled: the server has too much to do and did not execute the request.
	ErrThrottled = zkproto.CodeThrottled
	// ErrQuotaExceeded: a quota that is set on the node or above it, or a limit of the
	// server on what one client may have.
	ErrQuotaExceeded      = zkproto.CodeQuotaExceeded
	ErrReconfigDisabled   = zkproto.CodeReconfigDisabled
	ErrReconfigInProgress = zkproto.CodeReconfigInProgress
	// ErrNewConfigNoQuorum: too few of the members wanted are connected to the leader.
	ErrNewConfigNoQuorum = zkproto.CodeNewConfigNoQuorum
	// ErrAuthFailed: a server refused the client's Auth, or wants one that the client
	// has not. The client makes no further session.
	ErrAuthFailed = zkproto.CodeAuthFailed
	// ErrNotTried marks the results of a failed Multi behind the one that failed.
	ErrNotTried = zkproto.CodeRuntimeInconsistency
)

// Errors of the client.
var (
	// ErrConnectionLoss: the connection broke before the answer came.
	ErrConnectionLoss = errors.New("connection lost")
	// ErrSessionExpired: the session is over, and its ephemeral nodes are gone or
	// about to go. It stays over.
	ErrSessionExpired = errors.New("session expired")
	// ErrClosed: the Client has been closed.
	ErrClosed = errors.New("client closed")
	// ErrTooLarge: the request is larger than any server accepts by default, or the
	// answer larger than any should be.
	ErrTooLarge = errors.New("too large")
	// ErrInvalidPath: the path breaks ZooKeeper's rules. Nothing was sent.
	ErrInvalidPath = zkproto.ErrInvalidPath
)

// An Error is what every operation returns when it fails.
type Error struct {
	Op   string // the verb: "create", "get", …
	Path string // as the caller gave it; "" if the operation has none
	Err  error

	unanswered bool // written to a connection, and no answer read
	reads      bool // executed or not, it has no effect
}

// Error reads "zk: create /a: node exists".
func (e *Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("zk: %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("zk: %s %s: %v", e.Op, e.Path, e.Err)
}

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }

// MayHaveHappened reports whether the operation that returned err may have been
// executed all the same: it was sent, and no answer came. False means that it was
// not executed.
func MayHaveHappened(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.unanswered
}

// SafeToRetry reports whether it is certain that the operation that returned err has
// had no effect, and it is worth sending again: the connection broke before it was
// sent, or while a mere read was under way, or the server was too busy. It is false for
// what will fail again (a context that has ended, a session that is over, a refusal of
// the server), and for all that MayHaveHappened unless it only reads.
func SafeToRetry(err error) bool {
	var e *Error
	switch {
	case !errors.As(err, &e), e.unanswered && !e.reads, errors.Is(err, zkproto.ErrMalformed):
		return false
	}
	return errors.Is(err, ErrConnectionLoss) || errors.Is(err, ErrThrottled)
}

// ended is the error of a call whose context has ended: the cause of that. But a context
// may have ended because another call failed (errgroup.WithContext does that), and what a
// server said of that one, or that its connection was lost, says nothing about this one: who asks
// whether there was ErrNoNode must not be told so. So then the error only reads like it.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	var code zkproto.Code
	if errors.As(cause, &code) && code != ErrAuthFailed || errors.Is(cause, ErrConnectionLoss) {
		return &otherCall{cause}
	}
	return cause
}

// otherCall is an error of another call that ended the context of this one.
type otherCall struct{ cause error }

func (o *otherCall) Error() string { return o.cause.Error() }

// Is is for causes that wrap more than what happened to the other call.
func (o *otherCall) Is(target error) bool {
	if _, ok := target.(zkproto.Code); ok || target == ErrConnectionLoss {
		return false
	}
	switch target {
	case fs.ErrNotExist, fs.ErrExist, fs.ErrPermission: // as which a Code counts
		return false
	}
	return errors.Is(o.cause, target)
}
