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

// A Once runs a function once for each key: at most one run at a time, and one successful run in all, over
// all clients. Later callers get the result of that run. A Once has no state of its own and is safe for
// concurrent use.
//
// Each key has a directory with a queue like that of a [Mutex], and with the mark of its run. A Once uses
// Curator's node names. It keeps its directories in <path>/once-0 to <path>/once-f, so these names are
// reserved below the path of every lock. The directories are containers, which the server removes some
// time after they became empty. Marks stay until [Once.Forget] or a later run (see [ForgetAfter]) removes
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
// nobody runs the key again. Later callers get ErrBegun. [Once.Forget] allows another run. So does [ForgetAfter]
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
// Runs that [AtMostOnce] has recorded, and that have no end, stay until [Once.Forget].
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

// Do calls f, unless a run of the key has succeeded before. Then it returns the result of that run, and
// needs one read for it. While another caller runs the key, Do waits in a queue. A key is any text of 1 to
// MaxOnceKey bytes.
//
// If f succeeds, Do records the result. Only the holder of the key's lock can do that (see [Hold.Commit]),
// and Do returns without an error only if the result is recorded. If f returns an error or panics, or
// returns more than MaxOnceValue bytes, nothing is recorded, and the next caller runs. Do returns the error
// of f as it is, and zk.ErrTooLarge for a value that is too large. If the runner crashes or loses the lock, the
// next caller runs. [AtMostOnce] changes that.
//
// The context of f ends with ctx, or when the lock is lost. Then f must stop at once: after a loss, the next
// caller may run already. A Do of the same key with that context fails with ErrDeadlock.
//
// ctx bounds the wait. It does not bound the recording: if f returns without an error, Do records the
// result even after the end of ctx, while the session lives. If the connection is lost meanwhile, Do finds out
// whether the result was recorded. That takes three session timeouts at most. The error is ErrLost if the result
// was not recorded, and ErrUncertain if Do cannot find out. With AtMostOnce, the error is also ErrUncertain if
// ctx ends and Do does not know whether the beginning is recorded. Result.Ran tells whether f was called.
//
// After [Once.Forget], a caller whose server lags can still get the result of the forgotten run.
func (o *Once) Do(ctx context.Context, key string, f func(context.Context) ([]byte, error)) (Result, error) {
	return o.call(ctx, "do", key, 0, f)
}

// Within calls f, unless a run has begun less than d before, by the server's clock. Then it returns the
// result of that run. It is for programs on several hosts that run the same job at the same time, though
// their clocks differ. Choose d larger than the difference of the clocks, and smaller than the job's period
// less that difference. If there is no such d, use [Once.Do] with the scheduled time as the key. If d is not
// above zero, the error is zk.ErrBadArguments.
//
// A run counts from the moment when its caller joined the queue, and a call compares that with the moment
// when it joined itself. So neither the length of a run nor the wait for it moves the schedule. A caller
// that joined d or more after a run had begun waits for its end and then runs. A run that fails, crashes or
// loses the lock does not count, unless [AtMostOnce] is set. Then it counts from its beginning, and callers
// within d of it get ErrBegun.
//
// If the server's clock goes back, by itself or with a change of leader, a run in the apparent future
// counts if it is less than d away. So a clock that goes back makes no pause longer than 2d. If it goes back
// by d or more, one run can be repeated.
//
// Otherwise Within is like Do. A call costs a place in the queue, also if f does not run.
func (o *Once) Within(ctx context.Context, d time.Duration, f func(context.Context) ([]byte, error)) (Result, error) {
	if d <= 0 {
		return Result{}, &Error{Op: "within", Path: o.path, Err: fmt.Errorf("%w: a period of %v: want more than 0", zk.ErrBadArguments, d)}
	}
	return o.call(ctx, "within", "", d, f)
}

// Forget removes what is recorded of the key. Then the next caller runs. Forget waits while a run of the key
// is under way. It is no error if nothing is recorded.
func (o *Once) Forget(ctx context.Context, key string) error {
	return o.forget(ctx, key, 0, anyRun)
}

// ForgetWithin is Forget for the runs of Within and TurnWithin.
func (o *Once) ForgetWithin(ctx context.Context) error { return o.forget(ctx, "", anyPeriod, anyRun) }

// ForgetRun is Forget for the run with the token, as [Once.Recorded] returns it. The error is ErrNotHeld if that run is
// not recorded any more. Then ForgetRun has removed nothing.
func (o *Once) ForgetRun(ctx context.Context, key string, token int64) error {
	return o.forget(ctx, key, 0, token)
}

// ForgetRunWithin is ForgetRun for the runs of Within and TurnWithin.
func (o *Once) ForgetRunWithin(ctx context.Context, token int64) error {
	return o.forget(ctx, "", anyPeriod, token)
}

// anyRun is the token of no run.
const anyRun = 0

func (o *Once) forget(ctx context.Context, key string, period time.Duration, token int64) error {
	j, err := o.job(key, period)
	if err == nil {
		err = j.forget(ctx, token)
	}
	if err != nil {
		return &Error{Op: "forget", Path: j.dir, Err: err}
	}
	return nil
}

// Recorded returns the Result of the last run of the key that is recorded, or nil if there is none. It does not
// wait for a run that is under way. If the run has failed or has no end (see [AtMostOnce]), the error is ErrBegun.
func (o *Once) Recorded(ctx context.Context, key string) (*Result, error) {
	return o.recordedOf(ctx, key, 0)
}

// RecordedWithin is Recorded for the runs of Within and TurnWithin.
func (o *Once) RecordedWithin(ctx context.Context) (*Result, error) {
	return o.recordedOf(ctx, "", anyPeriod)
}

// anyPeriod makes a job of Within where the period does not matter.
const anyPeriod = time.Millisecond

func (o *Once) recordedOf(ctx context.Context, key string, period time.Duration) (r *Result, err error) {
	j, err := o.job(key, period)
	var last, begun *mark
	if err == nil {
		err = queue.BehindWrite(ctx, j.client, j.dir, func() (err error) {
			if last, err = j.read(ctx, j.client, j.done()); err == nil {
				begun, err = j.read(ctx, j.client, j.begun())
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
		err = &Error{Op: "read the run of", Path: j.dir, Err: err}
	}
	return r, err
}

func (o *Once) call(ctx context.Context, op, key string, d time.Duration, f func(context.Context) ([]byte, error)) (Result, error) {
	j, err := o.job(key, d)
	var r Result
	if err == nil {
		j.f = f
		r, err = j.answer(ctx)
	}
	if err != nil {
		err = &Error{Op: op, Path: j.dir, Err: err}
	}
	switch {
	case j.failed == nil:
		return r, err
	case err == nil:
		return r, j.failed
	}
	return r, errors.Join(j.failed, err)
}

// check says what is wrong with the path and the options.
func (o *Once) check() error { return cmp.Or(queue.ValidatePath(o.path), o.options.refused) }

// A job is one call.
type job struct {
	*Once
	marks
	lock   lock // the key's queue
	period time.Duration
	f      func(context.Context) ([]byte, error)
	failed error // by f
}

// job checks the arguments of a call. With a period, it has no key.
func (o *Once) job(key string, period time.Duration) (*job, error) {
	j := &job{Once: o, period: period, marks: marks{dir: o.path}}
	if err := o.check(); err != nil {
		return j, err
	}
	name := within
	if period == 0 {
		var err error
		if name, err = escapeKey(key); err != nil {
			return j, err
		}
	}
	j.marks = marksOf(o.path, name)
	plain := o.options
	plain.once = onceOptions{}
	j.lock = newPart(o.client, j.dir, o.path, "", plain) // look looks at the path
	return j, nil
}

// answer implements Do and Within.
func (j *job) answer(ctx context.Context) (Result, error) {
	if j.period == 0 {
		m, err := j.read(ctx, j.client, j.done())
		if m != nil || err != nil {
			return m.result(), errors.Join(err, m.outcome())
		}
	}
	for turn := pace(1); ; {
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
		if turn, err = turn.outlived(ctx, err); turn == 0 {
			return r, err
		}
	}
}

// enter acquires the key's lock.
func (j *job) enter(ctx context.Context) (*Hold, error) {
	h, err := j.lock.attempt(ctx, "lock", 0, func(ctx context.Context) (*Hold, error) {
		return outlive(ctx, func() (*Hold, error) { return j.lock.enter(ctx, names.Mutex, true) })
	})
	return h, errors.Unwrap(err) // the caller says which operation has failed
}

// turn decides under the lock whether to run, and runs. It releases the lock. started: f was called, so
// nothing must be tried again.
func (j *job) turn(ctx context.Context, h *Hold) (_ Result, started bool, _ error) {
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
func (j *job) counts(seen record, p *queue.Place) *mark {
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
func (j *job) begin(ctx context.Context, h *Hold, seen record, m *mark) error {
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
func (j *job) run(ctx context.Context, h *Hold, seen record, m *mark) (Result, error) {
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
func (j *job) work(ctx context.Context, h *Hold) ([]byte, error) {
	held, cancel := context.WithCancelCause(h.Context())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer func() {
		stop()
		cancel(nil)
	}()
	return j.f(held)
}

// finish records the end of a run. In the same transaction, it removes old marks of other keys.
func (j *job) finish(ctx context.Context, h *Hold, seen record, m *mark) error {
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
func (j *job) recorded(ctx context.Context, h *Hold, token int64) time.Time {
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
func (j *job) forget(ctx context.Context, token int64) error {
	for turn := pace(1); ; {
		h, err := j.enter(ctx)
		if err != nil {
			return err
		}
		err = j.forgetUnder(ctx, h, token)
		h.letGo(ctx)
		if turn, err = turn.outlived(ctx, err); turn == 0 {
			return err
		}
	}
}

// forgetUnder removes what is recorded, under the lock. This lock does not exclude a run by [Once.Turn], whose lock is
// another one. So the marks are removed in the version that was read.
func (j *job) forgetUnder(ctx context.Context, h *Hold, token int64) error {
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
