package gocronholdfast

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"holdfast"
	"holdfast/once"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// A world is a server in virtual time.
type world struct {
	*testing.T
	srv *zktest.Server
	log bytes.Buffer // of all Lockers and Electors
	mu  sync.Mutex   // guards log
}

func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (w *world) logged() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

func inBubble(t *testing.T, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, srv: zktest.NewServer()}
		defer w.srv.Close()
		f(w)
	})
}

func (w *world) locker(path string, opts ...Option) *Locker {
	w.Helper()
	l, err := NewLocker(w.srv.Client(), path, append([]Option{WithLogger(slog.New(slog.NewTextHandler(w, nil)))}, opts...)...)
	if err != nil {
		w.Fatal(err)
	}
	return l
}

// scheduler starts a scheduler with a job every minute.
func (w *world) scheduler(o gocron.SchedulerOption, name string, f any, opts ...gocron.JobOption) gocron.Scheduler {
	w.Helper()
	s, err := gocron.NewScheduler(o, gocron.WithStopTimeout(time.Minute))
	if err != nil {
		w.Fatal(err)
	}
	if _, err := s.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(f), append(opts, gocron.WithName(name))...); err != nil {
		w.Fatal(err)
	}
	s.Start()
	return s
}

// stop shuts schedulers down. gocron spins while it waits for jobs, and in virtual time that is for ever, so no job may run.
func (w *world) stop(all ...gocron.Scheduler) {
	w.Helper()
	synctest.Wait()
	for _, s := range all {
		if err := s.Shutdown(); err != nil {
			w.Error(err)
		}
	}
}

// usual is a locker as the usual ones are: it keeps runs apart.
type usual struct{ m *holdfast.Mutex }

type usualLock struct{ h *holdfast.Hold }

func (u usual) Lock(ctx context.Context, _ string) (gocron.Lock, error) {
	h, err := u.m.Lock(ctx)
	if err != nil {
		return nil, err
	}
	return usualLock{h}, nil
}

func (u usualLock) Unlock(context.Context) error { return u.h.Unlock() }

const (
	hosts   = 4
	periods = 20
	period  = time.Minute
	stagger = 9 * time.Second
	lead    = 46 * time.Second
)

// Four schedulers that do not start together run a job of one second for twenty periods.
func TestFourSchedulersRunEachFireOnce(t *testing.T) {
	slot := func(_ string, now time.Time) string { return now.Round(period).UTC().Format(time.RFC3339) }
	for name, tt := range map[string]struct {
		opt    Option
		usual  bool
		faults func(ctx context.Context, w *world)
		abort  bool // the session of each third run expires
		want   int
	}{
		"usual lockers":                  {usual: true, want: hosts * periods},
		"an interval":                    {opt: WithInterval(period), want: periods},
		"slots":                          {opt: WithSlot(slot), want: periods},
		"the runner's session expires":   {opt: WithInterval(period), abort: true, want: periods},
		"slots, and sessions expire":     {opt: WithSlot(slot), abort: true, want: periods},
		"connections are cut":            {opt: WithInterval(period), faults: cut, want: periods},
		"connections stall":              {opt: WithInterval(period), faults: stall, want: periods},
		"sessions expire, and the above": {opt: WithInterval(period), faults: func(ctx context.Context, w *world) { go cut(ctx, w); stall(ctx, w) }, abort: true, want: periods},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				var done, aborted, inside atomic.Int64
				var aborts sync.Map // by number of runs done
				job := func(ctx context.Context) error {
					if inside.Add(1) > 1 {
						w.Error("two runs at a time")
					}
					defer inside.Add(-1)
					n := done.Load()
					if _, again := aborts.LoadOrStore(n, true); tt.abort && n%3 == 0 && !again {
						h, _ := holdfast.FromContext(ctx)
						go w.srv.Expire(h.SessionID())
						<-ctx.Done()
						if !errors.Is(context.Cause(ctx), holdfast.ErrLost) {
							w.Errorf("the cause is %v; want ErrLost", context.Cause(ctx))
						}
						aborted.Add(1)
						return ctx.Err()
					}
					select {
					case <-time.After(time.Second):
						done.Add(1)
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				ctx, cancel := context.WithCancel(w.Context())
				defer cancel()
				if tt.faults != nil {
					go tt.faults(ctx, w)
				}
				begin := time.Now()
				time.Sleep(lead) // the fires of all hosts round to the same minute
				var all []gocron.Scheduler
				for range hosts {
					if tt.usual {
						m := usual{holdfast.NewMutex(w.srv.Client(), "/jobs/report")}
						all = append(all, w.scheduler(gocron.WithDistributedLocker(m), "report", func(ctx context.Context) error { return job(ctx) }))
					} else {
						l := w.locker("/jobs", tt.opt)
						all = append(all, w.scheduler(gocron.WithDistributedLocker(l), "report", l.Wrap("report", job)))
					}
					time.Sleep(stagger)
				}
				time.Sleep(time.Until(begin.Add(lead + period + periods*period - 5*time.Second)))
				cancel()
				time.Sleep(time.Millisecond)
				w.stop(all...)
				if n := int(done.Load()); n != tt.want {
					t.Errorf("%d runs in %d periods; want %d", n, periods, tt.want)
				}
				if tt.abort && aborted.Load() < 5 {
					t.Errorf("%d sessions expired in a run: the test tests nothing", aborted.Load())
				}
			})
		})
	}
}

// cut breaks all connections every seven seconds.
func cut(ctx context.Context, w *world) {
	for every(ctx, 7*time.Second) {
		w.srv.CloseClientConnections()
	}
}

// stall holds all connections up for five seconds of each 17.
func stall(ctx context.Context, w *world) {
	for every(ctx, 12*time.Second) {
		resume := w.srv.Stall()
		every(ctx, 5*time.Second)
		resume()
	}
}

func every(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// The bounds that WithInterval promises, for fires at random times.
func TestRunsOfIntervalsAreNoMoreThanIntervals(t *testing.T) {
	const d = 1000
	for range 200 {
		start, began, now, runs, first := int64(0), int64(0), int64(5000), int64(0), int64(0)
		for range 2000 {
			now += rand.Int64N(400)
			s, ok := start, true
			if runs > 0 {
				s, ok = next(start, began, now, d)
			} else {
				s, first = now, now
			}
			if !ok {
				continue
			}
			if runs++; runs > 1 && s-start < d {
				t.Fatalf("a run moved the start by %d", s-start)
			}
			if runs > 1 && now-began < 3*d/4 {
				t.Fatalf("two fires that run are %d apart", now-began)
			}
			began = now
			if start = s; now-start > d || start-now > d/4 {
				t.Fatalf("a run at %d belongs to the interval at %d", now, start)
			}
		}
		if most := (now-first)/d + 2; runs > most {
			t.Fatalf("%d runs in %d intervals", runs, most)
		}
	}
}

func TestNextInterval(t *testing.T) {
	for _, tt := range []struct {
		now   int64
		began int64 // the fire that has run
		start int64 // 0: the fire has run
	}{
		{100_000, 100_000, 0}, {100_700, 100_000, 0}, {100_749, 100_000, 0},
		{100_750, 100_000, 101_000}, {101_000, 100_000, 101_000}, {101_749, 100_000, 101_000},
		{101_750, 100_000, 101_750}, {105_000, 100_000, 105_000},
		{99_500, 100_000, 0}, {99_000, 100_000, 0}, {98_999, 100_000, 98_999}, // the clock went back
		{100_760, 100_740, 0}, {101_489, 100_740, 0}, {101_490, 100_740, 101_000}, // it came late in its interval
		{100_750, 99_760, 101_000}, // it came early
	} {
		if got, ok := next(100_000, tt.began, tt.now, 1000); got != tt.start || ok != (tt.start != 0) {
			t.Errorf("next at %d is %d, %v; want %d", tt.now, got, ok, tt.start)
		}
	}
}

// A host whose fires are a little late or early, as with a busy machine, misses none.
func TestASingleHostMissesNoFire(t *testing.T) {
	const d = 1000
	for _, phase := range []int64{0, 250, 500, 749, 750, 751, 999} {
		start, began, runs := int64(100_000), int64(100_000), 0
		for k := range int64(1000) {
			now := 100_000 + phase + k*d + rand.Int64N(100)
			if s, ok := next(start, began, now, d); ok {
				start, began = s, now
				runs++
			}
		}
		if runs < 998 { // the first can belong to the interval of the former host, and one when it takes over
			t.Errorf("%d runs of 1000 fires at %d", runs, phase)
		}
	}
}

func TestNewLockerRefuses(t *testing.T) {
	slot := WithSlot(func(string, time.Time) string { return "1" })
	for name, opts := range map[string][]Option{
		"neither interval nor slot": nil,
		"both":                      {WithInterval(time.Second), slot},
		"a negative interval":       {WithInterval(-time.Second)},
		"a negative wait":           {slot, WithWait(-1)},
	} {
		if _, err := NewLocker(nil, "/jobs", opts...); !errors.Is(err, zk.ErrBadArguments) {
			t.Errorf("%s: %v; want ErrBadArguments", name, err)
		}
	}
}

// lock calls Lock and Unlock as gocron does, the latter with a dead context.
func lock(l *Locker, key string, f func()) error {
	ctx, cancel := context.WithCancel(context.Background())
	r, err := l.Lock(ctx, key)
	if err != nil {
		cancel()
		return err
	}
	if f != nil {
		f()
	}
	cancel()
	return r.Unlock(ctx)
}

func wantDone(w *world, err error) {
	w.Helper()
	if !errors.Is(err, ErrDone) {
		w.Errorf("the error is %v; want ErrDone", err)
	}
}

func noError(w *world, err error) {
	w.Helper()
	if err != nil {
		w.Error(err)
	}
}

// The record of a run outlives the process and its session, and is there after Shutdown has ended the job's context.
func TestTheRecordOutlivesTheProcess(t *testing.T) {
	inBubble(t, func(w *world) {
		c, err := zk.Dial(w.Context(), w.srv.Config())
		if err != nil {
			t.Fatal(err)
		}
		l, err := NewLocker(c, "/jobs", WithInterval(period), WithOwner("host-1"))
		if err != nil {
			t.Fatal(err)
		}
		noError(w, lock(l, "report", nil))
		c.Close()
		time.Sleep(20 * time.Second)
		w.srv.Restart()
		err = lock(w.locker("/jobs", WithInterval(period)), "report", nil)
		wantDone(w, err)
		if err == nil || !strings.Contains(err.Error(), "host-1") {
			t.Errorf("the error %v does not say who ran the fire", err)
		}
		time.Sleep(period)
		noError(w, lock(w.locker("/jobs", WithInterval(period)), "report", nil))
	})
}

// A run that has begun and not ended is not recorded: if its host dies, the waiter runs the fire.
func TestTheNextHostRunsTheFireOfADeadOne(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.locker("/jobs", WithInterval(period)), w.locker("/jobs", WithInterval(period))
		first, err := a.Lock(w.Context(), "report")
		noError(w, err)
		second := make(chan error)
		go func() { second <- lock(b, "report", nil) }()
		synctest.Wait()
		w.srv.Expire(first.(*run).hold.SessionID())
		noError(w, <-second)
		if err := first.Unlock(w.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock of a lost lock: %v; want ErrLost", err)
		}
		if !strings.Contains(w.logged(), "level=ERROR") || !strings.Contains(w.logged(), "job=report") {
			t.Errorf("the error that gocron drops is not logged:\n%s", w.logged())
		}
		wantDone(w, lock(a, "report", nil))
	})
}

// The clock of a host decides nothing with an interval: a host that fires at the wrong time, or often, runs nothing.
func TestAHostThatFiresTooOftenRunsNothing(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.locker("/jobs", WithInterval(period)), w.locker("/jobs", WithInterval(period))
		for range 10 {
			noError(w, lock(a, "report", nil))
			for range 7 {
				time.Sleep(6 * time.Second)
				wantDone(w, lock(b, "report", nil))
			}
			time.Sleep(18 * time.Second)
		}
	})
}

func TestASlotRunsOnceWheneverItIsAskedFor(t *testing.T) {
	inBubble(t, func(w *world) {
		var slot atomic.Value
		slot.Store("1")
		opt := WithSlot(func(string, time.Time) string { return slot.Load().(string) })
		a, b := w.locker("/jobs", opt), w.locker("/jobs", opt)
		noError(w, lock(a, "report", nil))
		time.Sleep(5 * time.Hour)
		wantDone(w, lock(b, "report", nil))
		slot.Store("2")
		noError(w, lock(b, "report", nil))
		wantDone(w, lock(a, "report", nil))
		slot.Store("")
		if err := lock(a, "report", nil); !errors.Is(err, zk.ErrBadArguments) {
			t.Errorf("an empty slot: %v; want ErrBadArguments", err)
		}
	})
}

// Jobs have locks of their own, whatever their names, and so have programs with different paths.
func TestJobsAndProgramsAreApart(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.locker("/a", WithInterval(period)), w.locker("/b", WithInterval(period))
		for _, name := range []string{"report", "main.job", "a/b", ".", "..", "once-0", "täglich", "%2E", "100%", strings.Repeat("x", 200), "\x00", "a b"} {
			for _, l := range []*Locker{a, b} {
				noError(w, lock(l, name, func() {
					if err := lock(l, name+"2", nil); err != nil {
						t.Errorf("%q: another job waits: %v", name, err)
					}
				}))
				wantDone(w, lock(l, name, nil))
			}
		}
	})
}

// If no server answers, Lock fails in time, the fire is skipped, and both logs say why.
func TestLockGivesUpWithoutAServer(t *testing.T) {
	inBubble(t, func(w *world) {
		l := w.locker("/jobs", WithInterval(period), WithWait(10*time.Second))
		var ran atomic.Int64
		reported := make(chan error, 10)
		s := w.scheduler(gocron.WithDistributedLocker(l), "report", func() { ran.Add(1) },
			gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { reported <- err })))
		resume := w.srv.Stall()
		begin := time.Now()
		err := <-reported
		if took := time.Since(begin); took > period+10*time.Second {
			t.Errorf("Lock gave up after %v", took)
		}
		if err == nil || !strings.Contains(err.Error(), "gave up after 10s") || !strings.Contains(w.logged(), "level=WARN") {
			t.Errorf("the error is %v, and the log\n%s", err, w.logged())
		}
		resume()
		time.Sleep(2 * period)
		w.stop(s)
		if ran.Load() == 0 {
			t.Error("the job never ran again")
		}
	})
}

// Shutdown ends a wait in Lock, at once and without a warning.
func TestShutdownEndsAWait(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.locker("/jobs", WithInterval(2*period)), w.locker("/jobs", WithInterval(2*period))
		r, err := a.Lock(w.Context(), "report")
		noError(w, err)
		s := w.scheduler(gocron.WithDistributedLocker(b), "report", func() { t.Error("the job ran") })
		time.Sleep(period + time.Second) // it waits
		begin := time.Now()
		if err := s.Shutdown(); err != nil || time.Since(begin) > 0 {
			t.Errorf("Shutdown took %v: %v", time.Since(begin), err)
		}
		noError(w, r.Unlock(w.Context()))
		if strings.Contains(w.logged(), "WARN") {
			t.Errorf("a warning about a Shutdown:\n%s", w.logged())
		}
		time.Sleep(period)
		noError(w, lock(a, "report", nil)) // nobody waits any more
	})
}

// A job that panics releases the lock. Its run counts only if nobody could see that it failed.
func TestAJobThatPanics(t *testing.T) {
	for _, wrapped := range []bool{true, false} {
		t.Run(fmt.Sprint("wrapped=", wrapped), func(t *testing.T) {
			inBubble(t, func(w *world) {
				l := w.locker("/jobs", WithInterval(period))
				var f any = func() { panic("out of paper") }
				if wrapped {
					f = l.Wrap("report", func(context.Context) error { panic("out of paper") })
				}
				panicked := make(chan any, 10)
				s := w.scheduler(gocron.WithDistributedLocker(l), "report", f,
					gocron.WithEventListeners(gocron.AfterJobRunsWithPanic(func(_ uuid.UUID, _ string, r any) { panicked <- r })))
				<-panicked
				synctest.Wait()
				w.stop(s)
				err := lock(w.locker("/jobs", WithInterval(period)), "report", nil)
				if wrapped {
					noError(w, err)
				} else {
					wantDone(w, err)
				}
			})
		})
	}
}

// The next host runs the fire of a wrapped job that has failed.
func TestAJobThatFailsRunsOnTheNextHost(t *testing.T) {
	inBubble(t, func(w *world) {
		var runs atomic.Int64
		var all []gocron.Scheduler
		for range 3 {
			l := w.locker("/jobs", WithInterval(period))
			all = append(all, w.scheduler(gocron.WithDistributedLocker(l), "report", l.Wrap("report", func(context.Context) error {
				if runs.Add(1) == 1 {
					return errors.New("the disk is full")
				}
				return nil
			})))
		}
		time.Sleep(period + time.Second)
		w.stop(all...)
		if runs.Load() != 2 {
			t.Errorf("%d runs; want one that failed and one", runs.Load())
		}
	})
}

// Two schedulers in one process share a Locker. Each wrapped function gets the Hold of its own run.
func TestTwoSchedulersShareALocker(t *testing.T) {
	inBubble(t, func(w *world) {
		l := w.locker("/jobs", WithInterval(period))
		var runs atomic.Int64
		job := l.Wrap("report", func(ctx context.Context) error {
			if h, ok := holdfast.FromContext(ctx); !ok || h.Err() != nil {
				t.Error("no Hold")
			}
			runs.Add(1)
			return nil
		})
		a := w.scheduler(gocron.WithDistributedLocker(l), "report", job)
		b := w.scheduler(gocron.WithDistributedLocker(l), "report", job)
		time.Sleep(5*period + time.Second)
		w.stop(a, b)
		if runs.Load() != 5 {
			t.Errorf("%d runs in 5 periods", runs.Load())
		}
		if len(l.runs) > 0 {
			t.Errorf("%d runs are left", len(l.runs))
		}
	})
}

// A wrapped function that has no lock does not run.
func TestWrapWithoutALock(t *testing.T) {
	inBubble(t, func(w *world) {
		l := w.locker("/jobs", WithInterval(period))
		job := l.Wrap("report", func(context.Context) error { t.Error("it ran"); return nil })
		if err := job(w.Context()); !errors.Is(err, errNotCalled) {
			t.Errorf("the error is %v", err)
		}
		r, err := l.Lock(w.Context(), "another")
		noError(w, err)
		if err := job(w.Context()); !errors.Is(err, errNotCalled) {
			t.Errorf("with the lock of another job, the error is %v", err)
		}
		if err := r.Unlock(w.Context()); !errors.Is(err, errNotRun) {
			t.Errorf("Unlock of a run that nobody took: %v; want errNotRun", err)
		}
	})
}

// A wrapped job that gocron never called, or called with another context, is not recorded, and the log has an error.
func TestAWrappedJobThatNobodyCalledIsNotRecorded(t *testing.T) {
	errRefused := errors.New("not today")
	for name, tt := range map[string]struct {
		job  string
		args []any
		opts []gocron.JobOption
	}{
		"another name":          {job: "other"},
		"a context of the user": {job: "report", args: []any{context.Background()}},
		"refused before the run": {job: "report", opts: []gocron.JobOption{gocron.WithEventListeners(
			gocron.BeforeJobRunsSkipIfBeforeFuncErrors(func(uuid.UUID, string) error { return errRefused }))}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				l := w.locker("/jobs", WithInterval(period))
				s, err := gocron.NewScheduler(gocron.WithDistributedLocker(l), gocron.WithStopTimeout(time.Minute))
				noError(w, err)
				f := l.Wrap("report", func(context.Context) error { t.Error("it ran"); return nil })
				_, err = s.NewJob(gocron.DurationJob(period), gocron.NewTask(f, tt.args...), append(tt.opts, gocron.WithName(tt.job))...)
				noError(w, err)
				s.Start()
				time.Sleep(period + time.Second)
				w.stop(s)
				if got := w.logged(); !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "job="+tt.job) {
					t.Errorf("no error in the log:\n%s", got)
				}
				noError(w, lock(w.locker("/jobs", WithInterval(period)), tt.job, nil)) // another host runs the fire
			})
		})
	}
}

// A session that is lost between the lock and the question whether the fire has run costs no fire while time is left.
func TestALossBeforeTheRunIsRepaired(t *testing.T) {
	for _, name := range []string{"interval", "slot"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				var l *Locker
				losses := 0
				expire := func() bool {
					if losses == 2 {
						return false
					}
					losses++
					s, err := l.client.Session(w.Context())
					noError(w, err)
					w.srv.Expire(s.ID())
					return true
				}
				if name == "slot" {
					l = w.locker("/jobs", WithSlot(func(string, time.Time) string {
						expire()
						return "1"
					}))
				} else {
					l = w.locker("/jobs", WithInterval(period))
					w.srv.Intercept(zkproto.OpExists, func(string) zktest.Action {
						if losses == 2 {
							return zktest.Pass
						}
						go expire()
						return zktest.DropRequest // so that the next request comes after the loss
					})
				}
				noError(w, lock(l, "report", nil))
				if losses < 2 {
					t.Errorf("%d losses: the test tests nothing", losses)
				}
				wantDone(w, lock(l, "report", nil))
			})
		})
	}
}

// Shutdown ends the context of a job that runs. The run has failed then, unless the job says otherwise.
func TestShutdownEndsAJob(t *testing.T) {
	inBubble(t, func(w *world) {
		l := w.locker("/jobs", WithInterval(period))
		runs := make(chan context.Context, 1)
		s := w.scheduler(gocron.WithDistributedLocker(l), "report", l.Wrap("report", func(ctx context.Context) error {
			runs <- ctx
			<-ctx.Done()
			return ctx.Err()
		}))
		ctx := <-runs
		if ctx.Err() != nil {
			t.Error("the context has ended before Shutdown")
		}
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
		if ctx.Err() == nil {
			t.Error("the context goes on after Shutdown")
		}
		noError(w, lock(w.locker("/jobs", WithInterval(period)), "report", nil))
	})
}

// A wrapped function takes the run of its own scheduler, also if an older one of another scheduler, which has lost its lock,
// has not begun yet.
func TestAWrappedFunctionTakesItsOwnRun(t *testing.T) {
	inBubble(t, func(w *world) {
		l := w.locker("/jobs", WithInterval(period))
		a, cancelA := context.WithCancel(w.Context())
		defer cancelA()
		b, cancelB := context.WithCancel(w.Context())
		defer cancelB()
		older, err := l.Lock(a, "report")
		noError(w, err)
		w.srv.Expire(older.(*run).hold.SessionID())
		newer, err := l.Lock(b, "report")
		noError(w, err)
		<-older.(*run).hold.Lost() // a goroutine tells it, which may come later
		ran := 0
		job := l.Wrap("report", func(ctx context.Context) error { ran++; return ctx.Err() })
		noError(w, job(b))
		if err := job(a); !errors.Is(err, holdfast.ErrLost) || ran != 1 {
			t.Errorf("the run that is lost: %v, %d runs", err, ran)
		}
		noError(w, newer.Unlock(b))
		if err := older.Unlock(a); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock of the older: %v", err)
		}
		wantDone(w, lock(l, "report", nil))
		if len(l.runs) > 0 {
			t.Errorf("%d runs are left", len(l.runs))
		}
	})
}

// Nothing is kept of runs that have ended, wrapped or not.
func TestNothingIsLeftOfARun(t *testing.T) {
	inBubble(t, func(w *world) {
		l := w.locker("/jobs", WithInterval(period))
		for i := range 5 {
			noError(w, lock(l, fmt.Sprint("report", i), nil))
		}
		if len(l.runs) > 0 {
			t.Errorf("%d runs are left", len(l.runs))
		}
	})
}

// A run of holdfast run --once-per for the same lock counts, too.
func TestARunOfTheCommandCounts(t *testing.T) {
	inBubble(t, func(w *world) {
		c := w.srv.Client()
		h, err := holdfast.NewMutex(c, "/jobs/report").Lock(w.Context())
		noError(w, err)
		turn, _, err := once.New(c, "/jobs/report/.holdfast").Every(period).Turn(w.Context(), h)
		noError(w, err)
		_, err = turn.Done(w.Context(), nil)
		noError(w, err)
		noError(w, h.Unlock())
		l := w.locker("/jobs", WithInterval(period))
		time.Sleep(20 * time.Second)
		wantDone(w, lock(l, "report", nil))
		time.Sleep(40 * time.Second)
		noError(w, lock(l, "report", nil))
	})
}

// With the default wait, a host that waits has the next fire, too: gocron schedules it when Lock returns.
func TestAHostThatWaitsMissesNoFire(t *testing.T) {
	for _, d := range []time.Duration{8 * time.Second, 20 * time.Second, time.Minute, time.Hour} {
		t.Run(d.String(), func(t *testing.T) {
			inBubble(t, func(w *world) {
				r, err := w.locker("/jobs", WithInterval(d)).Lock(w.Context(), "report")
				noError(w, err)
				counts := &counting{Locker: w.locker("/jobs", WithInterval(d))}
				s, err := gocron.NewScheduler(gocron.WithDistributedLocker(counts), gocron.WithStopTimeout(time.Minute))
				noError(w, err)
				_, err = s.NewJob(gocron.DurationJob(d), gocron.NewTask(func() { t.Error("the job ran") }), gocron.WithName("report"))
				noError(w, err)
				s.Start()
				time.Sleep(20*d + d*7/8)
				if n := counts.calls.Load(); n != 20 {
					t.Errorf("%d calls of Lock for 20 fires", n)
				}
				w.stop(s)
				noError(w, r.Unlock(w.Context()))
			})
		})
	}
}

type counting struct {
	*Locker
	calls atomic.Int64
}

func (c *counting) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	c.calls.Add(1)
	l, err := c.Locker.Lock(ctx, key)
	if ctx.Err() == nil {
		time.Sleep(time.Millisecond) // real clocks are a little late
	}
	return l, err
}

// A host that dies keeps the lock until its session has ended. The log says if nobody waits for so long, and only then.
func TestAFireOfADeadHost(t *testing.T) {
	slot := WithSlot(func(_ string, now time.Time) string { return now.Round(period).UTC().Format(time.RFC3339) })
	for name, tt := range map[string]struct {
		opts  []Option
		warns bool
	}{
		"an interval of two minutes":  {opts: []Option{WithInterval(2 * time.Minute)}},
		"an interval of 70 s":         {opts: []Option{WithInterval(70 * time.Second)}},
		"an interval of a minute":     {opts: []Option{WithInterval(time.Minute)}, warns: true},
		"an interval of 5 s":          {opts: []Option{WithInterval(5 * time.Second)}, warns: true},
		"a short interval, long wait": {opts: []Option{WithInterval(5 * time.Second), WithWait(50 * time.Second)}},
		"a slot":                      {opts: []Option{slot}},
		"a slot and a short wait":     {opts: []Option{slot, WithWait(10 * time.Second)}, warns: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				c, err := zk.Dial(w.Context(), w.srv.Config())
				noError(w, err)
				defer c.Close()
				first, err := NewLocker(c, "/jobs", append(tt.opts, WithLogger(slog.New(slog.NewTextHandler(w, nil))))...)
				noError(w, err)
				for range 2 {
					_, err = first.Lock(w.Context(), "report")
					if err == nil {
						break
					}
				}
				noError(w, err)
				if got := strings.Count(w.logged(), "level=WARN"); got != 0 != tt.warns || got > 1 {
					t.Errorf("the log has %d warnings:\n%s", got, w.logged())
				}
				if tt.warns {
					return
				}
				// The host dies. Its last request was just now, so its session lasts longest.
				s, err := c.Session(w.Context())
				noError(w, err)
				go func() {
					time.Sleep(s.Timeout() + 2*time.Second) // a tick
					w.srv.Expire(s.ID())
				}()
				noError(w, lock(w.locker("/jobs", tt.opts...), "report", nil))
			})
		})
	}
}
