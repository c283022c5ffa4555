// Package reserve keeps a lock reserved for some time, also after its holder has released it. The holder calls [For].
// Callers that go through [Locker] acquire the lock when the time is over.
//
// It is for a job that several hosts start at the same time by clocks that differ: the first host reserves the lock
// before it starts the job. However short the job is, and whatever happens to the first host, no other host runs the job
// within that time.
package reserve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"holdfast"
	"holdfast/internal/lend"
	"holdfast/zk"
)

// For reserves the lock of h for d, from the moment when the server records it. The reservation is a persistent node,
// so it outlasts Unlock, the session, the process and the machine. The next holder through a [Locker] gets the lock
// when d is over. A later For replaces the reservation.
//
// Only the server's clock counts. If that clock is set forward, or a new leader's clock is ahead, the reservation ends
// earlier by the difference.
//
// If that clock is set back, or a new leader's clock is behind, the reservation never ends earlier, and every step
// can make it longer by at most d. A client that acquires the lock through a Locker and finds the reservation in the
// future does not know how old it is. It writes the reservation again, so d begins anew for all clients. So a
// reservation ends at the latest d after the first Lock or TryLock that follows the last step. A waiter that has seen
// the reservation waits no longer than d, whatever the clock does. A client that may not write the node (see
// [holdfast.WithACL]) counts d by itself while it waits. Its TryLock is refused until the clock has made up for the
// step.
//
// The reservation is not in the queue. Callers without a Locker, and clients of other libraries, do not see it: they
// acquire the lock as soon as it is released.
//
// Only the exclusive holder of a lock with a queue can reserve it: For fails with zk.ErrBadArguments for the other
// kinds of lock, for readers, for a [holdfast.Tree], and with WithLocalHandoff and WithKeep. With a MultiLock, it
// reserves all locks or none. The error is holdfast.ErrLost if the lock is lost. After another error, the lock may be
// reserved. The node is <path>/.holdfast/reserved, and with [holdfast/layout.Named]
// <path>/.holdfast/named:<name>/reserved. It stays, and the next For writes it again.
func For(ctx context.Context, h *holdfast.Hold, d time.Duration) error {
	if err := reserve(ctx, h, d); err != nil {
		return fail("reserve", h, err)
	}
	return nil
}

// reserves is what For and Cancel need of the Hold.
var reserves = lend.Demand{By: "a reservation", Queued: true}

// Cancel removes the reservations of the locks of h, whoever made them. It is no error if there are none. It fails for
// the same Holds as [For].
func Cancel(ctx context.Context, h *holdfast.Hold) error {
	if err := lend.Meets(h, reserves); err != nil {
		return fail("unreserve", h, err)
	}
	for _, t := range lend.Tenures(h) {
		err := zk.Repeat(ctx, func() error {
			_, err := commit(ctx, h, []zk.Op{zk.DeleteOp(nodeOf(t), zk.AnyVersion)})
			return err
		})
		if err != nil && (!errors.Is(err, zk.ErrNoNode) || errors.Is(err, holdfast.ErrLost)) {
			return fail("unreserve", h, err)
		}
	}
	return nil
}

func reserve(ctx context.Context, h *holdfast.Hold, d time.Duration) error {
	if d < time.Millisecond || d > longest {
		return fmt.Errorf("%w: a reservation of %v: want 1ms to %v", zk.ErrBadArguments, d, longest)
	}
	if err := lend.Meets(h, reserves); err != nil {
		return err
	}
	tenures := lend.Tenures(h)
	exists := make([]bool, len(tenures)) // as far as we know
	for {
		var ops []zk.Op
		for i, t := range tenures {
			data, err := json.Marshal(content{t.Owner, t.Place.Token, d.Milliseconds()})
			if err != nil {
				return err
			}
			if node := nodeOf(t); exists[i] {
				ops = append(ops, zk.SetOp(node, data, zk.AnyVersion))
			} else {
				ops = append(ops, zk.CreateOp(node, data, zk.Persistent, t.Place.Queue.ACL...))
			}
		}
		var results []zk.Result
		err := zk.Repeat(ctx, func() (err error) {
			results, err = commit(ctx, h, ops)
			return err
		})
		if err == nil || errors.Is(err, holdfast.ErrLost) || !errors.Is(err, zk.ErrNodeExists) && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		for i, r := range results {
			switch {
			case errors.Is(r.Err, zk.ErrNodeExists):
				exists[i] = true
			case errors.Is(r.Err, zk.ErrNoNode) && exists[i]: // somebody has removed it since
				exists[i] = false
			case errors.Is(r.Err, zk.ErrNoNode):
				q := tenures[i].Place.Queue
				if err := lend.Ensure(ctx, tenures[i].Place, directory(q.Path, q.Grammar.Name)); err != nil {
					return err
				}
			}
		}
	}
}

// nodeOf returns the path of the node of the reservation of t's lock.
func nodeOf(t lend.Tenure) string { return node(t.Place.Queue.Path, t.Place.Queue.Grammar.Name) }

// commit is [holdfast.Hold.Commit], and returns its error bare: the caller says what has failed.
func commit(ctx context.Context, h *holdfast.Hold, ops []zk.Op) ([]zk.Result, error) {
	results, err := h.Commit(ctx, ops...)
	if e, ok := errors.AsType[*holdfast.Error](err); ok {
		err = e.Err
	}
	return results, err
}

// fail says which operation on the lock of h has failed.
func fail(op string, h *holdfast.Hold, err error) error {
	e := &holdfast.Error{Op: op, Err: err}
	if all := lend.Tenures(h); len(all) > 0 { // of a zero Hold there are none
		e.Path = all[0].Place.Queue.Path
	}
	return e
}
