// Package cronholdfast lets several hosts run each job of github.com/robfig/cron once per fire. It is a module of its
// own, so programs without it do not get cron. The package netresearch below it is for github.com/netresearch/go-cron.
//
//	once, err := cronholdfast.OncePerFire(c, "/myapp/jobs", "report", schedule)
//	…
//	crontab.Schedule(schedule, cron.NewChain(once).Then(job))
//
// The package starts no goroutine. A job waits and runs in the goroutine that cron has started for it.
package cronholdfast

import (
	"context"
	"log/slog"
	"time"

	"github.com/robfig/cron/v3"

	"holdfast/contrib/cronholdfast/internal/fire"
	"holdfast/zk"
)

// An Option configures OncePerFire.
type Option = fire.Option

// WithWait bounds the wait for another host that runs the fire, and for a server that does not answer. After d, the fire is skipped
// on this host, and logged. The default is the time until the next fire, and 60 s at most. So after an outage, a host runs
// the latest fire only.
//
// The session of a host that died lasts for the session timeout and a tick of the server, 40 s and 2 s by default. If the wait is shorter,
// nobody runs the fire of a host that died, and a warning is logged. Then set a shorter zk.Config.SessionTimeout. With a d that
// is longer than the time between two fires, several fires wait at a time, and run at once when the server answers.
func WithWait(d time.Duration) Option { return fire.Wait(d) }

// WithOwner names this process to others, see [holdfast.WithOwner].
func WithOwner(name string) Option { return func(s *fire.Settings) { s.Owner = name } }

// WithLogger is where fires that were skipped and runs that were not recorded are logged. The default is slog.Default. A fire that
// has run already is logged at the debug level.
func WithLogger(log *slog.Logger) Option { return func(s *fire.Settings) { s.Log = log } }

// WithLocation is the time zone of the schedule. The default is time.Local, as with cron. Give it if you give
// cron.WithLocation. Hosts in different time zones need one.
func WithLocation(loc *time.Location) Option { return func(s *fire.Settings) { s.Location = loc } }

// OncePerFire returns a wrapper with which each fire of a job runs once, over all hosts. It sends nothing. The error is
// zk.ErrBadArguments for a schedule or an argument that cannot work.
//
// The fire is the last time of the schedule before the call, by the clock that cron has started the job by. If the
// next time is less than 30 s away, and nearer than the last one, it is the next time. So the clocks of two hosts may differ by any
// amount: each fire has one name on all of them. A host whose clock is ahead runs each fire early, and the others
// skip it. If the difference is larger than the time between two fires, the hosts are at different fires, and
// run them at the same time.
//
// A run that a program starts by hand belongs to the last fire, too: it is skipped if that fire has run, and otherwise makes up for
// it. The next fire runs as usual. To run the job in any case, call the job without the wrapper.
//
// Each fire has a lock of its own. So if a run takes longer than the time between two fires, the runs of two fires overlap.
// cron.SkipIfStillRunning prevents that within a process. If the runs of all hosts must not overlap, take a
// [holdfast.Mutex] in the job.
//
// If another host runs the fire, this one waits for its end, see WithWait. If the job panics, or its host dies or loses the lock, nothing
// is recorded, and a host that still waits runs the fire. A host that died keeps the lock until its session has ended. A job that returns counts as a success, unless the
// context that it has been given has ended. The record outlives the process, and stays
// for a day.
//
// The lock and the records of the job are at <path>/<name>, where the name is escaped as in a URL. So jobs of two
// programs have different paths. The schedule must be the one that cron has for the job. Its times must follow from the clock:
// @every counts from the start of each process, so hosts have no fire in common, and OncePerFire refuses it.
//
// A cron.Job has no context, so the job does not notice if the lock is lost. If it also has the method
// RunWithContext(context.Context), that is called instead. Its context ends when the lock is lost, and then it must stop
// at once. [holdfast.FromContext] returns the Hold.
func OncePerFire(c *zk.Client, path, name string, schedule cron.Schedule, opts ...Option) (cron.JobWrapper, error) {
	j, err := fire.New(c, path, name, schedule, opts)
	if err != nil {
		return nil, err
	}
	return func(inner cron.Job) cron.Job {
		return cron.FuncJob(func() {
			j.Run(context.Background(), func(ctx context.Context) error {
				if withContext, ok := inner.(interface{ RunWithContext(context.Context) }); ok {
					withContext.RunWithContext(ctx)
					return context.Cause(ctx)
				}
				inner.Run()
				return nil
			})
		})
	}, nil
}
