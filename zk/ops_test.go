package zk

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

func TestNonsenseIsRefusedBeforeItIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialTest(t, 10*time.Second, func(p *peer) {
			p.accept(7, 10*time.Second)
			if h, _ := p.request(); h.Op != zkproto.OpCloseSession && h.Op != 0 {
				t.Errorf("%v was sent", h.Op)
			}
		})
		ctx := t.Context()
		ttl := func(mode Mode, d time.Duration) error {
			_, _, err := c.CreateTTL(ctx, "/a", nil, mode, d)
			return err
		}
		second := func(_ any, err error) error { return err }
		for name, tt := range map[string]struct{ err, want error }{
			"ttl of an ephemeral node":  {ttl(Ephemeral, time.Second), ErrBadArguments},
			"ttl of a container":        {ttl(Container, time.Second), ErrBadArguments},
			"no ttl":                    {ttl(Persistent, 0), ErrBadArguments},
			"negative ttl":              {ttl(Persistent, -time.Second), ErrBadArguments},
			"ttl of less than 1 ms":     {ttl(Persistent, time.Microsecond), ErrBadArguments},
			"ttl of more than 34 years": {ttl(PersistentSequential, (zkproto.MaxTTL+1)*time.Millisecond), ErrBadArguments},
			"ttl in a transaction":      {second(c.Multi(ctx, CreateTTLOp("/a", nil, Persistent, 0))), ErrBadArguments},
			"ttl in a pipeline":         {second(c.Pipeline(ctx, CreateTTLOp("/a", nil, Ephemeral, time.Second))), ErrBadArguments},
			"path of a ttl":             {second(c.Multi(ctx, CreateTTLOp("a", nil, Persistent, time.Second))), ErrInvalidPath},
			"write in a multi-read":     {second(c.MultiRead(ctx, GetOp("/a"), SetOp("/a", nil, 0))), ErrBadArguments},
			"exists in a multi-read":    {second(c.MultiRead(ctx, ExistsOp("/a"))), ErrBadArguments},
			"path in a multi-read":      {second(c.MultiRead(ctx, GetOp("a"))), ErrInvalidPath},
			"prefix without a slash":    {second(c.Ephemerals(ctx, "a")), ErrInvalidPath},
			"no prefix":                 {second(c.Ephemerals(ctx, "")), ErrInvalidPath},
		} {
			if !errors.Is(tt.err, tt.want) {
				t.Errorf("%s: got error %v; want %v", name, tt.err, tt.want)
			}
		}
	})
}

func TestSafeToRetry(t *testing.T) {
	outcome := func(op zkproto.Op, err error, unanswered bool) error { return (&request{op: op}).fail(err, unanswered) }
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"lost read", outcome(zkproto.OpGetData, ErrConnectionLoss, true), true},
		{"lost sync", outcome(zkproto.OpSync, ErrConnectionLoss, true), true},
		{"lost watch", outcome(zkproto.OpAddWatch, ErrConnectionLoss, true), true},
		{"lost write", outcome(zkproto.OpCreate2, ErrConnectionLoss, true), false},
		{"lost transaction", outcome(zkproto.OpMulti, ErrConnectionLoss, true), false},
		{"write that was not executed", outcome(zkproto.OpCreate2, ErrConnectionLoss, false), true},
		{"throttled write", outcome(zkproto.OpCreate2, zkproto.CodeThrottled, false), true},
		{"throttled transaction", fmt.Errorf("wrapped: %w", outcome(zkproto.OpMulti, ErrThrottled, false)), true},
		{"refused write", outcome(zkproto.OpCreate2, ErrNodeExists, false), false},
		{"unreadable answer", outcome(zkproto.OpGetData, fmt.Errorf("%w: %w", ErrConnectionLoss, zkproto.ErrMalformed), true), false},
		{"end of the context, not sent", outcome(zkproto.OpGetData, context.Canceled, false), false},
		{"end of the context, sent", outcome(zkproto.OpGetData, context.Canceled, true), false},
		{"session over", outcome(zkproto.OpGetData, ErrSessionExpired, false), false},
		{"client closed", outcome(zkproto.OpGetData, ErrClosed, false), false},
		{"bare error", ErrConnectionLoss, false},
		{"no error", nil, false},
	} {
		if got := SafeToRetry(tt.err); got != tt.want {
			t.Errorf("%s: SafeToRetry(%v) = %v", tt.name, tt.err, got)
		}
	}
}

// -118: the session has moved to a newer connection; the request was not executed.
func TestMovedSessionIsSafeToRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dialTest(t, 10*time.Second,
			func(p *peer) {
				p.accept(7, 10*time.Second)
				h, _ := p.request()
				p.answer(h.Xid, 1, zkproto.CodeSessionMoved, nil)
			},
			func(p *peer) {
				p.accept(7, 10*time.Second)
				h, _ := p.request()
				p.answer(h.Xid, 1, zkproto.CodeThrottled, nil)
				p.serve()
			})
		for range 2 {
			err := c.Delete(t.Context(), "/a", AnyVersion)
			if !SafeToRetry(err) || MayHaveHappened(err) {
				t.Errorf("SafeToRetry %v, MayHaveHappened %v of %v", SafeToRetry(err), MayHaveHappened(err), err)
			}
			synctest.Wait() // until the connection is broken
		}
		if err := c.Delete(t.Context(), "/a", AnyVersion); err != nil {
			t.Error(err)
		}
	})
}
