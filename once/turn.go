package once

import (
	"context"
	"errors"
	"fmt"

	"holdfast"
	"holdfast/internal/lend"
	"holdfast/zk"
)

// A Turn is one run of a [Job] by the holder of a lock. See [Job.Turn].
type Turn struct {
	job  *call
	hold *holder
	seen record
	done bool // Done has succeeded
}

// Turn is [Job.Do] in two steps, for a caller that already holds a lock. All callers of the job must use the same
// lock. If an earlier run succeeded and counts, Turn returns nil and its Result. Otherwise the caller runs the job, and
// then calls Done, once. If it does not call Done, because the run has failed or the lock is lost, nothing is
// recorded, and the next holder runs the job. With [Once.Every], a run begins when its caller joins the queue of the lock.
//
// Do not mix Turn and Do for one job: Do uses a lock of its own. Turn fails with zk.ErrBadArguments with
// AtMostOnce, and for a Hold that does not keep others from the same turn:
//
//   - of a reader, a permit or a slot, which others can hold at the same time;
//   - of several locks;
//   - of a lock that another Hold has joined (see [holdfast.Reentrant]);
//   - of a lock with WithLocalHandoff or WithKeep, since a Turn tells runs apart by the token and the age of their nodes;
//   - of a lock of another client, since the run is recorded through the client of the lock.
//
// The error is holdfast.ErrLost or holdfast.ErrNotHeld if the Hold is over.
func (j *Job) Turn(ctx context.Context, hold *holdfast.Hold) (*Turn, Result, error) {
	c, err := j.call()
	o := j.once
	switch {
	case err != nil:
	case o.options.atMostOnce:
		err = fmt.Errorf("%w: a Turn cannot honour AtMostOnce", zk.ErrBadArguments)
	default:
		err = lend.Meets(hold, lend.Demand{By: "a Turn", Client: o.client, One: true})
	}
	var h *holder
	var seen record
	if err == nil {
		h = holderOf(hold)
		seen, err = c.look(ctx, h)
	}
	if err == nil {
		if last := c.counts(seen, h.place); last != nil {
			return nil, last.result(), last.outcome()
		}
		err = h.Err()
	}
	if err != nil {
		return nil, Result{}, &holdfast.Error{Op: "turn", Path: c.dir, Err: err}
	}
	return &Turn{job: c, hold: h, seen: seen}, Result{}, nil
}

// Done records that the run has succeeded, with its value. Only the holder of the lock can do that (see
// [holdfast.Hold.Commit]). The errors are those of [Job.Do]: holdfast.ErrLost if the run is not recorded because the lock was lost,
// and holdfast.ErrUncertain if Done cannot find out. The error is zk.ErrBadArguments if a run was recorded since Turn: by Done of
// this Turn, or by another caller, who has used another lock. A Turn is not safe for concurrent use.
func (t *Turn) Done(ctx context.Context, value []byte) (Result, error) {
	j, h := t.job, t.hold
	if t.done {
		return Result{}, &holdfast.Error{Op: "record", Path: j.dir, Err: fmt.Errorf("%w: the run of this Turn is recorded: call Turn again for the next run", zk.ErrBadArguments)}
	}
	m := &mark{Owner: j.owner, Token: h.Token(), Began: h.place.Ctime(), value: value}
	r, err := m.result(), error(nil)
	r.Ran = true
	if len(value) > MaxValue {
		err = fmt.Errorf("%w: %d bytes; want at most %d", zk.ErrTooLarge, len(value), MaxValue)
	} else {
		err = j.finish(ctx, h, t.seen, m)
		for errors.Is(err, zk.ErrNoNode) && !errors.Is(err, holdfast.ErrLost) { // the directory of the key, or an old mark
			if err = lend.Ensure(ctx, h.place, j.dir); err == nil {
				t.seen.done = nil
				err = j.finish(ctx, h, t.seen, m)
			}
		}
	}
	if recorded := errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrBadVersion); recorded && !errors.Is(err, holdfast.ErrLost) {
		err = fmt.Errorf("%w: another run was recorded since this Turn began: call Turn once for each run, and use one lock for all runs", zk.ErrBadArguments)
	}
	if err != nil {
		return r, &holdfast.Error{Op: "record", Path: j.dir, Err: err}
	}
	t.done = true
	r.At = j.recorded(ctx, h, m.Token)
	return r, nil
}
