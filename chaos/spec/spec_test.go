package spec

import (
	"errors"
	"flag"
	"testing"
	"time"
)

var statesFlag = flag.Int("states", 20_000, "explore up to this many states of each configuration")

// configs are explored in full, or up to -states.
var configs = []Config{
	{Clients: 2, Joins: 2, Sessions: 3, Losses: 1},
	{Clients: 2, Joins: 1, Sessions: 3, Losses: 1, Crashes: 1, Leaders: 1},
	{Clients: 2, Joins: 1, Sessions: 3, Timeout: 3},
	{Clients: 2, Joins: 1, Sessions: 3, Crashes: 1, Readers: 1, Marks: true},
	{Clients: 3, Joins: 1, Sessions: 3, Readers: 2},
	{Clients: 3, Joins: 1, Sessions: 3},
	{Clients: 4, Joins: 1, Sessions: 4},
	{Clients: 2, Joins: 1, Sessions: 2, Lasting: 1, Crashes: 1},
	{Clients: 2, Joins: 2, Sessions: 2, Lasting: 2},
}

// TestEveryStateKeepsThePromises explores the specification.
func TestEveryStateKeepsThePromises(t *testing.T) {
	states := 0
	for _, c := range configs {
		began := time.Now()
		r := Explore(c, *statesFlag)
		states += r.States
		t.Logf("figure: %v: %d states, %d steps, depth %d, all of them: %v, in %v", c, r.States, r.Steps, r.Depth, r.Whole, time.Since(began).Round(time.Millisecond))
		if r.Violation != nil {
			t.Errorf("%v:\n%v", c, r.Violation)
		}
	}
	t.Logf("figure: %d states in all", states)
	if states < 100_000 {
		t.Errorf("%d states are too few to tell anything", states)
	}
}

// TestEveryGuardIsNeeded leaves out one rule of the protocol after the other. Each time, a promise is broken.
func TestEveryGuardIsNeeded(t *testing.T) {
	small := Config{Clients: 2, Joins: 1, Sessions: 2}
	lossy := Config{Clients: 2, Joins: 2, Sessions: 3, Losses: 1}
	reading := Config{Clients: 2, Joins: 1, Sessions: 3, Crashes: 1, Readers: 1, Marks: true}
	slow := Config{Clients: 2, Joins: 1, Sessions: 2, Timeout: 3}
	detached := Config{Clients: 2, Joins: 1, Sessions: 2, Lasting: 1, Crashes: 1}
	for _, tt := range []struct {
		without Guard
		config  Config
		promise string
	}{
		{MissingIsLost, reading, "S1"},
		{AllAhead, Config{Clients: 3, Joins: 1, Sessions: 3}, "S1"},
		{WritersAhead, reading, "S1"},
		{Barrier, lossy, "S7"},
		{OwnSession, lossy, "C1"},
		{RetryDelete, lossy, "S7"},
		{WatchWithRead, reading, "S8"},
		{EndFirst, small, "C1"},
		{ToldInTime, small, "C1"},
		{ProofFromSent, slow, "C1"},
		{ProofIsWrite, slow, "C1"},
		{CommitChecks, reading, "S2"},
		{LastFromSent, detached, "C1"},
		{LastIsFirst, detached, "S17"},
	} {
		c := tt.config
		c.Without = tt.without
		r := Explore(c, 1_000_000)
		if r.Violation == nil {
			t.Errorf("without %v, no promise is broken in %d states", tt.without, r.States)
			continue
		}
		t.Logf("figure: without %v: after %d states, %d steps: %v", tt.without, r.States, len(r.Violation.Path), r.Violation.Err)
		var refused *Refusal
		if !errors.As(r.Violation.Err, &refused) || refused.Promise != tt.promise {
			t.Errorf("without %v: %v; want %s", tt.without, r.Violation, tt.promise)
		}
	}
}
