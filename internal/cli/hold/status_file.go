package hold

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/term"
	"holdfast/internal/locks"
	"holdfast/internal/supervise"
)

// statusFile is --status-file: what happened, for programs.
type statusFile struct {
	path  string
	start time.Time
}

func (f *statusFile) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.path, "status-file", "", "when run ends, write to this file as JSON what happened; an older file is removed first. See Status file above")
}

// check refuses a file that cannot be written, before the wait. It removes an older file: if this process
// crashes, there is none.
func (f *statusFile) check() error {
	f.start = time.Now()
	if f.path == "" {
		return nil
	}
	const hint = "give the path of a file in a directory that you can write to"
	if err := replaceable("--status-file", hint, f.path); err != nil {
		return err
	}
	if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return term.Usage(hint, "--status-file %s: cannot remove the old file: %v", term.Cut(f.path, 100), withoutPath(err))
	}
	return nil
}

// RunStatus is the status file.
type RunStatus struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Lock       string            `json:"lock"`
	Path       string            `json:"path"`
	Outcome    string            `json:"outcome"`
	Ran        bool              `json:"ran"`            // the command was started
	ExitCode   int               `json:"exit_code"`      // of holdfast run
	ExitedBy   string            `json:"exit_code_from"` // command or holdfast
	Command    *CommandStatus    `json:"command,omitempty"`
	Signal     int               `json:"signal,omitempty"` // the number of the one that ended the wait
	Error      string            `json:"error,omitempty"`
	Owner      string            `json:"owner"`
	Why        string            `json:"why"`
	Labels     map[string]string `json:"labels,omitempty"`
	Token      string            `json:"token,omitempty"`
	Session    string            `json:"session,omitempty"`
	WaitedMS   int64             `json:"waited_ms"`
	HeldMS     int64             `json:"held_ms"`
	EndedAt    time.Time         `json:"ended_at"`

	SupersededBy *SuccessorStatus `json:"superseded_by,omitempty"`
}

// CommandStatus is how the command ended.
type CommandStatus struct {
	ExitCode *int `json:"exit_code,omitempty"` // absent if a signal killed it
	Signal   int  `json:"signal,omitempty"`    // its number
}

// The outcomes in the status file.
const (
	outcomeExited      = "exited"       // the command ran and exited
	outcomeKilled      = "killed"       // the command ran, and a signal killed it
	outcomeLost        = "lost"         // the lock was lost while the command ran
	outcomeNotRecorded = "not-recorded" // the command succeeded, and the job is not recorded as done
	outcomeUncertain   = "uncertain"    // the command succeeded, and nobody knows whether the job is recorded as done
	outcomeOverdue     = "overdue"      // the command was stopped after --max-hold
	outcomeBusy        = "busy"         // the lock was busy
	outcomeDeadlock    = "deadlock"     // the wait was the victim of a deadlock (--on-deadlock fail)
	outcomeSuperseded  = "superseded"   // --supersede: a newer run has the place
	outcomeFull        = "queue-full"   // --queue-max: too many wait
	outcomeDone        = "already-done" // --once-per or --once-key
	outcomeInterrupted = "interrupted"  // a signal ended the wait
	outcomeCannotStart = "cannot-start" // the command cannot be executed, or was not found
	outcomeFailed      = "failed"       // holdfast failed
)

// outcomes are all of them.
var outcomes = []string{
	outcomeExited, outcomeKilled, outcomeLost, outcomeNotRecorded, outcomeUncertain, outcomeOverdue, outcomeBusy, outcomeDeadlock, outcomeSuperseded,
	outcomeFull, outcomeDone, outcomeInterrupted, outcomeCannotStart, outcomeFailed,
}

// A runRecord is how a run went.
type runRecord struct {
	acquired, released time.Time // zero if not
	token              int64
	session            int64
	started            bool
	out                supervise.Outcome // if it was started
}

// held notes that the lock is held.
func (r *runRecord) held(p *Plan, h *holdfast.Hold) {
	r.acquired, r.token, r.session = time.Now(), p.token(h), h.SessionID()
}

// ended notes how the command ended. err is why it was not started.
func (r *runRecord) ended(out supervise.Outcome, err error) {
	r.started, r.out = err == nil, out
}

// write writes the file, if the user wants one.
func (f *statusFile) write(s RunStatus) error {
	if f.path == "" {
		return nil
	}
	var b bytes.Buffer
	if err := term.JSON(&b, s); err != nil {
		return err
	}
	return replaceFile(f.path, b.Bytes(), 0)
}

// status returns the document about a run. err is the error of run, and code is its exit code.
func (f *statusFile) status(p *Plan, r *runRecord, err error, code int, now time.Time) RunStatus {
	s := RunStatus{
		APIVersion: term.APIVersion, Kind: "RunStatus", Lock: p.Name, Path: p.Path, Ran: r.started, ExitCode: code, ExitedBy: "holdfast",
		Owner: p.Who, Why: p.why, Labels: p.Labels, EndedAt: now.UTC().Truncate(time.Millisecond),
	}
	waited := now
	if !r.acquired.IsZero() {
		waited = r.acquired
		released := r.released
		if released.IsZero() {
			released = now
		}
		s.HeldMS = released.Sub(r.acquired).Milliseconds()
		s.Token, s.Session = strconv.FormatInt(r.token, 10), locks.SessionText(r.session)
	}
	s.WaitedMS = waited.Sub(f.start).Milliseconds()
	if r.started {
		s.Command = &CommandStatus{Signal: r.out.Signal}
		if r.out.Signal == 0 {
			s.Command.ExitCode = &r.out.Code
		}
	}
	s.outcome(r, err)
	return s
}

// outcome notes what the error of run says about its end.
func (s *RunStatus) outcome(r *runRecord, err error) {
	own, failed := errors.AsType[*term.Fault](err)
	stopped, silent := errors.AsType[term.ExitCode](err)
	switch {
	case err == nil || silent && r.started:
		s.Outcome, s.ExitedBy = outcomeExited, "command"
		if r.out.Signal != 0 {
			s.Outcome = outcomeKilled
		}
	case silent:
		s.Outcome, s.Signal = outcomeInterrupted, int(stopped)-term.ExitSignal
	case errors.Is(err, errDone):
		s.Outcome = outcomeDone
	case errors.Is(err, holdfast.ErrSuperseded):
		s.Outcome = outcomeSuperseded
	case errors.Is(err, holdfast.ErrQueueFull):
		s.Outcome = outcomeFull
	case failed && own.Code == term.ExitBusy:
		s.Outcome = outcomeBusy
	case failed && own.Code == term.ExitDeadlock:
		s.Outcome = outcomeDeadlock
	case errors.Is(err, errNotRecorded):
		s.Outcome = outcomeNotRecorded
	case errors.Is(err, holdfast.ErrUncertain):
		s.Outcome = outcomeUncertain
	case failed && own.Code == term.ExitLost:
		s.Outcome = outcomeLost
	case failed && own.Code == term.ExitOverdue:
		s.Outcome = outcomeOverdue
	case failed && (own.Code == term.ExitCannotExec || own.Code == term.ExitNotFound):
		s.Outcome = outcomeCannotStart
	default:
		s.Outcome = outcomeFailed
	}
	if by, ok := holdfast.SupersededBy(err); ok {
		s.SupersededBy = &SuccessorStatus{Owner: by.Owner, Why: by.Reason, Token: strconv.FormatInt(by.Token, 10)}
	}
	if err != nil && !silent {
		s.Error = term.Cut(err.Error(), 1000)
	}
}
