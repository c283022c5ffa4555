package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// lostHold is the cause that the Context of a Hold has whose node was removed.
func lostHold(t *testing.T, srv *zktest.Server) error {
	c := client(t, srv)
	h := lock(t, holdfast.NewMutex(c, "/holdfast/locks/another"))
	if err := c.Delete(t.Context(), h.Path(), zk.AnyVersion); err != nil {
		t.Fatal(err)
	}
	<-h.Context().Done()
	return context.Cause(h.Context())
}

// What ended the context of a wait is no answer to anything that the wait has asked: the
// loss of another lock was taken for an empty queue, and the node whose create had no
// answer stayed (found by the simulation: a MultiLock that lost one lock while it
// queued for the next); and a lost connection of somebody else's request, as
// errgroup.WithContext passes it on, was asked about for ever.
func TestCauseOfTheContextIsNotTakenForAnAnswer(t *testing.T) {
	causes := map[string]func(*testing.T, *zktest.Server) error{
		"another lock was lost":     lostHold,
		"another connection":        func(*testing.T, *zktest.Server) error { return fmt.Errorf("another: %w", zk.ErrConnectionLoss) },
		"another node":              func(*testing.T, *zktest.Server) error { return fmt.Errorf("another: %w", zk.ErrNoNode) },
		"another session's end":     func(*testing.T, *zktest.Server) error { return fmt.Errorf("another: %w", zk.ErrSessionExpired) },
		"a node that exists":        func(*testing.T, *zktest.Server) error { return fmt.Errorf("another: %w", zk.ErrNodeExists) },
		"a version that is no more": func(*testing.T, *zktest.Server) error { return fmt.Errorf("another: %w", zk.ErrBadVersion) },
	}
	kinds := map[string]func(*zk.Client) holdfast.Locker{
		"mutex":     func(c *zk.Client) holdfast.Locker { return holdfast.NewMutex(c, lockPath) },
		"semaphore": func(c *zk.Client) holdfast.Locker { return holdfast.NewSemaphore(c, lockPath, 2).Locker() },
		"node lock": func(c *zk.Client) holdfast.Locker { return holdfast.NewNodeLock(c, lockPath) },
	}
	// What is asked while the wait finds out whether its node was made.
	ops := []zkproto.Op{zkproto.OpMulti, zkproto.OpGetChildren2, zkproto.OpGetData, zkproto.OpCreateContainer}
	for kindName, kind := range kinds {
		for causeName, cause := range causes {
			for _, op := range ops {
				t.Run(fmt.Sprintf("%s/%s/%v", kindName, causeName, op), func(t *testing.T) {
					inBubble(t, func(t *testing.T, srv *zktest.Server) {
						c := client(t, srv)
						why := cause(t, srv)
						if op != zkproto.OpCreateContainer {
							h, err := kind(c).Lock(t.Context()) // the parents exist
							if err != nil {
								t.Fatal(err)
							}
							unlock(t, h)
						}
						ctx, cancel := context.WithCancelCause(t.Context())
						defer cancel(nil)
						var settled atomic.Bool // what comes before asks something else
						settled.Store(op == zkproto.OpMulti || op == zkproto.OpCreateContainer)
						srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
							settled.Store(true)
							return zktest.Pass
						})
						srv.Intercept(op, func(string) zktest.Action {
							if !settled.Load() {
								return zktest.Pass
							}
							cancel(why)
							synctest.Wait() // it has been heard
							return zktest.DropReply
						})
						srv.Intercept(zkproto.OpCreate2, func(string) zktest.Action {
							srv.Intercept(zkproto.OpCreate2, nil)
							return zktest.DropReply
						})
						h, err := kind(c).Lock(ctx)
						srv.Intercept(op, nil)
						if ctx.Err() == nil { // this kind does not ask that
							if err != nil {
								t.Fatal(err)
							}
							unlock(t, h)
						} else {
							wantErr(t, err, why)
						}
						time.Sleep(3 * time.Second) // for the reconnect
						synctest.Wait()
						if nodes, err := c.Ephemerals(t.Context(), "/"); err != nil || len(nodes) > 0 {
							t.Errorf("left behind: %v, %v", nodes, err)
						}
					})
				})
			}
		}
	}
}

// Nor is it a reason to say that the lock of a Commit is lost.
func TestCommitWhoseContextEndedWithAnotherSessionIsNotLost(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		h := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		ctx, cancel := context.WithCancelCause(t.Context())
		why := fmt.Errorf("another: %w", zk.ErrSessionExpired)
		cancel(why)
		_, err := h.Commit(ctx, zk.SetOp("/a", nil, zk.AnyVersion))
		wantErr(t, err, why)
		if errors.Is(err, holdfast.ErrLost) {
			t.Errorf("lost: %v", err)
		}
		if h.Context().Err() != nil {
			t.Error("the hold has ended")
		}
		unlock(t, h)
	})
}
