package zk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

type callersError struct{}

func (*callersError) Error() string { return "the caller's own type" }

// A context ended by another call's error (errgroup.WithContext) fails a call. The call's error reads
// like that one, but says nothing about the outcome of this call.
func TestErrorOfAnotherCallIsNotThisOnes(t *testing.T) {
	ours := errors.New("the caller's own")
	causes := []struct {
		cause    error
		is, isNo []error
	}{
		{ours, []error{ours}, []error{ErrConnectionLoss, context.Canceled}},
		{&Error{Op: "get", Path: "/b", Err: ErrNoNode}, nil, []error{ErrNoNode, fs.ErrNotExist}},
		{fmt.Errorf("%w: %w", ours, ErrNodeExists), []error{ours}, []error{ErrNodeExists, fs.ErrExist}},
		{fmt.Errorf("%w: %w", &callersError{}, ErrBadVersion), nil, []error{ErrBadVersion}},
		{&Error{Op: "create", Path: "/b", Err: ErrConnectionLoss, unanswered: true}, nil, []error{ErrConnectionLoss}},
		{ErrSessionExpired, []error{ErrSessionExpired}, []error{ErrConnectionLoss}},
		{ErrAuthFailed, []error{ErrAuthFailed, fs.ErrPermission}, nil},
		{nil, []error{context.Canceled}, nil},
	}
	synctest.Test(t, func(t *testing.T) {
		c := dialTest(t, time.Hour, func(p *peer) {
			p.accept(7, time.Hour)
			p.hang()
		})
		calls := map[string]func(ctx context.Context) error{
			"get":      func(ctx context.Context) error { _, _, err := c.Get(ctx, "/a"); return err },
			"watch":    func(ctx context.Context) error { _, _, _, err := c.GetW(ctx, "/a"); return err },
			"multi":    func(ctx context.Context) error { _, err := c.Multi(ctx, CheckOp("/a", 0)); return err },
			"pipeline": func(ctx context.Context) error { _, err := c.Pipeline(ctx, GetOp("/a")); return err },
			"add watch": func(ctx context.Context) error {
				_, err := c.AddWatch(ctx, "/a", WatchPersistent)
				return err
			},
		}
		for name, call := range calls {
			for _, tt := range causes {
				for _, early := range []bool{true, false} {
					ctx, cancel := context.WithCancelCause(t.Context())
					if early {
						cancel(tt.cause)
					}
					time.AfterFunc(time.Second, func() { cancel(tt.cause) })
					err := call(ctx)
					what := fmt.Sprintf("%s, ended by %v, before it began: %t", name, tt.cause, early)
					if err == nil {
						t.Fatalf("%s: no error", what)
					}
					for _, e := range tt.is {
						if !errors.Is(err, e) {
							t.Errorf("%s: %v is not %v", what, err, e)
						}
					}
					for _, e := range tt.isNo {
						if errors.Is(err, e) {
							t.Errorf("%s: %v is %v", what, err, e)
						}
					}
					var code zkproto.Code
					if errors.As(err, &code) && code != ErrAuthFailed {
						t.Errorf("%s: %v is %v", what, err, code)
					}
					var own *callersError
					if errors.As(tt.cause, &own) != errors.As(err, &own) {
						t.Errorf("%s: errors.As does not find the caller's own in %v", what, err)
					}
					if tt.cause != nil && !contains(err.Error(), tt.cause.Error()) {
						t.Errorf("%s: %v does not name the cause", what, err)
					}
					if SafeToRetry(err) || MayHaveHappened(err) == early {
						t.Errorf("%s: SafeToRetry %t, MayHaveHappened %t", what, SafeToRetry(err), MayHaveHappened(err))
					}
				}
			}
		}
	})
}

// The context of a session ends first. A lease requested right after that was once granted, because
// the rest of the session had not ended yet.
func TestNoLeaseBehindTheEndOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialTest(t, time.Hour, func(p *peer) {
			p.accept(7, time.Hour)
			p.serve()
		})
		s := mustSession(t, c)
		s.cancel(ErrSessionExpired) // the first step of end
		_, err := s.Lease(t.Context(), "/a")
		wantErr(t, err, ErrSessionExpired)
		s.end(ErrSessionExpired)
	})
}
