//go:build !linux

package supervise

import (
	"cmp"
	"fmt"
	"io/fs"
	"syscall"
	"time"
)

// A Supervisor runs one command. Only one goroutine may use it.
type Supervisor struct{}

// Start starts nothing here, because there is no watchdog. spare is not used.
func Start(func(pid int) bool) (*Supervisor, error) { return &Supervisor{}, nil }

// Bequeath does nothing here.
func (s *Supervisor) Bequeath(will string) {}

// Released does nothing here.
func (s *Supervisor) Released() {}

// Close does nothing here.
func (s *Supervisor) Close() {}

// IsWatchdog returns false: there is no watchdog here.
func IsWatchdog() bool { return false }

// Main is never called.
func Main(func(pid int) bool) (code int, will string) { return 1, "" }

// LeaveJob does nothing: jobs have no cgroups here.
func LeaveJob() {}

// Heed does nothing here.
func Heed() {}

// Run starts the command, and returns when the command and, on Unix, leftover processes in its
// process group are gone. If the command cannot be started, Run returns the error, and nothing
// runs.
func (s *Supervisor) Run(c Command, t Terms) (Outcome, error) {
	t.Ending.Signal = cmp.Or(t.Ending.Signal, syscall.SIGTERM)
	var tty *terminal
	if !t.Background {
		tty = openTerminal()
	}
	defer tty.close()
	if isClosed(t.Lost) || time.Until(t.Deadline()) <= KillMargin {
		return Outcome{}, fmt.Errorf("%w: the lock was already lost", ErrGuards)
	}
	alarm, err := newAlarm()
	if err != nil {
		return Outcome{}, fmt.Errorf("%w: %w", ErrGuards, err)
	}
	defer alarm.close()
	pipe, err := newLostPipe()
	if err != nil {
		return Outcome{}, fmt.Errorf("%w: %w", ErrGuards, err)
	}
	defer pipe.end()
	j, err := startJob(c, pipe)
	pipe.started()
	if err != nil {
		return Outcome{}, &fs.PathError{Op: "fork/exec", Path: c.Path, Err: err}
	}
	lender, _ := tty.lender()
	tty.lend(lender, j.pid)
	had := false
	resume := make(chan struct{}, 1)
	g := &guard{
		job: j, ending: t.Ending, left: func() time.Duration { return time.Until(t.Deadline()) }, suspect: t.Suspect, lost: t.Lost,
		signals: t.Signals, resume: resume, look: t.Changed, say: t.Warn, alarm: alarm, doubt: pipe.end, stops: t.stops,
		exited: func() { had = tty.end(j.pid, j.waitStatus()) },
		stopped: func(sig syscall.Signal) {
			if tty.pause(sig, j.pid, func() { j.signal(freezing) }) {
				poke(resume)
			}
		},
	}
	lost := g.run()
	had = tty.end(j.pid, j.waitStatus()) || had
	by := syscall.Signal(j.killer())
	return Outcome{Code: j.code(), Signal: int(by), Lost: lost, Overdue: g.overdue, Key: had && isKey(by) && g.sent != by}, nil
}
