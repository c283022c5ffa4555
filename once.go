package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// Bounds of a Once.
const (
	// MaxOnceKey is the length of the longest key, in bytes.
	MaxOnceKey = 256
	// MaxOnceValue is the size of the largest value that a run can leave for later callers, in bytes.
	MaxOnceValue = 64 << 10
)

// A Once runs a function once for each key, or once in each period: at most one run at a time, and one successful run in all,
// over all clients. Later callers get the result of that run. A Once has no state of its own and is safe for
// concurrent use.
//
// Each key has a directory with a queue like that of a [Mutex], and with the mark of its run. A Once uses
// Curator's node names. It keeps its directories in <path>/once-0 to <path>/once-f, so these names are
// reserved below the path of every lock. The directories are containers, which the server removes some
// time after they became empty. Marks stay until [Job.Forget] or a later run (see [ForgetAfter]) removes
// them. No node has a time to live.
type Once struct {
	client  *zk.Client
	path    string
	options options
}

// onceOptions are the options that only a Once has.
type onceOptions struct {
	atMostOnce  bool
	forgetAfter time.Duration // 0: never
}

// AtMostOnce makes a [Once] run a key once at the most, instead of at least once. The run is recorded before
// it begins, in a transaction that checks the lock. If the runner then fails, crashes or loses the lock,
// nobody runs the key again. Later callers get ErrBegun. [Job.Forget] allows another run. So does [ForgetAfter]
// after its time, if the record says that the run failed.
//
// Such a record binds all callers of the key, also those without the option.
func AtMostOnce() Option {
	return func(o *options) {
		o.once.atMostOnce = true
		o.set(setAtMostOnce, true)
	}
}

// ForgetAfter lets a run of a [Once] remove the marks of other keys that are older than d, by the server's
// clock. The run removes them in the transaction that writes its own mark, at most 16 of them. After that,
// those keys can run again. So choose d longer than a caller may be late. The default keeps all marks.
//
// A run looks at 16 other keys at the most, drawn at random. So a mark can stay for longer than d.
//
// Runs that [AtMostOnce] has recorded, and that have no end, stay until [Job.Forget].
func ForgetAfter(d time.Duration) Option {
	return func(o *options) {
		o.once.forgetAfter = d
		setNumber(o, setForgetAfter, d, d > 0)
	}
}

// A Result says which run has answered a call of a [Once].
type Result struct {
	Ran   bool   // this call ran the function
	Owner string // of the runner, see WithOwner
	Token int64  // fencing token of the run: a later run of the key has a larger one
	Value []byte // what the function returned
	// Began is when the runner joined the queue, and At when its end was recorded, both by the server's
	// clock. At is zero if no end is recorded, or if the runner could not read its time.
	Began, At time.Time
}

// NewOnce names the Once at path. It sends nothing.
func NewOnce(c *zk.Client, path string, opts ...Option) *Once {
	return &Once{c, path, newOptions("a Once", opts)}
}

// A Job is what a [Once] does once: for a key, or in a period. It has no state of its own and is safe for concurrent use.
type Job struct {
	once   *Once
	key    string
	every  bool // once in a period
	period time.Duration
}

// Key names a job that is done once: one run in all succeeds. A key is any text of 1 to MaxOnceKey bytes.
func (o *Once) Key(key string) *Job { return &Job{once: o, key: key} }

// Every names a job that is done again after d: a run counts if it has begun less than d before, by the server's clock. It is
// for programs on several hosts that run the same job at the same time, though their clocks differ. Choose d larger than the
// difference of the clocks, and smaller than the job's period less that difference. If there is no such d, use [Once.Key] with
// the scheduled time as the key. A Once has one such job, so its Recorded and Forget are the same for any d. If d is not above
// zero, the error of every call is zk.ErrBadArguments.
//
// A run counts from the moment when its caller joined the queue, and a call compares that with the moment
// when it joined itself. So neither the length of a run nor the wait for it moves the schedule. A caller
// that joined d or more after a run had begun waits for its end and then runs. A run that fails, crashes or
// loses the lock does not count, unless [AtMostOnce] is set. Then it counts from its beginning, and callers
// within d of it get ErrBegun.
//
// If the server's clock goes back, by itself or with a change of leader, a run in the apparent future
// counts if it is less than d away. So a clock that goes back makes no pause longer than 2d. If it goes back
// by d or more, one run can be repeated. A call costs a place in the queue, also if its function does not run.
func (o *Once) Every(d time.Duration) *Job { return &Job{once: o, every: true, period: d} }

// Do calls f, unless a run counts that has succeeded before. Then it returns the result of that run, and
// needs one read for it if the job has a key. While another caller runs the job, Do waits in a queue.
//
// If f succeeds, Do records the result. Only the holder of the job's lock can do that (see [Hold.Commit]),
// and Do returns without an error only if the result is recorded. If f returns an error or panics, or
// returns more than MaxOnceValue bytes, nothing is recorded, and the next caller runs. Do returns the error
// of f as it is, and zk.ErrTooLarge for a value that is too large. If the runner crashes or loses the lock, the
// next caller runs. [AtMostOnce] changes that.
//
// The context of f ends with ctx, or when the lock is lost. Then f must stop at once: after a loss, the next
// caller may run already. A Do of the same job with that context fails with ErrDeadlock.
//
// ctx bounds the wait. It does not bound the recording: if f returns without an error, Do records the
// result even after the end of ctx, while the session lives. If the connection is lost meanwhile, Do finds out
// whether the result was recorded. That takes three session timeouts at most. The error is ErrLost if the result
// was not recorded, and ErrUncertain if Do cannot find out. With AtMostOnce, the error is also ErrUncertain if
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
		err = &Error{Op: "do", Path: c.dir, Err: err}
	}
	switch {
	case c.failed == nil:
		return r, err
	case err == nil:
		return r, c.failed
	}
	return r, errors.Join(c.failed, err)
}

// Forget removes what is recorded of the job. Then the next caller runs. Forget waits while a run is under way. It is no
// error if nothing is recorded.
func (j *Job) Forget(ctx context.Context) error { return j.forget(ctx, anyRun) }

// ForgetRun is Forget for the run with the token, as [Job.Recorded] returns it. The error is ErrNotHeld if that run is
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
		return &Error{Op: "forget", Path: c.dir, Err: err}
	}
	return nil
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
		err = &Error{Op: "read the run of", Path: c.dir, Err: err}
	}
	return r, err
}

// A call is one call of a Job.
type call struct {
	*Once
	marks
	lock   lock          // the job's queue
	period time.Duration // 0: the job has a key
	f      func(context.Context) ([]byte, error)
	failed error // by f
}

// call checks the job.
func (j *Job) call() (*call, error) {
	o := j.once
	c := &call{Once: o, period: j.period, marks: marks{dir: o.path}}
	if err := cmp.Or(queue.ValidatePath(o.path), o.options.refused); err != nil {
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
	plain := o.options
	plain.once = onceOptions{}
	c.lock = newPart(o.client, c.dir, o.path, "", plain) // look looks at the path
	return c, nil
}

// answer implements Do.
func (j *call) answer(ctx context.Context) (Result, error) {
	if j.period == 0 {
		m, err := j.read(ctx, j.client, j.done())
		if m != nil || err != nil {
			return m.result(), errors.Join(err, m.outcome())
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
		if errors.Is(err, ErrUncertain) && ctx.Err() == nil {
			continue // f was not called, and the next turn finds out what is recorded
		}
		if turn, err = turn.Outlived(ctx, err); turn == 0 {
			return r, err
		}
	}
}

// enter acquires the key's lock.
func (j *call) enter(ctx context.Context) (*Hold, error) {
	h, err := j.lock.attempt(ctx, "lock", 0, func(ctx context.Context) (*Hold, error) {
		return outlive(ctx, func() (*Hold, error) { return j.lock.enter(ctx, names.Mutex, true) })
	})
	return h, errors.Unwrap(err) // the caller says which operation has failed
}

// turn decides under the lock whether to run, and runs. It releases the lock. started: f was called, so
// nothing must be tried again.
func (j *call) turn(ctx context.Context, h *Hold) (_ Result, started bool, _ error) {
	defer func() { // also if f panics
		if started {
			h.Unlock() // the result is recorded by now, or will not be
		} else {
			h.letGo(ctx)
		}
	}()
	seen, err := j.look(ctx, h)
	if err != nil {
		return Result{}, false, err
	}
	if last := j.counts(seen, h.first()); last != nil {
		return last.result(), false, last.outcome()
	}
	m := &mark{Owner: j.options.note.Owner, Token: h.Token(), Began: h.first().Ctime()}
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
func (j *call) begin(ctx context.Context, h *Hold, seen record, m *mark) error {
	if !j.options.once.atMostOnce {
		return errors.Join(h.over(), context.Cause(ctx))
	}
	ops := []zk.Op{j.bump(zk.AnyVersion), j.put(j.begun(), seen.begun, m)}
	undo := []zk.Op{j.bump(zk.AnyVersion), zk.DeleteOp(j.begun(), zk.AnyVersion)}
	if seen.begun != nil { // of an earlier period: it may count for callers with a longer one
		undo[1] = zk.SetOp(j.begun(), seen.begun.encode(), zk.AnyVersion)
	}
	err := j.write(ctx, h, j.begun(), m.Token, ops, undo)
	if err == nil {
		err = errors.Join(h.over(), context.Cause(ctx))
	}
	if err != nil {
		j.withdraw(ctx, h, undo)
	}
	return err
}

// run calls f and records how it ends.
func (j *call) run(ctx context.Context, h *Hold, seen record, m *mark) (Result, error) {
	var err error
	m.value, err = j.work(ctx, h)
	if err == nil && len(m.value) > MaxOnceValue {
		err = fmt.Errorf("%w: the function returned %d bytes; want at most %d", zk.ErrTooLarge, len(m.value), MaxOnceValue)
	}
	r := m.result()
	r.Ran = true
	if j.failed = err; err != nil {
		if r.Value = nil; !j.options.once.atMostOnce {
			return r, nil
		}
		m.value, m.Failed = nil, shorten(err.Error())
		if h.over() != nil {
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
func (j *call) work(ctx context.Context, h *Hold) ([]byte, error) {
	held, cancel := context.WithCancelCause(h.Context())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer func() {
		stop()
		cancel(nil)
	}()
	return j.f(held)
}

// finish records the end of a run. In the same transaction, it removes old marks of other keys.
func (j *call) finish(ctx context.Context, h *Hold, seen record, m *mark) error {
	for prune := j.options.once.forgetAfter > 0; ; prune = false {
		ops := []zk.Op{j.bump(zk.AnyVersion), j.put(j.done(), seen.done, m)}
		if j.options.once.atMostOnce {
			ops = append(ops, zk.DeleteOp(j.begun(), zk.AnyVersion))
		}
		var old []zk.Op
		if prune {
			var version int32
			if old, version = j.old(h.first()); len(old) > 0 {
				ops[0] = j.bump(version)
				ops = append(ops, old...)
			}
		}
		err := j.write(ctx, h, j.done(), m.Token, ops, nil)
		changed := errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode)
		if len(old) == 0 || !changed || errors.Is(err, ErrLost) {
			return err
		}
	}
}

// recorded returns when the server has recorded the end of our run, or zero if nobody answers.
func (j *call) recorded(ctx context.Context, h *Hold, token int64) time.Time {
	session := h.first().Session
	var stat zk.Stat
	err := queue.Retry(session.Context(), func() (err error) {
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
		h.letGo(ctx)
		if turn, err = turn.Outlived(ctx, err); turn == 0 {
			return err
		}
	}
}

// forgetUnder removes what is recorded, under the lock. This lock does not exclude a run by [Job.Turn], whose lock is
// another one. So the marks are removed in the version that was read.
func (j *call) forgetUnder(ctx context.Context, h *Hold, token int64) error {
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
			return fmt.Errorf("%w: no run with the token %d is recorded", ErrNotHeld, token)
		}
		_, err = h.commit(ctx, ops)
		changed := (errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode)) && !errors.Is(err, ErrLost)
		if err == nil || !changed && !zk.MayHaveHappened(err) || errors.Is(err, zk.ErrUnimplemented) || ctx.Err() != nil {
			return err
		}
		doubt = doubt || zk.MayHaveHappened(err)
	}
}
