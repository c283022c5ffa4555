package chaos_test

import (
	"flag"
	"fmt"
	"hash/fnv"
	"regexp"
	"runtime"
	"testing"
)

var timesFlag = flag.Int("times", 1, "simulate the seed of -seed this many times, and tell of the first run that fails")

// again runs one seed in this process, as often as -times says. It prints everything that happened in the
// first run that failed, or else in the last run.
func again(t *testing.T, seed uint64, o options) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var told result
	failed := 0
	histories := make(map[uint64]bool)
	for range *timesFlag {
		r := simulate(t, seed, o)
		histories[r.hash()] = true
		bad := len(r.Violations) > 0
		if bad {
			failed++
		}
		if bad && failed == 1 || failed == 0 {
			told = r
		}
	}
	for _, line := range told.trace {
		t.Log(line)
	}
	for _, op := range told.ops {
		t.Log(op)
	}
	for _, v := range told.Violations {
		t.Errorf("seed %d: %v", seed, v)
	}
	t.Logf("seed %d failed in %d of %d runs, with %d different histories", seed, failed, *timesFlag, len(histories))
}

// hash covers everything that clients did and were told, and when, except the names of servers: see
// line.server.
func (r *result) hash() uint64 {
	h := fnv.New64a()
	for _, op := range r.ops {
		op.Error = serverName.ReplaceAllString(op.Error, "server")
		fmt.Fprintln(h, op)
	}
	return h.Sum64()
}

var serverName = regexp.MustCompile(`server\d+`)

// A seed is useful only if its run can be repeated. Most runs can, to the nanosecond; TestSimulation
// says what is left to chance. A change that adds to that, for example a random number that is not
// from the seed, makes all runs differ.
func TestASeedIsReplayed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	if shuffled {
		t.Skip("the race detector runs goroutines in random order")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const seeds = 30
	same := 0
	for seed := range uint64(seeds) {
		a, b := simulate(t, seed, options{}), simulate(t, seed, options{})
		if a.hash() == b.hash() {
			same++
		}
	}
	t.Logf("figure: %d of %d seeds had the same history twice", same, seeds)
	if same < seeds/3 {
		t.Errorf("only %d of %d seeds had the same history twice", same, seeds)
	}
}
