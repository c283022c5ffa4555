package supervise

import (
	"os"
	"syscall"
	"time"
)

// A guard ends one job in time. It runs in the process that is the job's parent: the watchdog
// on Linux, the supervisor elsewhere.
type guard struct {
	job     *job
	left    func() time.Duration // time until the deadline; it can grow
	grace   time.Duration
	lost    <-chan struct{}      // closed when the job must be killed at once
	signals <-chan os.Signal     // for the job
	stopped func(syscall.Signal) // the command was stopped by this signal
	resume  <-chan struct{}      // continue the job after a stop, if the lock allows it
	look    <-chan struct{}      // the deadline may have become earlier
	say     func(format string, args ...any)
	alarm   *alarm
}

// run returns when no process of the job is left. It reports whether the lock was not provably
// ours until then.
func (g *guard) run() (lost bool) {
	var (
		told          bool          // the job got TERM because the lock may be lost soon
		killAt        time.Duration // if told: the end of the grace, by clock
		killed        bool
		lastInterrupt time.Duration
		stoppedBy     syscall.Signal
		loss          = g.lost
		alarm         = g.alarm
	)
	kill := func(why string) {
		killed = true
		g.job.kill()
		g.say("%s", why)
	}
	tell := func(left time.Duration) {
		told = true
		patience := min(g.grace, left-KillMargin)
		if patience <= 0 {
			kill(sayTooOld)
			return
		}
		killAt = clock() + patience
		g.job.terminate()
		g.say(sayLate, patience.Round(10*time.Millisecond))
	}
	for {
		left := g.left()
		if !told && left <= max(g.grace, KillMargin) {
			tell(left)
		}
		if told && !killed && clock() >= killAt {
			kill(sayKilled)
		}
		switch {
		case killed:
			alarm.stop()
		case told:
			alarm.in(killAt - clock())
		default:
			alarm.in(left - max(g.grace, KillMargin))
		}

		select {
		case <-g.job.exited:
			g.job.sweep(g.say)
			// Also check if the job got no TERM: leftover processes may have outlived the
			// deadline, and a loss may have come at the same moment as the exit.
			return told || isClosed(g.lost) || g.left() <= 0

		case sig := <-g.job.stopped:
			if stoppedBy = sig; !killed {
				g.stopped(sig)
			}

		case <-g.resume:
			// A job must not run without the lock. If it may not continue, the next turn kills
			// it.
			if g.left() > KillMargin && !isClosed(g.lost) {
				g.job.resume(stoppedBy)
			}

		case sig := <-g.signals:
			switch now := clock(); {
			case sig != os.Interrupt:
				g.job.signal(sig)
			case lastInterrupt != 0 && now-lastInterrupt < doubleInterrupt:
				g.job.kill()
			default:
				lastInterrupt = now
				g.job.signal(sig)
			}

		case <-loss:
			loss, told = nil, true
			if !killed {
				kill(sayLost)
			}

		case <-g.look:
		case <-alarm.C:
		}
	}
}
