package cronholdfast

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	netcron "github.com/netresearch/go-cron"
	"github.com/robfig/cron/v3"

	"holdfast"
	"holdfast/contrib/cronholdfast/internal/fire"
	"holdfast/contrib/cronholdfast/netresearch"
	"holdfast/zktest"
)

const (
	hosts   = 4
	periods = 20
)

// A world is a server in virtual time.
type world struct {
	*testing.T
	srv  *zktest.Server
	spec string     // of the schedule; "": each minute
	mu   sync.Mutex // guards log
	log  bytes.Buffer
}

func (w *world) schedule() string {
	if w.spec == "" {
		return "* * * * *"
	}
	return w.spec
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

// inBubble runs f with each of the two libraries.
func inBubble(t *testing.T, f func(w *world, l library)) {
	for name, l := range map[string]library{"robfig": startRobfig, "netresearch": startNetresearch} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{T: t, srv: zktest.NewServer()}
				defer w.srv.Close()
				f(w, l)
			})
		})
	}
}

func (w *world) options(ahead time.Duration, opts ...Option) []Option {
	return append([]Option{
		WithLogger(slog.New(slog.NewTextHandler(w, nil))), WithLocation(time.UTC),
		func(s *fire.Settings) { s.Now = func() time.Time { return time.Now().Add(ahead) } },
	}, opts...)
}

// A library starts a host whose clock is ahead, with a job each minute.
type library func(w *world, path, name string, ahead time.Duration, job func(context.Context), opts ...Option) (stop func())

// A skewed schedule is one on a host whose clock is ahead.
type skewed struct {
	fire.Schedule
	ahead time.Duration
}

func (s skewed) Next(t time.Time) time.Time { return s.Schedule.Next(t.Add(s.ahead)).Add(-s.ahead) }

type contextJob func(context.Context)

func (f contextJob) Run()                               { panic("called without a context") }
func (f contextJob) RunWithContext(ctx context.Context) { f(ctx) }

func startRobfig(w *world, path, name string, ahead time.Duration, job func(context.Context), opts ...Option) func() {
	schedule, err := cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(w.schedule())
	if err != nil {
		w.Fatal(err)
	}
	once, err := OncePerFire(w.srv.Client(), path, name, schedule, w.options(ahead, opts...)...)
	if err != nil {
		w.Fatal(err)
	}
	c := cron.New(cron.WithLocation(time.UTC), cron.WithLogger(cron.DiscardLogger), cron.WithChain(cron.Recover(cron.DiscardLogger)))
	c.Schedule(skewed{schedule, ahead}, cron.NewChain(once).Then(contextJob(job)))
	c.Start()
	return func() { <-c.Stop().Done() }
}

func startNetresearch(w *world, path, name string, ahead time.Duration, job func(context.Context), opts ...Option) func() {
	schedule, err := netcron.MustNewParser(netcron.SecondOptional | netcron.Minute | netcron.Hour | netcron.Dom | netcron.Month | netcron.Dow).Parse(w.schedule())
	if err != nil {
		w.Fatal(err)
	}
	once, err := netresearch.OncePerFire(w.srv.Client(), path, name, schedule, w.options(ahead, opts...)...)
	if err != nil {
		w.Fatal(err)
	}
	c := netcron.New(netcron.WithLocation(time.UTC), netcron.WithLogger(netcron.DiscardLogger))
	// This library panics again after a job, so the test recovers outside of the wrapper.
	safe := func(ctx context.Context) {
		defer func() { _ = recover() }()
		if jc, ok := once(netcron.FuncJobWithContext(job)).(netcron.JobWithContext); ok {
			jc.RunWithContext(ctx)
		}
	}
	if _, err := c.ScheduleJob(skewed{schedule, ahead}, netcron.FuncJobWithContext(safe)); err != nil {
		w.Fatal(err)
	}
	c.Start()
	return func() { <-c.Stop().Done() }
}

// Four hosts whose clocks differ run a job for twenty periods.
func TestEachFireRunsOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		ahead  time.Duration // of each next host
		late   time.Duration // how much later each next host starts the job
		abort  bool          // the session of each third run expires
		faults func(ctx context.Context, w *world)
	}{
		"equal clocks":                   {},
		"clocks differ by seconds":       {ahead: 3 * time.Second},
		"starts are late":                {late: 5 * time.Second},
		"starts are early":               {late: -5 * time.Second},
		"clocks differ by hours":         {ahead: time.Hour + 7*time.Second},
		"the runner's session expires":   {ahead: 3 * time.Second, abort: true},
		"connections are cut":            {ahead: 3 * time.Second, faults: cut},
		"connections stall":              {ahead: 3 * time.Second, faults: stall},
		"sessions expire, and the above": {ahead: 3 * time.Second, abort: true, faults: func(ctx context.Context, w *world) { go cut(ctx, w); stall(ctx, w) }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world, start library) {
				var mu sync.Mutex
				fires := make(map[time.Time]int)
				var done, aborted atomic.Int64
				var aborts sync.Map
				job := func(ctx context.Context) {
					n := done.Load()
					if _, again := aborts.LoadOrStore(n, true); tt.abort && n%3 == 0 && !again {
						h, _ := holdfast.FromContext(ctx)
						go w.srv.Expire(h.SessionID())
						<-ctx.Done()
						aborted.Add(1)
						return
					}
					select {
					case <-ctx.Done():
						return
					case <-time.After(time.Second):
					}
					done.Add(1)
					mu.Lock()
					fires[time.Now().Truncate(time.Minute)]++
					mu.Unlock()
				}
				ctx, cancel := context.WithCancel(w.Context())
				defer cancel()
				if tt.faults != nil {
					go tt.faults(ctx, w)
				}
				time.Sleep(20 * time.Second)
				var stops []func()
				for i := range hosts {
					ahead, late := time.Duration(i)*tt.ahead, time.Duration(i)*tt.late
					stops = append(stops, start(w, "/jobs", "report", ahead, job, func(s *fire.Settings) {
						s.Now = func() time.Time { return time.Now().Add(ahead + late) }
					}))
				}
				time.Sleep(periods * time.Minute)
				cancel()
				time.Sleep(time.Millisecond)
				for _, stop := range stops {
					stop()
				}
				if tt.ahead > time.Minute {
					// Each host has fires that no other one has, until the host that is ahead has run them.
					if n := done.Load(); n != hosts*periods {
						w.Errorf("%d runs of %d different fires", n, hosts*periods)
					}
					return
				}
				if n := done.Load(); n != periods {
					w.Errorf("%d runs in %d periods", n, periods)
				}
				if tt.abort && aborted.Load() < 5 {
					w.Errorf("%d sessions expired in a run: the test tests nothing", aborted.Load())
				}
			})
		})
	}
}

func cut(ctx context.Context, w *world) {
	for every(ctx, 7*time.Second) {
		w.srv.CloseClientConnections()
	}
}

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

// A host whose clock goes back by two hours fires again, and runs nothing again.
func TestAClockThatGoesBackRepeatsNothing(t *testing.T) {
	const back = 120 // minutes
	inBubble(t, func(w *world, start library) {
		var runs atomic.Int64
		job := func(context.Context) { runs.Add(1) }
		stop := start(w, "/jobs", "report", back*time.Minute, job)
		time.Sleep(back*time.Minute + time.Second)
		stop()
		if runs.Load() != back {
			w.Errorf("%d runs in %d minutes", runs.Load(), back)
		}
		stop = start(w, "/jobs", "report", 0, job)
		time.Sleep(back * time.Minute)
		if runs.Load() != back {
			w.Errorf("%d runs: fires of the time before were run again", runs.Load())
		}
		time.Sleep(5 * time.Minute)
		stop()
		if runs.Load() != back+5 {
			w.Errorf("%d runs of %d fires", runs.Load(), back+5)
		}
	})
}

// The next host runs the fire of a job that panics.
func TestAJobThatPanicsRunsOnTheNextHost(t *testing.T) {
	inBubble(t, func(w *world, start library) {
		var runs atomic.Int64
		var stops []func()
		for range 3 {
			stops = append(stops, start(w, "/jobs", "report", 0, func(context.Context) {
				if runs.Add(1) == 1 {
					panic("out of paper")
				}
			}))
		}
		time.Sleep(time.Minute + time.Second)
		for _, stop := range stops {
			stop()
		}
		if runs.Load() != 2 {
			w.Errorf("%d runs; want one that panicked and one", runs.Load())
		}
	})
}

// Without an answer, the fire is skipped in time, and the log says so.
func TestAFireIsSkippedWithoutAServer(t *testing.T) {
	inBubble(t, func(w *world, start library) {
		var runs atomic.Int64
		stop := start(w, "/jobs", "report", 0, func(context.Context) { runs.Add(1) }, WithWait(10*time.Second))
		resume := w.srv.Stall()
		time.Sleep(time.Minute + 11*time.Second)
		if !strings.Contains(w.logged(), "level=WARN") || !strings.Contains(w.logged(), "gave up after 10s") || !strings.Contains(w.logged(), "job=report") {
			w.Errorf("the log says\n%s", w.logged())
		}
		resume()
		if runs.Load() > 0 {
			w.Error("the job ran")
		}
		time.Sleep(2 * time.Minute)
		stop()
		if runs.Load() == 0 {
			w.Error("the job never ran again")
		}
	})
}

// A job that takes longer than the wait for others is not ended by it.
func TestTheWaitDoesNotBoundTheJob(t *testing.T) {
	inBubble(t, func(w *world, start library) {
		ended := make(chan error, 10)
		stop := start(w, "/jobs", "report", 0, func(ctx context.Context) {
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Second):
			}
			ended <- ctx.Err()
		}, WithWait(time.Second))
		if err := <-ended; err != nil {
			w.Errorf("the context of the job ended: %v", err)
		}
		stop()
	})
}

// If the lock is lost, the context of the job ends with ErrLost, and the log says that the run is not recorded.
func TestTheJobHearsOfTheLoss(t *testing.T) {
	inBubble(t, func(w *world, start library) {
		causes := make(chan error, 10)
		stop := start(w, "/jobs", "report", 0, func(ctx context.Context) {
			h, _ := holdfast.FromContext(ctx)
			w.srv.Expire(h.SessionID())
			<-ctx.Done()
			causes <- context.Cause(ctx)
		})
		if err := <-causes; !errors.Is(err, holdfast.ErrLost) {
			w.Errorf("the cause is %v; want ErrLost", err)
		}
		stop()
		if !strings.Contains(w.logged(), "level=ERROR") {
			w.Errorf("the log says\n%s", w.logged())
		}
	})
}

// Jobs of two programs, and jobs with two names, do not know of each other.
func TestJobsAndProgramsAreApart(t *testing.T) {
	inBubble(t, func(w *world, start library) {
		var runs sync.Map
		var stops []func()
		for _, path := range []string{"/a", "/b"} {
			for _, name := range []string{"report", "a//b", "..", "once-0", "täglich", "/x/"} {
				for range 2 {
					stops = append(stops, start(w, path, name, 0, func(context.Context) {
						n, _ := runs.LoadOrStore(path+" "+name, new(atomic.Int64))
						n.(*atomic.Int64).Add(1)
					}))
				}
			}
		}
		time.Sleep(3*time.Minute + time.Second)
		for _, stop := range stops {
			stop()
		}
		jobs := 0
		runs.Range(func(key, n any) bool {
			if jobs++; n.(*atomic.Int64).Load() != 3 {
				w.Errorf("%s ran %d times in 3 minutes", key, n.(*atomic.Int64).Load())
			}
			return true
		})
		if jobs != 12 {
			w.Errorf("%d jobs ran", jobs)
		}
	})
}

// Stop of netresearch's cron ends a wait and a job.
func TestStopEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, srv: zktest.NewServer()}
		defer w.srv.Close()
		ctxs := make(chan context.Context, 10)
		job := func(ctx context.Context) { ctxs <- ctx; <-ctx.Done() }
		stopA := startNetresearch(w, "/jobs", "report", 0, job)
		running := <-ctxs
		stopB := startNetresearch(w, "/jobs", "report", 0, job)
		time.Sleep(time.Minute)
		begin := time.Now()
		stopB()
		if time.Since(begin) > 0 || running.Err() != nil {
			t.Errorf("Stop took %v, and the other host's job says %v", time.Since(begin), running.Err())
		}
		stopA()
		if running.Err() == nil {
			t.Error("the job goes on after Stop")
		}
	})
}

// A job that Stop has interrupted is not recorded, so the host that waits runs the fire.
func TestAJobThatStopInterruptsRunsOnTheNextHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, srv: zktest.NewServer()}
		defer w.srv.Close()
		interrupted, ran := make(chan struct{}), make(chan struct{}, 10)
		stopA := startNetresearch(w, "/jobs", "report", 0, func(ctx context.Context) { close(interrupted); <-ctx.Done() })
		<-interrupted
		synctest.Wait()
		schedule, err := netcron.ParseStandard("* * * * *")
		if err != nil {
			t.Fatal(err)
		}
		once, err := netresearch.OncePerFire(w.srv.Client(), "/jobs", "report", schedule, w.options(0)...)
		if err != nil {
			t.Fatal(err)
		}
		second := make(chan struct{})
		go func() {
			defer close(second)
			once(netcron.FuncJob(func() { ran <- struct{}{} })).Run()
		}()
		synctest.Wait()
		stopA()
		<-second
		if len(ran) != 1 {
			t.Error("the fire did not run on the next host")
		}
		once(netcron.FuncJob(func() { ran <- struct{}{} })).Run()
		if len(ran) != 1 {
			t.Error("the fire ran again")
		}
	})
}

// After an outage, each host runs at most the latest fire, not all that it has missed.
func TestMissedFiresDoNotRunAtOnce(t *testing.T) {
	for _, spec := range []string{"*/5 * * * * *", "*/25 * * * * *", "* * * * *"} {
		inBubble(t, func(w *world, start library) {
			w.spec = spec
			time.Sleep(time.Second)
			var runs, inside, most atomic.Int64
			var stops []func()
			for range 3 {
				stops = append(stops, start(w, "/jobs", "report", 0, func(context.Context) {
					runs.Add(1)
					most.Store(max(most.Load(), inside.Add(1)))
					time.Sleep(time.Second)
					inside.Add(-1)
				}))
			}
			for range 3 {
				time.Sleep(2 * time.Minute)
				resume := w.srv.Stall()
				time.Sleep(29 * time.Second)
				runs.Store(0)
				resume()
				time.Sleep(2 * time.Second) // in which no schedule has more than one fire
				if n := runs.Load(); n > 2 {
					w.Errorf("%s: %d runs within two seconds after the outage", spec, n)
				}
			}
			for _, stop := range stops {
				stop()
			}
			if most.Load() > 1 {
				w.Errorf("%s: %d runs at a time", spec, most.Load())
			}
		})
	}
}

// The log says once if nobody waits for the end of the session of a host that died.
func TestFiresThatAreCloserThanASession(t *testing.T) {
	for spec, warns := range map[string]bool{"*/5 * * * * *": true, "*/15 * * * * *": true, "*/30 * * * * *": true, "* * * * *": false} {
		inBubble(t, func(w *world, start library) {
			w.spec = spec
			stop := start(w, "/jobs", "report", 0, func(context.Context) {})
			time.Sleep(3*time.Minute + time.Second)
			stop()
			if got := strings.Count(w.logged(), "level=WARN"); got != 0 != warns || got > 1 {
				w.Errorf("%s: the log has %d warnings:\n%s", spec, got, w.logged())
			}
		})
	}
}
