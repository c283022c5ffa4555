package once

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"holdfast"
	"holdfast/internal/lend"
	"holdfast/internal/queue"
	"holdfast/zk"
)

// A call is one call of a Job.
type call struct {
	*Once
	marks
	lock   *holdfast.Mutex
	period time.Duration // 0: the job has a key
	f      func(context.Context) ([]byte, error)
	failed error // by f
}

// call checks the job.
func (j *Job) call() (*call, error) {
	o := j.once
	c := &call{Once: o, period: j.period, marks: marks{dir: o.path}}
	if err := cmp.Or(queue.ValidatePath(o.path), o.refused); err != nil {
		return c, err
	}
	name := within
	switch {
	case !j.every:
		var err error
		if name, err = escapeKey(j.key); err != nil {
			return c, err
		}
	case j.period <= 0:
		return c, fmt.Errorf("%w: a period of %v: want more than 0", zk.ErrBadArguments, j.period)
	}
	c.marks = marksOf(o.path, name)
	part := lend.Part(o.path, "").(holdfast.Option) // look looks at the path
	c.lock = holdfast.NewMutex(o.client, c.dir, slices.Concat(o.options.locks, []holdfast.Option{part})...)
	return c, nil
}

// answer implements Do.
func (j *call) answer(ctx context.Context) (Result, error) {
	if j.period == 0 {
		m, err := j.read(ctx, j.client, j.done())
		if m != nil || err != nil {
			return m.result(), lend.Joined(err, m.outcome())
		}
	}
	for turn := queue.Pace(1); ; {
		h, err := j.enter(ctx)
		if err != nil {
			return Result{}, err
		}
		r, started, err := j.turn(ctx, h)
		if started || err == nil {
			return r, err
		}
		if errors.Is(err, holdfast.ErrUncertain) && ctx.Err() == nil {
			continue // f was not called, and the next turn finds out what is recorded
		}
		if turn, err = turn.Outlived(ctx, err); turn == 0 {
			return r, err
		}
	}
}

// enter acquires the job's lock.
func (j *call) enter(ctx context.Context) (*holder, error) {
	h, err := j.lock.Lock(ctx)
	if err != nil {
		return nil, errors.Unwrap(err) // the caller says which operation has failed
	}
	return holderOf(h), nil
}

// turn decides under the lock whether to run, and runs. It releases the lock. started: f was called, so
// nothing must be tried again.
func (j *call) turn(ctx context.Context, h *holder) (_ Result, started bool, _ error) {
	defer func() { // also if f panics
		if started {
			h.Unlock() // the result is recorded by now, or will not be
		} else {
			lend.LetGo(ctx, h.Hold)
		}
	}()
	seen, err := j.look(ctx, h)
	if err != nil {
		return Result{}, false, err
	}
	if last := j.counts(seen, h.place); last != nil {
		return last.result(), false, last.outcome()
	}
	m := &mark{Owner: j.owner, Token: h.Token(), Began: h.place.Ctime()}
	if err := j.begin(ctx, h, seen, m); err != nil {
		return Result{}, false, err
	}
	started = true
	r, err := j.run(ctx, h, seen, m)
	return r, true, err
}

// counts returns the mark that keeps us from running, or nil. The marks are what the holder of place p has
// seen.
func (j *call) counts(seen record, p *queue.Place) *mark {
	if j.period == 0 {
		if seen.done != nil {
			return seen.done
		}
		return seen.begun // its runner is gone, or we would not hold the lock
	}
	last := seen.done
	if seen.begun != nil && (last == nil || seen.begun.Token > last.Token) {
		last = seen.begun
	}
	if last == nil || time.Duration(max(p.Ctime()-last.Began, last.Began-p.Ctime()))*time.Millisecond >= j.period {
		return nil
	}
	return last
}

// begin records that a run begins, if it is one that counts at most once. If it fails, f must not be called.
func (j *call) begin(ctx context.Context, h *holder, seen record, m *mark) error {
	if !j.options.atMostOnce {
		return lend.Joined(h.Err(), context.Cause(ctx))
	}
	ops := []zk.Op{j.bump(zk.AnyVersion), j.put(j.begun(), seen.begun, m)}
	undo := []zk.Op{j.bump(zk.AnyVersion), zk.DeleteOp(j.begun(), zk.AnyVersion)}
	if seen.begun != nil { // of an earlier period: it may count for callers with a longer one
		undo[1] = zk.SetOp(j.begun(), seen.begun.encode(), zk.AnyVersion)
	}
	err := j.write(ctx, h, j.begun(), m.Token, ops, undo)
	if err == nil {
		err = lend.Joined(h.Err(), context.Cause(ctx))
	}
	if err != nil {
		j.withdraw(ctx, h, undo)
	}
	return err
}

// run calls f and records how it ends.
func (j *call) run(ctx context.Context, h *holder, seen record, m *mark) (Result, error) {
	var err error
	m.value, err = j.work(ctx, h)
	if err == nil && len(m.value) > MaxValue {
		err = fmt.Errorf("%w: the function returned %d bytes; want at most %d", zk.ErrTooLarge, len(m.value), MaxValue)
	}
	r := m.result()
	r.Ran = true
	if j.failed = err; err != nil {
		if r.Value = nil; !j.options.atMostOnce {
			return r, nil
		}
		m.value, m.Failed = nil, shorten(err.Error())
		if h.Err() != nil {
			return r, nil // the record of the beginning says enough
		}
	}
	if err := j.finish(ctx, h, seen, m); err != nil {
		return r, err
	}
	r.At = j.recorded(ctx, h, m.Token)
	return r, nil
}

// work calls f.
func (j *call) work(ctx context.Context, h *holder) ([]byte, error) {
	held, cancel := context.WithCancelCause(h.Context())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer func() {
		stop()
		cancel(nil)
	}()
	return j.f(held)
}

// finish records the end of a run. In the same transaction, it removes old marks of other keys.
func (j *call) finish(ctx context.Context, h *holder, seen record, m *mark) error {
	for prune := j.options.forgetAfter > 0; ; prune = false {
		ops := []zk.Op{j.bump(zk.AnyVersion), j.put(j.done(), seen.done, m)}
		if j.options.atMostOnce {
			ops = append(ops, zk.DeleteOp(j.begun(), zk.AnyVersion))
		}
		var old []zk.Op
		if prune {
			var version int32
			if old, version = j.old(h.place); len(old) > 0 {
				ops[0] = j.bump(version)
				ops = append(ops, old...)
			}
		}
		err := j.write(ctx, h, j.done(), m.Token, ops, nil)
		changed := errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode)
		if len(old) == 0 || !changed || errors.Is(err, holdfast.ErrLost) {
			return err
		}
	}
}

// recorded returns when the server has recorded the end of our run, or zero if nobody answers.
func (j *call) recorded(ctx context.Context, h *holder, token int64) time.Time {
	session := h.place.Session
	var stat zk.Stat
	err := zk.Retry(session.Context(), func() (err error) {
		stat, _, err = session.Exists(session.Context(), j.done())
		return err
	})
	if err == nil && stat.Mtime != 0 {
		return time.UnixMilli(stat.Mtime)
	}
	// The session has ended since. Another one may find that somebody has removed the mark.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), session.Timeout())
	defer cancel()
	if m, err := j.read(ctx, j.client, j.done()); err == nil && m != nil && m.Token == token {
		return time.UnixMilli(m.stat.Mtime)
	}
	return time.Time{}
}

// forget implements Forget and ForgetRun.
func (j *call) forget(ctx context.Context, token int64) error {
	for turn := queue.Pace(1); ; {
		h, err := j.enter(ctx)
		if err != nil {
			return err
		}
		err = j.forgetUnder(ctx, h, token)
		lend.LetGo(ctx, h.Hold)
		if turn, err = turn.Outlived(ctx, err); turn == 0 {
			return err
		}
	}
}

// forgetUnder removes what is recorded, under the lock. This lock does not exclude a run by [Job.Turn], whose lock is
// another one. So the marks are removed in the version that was read.
func (j *call) forgetUnder(ctx context.Context, h *holder, token int64) error {
	for doubt := false; ; {
		seen, err := j.look(ctx, h)
		if err != nil {
			return err
		}
		meant := func(m *mark) bool { return m != nil && (token == anyRun || m.Token == token) }
		ops := []zk.Op{j.bump(zk.AnyVersion)}
		if meant(seen.done) {
			ops = append(ops, zk.DeleteOp(j.done(), seen.done.stat.Version))
		}
		if meant(seen.begun) {
			ops = append(ops, zk.DeleteOp(j.begun(), seen.begun.stat.Version))
		}
		switch {
		case len(ops) == 1 && (token == anyRun || doubt):
			return nil
		case len(ops) == 1:
			return fmt.Errorf("%w: no run with the token %d is recorded", holdfast.ErrNotHeld, token)
		}
		err = h.commit(ctx, ops)
		changed := (errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode)) && !errors.Is(err, holdfast.ErrLost)
		if err == nil || !changed && !zk.MayHaveHappened(err) || errors.Is(err, zk.ErrUnimplemented) || ctx.Err() != nil {
			return err
		}
		doubt = doubt || zk.MayHaveHappened(err)
	}
}
