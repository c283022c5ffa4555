package gocronholdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"holdfast"
	"holdfast/once"
)

// errNotCalled means that the function of Wrap was called without a lock.
var errNotCalled = errors.New("Locker.Wrap needs a run that this Locker has locked: give the job the name that Wrap got, and the scheduler this Locker")

// errNotRun means that Wrap was used, and that no function of Wrap has taken this run.
var errNotRun = errors.New("no function of Locker.Wrap ran for this lock: give the job WithName with the key of Wrap, and NewTask no context of your own, or a function before the run has refused it")

// A run is a job between Lock and Unlock. It is a gocron.Lock.
type run struct {
	locker *Locker
	key    string
	hold   *holdfast.Hold
	turn   *once.Turn
	value  []byte          // to record
	job    context.Context // of the job
	taken  bool            // by a wrapped function; guarded by locker.mu
	ended  bool            // that function has returned nil; guarded by locker.mu
}

// Unlock implements gocron.Lock: it records the run and releases the lock. gocron calls it with a context that
// has ended if the scheduler shuts down, so it ignores the context. It waits for the server while
// the session lives. gocron drops its error, so Unlock also logs it.
//
// A run whose wrapped function has failed or panicked is not recorded, see [Locker.Wrap]. The same holds for a run
// that no wrapped function has taken, if Wrap was ever used. That is an error.
func (r *run) Unlock(context.Context) error {
	l := r.locker
	l.mu.Lock()
	l.forget(r)
	succeeded := r.ended || !r.taken && !l.wraps
	missed := !r.taken && l.wraps
	l.mu.Unlock()
	var err error
	if missed {
		err = fmt.Errorf("gocronholdfast: job %s: %w", r.key, errNotRun)
	}
	if succeeded {
		// The session bounds it: a lost connection is waited for, since the lock is still ours.
		_, err = r.turn.Done(context.WithoutCancel(r.job), r.value)
	}
	if err = errors.Join(err, r.hold.Unlock()); err != nil {
		l.log.Error("the end of a job is not recorded, so another host can run this fire again", "job", r.key, "error", err)
	}
	return err
}

// forget removes r from those that wrapped functions can take. l.mu must be held.
func (l *Locker) forget(r *run) {
	l.runs[r.key] = slices.DeleteFunc(l.runs[r.key], func(other *run) bool { return other == r })
	if len(l.runs[r.key]) == 0 {
		delete(l.runs, r.key)
	}
}

// Wrap makes a function for gocron.NewTask whose context ends when the lock is lost. Then f must stop at once, since
// another host can run the fire already. The cause is holdfast.ErrLost. The context also ends with that
// of the job, which gocron cancels at Shutdown. [holdfast.FromContext] returns the Hold, for Token and Commit.
//
// key is the name of the job, as given to gocron.WithName. If f returns an error or panics, the run is not
// recorded, and a host that waits in Lock runs the fire.
//
// gocron does not tell a Locker how a run ended, or whether the function was called at all. So without Wrap, each run
// counts as a success, even if gocron.BeforeJobRunsSkipIfBeforeFuncErrors left it out. If Wrap is used once, all jobs of the Locker need it:
// a run that no wrapped function has taken is an error, and is not recorded. This happens
// if key is not the name of the job, or if NewTask got a context as an argument.
//
// The function returns the error of f. If the lock was lost before the end of f, it is joined with that loss. If the
// function is called without a lock of this Locker, it fails and does not call f.
func (l *Locker) Wrap(key string, f func(context.Context) error) func(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wraps = true
	return func(job context.Context) error {
		r := l.take(key, job)
		if r == nil {
			return fmt.Errorf("gocronholdfast: job %s: %w", key, errNotCalled)
		}
		ctx, cancel := context.WithCancelCause(r.hold.Context())
		stop := context.AfterFunc(job, func() { cancel(context.Cause(job)) })
		defer func() {
			stop()
			cancel(nil)
		}()
		if err := r.hold.Err(); err != nil {
			return err
		}
		if err := f(ctx); err != nil {
			return err
		}
		if err := r.hold.Err(); err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		r.ended = true
		return nil
	}
}

// take returns the oldest run of the job that no function has taken.
func (l *Locker) take(key string, job context.Context) *run {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.runs[key] {
		if r.job == job { // two schedulers in one process can share a Locker
			r.taken = true
			l.forget(r)
			return r
		}
	}
	return nil
}
