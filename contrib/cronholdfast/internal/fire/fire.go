// Package fire runs a cron job once per fire. The packages for the two libraries share it. It starts no goroutine.
package fire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"holdfast"
	"holdfast/once"
	"holdfast/zk"
)

const (
	// longestWait bounds the wait for another host, see Wait.
	longestWait = time.Minute
	// memory is how long runs are remembered.
	memory = 24 * time.Hour
	// early is how long before a fire a start belongs to it already. cron starts no job early. Only a clock that is
	// set back in that moment makes a start look early.
	early = 30 * time.Second
)

// A Schedule is the part of a cron.Schedule that both libraries have.
type Schedule interface{ Next(time.Time) time.Time }

// Settings are what the options set.
type Settings struct {
	Wait     time.Duration
	waits    bool // Wait is given
	Owner    string
	Log      *slog.Logger
	Location *time.Location
	Now      func() time.Time
}

// An Option changes a setting.
type Option func(*Settings)

// Wait bounds the wait for another host. The default is the time until the next fire, and longestWait at most: so at most
// one fire of a host waits for a server that does not answer, and runs when it answers again.
func Wait(d time.Duration) Option { return func(s *Settings) { s.Wait, s.waits = d, true } }

// A Job runs once per fire. It is safe for concurrent use.
type Job struct {
	Settings
	client   *zk.Client
	advised  atomic.Bool // see advise
	name     string
	schedule Schedule
	once     *once.Once
}

// New makes the job with its records at path/name. It sends nothing.
func New(c *zk.Client, path, name string, schedule Schedule, opts []Option) (*Job, error) {
	j := &Job{Settings: Settings{Log: slog.Default(), Location: time.Local, Now: time.Now}, client: c, name: name, schedule: schedule}
	for _, o := range opts {
		o(&j.Settings)
	}
	wrong := ""
	switch {
	case name == "":
		wrong = "the name of the job is empty"
	case schedule == nil:
		wrong = "there is no schedule"
	case j.waits && j.Wait <= 0:
		wrong = fmt.Sprintf("a wait of %v", j.Wait)
	case !byClock(schedule, j.now()):
		wrong = "the schedule counts from the start of each process, so hosts have no fire in common: write */5 * * * * instead of @every 5m"
	}
	if wrong != "" {
		return nil, fmt.Errorf("cronholdfast: job %s: %w: %s", name, zk.ErrBadArguments, wrong)
	}
	o := []once.Option{once.ForgetAfter(memory)}
	if j.Owner != "" {
		o = append(o, once.WithLock(holdfast.WithOwner(j.Owner)))
	}
	j.once = once.New(c, path+"/"+zk.EscapeName(name), o...)
	return j, nil
}

func (j *Job) now() time.Time { return j.Now().In(j.Location) }

// byClock reports whether the times of s follow from the clock alone.
func byClock(s Schedule, now time.Time) bool {
	next := s.Next(now)
	return next.IsZero() || s.Next(next.Add(-time.Second)).Equal(next)
}

// Run calls f unless the fire of this moment has run. It waits while another host runs it. The context of f ends
// with ctx, or when the lock is lost. If f returns an error, the run is not recorded. Run logs that, and why f was
// not called.
func (j *Job) Run(ctx context.Context, f func(context.Context) error) {
	fire := at(j.schedule, j.now())
	at, wait := fire.UTC().Format(time.RFC3339), j.wait(fire)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(wait, func() { cancel(fmt.Errorf("gave up after %v", wait)) })
	defer limit.Stop()
	r, err := j.once.Key(at).Do(ctx, func(ctx context.Context) ([]byte, error) {
		if !limit.Stop() {
			return nil, context.Cause(ctx)
		}
		return nil, f(ctx)
	})
	log := j.Log.With("job", j.name, "fire", at)
	if err == nil {
		j.advise(ctx, log, wait)
	}
	switch {
	case errors.Is(err, holdfast.ErrLost), errors.Is(err, holdfast.ErrUncertain), err != nil && r.Ran:
		log.Error("the end of a job is not recorded, so another host can run this fire again", "error", err)
	case err != nil:
		log.Warn("the fire of a job is skipped", "error", err)
	case !r.Ran:
		log.Debug("the fire of a job has run already", "owner", r.Owner, "began", r.Began)
	}
}

// wait returns how long the start of a fire waits.
func (j *Job) wait(fire time.Time) time.Duration {
	if j.waits {
		return j.Wait
	}
	if next := j.schedule.Next(fire); !next.IsZero() {
		return min(longestWait, next.Sub(fire))
	}
	return longestWait
}

// advise warns once if nobody waits until the session of a host that died has ended. The server ends sessions at its ticks,
// which are at most half as long as the shortest timeout. A quarter of the timeout is enough for usual ones.
func (j *Job) advise(ctx context.Context, log *slog.Logger, wait time.Duration) {
	s, err := j.client.Session(ctx)
	if err != nil || j.advised.Load() {
		return
	}
	if need := s.Timeout() + s.Timeout()/4; wait < need && !j.advised.Swap(true) {
		log.Warn("if the host that runs a job dies, no host runs its fire: set a shorter zk.Config.SessionTimeout, or WithWait to more",
			"session", s.Timeout(), "wait", wait, "needed", need)
	}
}

// at returns the fire that a start at now belongs to: the last time of the schedule. Cron starts a job at such a time
// or later, and a start by hand repeats the last fire. If the next time is less than early away, and nearer than
// the last one, it is the next time.
func at(s Schedule, now time.Time) time.Time {
	next := s.Next(now)
	var last time.Time
	const most = 6 * 366 * 24 * time.Hour // schedules look five years ahead
	for back := time.Second; last.IsZero() && back < most; back *= 2 {
		for t := s.Next(now.Add(-back)); !t.IsZero() && !t.After(now); t = s.Next(t) {
			last = t
		}
	}
	switch {
	case last.IsZero() && next.IsZero():
		return now
	case last.IsZero(), !next.IsZero() && next.Sub(now) < min(early, now.Sub(last)):
		return next
	}
	return last
}
