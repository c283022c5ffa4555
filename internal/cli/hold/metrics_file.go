package hold

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/term"
	"holdfast/internal/daemon"
)

// metricsFile is --metrics-file: metrics of the last run, for the textfile collector of node_exporter.
type metricsFile struct {
	path    string
	written bool // by this run, since it held the lock
}

func (f *metricsFile) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.path, "metrics-file", "", "write metrics of the run to this file, for node_exporter's textfile collector; the name ends in .prom. See Metrics file above")
}

// check refuses a file that cannot be written, before the wait. An older file stays until this run has a result.
func (f *metricsFile) check(cmd *cobra.Command) error {
	if !cmd.Flags().Changed("metrics-file") {
		return nil
	}
	const hint = "give the path of a file that ends in .prom, in the directory of node_exporter's --collector.textfile.directory"
	if filepath.Ext(f.path) != ".prom" || filepath.Base(f.path) == ".prom" {
		return term.Usage(hint, "--metrics-file %q: the name does not end in .prom, so node_exporter would not read the file", term.Cut(f.path, 100))
	}
	return replaceable("--metrics-file", hint, f.path)
}

// held writes the file when the lock is held, if the user wants one.
func (f *metricsFile) held(lock string, began, acquired time.Time) error {
	if f.path == "" {
		return nil
	}
	f.written = true
	return f.write(heldMetrics(lock, began, acquired))
}

// ended writes the file when the run has ended as s says, if the user wants one. A run that waited in vain leaves the file
// alone: it can be that of the run that still holds the lock.
func (f *metricsFile) ended(s *RunStatus, began time.Time) error {
	inVain := !f.written && slices.Contains([]string{outcomeBusy, outcomeDeadlock, outcomeSuperseded, outcomeFull, outcomeInterrupted}, s.Outcome)
	if f.path == "" || inVain {
		return nil
	}
	return f.write(endedMetrics(s, began))
}

// write replaces the file. node_exporter, which can be another user, sees the old or the new one.
func (f *metricsFile) write(text []byte) error { return replaceFile(f.path, text, 0o644) }

// heldMetrics are those of a run that holds the lock.
func heldMetrics(lock string, began, acquired time.Time) []byte {
	var e daemon.Exposition
	beginMetrics(&e, lock, 1, began, acquired.Sub(began))
	return e.Text()
}

// endedMetrics are those of a run that has ended.
func endedMetrics(s *RunStatus, began time.Time) []byte {
	var e daemon.Exposition
	beginMetrics(&e, s.Path, 0, began, time.Duration(s.WaitedMS)*time.Millisecond)
	gauge := func(name, help string, value float64) {
		e.Family(name, "gauge", help)
		e.Sample(name, value, "lock", s.Path)
	}
	gauge("holdfast_run_end_timestamp_seconds", "When the last run ended, in seconds since 1970.", float64(s.EndedAt.UnixMilli())/1000)
	gauge("holdfast_run_hold_seconds", "How long the last run held the lock; 0 if it never did.", float64(s.HeldMS)/1000)
	gauge("holdfast_run_exit_code", "Exit code of the last run.", float64(s.ExitCode))
	gauge("holdfast_run_lost", "1 if the last run lost the lock while the command ran, else 0.", asNumber(s.Outcome == outcomeLost))
	e.Family("holdfast_run_outcome", "gauge", "1 for the outcome of the last run, 0 for all others.")
	for _, o := range outcomes {
		e.Sample("holdfast_run_outcome", asNumber(s.Outcome == o), "lock", s.Path, "outcome", o)
	}
	return e.Text()
}

func beginMetrics(e *daemon.Exposition, lock string, held float64, began time.Time, waited time.Duration) {
	e.Family("holdfast_held", "gauge", "Holds at present.")
	e.Sample("holdfast_held", held, "lock", lock)
	e.Family("holdfast_run_start_timestamp_seconds", "gauge", "When the last run began, in seconds since 1970.")
	e.Sample("holdfast_run_start_timestamp_seconds", float64(began.UnixMilli())/1000, "lock", lock)
	e.Family("holdfast_run_wait_seconds", "gauge", "How long the last run waited for the lock.")
	e.Sample("holdfast_run_wait_seconds", waited.Seconds(), "lock", lock)
}

func asNumber(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// warnOf says on stderr that the metrics file was not written. The run goes on.
func (f *metricsFile) warnOf(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "holdfast: cannot write the metrics file: %s\n", term.Escape(err.Error()))
	}
}
