package zk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"
)

// A context that another call's error has ended (errgroup.WithContext) fails a call with an
// error that reads like that one, and is nothing that happened to this one.
func TestErrorOfAnotherCallIsNotThisOnes(t *testing.T) {
	ours := errors.New("the caller's own")
	causes := []struct {
		cause    error
		is, isNo []error
	}{
		{ours, []error{ours}, []error{ErrConnectionLoss, context.Canceled}},
		{&Error{Op: "get", Path: "/b", Err: ErrNoNode}, nil, []error{ErrNoNode, fs.ErrNotExist}},
		{fmt.Errorf("%w: %w", ours, ErrNodeExists), []error{ours}, []error{ErrNodeExists, fs.ErrExist}},
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
					if tt.cause != nil && !contains(err.Error(), tt.cause.Error()) {
						t.Errorf("%s: %v does not say so", what, err)
					}
					if SafeToRetry(err) || MayHaveHappened(err) == early {
						t.Errorf("%s: SafeToRetry %t, MayHaveHappened %t", what, SafeToRetry(err), MayHaveHappened(err))
					}
				}
			}
		}
	})
}

// Of all that ends with a session, its context is the first; a lease that was asked for right
// behind that was granted, by what the others still said.
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
