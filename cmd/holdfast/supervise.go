package main

import (
	"os"
	"os/exec"
	"time"
)

// killMargin is how long before the hold's deadline the last process of the job is
// killed: time for this process to be scheduled and for the kernel to take the job down.
const killMargin = 250 * time.Millisecond

// doubleInterrupt is the time within which a second INT means "now": KILL.
const doubleInterrupt = 2 * time.Second

// supervisor runs one command for as long as a lock is held. What it promises:
//
//   - When run returns, no process of the job is left, so the lock may be released.
//   - The job is gone before the hold's deadline: TERM at deadline - killAfter, KILL at
//     deadline - killMargin. The deadline moves on while the session is proven, so it is
//     asked for again at every turn and never remembered.
//   - A command that was told to stop has lost its lock, whatever happens to the session
//     afterwards and whatever code the command exits with.
//
// It cannot promise this while it does not run itself (SIGSTOP, a paused machine): that
// is what the fencing token is for.
type supervisor struct {
	cmd       *exec.Cmd
	signals   <-chan os.Signal // what this process receives meanwhile
	lost      <-chan struct{}
	deadline  func() time.Time
	killAfter time.Duration
	warn      func(format string, args ...any) // must not block
}

// outcome is how a supervised command ended.
type outcome struct {
	code int  // its exit code, or 128+N when signal N killed it
	lost bool // the lock was not provably ours until the end
}

// run starts the command and returns when it and all that it left behind are gone. The
// error is that of a command that could not be started; then nothing runs.
func (s *supervisor) run() (outcome, error) {
	j, err := startJob(s.cmd)
	if err != nil {
		return outcome{}, err
	}
	var (
		told          bool      // TERM was sent because the lock is going or gone
		killAt        time.Time // when told: the end of the grace
		killed        bool
		lastInterrupt time.Time
		lost          = s.lost
		timer         = time.NewTimer(0)
	)
	defer timer.Stop()
	kill := func() {
		killed = true
		j.kill()
	}
	tell := func(why string) {
		if told {
			return
		}
		told = true
		now := time.Now()
		killAt = s.deadline().Add(-killMargin)
		if grace := now.Add(s.killAfter); grace.Before(killAt) {
			killAt = grace
		}
		if !now.Before(killAt) {
			kill()
			s.warn("%s; the command is killed", why)
			return
		}
		j.terminate()
		s.warn("%s; the command is stopped, and killed in %v", why, killAt.Sub(now).Round(10*time.Millisecond))
	}

	for {
		now := time.Now()
		if !told && !now.Before(s.deadline().Add(-max(s.killAfter, killMargin))) {
			tell("the session was not proven alive in time, so the lock may be given away")
		}
		if told && !killed && !now.Before(killAt) {
			kill()
			s.warn("the command did not stop in time and is killed")
		}
		switch {
		case killed:
			timer.Stop()
		case told:
			timer.Reset(time.Until(killAt))
		default:
			timer.Reset(time.Until(s.deadline().Add(-max(s.killAfter, killMargin))))
		}

		select {
		case <-j.exited:
			j.sweep(s.warn)
			gone := time.Now()
			return outcome{
				code: j.code(),
				// Also when nobody was told: the leftovers may have outlived the deadline,
				// and a loss may have come at the same moment as the exit.
				lost: told || isClosed(s.lost) || !gone.Before(s.deadline()),
			}, nil

		case sig := <-j.stopped:
			if j.pause(sig) && time.Now().Before(s.deadline().Add(-killMargin)) && !isClosed(s.lost) {
				j.resume()
			}
			// Else the job stays stopped: it must not do another instruction without the
			// lock, and the next turn kills it.

		case sig := <-s.signals:
			switch {
			case sig == os.Interrupt && !lastInterrupt.IsZero() && now.Sub(lastInterrupt) < doubleInterrupt:
				kill()
			default:
				if sig == os.Interrupt {
					lastInterrupt = now
				}
				j.signal(sig)
			}

		case <-lost:
			lost = nil
			tell("the lock was lost")

		case <-timer.C:
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
