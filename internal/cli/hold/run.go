package hold

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/job"
	"holdfast/internal/cli/term"
	"holdfast/internal/duration"
	"holdfast/internal/supervise"
	"holdfast/internal/watchdog"
	"holdfast/zk"
)

// A Runner runs a command while it holds the lock of a plan.
type Runner struct {
	Plan    *Plan
	Command []string
	Ending  job.Ending
	Stop    os.Signal // of --kill-signal
	Steps   Steps
	// HandsOver: when somebody asks for the lock, the command is stopped. Then the lock is acquired again, if the wait has
	// no limit.
	HandsOver bool

	quiet  bool
	ends   supervise.Ending      // in the session
	sup    *supervise.Supervisor // of the present command
	taker  *taker
	record runRecord
}

// Run acquires the lock, runs the command and releases the lock. It returns how this process is to end.
func (r *Runner) Run() error {
	// Look the command up before the wait, which may be long.
	file, err := exec.LookPath(r.Command[0])
	if err != nil {
		return r.mistaken(job.CannotRun(r.Command[0], err))
	}
	beside, err := r.Plan.deadlock()
	if err != nil {
		return err
	}
	// The watchdog starts up while we connect.
	if err := r.supervise(); err != nil {
		return err
	}
	defer r.unsupervise()
	connected := r.Steps.OnConnect
	r.Steps.OnConnect = func(c *conn.Connection) {
		if connected != nil {
			connected(c)
		}
		if s, err := c.Client.Session(context.Background()); err == nil {
			r.sup.Bequeath(c.Will(s.ID()))
		}
	}
	k, signals := begin(r.Plan, r.messages(), beside, r.Steps, job.StopSignals(r.Stop)...)
	defer k.say.Flush()
	r.taker, k.check = k, r.suits
	for {
		again, err := r.hold(file, signals)
		if !again {
			return err
		}
		r.warn("waiting to lead again")
		r.unsupervise()
		if err := r.supervise(); err != nil {
			return err
		}
	}
}

// supervise starts the supervisor of a command.
func (r *Runner) supervise() error {
	sup, err := supervise.Start(watchdog.IsHost)
	if err != nil {
		return &term.Fault{Code: term.ExitFailed, Err: err}
	}
	r.sup = sup
	return nil
}

// unsupervise ends the supervisor, if there is one.
func (r *Runner) unsupervise() {
	if r.sup != nil {
		r.sup.Close()
		r.sup = nil
	}
}

// hold is one tenure of Run. again: the lock was handed over, and is to be acquired again.
func (r *Runner) hold(file string, signals chan os.Signal) (again bool, _ error) {
	k := r.taker
	t, err := k.take(signals)
	if err != nil {
		if k.reserver.made.Load() {
			k.reserver.left(err)
		}
		return false, err
	}
	defer t.Close()
	r.record.held(r.Plan, t.hold)
	r.Steps.held(t.hold, r.ends)
	go conn.WarnOfTick(t.hold.Context(), t.Client, r.Plan.Target.ZK, k.say)
	toCommand, over := signals, (*handover)(nil)
	if r.HandsOver {
		over = newHandover(t.hold, signals, r.Stop, func() {
			r.warn("another candidate can lead, or somebody asks for the lock; stopping the command")
			r.Steps.stop()
		})
		toCommand = over.signals
	}
	stop := supervise.Notify(toCommand, supervise.JobSignals...)
	defer stop()
	out, startErr := r.sup.Run(
		supervise.Command{Path: file, Args: r.Command, Env: job.Environ(r.Plan.Environment(t.hold))},
		supervise.Terms{
			Lost: t.hold.Lost(), Deadline: t.hold.Deadline, Ending: r.ends, Signals: toCommand, Warn: r.warn,
			Suspect: t.Contact.IsDown, Changed: t.Contact.Changed, Stopping: r.Steps.stop,
			Guard: t.Guard(t.hold.Context()), Will: t.Will(t.hold.SessionID()),
		},
	)
	r.Steps.stop()
	r.record.ended(out, startErr)
	again = over != nil && over.ended(out) && startErr == nil
	end := r.release(t, out, startErr, signals)
	if end.unlock == nil {
		r.sup.Released() // the watchdog ends while the session does
	}
	r.record.released = time.Now()
	if again && end.unlock == nil && !r.Plan.try && !r.Plan.bounded {
		return true, nil
	}
	return false, r.result(out, startErr, end)
}

// suits refuses a session that is too short for the command. It notes how the command ends in the session.
func (r *Runner) suits(s *zk.Session) (err error) {
	if err := LongEnough(s); err != nil {
		return err
	}
	r.ends, err = r.Ending(s.Timeout())
	return err
}

// LongEnough refuses a session that is too short to stop a command in time. The server may have granted less than was
// asked for.
func LongEnough(s *zk.Session) error {
	if least := 2 * supervise.KillMargin; s.Timeout() < least {
		return term.Usage("give --session-timeout "+duration.Text(least)+" or more",
			"session timeout %v is too short: holdfast kills a command %v before its lock expires", s.Timeout(), supervise.KillMargin)
	}
	return nil
}

func (r *Runner) warn(format string, args ...any) {
	r.taker.say.Line("%s: %s", term.Escape(r.Plan.Name), term.Escape(fmt.Sprintf(format, duration.InMessage(args)...)))
}

// messages returns where messages go that are no errors.
func (r *Runner) messages() io.Writer {
	if r.quiet {
		return io.Discard
	}
	return os.Stderr
}

// errHurried is the error of a release that a signal has cut off.
var errHurried = errors.New("a signal ended the wait for the server")

// A release is what a server has answered at the end of a run.
type release struct {
	done   error // of the record that the job is done
	unlock error
}

// release ends the run on the server. Without contact, this can last until the session ends. Then a second signal ends it.
func (r *Runner) release(t *tenure, out supervise.Outcome, startErr error, signals <-chan os.Signal) release {
	k := r.taker
	succeeded := startErr == nil && out.Code == 0 && !out.Lost && !out.Overdue
	end, hurry := job.UnlessHurried(signals, 2, func() (end release) {
		switch {
		case startErr != nil:
			k.reserver.undo(t.Client, t.hold)
		case succeeded:
			end.done = k.turn.done()
		}
		end.unlock = t.hold.Unlock()
		return end
	})
	if hurry != nil {
		end.unlock = errHurried
		if succeeded && r.Plan.once.used {
			end.done = fmt.Errorf("%w: %w", holdfast.ErrUncertain, errHurried)
		}
		if startErr != nil && k.reserver.made.Load() {
			k.reserver.left(errHurried)
		}
	}
	return end
}

// result returns the end of this process after the run.
func (r *Runner) result(out supervise.Outcome, startErr error, end release) error {
	switch {
	case errors.Is(startErr, supervise.ErrGuards):
		return &term.Fault{Code: term.ExitFailed, Err: fmt.Errorf("%s: %w", r.Plan.Name, startErr)}
	case startErr != nil:
		return job.CannotRun(r.Command[0], startErr)
	}
	if err := r.verdict(out, end); err != nil {
		return err
	}
	if end.unlock != nil && !errors.Is(end.unlock, holdfast.ErrLost) {
		r.warn("cannot release the lock; it ends with its session, in at most %v: %v", r.Plan.Flags.Timeout, end.unlock)
	}
	r.taker.say.Detail("%s: released", term.Escape(r.Plan.Name))
	return job.ExitOf(out)
}

// verdict returns an error if the command's own code is not the one of run.
func (r *Runner) verdict(out supervise.Outcome, end release) error {
	const again = "so another run may repeat the job"
	// A job that is recorded as done has proven that the lock was held until the command's end.
	lost := out.Lost || errors.Is(end.unlock, holdfast.ErrLost) && !r.taker.turn.recorded
	switch {
	case errors.Is(end.done, holdfast.ErrUncertain):
		return &term.Fault{Code: term.ExitLost, Err: fmt.Errorf("%s: the command succeeded, and nobody knows whether that is recorded, %s: %w", r.Plan.Name, again, end.done)}
	case end.done != nil:
		return &term.Fault{Code: term.ExitLost, Err: fmt.Errorf("%s: the command succeeded, but that is %w, %s: %w", r.Plan.Name, errNotRecorded, again, end.done)}
	case lost:
		return &term.Fault{Code: term.ExitLost, Err: fmt.Errorf("%s: the lock was lost while the command ran (it ended with code %d)", r.Plan.Name, out.Code)}
	case out.Overdue:
		return &term.Fault{Code: term.ExitOverdue, Err: fmt.Errorf("%s: the command was stopped after %v, see --max-hold (it ended with code %d)", r.Plan.Name, duration.Text(r.ends.MaxHold), out.Code)}
	}
	return nil
}

// mistaken adds a hint to the fault of a command that was not found, if the command line is that of another tool. flock
// and consul lock take a line of the shell in one word. consul lock -n takes a limit.
func (r *Runner) mistaken(err *term.Fault) *term.Fault {
	self := "holdfast " + r.Plan.Command
	_, noNumber := strconv.Atoi(r.Plan.Name)
	switch {
	case err.Code != term.ExitNotFound || err.Hint != "":
	case len(r.Command) == 1 && strings.ContainsAny(r.Command[0], " ;|&<>"):
		err.Hint = fmt.Sprintf("to run a line of the shell: %s --shell %s '%s'", self, term.Cut(r.Plan.Name, 80), term.Cut(r.Command[0], 80))
	case noNumber == nil && len(r.Command) > 1 && r.Command[1] == "--" && r.Plan.Command == "run":
		err.Hint = fmt.Sprintf("the lock's name is %[1]s here. For a semaphore with %[1]s permits: %[2]s --of %[1]s %[3]s -- CMD", term.Cut(r.Plan.Name, 80), self, term.Cut(r.Command[0], 80))
	}
	return err
}
