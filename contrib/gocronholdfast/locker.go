// Package gocronholdfast lets the schedulers of gocron on several hosts run each job once per fire. Without it,
// a lock keeps the hosts' runs apart, but each host still runs the job. It is a module of its own, so programs
// without it do not get gocron.
//
//	locker, err := gocronholdfast.NewLocker(c, "/myapp/jobs", gocronholdfast.WithInterval(time.Minute))
//	…
//	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
// A [Locker] shares the fires out: whichever host comes first runs the job. With an [Elector], one host runs all
// jobs until it stops or loses its connection.
//
// The only goroutine of this package is that of an Elector. Elector.Close ends it.
package gocronholdfast

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-co-op/gocron/v2"

	"holdfast"
	"holdfast/once"
	"holdfast/zk"
)

// ErrDone means that the fire has run already, on this host or on another one. It is no failure.
var ErrDone = errors.New("the fire has run already")

const (
	// longestWait bounds a call of Lock, see WithWait.
	longestWait = time.Minute
	// memory is how long the runs of WithSlot are remembered.
	memory = 24 * time.Hour
	// onceDirectory is where holdfast run --once-per keeps its records, below the path of the lock.
	onceDirectory = "/.holdfast"
)

// A Locker is a gocron.Locker with which each fire of a job runs once, over all hosts. Schedulers may share
// it, and it is safe for concurrent use.
//
// A job has a lock, so it never runs on two hosts at a time. When a run ends, Unlock records it in ZooKeeper,
// where the record outlives the process. Until then, the schedulers on other hosts wait in Lock. If the
// session of the runner ends first, nothing is recorded, and a scheduler that still waits runs the fire. A job that
// must stop then needs [Locker.Wrap].
//
// The session of a host that died lasts for the session timeout and a tick of the server, 40 s and 2 s by default. So if
// Lock waits for less than that, nobody runs the fire of a host that died, nor the fires until its session ends.
// The Locker logs a warning then, when it first has the lock. Give such jobs a shorter zk.Config.SessionTimeout.
//
// gocron schedules the next fire of a job when Lock returns. Fires that fall into a wait are left out on that host. With
// the default of [WithWait] and an interval, there are none.
//
// The lock of a job is <path>/<name of the job>, where the name is escaped as in a URL. So jobs of two programs have
// different paths. Give each job a name (gocron.WithName): otherwise its name is that of its function, and
// two function literals can share one.
type Locker struct {
	client   *zk.Client
	path     string
	interval time.Duration
	slot     func(key string, now time.Time) string
	wait     time.Duration
	owner    string
	log      *slog.Logger
	advised  atomic.Bool // see advise

	mu    sync.Mutex
	wraps bool              // Wrap was called; guarded by mu
	runs  map[string][]*run // by key: locked, and not yet taken by a wrapped function; guarded by mu
}

// An Option configures a Locker.
type Option interface{ locker(*Locker) }

// An ElectorOption configures an Elector. Each is an Option as well.
type ElectorOption interface {
	Option
	elector(*Elector)
}

type lockerOption func(*Locker)

func (f lockerOption) locker(l *Locker) { f(l) }

// WithInterval makes a [Locker] admit one run of each job in every interval. Which interval a fire belongs to is decided
// by the server's clock, so the clocks of the hosts do not matter, however much they differ or jump. The
// schedulers need not start at the same moment.
//
// The first run begins the first interval, and the next interval begins d later. A fire that comes up to a quarter of d
// before an interval belongs to it already. If no run falls into an interval, the next run begins a new one. So d is
// the job's period, or the shortest time between two fires if they are not regular. Jobs with another period need
// another Locker: see gocron.WithDistributedJobLocker.
//
// A fire counts from the call of Lock. Fires whose runs were recorded are at least three quarters of d apart, and there is not more
// than one in d on average. A fire that waited for another host runs later, by the time of [WithWait] at most. So two runs can
// begin closer to each other, but they never overlap. When another host takes over, one fire can be skipped.
//
// All hosts must give the same d.
func WithInterval(d time.Duration) Option { return lockerOption(func(l *Locker) { l.interval = d }) }

// WithSlot names the fire that a call belongs to: f returns the same text for the calls of all hosts for one
// fire, and another text for each other fire. key is the name of the job, and now is the time of this host's
// clock. The text has 1 to [once.MaxKey] bytes, and is remembered for a day.
//
// Use it for a job that fires at times that follow from the clock. Round now to the nearest such time, not
// down: then the clocks of two hosts may differ by any amount, since each rounds by the clock that has
// started the job, and a timer may be early. A host whose clock is ahead then runs each fire early. If the
// difference is larger than the period, the hosts are at different fires, and run them at the same time.
// Use [WithInterval] for a job that fires at some time after the start of its program.
func WithSlot(f func(key string, now time.Time) string) Option {
	return lockerOption(func(l *Locker) { l.slot = f })
}

// WithWait bounds a call of Lock. If no server answers within d, or another host still runs the job then, the
// fire is skipped on this host. The default is 60 s, or three quarters of a shorter interval, so that the wait ends before the next
// fire.
func WithWait(d time.Duration) Option { return lockerOption(func(l *Locker) { l.wait = d }) }

// WithOwner names this process to others, see [holdfast.WithOwner]. An Elector has its value instead.
func WithOwner(name string) Option { return lockerOption(func(l *Locker) { l.owner = name }) }

// WithLogger is where errors go that gocron drops: those of Unlock, and why a fire was skipped. The default is
// slog.Default. A fire that has run already is logged at the debug level. An Elector logs campaigns that have failed.
func WithLogger(log *slog.Logger) ElectorOption { return loggerOption{log} }

type loggerOption struct{ log *slog.Logger }

func (o loggerOption) locker(l *Locker)   { l.log = o.log }
func (o loggerOption) elector(e *Elector) { e.log = o.log }

// NewLocker makes a Locker whose locks are below path. It needs [WithInterval] or [WithSlot], and not both, since
// gocron does not say which fire a call of Lock belongs to. Otherwise the error is zk.ErrBadArguments. It sends
// nothing.
func NewLocker(c *zk.Client, path string, opts ...Option) (*Locker, error) {
	l := &Locker{client: c, path: path, log: slog.Default(), runs: make(map[string][]*run)}
	for _, o := range opts {
		o.locker(l)
	}
	wrong := ""
	switch {
	case l.interval == 0 && l.slot == nil:
		wrong = "without WithInterval or WithSlot, each host would run each fire: give one of them"
	case l.interval != 0 && l.slot != nil:
		wrong = "give WithInterval or WithSlot, not both"
	case l.slot == nil && l.interval < 2*time.Millisecond:
		wrong = fmt.Sprintf("the interval %v is shorter than 2ms", l.interval)
	case l.wait < 0:
		wrong = fmt.Sprintf("WithWait(%v) is negative", l.wait)
	}
	if wrong != "" {
		return nil, fmt.Errorf("gocronholdfast: %w: %s", zk.ErrBadArguments, wrong)
	}
	if l.wait == 0 {
		l.wait = longestWait
		if l.slot == nil {
			l.wait = min(l.wait, l.interval-early(l.interval))
		}
	}
	return l, nil
}

// Lock implements gocron.Locker: it waits for the job's lock, and fails if the fire has run. The error is
// then ErrDone. Any error makes gocron skip the fire on this host and call AfterLockError. Lock fails when ctx ends,
// which gocron does when the job is removed or the scheduler is shut down, and when the time of [WithWait] is over.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	now := time.Now()
	bounded, cancel := context.WithTimeoutCause(ctx, l.wait, fmt.Errorf("gave up after %v", l.wait))
	defer cancel()
	r, err := l.lock(bounded, ctx, key, now)
	switch {
	case err == nil:
		return r, nil
	case errors.Is(err, ErrDone):
		l.log.DebugContext(ctx, "the fire of a job is skipped", "job", key, "reason", err)
	case ctx.Err() == nil:
		l.log.WarnContext(ctx, "the fire of a job is skipped", "job", key, "error", err)
	}
	return nil, err
}

// lock implements Lock. ctx bounds it, and job is the context of the job. If the lock is lost before the run, it
// locks again.
func (l *Locker) lock(ctx, job context.Context, key string, now time.Time) (*run, error) {
	for {
		r, err := l.attempt(ctx, job, key, now)
		lost := errors.Is(err, holdfast.ErrLost) || errors.Is(err, zk.ErrSessionExpired)
		if !lost || ctx.Err() != nil {
			return r, err
		}
	}
}

// attempt locks the job once, and decides whether the fire has run.
func (l *Locker) attempt(ctx, job context.Context, key string, now time.Time) (*run, error) {
	path := l.path + "/" + zk.EscapeName(key)
	h, err := holdfast.NewMutex(l.client, path, l.options()...).Lock(ctx)
	if err != nil {
		return nil, err
	}
	l.advise(ctx, key)
	r := &run{locker: l, key: key, hold: h, job: job}
	if l.slot != nil {
		fires := once.New(l.client, path+onceDirectory, once.WithLock(l.options()...), once.ForgetAfter(memory))
		var last once.Result
		if r.turn, last, err = fires.Key(l.slot(key, now)).Turn(ctx, h); r.turn == nil && err == nil {
			err = done(last)
		}
	} else {
		r.turn, r.value, err = l.admit(ctx, h, once.New(l.client, path+onceDirectory, once.WithLock(l.options()...)))
	}
	if err != nil {
		h.Release() // gocron must not wait for a server that is slow
		return nil, err
	}
	l.mu.Lock()
	l.runs[key] = append(l.runs[key], r)
	l.mu.Unlock()
	return r, nil
}

// advise warns once if nobody waits until the session of a host that died has ended. The server ends sessions at its ticks,
// which are at most half as long as the shortest timeout. A quarter of the timeout is enough for usual ones.
func (l *Locker) advise(ctx context.Context, key string) {
	if l.advised.Swap(true) {
		return
	}
	s, err := l.client.Session(ctx)
	if err != nil {
		l.advised.Store(false)
		return
	}
	if need := s.Timeout() + s.Timeout()/4; l.wait < need {
		l.log.WarnContext(ctx, "if the host that runs a job dies, no host runs the fires until its session ends: set a shorter zk.Config.SessionTimeout, or WithWait to more",
			"job", key, "session", s.Timeout(), "wait", l.wait, "needed", need)
	}
}

func (l *Locker) options() []holdfast.Option {
	if l.owner == "" {
		return nil
	}
	return []holdfast.Option{holdfast.WithOwner(l.owner)}
}

func done(last once.Result) error {
	by := last.Owner
	if by == "" {
		by = "somebody"
	}
	return fmt.Errorf("%w: %s began it at %s", ErrDone, by, last.Began.UTC().Format(time.RFC3339))
}

// An interval is the value of a run with WithInterval.
type interval struct {
	Start int64 `json:"start"` // in milliseconds of the server's clock
}

// admit decides whether the holder of a job's lock runs a fire. The value is what to record.
func (l *Locker) admit(ctx context.Context, h *holdfast.Hold, fires *once.Once) (*once.Turn, []byte, error) {
	joined, err := l.joined(ctx, h)
	if err != nil {
		return nil, nil, err
	}
	last, err := fires.Every(time.Hour).Recorded(ctx)
	if err != nil {
		return nil, nil, err
	}
	ours := interval{joined.UnixMilli()}
	if last != nil {
		var before interval
		if json.Unmarshal(last.Value, &before) != nil || before.Start == 0 {
			before.Start = last.Began.UnixMilli() // holdfast run --once-per has recorded it
		}
		var ok bool
		if ours.Start, ok = next(before.Start, last.Began.UnixMilli(), joined.UnixMilli(), l.interval.Milliseconds()); !ok {
			return nil, nil, done(*last)
		}
	}
	// Any shorter time than that between two runs will do, since we have decided.
	turn, result, err := fires.Every(time.Millisecond).Turn(ctx, h)
	if err != nil {
		return nil, nil, err
	}
	if turn == nil {
		return nil, nil, done(result)
	}
	value, err := json.Marshal(ours)
	return turn, value, err
}

// early is how much before an interval of length d a fire can come that belongs to it.
func early[T ~int64](d T) T { return d / 4 }

// next returns the start of the interval of a fire at now. ok is false if that is the interval that has run, or an
// earlier one, or if now is too close to began, the time of the fire that has run last. All are in milliseconds.
//
// Each run moves the start by d at least, so on average no two runs are closer than that. If an interval was left
// out, the fires have moved, or are irregular. Then now is the new start, so that the fires of a single host do
// not stay near a border, where a small delay moves them across.
//
// Without began, two hosts could run just before and just after the last quarter of an interval.
func next(start, began, now, d int64) (_ int64, ok bool) {
	switch after := now - start; {
	case after < -d: // the server's clock went back
		return now, true
	case after < d-early(d), now-began < d-early(d):
		return 0, false
	case after < 2*d-early(d):
		return start + d, true
	}
	return now, true
}

// joined returns when the holder joined the queue, by the server's clock.
func (l *Locker) joined(ctx context.Context, h *holdfast.Hold) (time.Time, error) {
	var stat zk.Stat
	var there bool
	err := zk.Retry(ctx, func() (err error) {
		stat, there, err = l.client.Exists(ctx, h.Path())
		return err
	})
	switch {
	case err != nil:
		return time.Time{}, err
	case !there:
		return time.Time{}, holdfast.ErrLost
	}
	return time.UnixMilli(stat.Ctime), nil
}
