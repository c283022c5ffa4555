package hold

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/term"
)

// tellFlags are the flags of run for what it tells, and to whom.
type tellFlags struct {
	CodeFlags
	quiet   bool
	status  statusFile
	metrics metricsFile
}

func (f *tellFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "print errors only: nothing about the wait, nothing if the lock is busy (the exit code tells), and no warnings while the command runs")
	f.RegisterBusy(cmd, "the lock is busy, too many wait (--queue-max) or the job is already done")
	f.RegisterLost(cmd)
	f.registerSuperseded(cmd)
	f.status.register(cmd)
	f.metrics.register(cmd)
}

// check refuses exit codes that no process can have, and a status file that cannot be written.
func (f *tellFlags) check() error {
	if err := f.CodeFlags.Check(); err != nil {
		return err
	}
	return f.status.check()
}

// CodeFlags are the flags of the subcommands that run a command, for the exit codes that tell of the lock.
type CodeFlags struct{ busy, lost, superseded int }

// RegisterBusy registers -E. when says what busy means.
func (f *CodeFlags) RegisterBusy(cmd *cobra.Command, when string) {
	f.lost = term.ExitLost
	cmd.Flags().IntVarP(&f.busy, "busy-exit-code", "E", term.ExitBusy, "exit code if "+when+", 0 to 255")
}

// RegisterLost registers --lost-exit-code.
func (f *CodeFlags) RegisterLost(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.lost, "lost-exit-code", term.ExitLost, "exit code if the lock was lost while the command ran, 1 to 255")
}

// registerSuperseded registers --superseded-exit-code.
func (f *CodeFlags) registerSuperseded(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.superseded, "superseded-exit-code", term.ExitBusy, "exit code if a newer run has taken the place of this one (--supersede), 0 to 255")
}

// Check refuses exit codes that no process can have.
func (f *CodeFlags) Check() error {
	switch {
	case f.busy < 0 || f.busy > 255:
		return term.Usage("give an exit code from 0 to 255", "--busy-exit-code %d is out of range", f.busy)
	case f.superseded < 0 || f.superseded > 255:
		return term.Usage("give an exit code from 0 to 255", "--superseded-exit-code %d is out of range", f.superseded)
	case f.lost < 1 || f.lost > 255:
		return term.Usage("give an exit code from 1 to 255: 0 would look like success", "--lost-exit-code %d is out of range", f.lost)
	}
	return nil
}

// of returns the exit code for the error of a run.
func (f *CodeFlags) of(err error) int {
	if errors.Is(err, holdfast.ErrSuperseded) {
		return f.superseded
	}
	if own, ok := errors.AsType[*term.Fault](err); ok {
		switch own.Code {
		case term.ExitBusy:
			return f.busy
		case term.ExitLost:
			return f.lost
		}
	}
	return exitOf(err)
}

// End gives the error of a run the exit code that the user has chosen.
func (f *CodeFlags) End(err error) error {
	if err == nil {
		return nil
	}
	return term.ChosenCode{Code: f.of(err), Err: err}
}

// end turns the error of run into the one that the user has asked for, and writes the status file.
func (f *tellFlags) end(p *Plan, r *runRecord, err error) error {
	code, shown := f.of(err), err
	if own, ok := errors.AsType[*term.Fault](err); ok && own.Code == term.ExitBusy && f.quiet {
		shown = nil
	}
	status := f.status.status(p, r, err, code, time.Now())
	if failed := f.status.write(status); failed != nil {
		fmt.Fprintf(os.Stderr, "holdfast: cannot write the status file: %s\n", term.Escape(failed.Error()))
	}
	f.metrics.warnOf(f.metrics.ended(&status, f.status.start))
	if shown == nil {
		return term.ExitCode(code)
	}
	return term.ChosenCode{Code: code, Err: shown}
}

// exitOf returns the exit code of run for err.
func exitOf(err error) int { return term.Report(io.Discard, "text", "run", err) }
