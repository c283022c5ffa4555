package once

import (
	"context"

	"holdfast"
	"holdfast/internal/lend"
	"holdfast/internal/queue"
)

// Do calls f, unless an earlier run succeeded and counts. (With [Once.Every], a run counts for a period.) In that
// case, Do returns the result of that run. If the job has a key, that takes one read. While another caller runs the job, Do waits in a queue.
//
// If f succeeds, Do records the result. Only the holder of the job's lock can do that (see [holdfast.Hold.Commit]),
// and Do returns without an error only if the result is recorded. If f returns an error or panics, or
// returns more than MaxValue bytes, nothing is recorded, and the next caller runs. Do returns the error
// of f as it is, and zk.ErrTooLarge for a value that is too large. If the runner crashes or loses the lock, the
// next caller runs. [AtMostOnce] changes that.
//
// The context of f ends with ctx, or when the lock is lost. Then f must stop at once: after a loss, the next
// caller may run already. A Do of the same job with that context fails with holdfast.ErrDeadlock.
//
// ctx bounds the wait. It does not bound the recording: if f returns without an error, Do records the
// result even after the end of ctx, while the session lives. If the connection is lost meanwhile, Do finds out
// whether the result was recorded. That takes three session timeouts at most. The error is holdfast.ErrLost if the
// result was not recorded, and holdfast.ErrUncertain if Do cannot find out. With AtMostOnce, the error is also ErrUncertain if
// ctx ends and Do does not know whether the beginning is recorded. Result.Ran tells whether f was called.
//
// After [Job.Forget], a caller whose server lags can still get the result of the forgotten run.
func (j *Job) Do(ctx context.Context, f func(context.Context) ([]byte, error)) (Result, error) {
	c, err := j.call()
	var r Result
	if err == nil {
		c.f = f
		r, err = c.answer(ctx)
	}
	if err != nil {
		err = &holdfast.Error{Op: "do", Path: c.dir, Err: err}
	}
	switch {
	case c.failed == nil:
		return r, err
	case err == nil:
		return r, c.failed
	}
	return r, lend.Joined(c.failed, err)
}

// Recorded returns the Result of the last run that is recorded, or nil if there is none, however long ago it was. It does not
// wait for a run that is under way. If the run has failed or has no end (see [AtMostOnce]), the error is ErrBegun.
func (j *Job) Recorded(ctx context.Context) (r *Result, err error) {
	c, err := j.call()
	var last, begun *mark
	if err == nil {
		err = queue.BehindWrite(ctx, c.client, c.dir, func() (err error) {
			if last, err = c.read(ctx, c.client, c.done()); err == nil {
				begun, err = c.read(ctx, c.client, c.begun())
			}
			return err
		})
	}
	if begun != nil && (last == nil || begun.Token > last.Token) {
		last = begun
	}
	if err == nil && last != nil {
		found := last.result()
		r, err = &found, last.outcome()
	}
	if err != nil {
		err = &holdfast.Error{Op: "read the run of", Path: c.dir, Err: err}
	}
	return r, err
}

// Forget removes what is recorded of the job. Then the next caller runs. Forget waits while a run is under way. It is no
// error if nothing is recorded.
func (j *Job) Forget(ctx context.Context) error { return j.forget(ctx, anyRun) }

// ForgetRun is Forget for the run with the token, as [Job.Recorded] returns it. The error is holdfast.ErrNotHeld if that run is
// not recorded any more. Then ForgetRun has removed nothing.
func (j *Job) ForgetRun(ctx context.Context, token int64) error { return j.forget(ctx, token) }

// anyRun is the token of no run.
const anyRun = 0

func (j *Job) forget(ctx context.Context, token int64) error {
	c, err := j.call()
	if err == nil {
		err = c.forget(ctx, token)
	}
	if err != nil {
		return &holdfast.Error{Op: "forget", Path: c.dir, Err: err}
	}
	return nil
}
