// Package once runs a function once for each key, or once in each period, whoever calls it: a report that three hosts start, a
// scheduled job, an invoice. At most one call runs the function at a time, and only one run succeeds, over all
// clients. Later callers get the result of that run. A lock of package holdfast keeps runs apart, but nothing of a run is
// left when the lock is released. This package records the run.
//
// # Which call
//
//   - [Job.Do] of a [Once.Key]: once for a key, such as the day of a report.
//   - [Job.Do] of [Once.Every]: once in a period, by the server's clock.
//   - [Job.Turn]: either of the two, for a caller that already holds a lock.
//   - [AtMostOnce]: a run that was begun is not repeated, also if it fails.
//
// # Which lock
//
// Each job has a lock of its own, which Do takes: a [holdfast.Mutex] in the directory of the job. The functions of
// different jobs run at the same time. A Turn uses the lock that its caller holds, so all callers of that job must hold
// the same lock.
//
// # Errors and goroutines
//
// The errors are those of package holdfast: a [*holdfast.Error], which wraps [ErrBegun], [holdfast.ErrLost],
// [holdfast.ErrUncertain] or an error of package zk. All types but [Turn] are safe for concurrent use. A call
// whose context has ended can leave a goroutine that removes its node. No other goroutine outlasts a call.
package once

import (
	"errors"
	"fmt"
	"time"

	"holdfast"
	"holdfast/internal/lend"
	"holdfast/zk"
)

// Bounds of a job.
const (
	// MaxKey is the length of the longest key, in bytes.
	MaxKey = 256
	// MaxValue is the size of the largest value that a run can leave for later callers, in bytes.
	MaxValue = 64 << 10
)

// ErrBegun means that a run with AtMostOnce has begun, and that no success of it is recorded: it failed, or its runner
// is gone. The error and the Result say which run.
var ErrBegun = errors.New("begun, and not done")

// A Once is a directory of jobs. It has no state of its own.
//
// Each key has a directory with a queue like that of a [holdfast.Mutex], and with the mark of its run. A Once uses
// Curator's node names. It keeps its directories in <path>/once-0 to <path>/once-f, so these names are
// reserved below the path of every lock. The directories are containers, which the server removes some
// time after they became empty. Marks stay until [Job.Forget] or a later run (see [ForgetAfter]) removes
// them. No node has a time to live.
type Once struct {
	client  *zk.Client
	path    string
	options options
	owner   string
	acl     []zk.ACL
	refused error // an option is wrong, so every call fails
}

// New names the Once at path. It sends nothing.
func New(c *zk.Client, path string, opts ...Option) *Once {
	o := &Once{client: c, path: path}
	for _, opt := range opts {
		opt(&o.options)
	}
	locks := lend.Read("a Once", o.options.locks)
	o.owner, o.acl, o.refused = locks.Owner, locks.ACL, locks.Err
	if d := o.options.forgetAfter; d < 0 && o.refused == nil {
		o.refused = fmt.Errorf("%w: ForgetAfter(%v) is negative", zk.ErrBadArguments, d)
	}
	return o
}

// An Option sets one property of a [Once]. If an option is wrong, every call fails with zk.ErrBadArguments, and the error
// names the option.
type Option func(*options)

type options struct {
	locks       []holdfast.Option
	atMostOnce  bool
	forgetAfter time.Duration // 0: never
}

// AtMostOnce makes a job run once at the most, instead of at least once. The run is recorded before
// it begins, in a transaction that checks the lock. If the runner then fails, crashes or loses the lock,
// nobody runs the job again. Later callers get ErrBegun. [Job.Forget] allows another run. So does [ForgetAfter]
// after its time, if the record says that the run failed.
//
// Such a record binds all callers of the job, also those without the option.
func AtMostOnce() Option { return func(o *options) { o.atMostOnce = true } }

// ForgetAfter lets a run remove the marks of other keys that are older than d, by the server's
// clock. The run removes them in the transaction that writes its own mark, at most 16 of them. After that,
// those keys can run again. So choose d longer than a caller may be late. The default keeps all marks.
//
// A run looks at 16 other keys at the most, drawn at random. So a mark can stay for longer than d.
//
// Runs that [AtMostOnce] has recorded, and that have no end, stay until [Job.Forget].
func ForgetAfter(d time.Duration) Option { return func(o *options) { o.forgetAfter = d } }

// WithLock sets options of the locks that the jobs take: WithOwner, WithReason, WithLabels, WithACL and WithObserver of
// package holdfast. The owner and the access control list are also those of the records.
func WithLock(opts ...holdfast.Option) Option {
	return func(o *options) { o.locks = append(o.locks, opts...) }
}

// A Job is a function that a [Once] runs once: for a key, or in a period. It has no state of its own.
type Job struct {
	once   *Once
	key    string
	every  bool // once in a period
	period time.Duration
}

// Key names a job that is done once: only one run succeeds. A key is any text of 1 to MaxKey bytes.
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

// A Result says which run has answered a call of a [Job].
type Result struct {
	Ran   bool   // this call ran the function
	Owner string // of the runner, see holdfast.WithOwner
	Token int64  // fencing token of the run: a later run of the key has a larger one
	Value []byte // what the function returned
	// Began is when the runner joined the queue, and At when its end was recorded, both by the server's
	// clock. At is zero if no end is recorded, or if the runner could not read its time.
	Began, At time.Time
}
