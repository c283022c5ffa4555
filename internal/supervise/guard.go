package supervise

import (
	"cmp"
	"os"
	"syscall"
	"time"

	"holdfast/internal/duration"
)

// A guard ends one job in time. It runs in the process that is the job's parent: the watchdog
// on Linux, the supervisor elsewhere.
type guard struct {
	job     *job
	ending  Ending
	left    func() time.Duration // time until the deadline; it can grow
	suspect func() bool          // no server is connected; may be nil
	lost    <-chan struct{}      // closed when the lock is certainly lost
	signals <-chan os.Signal     // for the job
	stopped func(syscall.Signal) // the command was stopped by this signal
	exited  func()               // the command has ended, and its leftovers are awaited
	resume  <-chan struct{}      // continue the job after a stop, if the lock allows it
	look    <-chan struct{}      // the deadline may have become earlier, or suspect has changed
	doubt   func()               // tells the job that the lock is lost or in doubt; may be called again
	say     func(format string, args ...any)
	stops   func() // the job is asked to stop, or killed; may be called again
	alarm   *alarm

	told     bool          // the job was asked to stop because the lock may be lost soon, or was killed as it is lost
	overdue  bool          // the job was asked to stop after MaxHold
	stopping bool          // told or overdue, or both
	limit    time.Duration // the end of MaxHold, by clock; 0 is none
	killAt   time.Duration // the job is killed then, by clock; 0 is never
	killed   bool
	warned   bool // told the job or the user of the doubt, without stopping the job
	without  bool // the same of the loss

	frozen    bool // the job is suspended
	excused   bool // the user has asked the suspended job to stop, so it goes on until the doubt ends
	paused    bool // the user has stopped the command
	awake     bool // the user has continued the suspended job, so its end continues the command, too
	stoppedBy syscall.Signal
	sent      os.Signal // the last signal of a key that was sent to the job; on Linux, the supervisor knows it
}

// lookAgain is the interval at which the deadline is read again, to see the end of a doubt.
const lookAgain = 50 * time.Millisecond

// longestStop is how long the process of the guard can be stopped, for example by a command that stops its process group: the
// alarm continues it.
const longestStop = 5 * time.Second

// run returns when no process of the job is left, except those that the ending spares. It reports
// whether the lock was not provably ours until then.
func (g *guard) run() (lost bool) {
	var (
		lastInterrupt time.Duration
		loss          = g.lost
		exited        = g.job.exited
		next          <-chan struct{} // a leftover process has ended
	)
	if g.ending.MaxHold > 0 {
		g.limit = clock() + g.ending.MaxHold
	}
	for {
		g.act()
		g.setAlarm()
		if exited == nil { // only leftovers are left
			var some bool
			if some, next = g.awaitLeftovers(next); !some {
				return g.over()
			}
		}

		select {
		case <-exited:
			exited = nil
			if !g.await() {
				return g.over()
			}

		case <-next:
			next = nil

		case sig := <-g.job.stopped:
			if sig == freezing && g.ending.Freeze > 0 {
				continue // by freeze; or by the user, who then continues it
			}
			if g.stoppedBy, g.paused = sig, true; !g.killed {
				g.stopped(sig)
			}

		case <-g.resume:
			g.continues()

		case sig := <-g.signals:
			if sig == continuing {
				g.paused = false
			}
			if g.ending.stops(sig) {
				g.stops()
			}
			if isKey(sig) {
				g.sent = sig
			}
			switch now := clock(); {
			case sig == continuing && g.frozen:
				g.awake = true
			case sig != os.Interrupt:
				g.job.signal(sig)
			case lastInterrupt != 0 && now-lastInterrupt < doubleInterrupt:
				g.job.kill()
			default:
				lastInterrupt = now
				g.job.signal(sig)
			}
			if g.ending.asks(sig) {
				g.userStops()
			}

		case <-loss:
			loss = nil
			if g.ending.OnLost == LostKills {
				g.lose()
			}

		case <-g.look:
		case <-g.alarm.C:
		}
	}
}

// act does what is due.
func (g *guard) act() {
	left := g.left()
	near := left <= max(g.ending.Grace, KillMargin)
	switch {
	case g.ending.OnLost == LostKills:
		if !g.told && near {
			g.tell(left)
		}
	case isClosed(g.lost):
		g.goesOn(0)
	case near:
		g.goesOn(left)
	case g.warned:
		g.warned = false
		g.say(sayAgain)
	}
	now := clock()
	if g.limit != 0 && !g.told && !g.overdue && now >= g.limit {
		g.overdue, g.limit = true, 0
		g.killWithin(g.ending.MaxHoldKill)
		g.stop()
		how := SignalName(g.ending.Signal)
		if g.ending.MaxHoldKill > 0 {
			how += ", and KILL in " + duration.Text(g.ending.MaxHoldKill)
		}
		g.say(sayOverdue, g.ending.MaxHold, how)
	}
	if g.killAt != 0 && !g.killed && now >= g.killAt {
		g.kill(sayKilled)
	}
	if g.ending.Freeze > 0 && !g.stopping && !g.killed {
		g.freeze(g.suspect != nil && g.suspect() || left <= g.ending.Freeze)
	}
}

// setAlarm sets the alarm to the next time at which act has work.
func (g *guard) setAlarm() {
	if g.killed {
		g.alarm.stop()
		return
	}
	next := time.Duration(1<<63 - 1)
	left := g.left()
	switch grace := max(g.ending.Grace, KillMargin); {
	case g.told, g.without:
	case g.warned:
		next = min(lookAgain, left)
	case g.frozen:
		next = min(lookAgain, left-grace)
	case g.ending.Freeze > 0 && !g.stopping && left > max(g.ending.Freeze, grace):
		next = min(left-max(g.ending.Freeze, grace), longestStop)
	default:
		next = min(left-grace, longestStop)
	}
	now := clock()
	if g.killAt != 0 {
		next = min(next, g.killAt-now)
	}
	if g.limit != 0 {
		next = min(next, g.limit-now)
	}
	g.alarm.in(min(next, 24*time.Hour))
}

func (g *guard) kill(why string) {
	g.killed = true
	g.stops()
	g.job.kill()
	g.say("%s", why)
}

// killWithin makes KILL follow after d, unless it follows earlier. If d is 0, it does nothing.
func (g *guard) killWithin(d time.Duration) {
	if at := clock() + d; d > 0 && (g.killAt == 0 || at < g.killAt) {
		g.killAt = at
	}
}

// stop asks the whole job to stop. A suspended job continues: the lock is still ours.
func (g *guard) stop() {
	g.stopping, g.frozen = true, false
	g.stops()
	g.job.terminate(g.ending.Signal)
}

// lose kills the job, because the lock is certainly lost.
func (g *guard) lose() {
	g.told = true
	g.doubt()
	if !g.killed {
		g.kill(sayLost)
	}
}

// tell asks the job to stop, because the lock ends soon.
func (g *guard) tell(left time.Duration) {
	g.told, g.limit = true, 0
	g.doubt()
	patience := min(cmp.Or(g.ending.KillAfter, g.ending.Grace), left-KillMargin)
	if patience <= 0 {
		if !g.killed {
			g.kill(sayTooOld)
		}
		return
	}
	g.killWithin(patience)
	g.stop()
	g.say(sayLate, SignalName(g.ending.Signal), patience.Round(10*time.Millisecond))
}

// goesOn tells the user and, by LostSignals, the job that the lock is lost, or ends after left.
func (g *guard) goesOn(left time.Duration) {
	g.doubt()
	if g.without {
		return
	}
	sent := ""
	if !g.warned && g.ending.OnLost == LostSignals {
		g.job.signal(g.ending.LostSignal)
		sent = SignalName(g.ending.LostSignal)
	}
	switch {
	case left <= 0:
		g.without = true
		g.say(sayWithout)
	case !g.warned:
		g.say(sayDoubt, left.Round(10*time.Millisecond))
	}
	g.warned = true
	if sent != "" {
		g.say(saySent, sent)
	}
}

// userStops follows a signal of the user that asks the job to stop. A suspended job must be able to.
func (g *guard) userStops() {
	if g.frozen {
		g.excused = true
		g.thaw()
	}
	g.killWithin(g.ending.KillAfter)
}

// freeze suspends the job if its lock is in doubt, or continues it.
func (g *guard) freeze(doubt bool) {
	g.excused = g.excused && doubt
	switch is := doubt && !g.excused; {
	case is && !g.frozen:
		g.frozen = true
		g.job.freeze(g.say)
		g.say(sayFrozen)
	case !is && g.frozen:
		g.thaw()
		g.say(sayThawed)
	}
}

// thaw continues a suspended job, unless the user has stopped it. The job's thaw does not continue a command that
// the user had stopped before.
func (g *guard) thaw() {
	if g.frozen = false; !g.paused {
		if g.awake {
			g.job.resume(g.stoppedBy)
		}
		g.job.thaw()
	}
	g.awake = false
}

// continues continues the job after a stop by the user. A job must not run without the lock. If it may
// not continue, the next turn kills it.
func (g *guard) continues() {
	g.paused = false
	if g.frozen {
		g.awake = true
		return
	}
	if g.ending.OnLost == LostKills && (g.left() <= KillMargin || isClosed(g.lost)) {
		return
	}
	g.job.resume(g.stoppedBy)
	g.job.thaw()
}

// await reports whether the end of the command's leftovers must be awaited. If not, they are killed or
// spared.
func (g *guard) await() bool {
	switch leftovers := g.ending.Leftovers; {
	case g.told || g.killed || isClosed(g.lost) && g.ending.OnLost == LostKills:
	case leftovers == LeftoversAwaited:
		return true
	case leftovers == LeftoversIgnored && !g.overdue:
		if g.frozen { // the command was killed meanwhile
			g.job.thaw()
		}
		return false
	}
	// A signal that ends the command has perhaps reached its descendants, too, and not ended them yet.
	asked := g.told || g.killed || asksToStop(syscall.Signal(g.job.killer()))
	g.job.sweep(g.say, !asked)
	return false
}

// awaitLeftovers reports whether leftovers are left that must be awaited. next is closed when one of them
// has ended.
func (g *guard) awaitLeftovers(next <-chan struct{}) (bool, <-chan struct{}) {
	if g.killed {
		g.job.sweep(g.say, false)
		return false, nil
	}
	if next != nil {
		return true, next
	}
	some, next := g.job.leftovers()
	if !some {
		g.job.sweep(g.say, false) // removes its cgroup
		return false, nil
	}
	if g.exited != nil {
		g.exited()
		g.exited = nil
		g.say(sayWaiting)
	}
	return true, next
}

// over reports whether the lock was lost, now that the job is gone. Also if the job was not told:
// leftover processes may have outlived the deadline, and a loss may have come at the same moment as the
// exit.
func (g *guard) over() bool {
	return g.told || isClosed(g.lost) || g.left() <= 0
}
