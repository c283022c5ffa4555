package hold

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast"
	"holdfast/internal/cli/term"
	"holdfast/internal/supervise"
	"holdfast/zk"
)

// Each end of run has an outcome of its own in the status file.
func TestOutcomesOfTheStatusFile(t *testing.T) {
	busy := &term.Fault{Code: term.ExitBusy, Err: errors.New("held")}
	for _, tt := range []struct {
		err     error
		out     *supervise.Outcome // nil: the command was not started
		code    int
		outcome string
		by      string
	}{
		{nil, &supervise.Outcome{}, 0, outcomeExited, "command"},
		{term.ExitCode(79), &supervise.Outcome{Code: 79}, 79, outcomeExited, "command"},
		{term.ExitCode(137), &supervise.Outcome{Code: 137}, 137, outcomeExited, "command"},
		{term.ExitCode(137), &supervise.Outcome{Code: 137, Signal: 9}, 137, outcomeKilled, "command"},
		{term.ExitCode(143), nil, 143, outcomeInterrupted, "holdfast"},
		{&term.Fault{Code: term.ExitOverdue, Err: errors.New("too long")}, &supervise.Outcome{Code: 143, Signal: 15, Overdue: true}, 124, outcomeOverdue, "holdfast"},
		{busy, nil, 75, outcomeBusy, "holdfast"},
		{&term.Fault{Code: term.ExitBusy, Err: fmt.Errorf("x: %w", errDone)}, nil, 75, outcomeDone, "holdfast"},
		{&term.Fault{Code: term.ExitBusy, Err: fmt.Errorf("x: %w", holdfast.ErrSuperseded)}, nil, 9, outcomeSuperseded, "holdfast"},
		{&term.Fault{Code: term.ExitBusy, Err: fmt.Errorf("x: %w", holdfast.ErrQueueFull)}, nil, 75, outcomeFull, "holdfast"},
		{&term.Fault{Code: term.ExitLost, Err: holdfast.ErrLost}, &supervise.Outcome{Code: 143, Signal: 15}, 79, outcomeLost, "holdfast"},
		{&term.Fault{Code: term.ExitNotFound, Err: os.ErrNotExist}, nil, 127, outcomeCannotStart, "holdfast"},
		{&term.Fault{Code: term.ExitCannotExec, Err: os.ErrPermission}, nil, 126, outcomeCannotStart, "holdfast"},
		{&term.Fault{Code: term.ExitFailed, Err: supervise.ErrGuards}, nil, 125, outcomeFailed, "holdfast"},
		{errors.New("no server"), nil, 125, outcomeFailed, "holdfast"},
	} {
		p, r := &Plan{Name: "job"}, runRecord{}
		if tt.out != nil {
			r.ended(*tt.out, nil)
		}
		path := filepath.Join(t.TempDir(), "s.json")
		f := tellFlags{CodeFlags: CodeFlags{busy: term.ExitBusy, lost: term.ExitLost, superseded: 9}, status: statusFile{path: path}}
		if err := f.check(); err != nil {
			t.Fatal(err)
		}
		code := exitOf(f.end(p, &r, tt.err))
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var s RunStatus
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		if code != tt.code || s.ExitCode != tt.code || s.Outcome != tt.outcome || s.ExitedBy != tt.by || s.Ran != (tt.out != nil) {
			t.Errorf("%v, %+v: code %d, %+v", tt.err, tt.out, code, s)
		}
	}
}

// The end of a command that succeeded depends on its record, too. The record proves the lock until the command's end.
func TestOutcomesOfARecordedJob(t *testing.T) {
	lost := fmt.Errorf("unlock: %w", holdfast.ErrLost)
	for _, tt := range []struct {
		name          string
		out           supervise.Outcome
		once          bool
		done, unlock  error
		code          int
		outcome, text string
	}{
		{"done", supervise.Outcome{}, true, nil, nil, 0, outcomeExited, ""},
		{"lost after the record", supervise.Outcome{}, true, nil, lost, 0, outcomeExited, ""},
		{"lost after the end, without a record", supervise.Outcome{}, false, nil, lost, 79, outcomeLost, "the lock was lost while"},
		{"lost", supervise.Outcome{Code: 143, Signal: 15, Lost: true}, false, nil, nil, 79, outcomeLost, "it ended with code 143"},
		{"lost before the record", supervise.Outcome{}, true, lost, lost, 79, outcomeNotRecorded, "the command succeeded, but that is not recorded, so another"},
		{"no record", supervise.Outcome{}, true, zk.ErrNoAuth, nil, 79, outcomeNotRecorded, "that is not recorded"},
		{"perhaps a record", supervise.Outcome{}, true, fmt.Errorf("record: %w (%w)", holdfast.ErrUncertain, lost), lost, 79, outcomeUncertain, "nobody knows whether that is recorded"},
		{"the lock may stay", supervise.Outcome{}, false, nil, zk.ErrConnectionLoss, 0, outcomeExited, ""},
		{"too long", supervise.Outcome{Code: 0, Overdue: true}, false, nil, nil, 124, outcomeOverdue, "was stopped after 1m"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Runner{Plan: &Plan{Name: "job"}, taker: &taker{turn: turn{recorded: tt.once && tt.done == nil}}, ends: supervise.Ending{MaxHold: time.Minute}}
			r.record.ended(tt.out, nil)
			err := r.verdict(tt.out, release{tt.done, tt.unlock})
			code := 0
			if err != nil {
				code = exitOf(err)
			}
			if s := (&statusFile{}).status(r.Plan, &r.record, err, code, time.Now()); code != tt.code || s.Outcome != tt.outcome || !strings.Contains(s.Error, tt.text) || (s.Error == "") != (tt.text == "") {
				t.Errorf("%v: code %d, %+v; want %d, %s, %q", err, code, s, tt.code, tt.outcome, tt.text)
			}
		})
	}
}
