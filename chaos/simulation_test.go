package chaos_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast/chaos"
)

var (
	seedFlag  = flag.Int64("seed", -1, "simulate this seed alone, and tell what happens")
	seedsFlag = flag.Int("seeds", 0, "simulate this many seeds; 0 is a few")
	firstFlag = flag.Uint64("first", 0, "the first of the seeds")
	goOnFlag  = flag.Bool("go-on", false, "simulate all seeds, also after one that fails, and list those that do")
)

// sharesVariable tells a process of TestSimulation its seeds.
const sharesVariable = "HOLDFAST_SIMULATION"

// coverageVariable tells the processes where to write their coverage.
const coverageVariable = "HOLDFAST_SIMULATION_COVERAGE"

// A share is every step-th seed from first, below end.
type share struct {
	First, End, Step uint64
	Options          options
}

// TestSimulation runs many worlds, each from its own seed: real clients and locks on a real
// server, in virtual time, over a network that fails. Every oracle of this package checks what
// clients are told, and world.inspect checks what is left when everything is whole again. A
// goroutine that does not end makes the bubble panic.
//
// A seed decides everything that the simulation decides, and what is drawn from crypto/rand. It
// does not decide what the runtime draws: which of two ready cases a select takes, the order of
// maps, and how long a client pauses before it reconnects (see line.untilSlot for that). The
// order in which goroutines run at one instant must not matter either. So every process runs
// one goroutine at a time (GOMAXPROCS=1) without collecting garbage, and there is one process
// per processor. Thus most runs of a seed are the same, and a seed that failed mostly fails
// again; -times says how often to try. docs/contributing/reliability.md says how often that is so.
func TestSimulation(t *testing.T) {
	few := fewSeeds
	if testing.Short() {
		few /= 10
	}
	simulateWorlds(t, options{}, few, func(s *summary, n int) { s.mustBeWorthIt(t) })
}

// simulateWorlds simulates worlds with these options: one with -seed, as many as -seeds says, or a few. If all is well, judge
// looks at what n worlds did.
func simulateWorlds(t *testing.T, o options, few int, judge func(s *summary, n int)) {
	o.GoOn = *goOnFlag
	if s := os.Getenv(sharesVariable); s != "" {
		simulateShare(t, s)
		return
	}
	if *seedFlag >= 0 {
		again(t, uint64(*seedFlag), o)
		return
	}
	n := cmp.Or(*seedsFlag, few)
	s := simulateAll(t, *firstFlag, uint64(n), o)
	t.Log(s)
	for _, f := range s.failed {
		t.Error(f)
	}
	if !t.Failed() {
		judge(s, n)
	}
}

// simulateOthers is simulateWorlds for worlds that -short leaves out. They are not those of TestSimulation, so that its seeds
// stay as they are.
func simulateOthers(t *testing.T, o options, few int, judge func(s *summary, n int)) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	simulateWorlds(t, o, few, judge)
}

// mustHave fails a run whose workers hardly did one of these, and prints how often they did each.
func (sum *summary) mustHave(t *testing.T, n int, all ...string) {
	t.Logf("figure: %d seeds in %v: %v", sum.Seeds, sum.took.Round(time.Second), sum.Results.Onces)
	for _, what := range all {
		if got := sum.Results.Onces[what]; got < max(1, n/10) {
			t.Errorf("%q %d times with %d seeds: too few to tell anything", what, got, n)
		}
	}
}

// The simulation must be able to find violations. Here clients' clocks run at half the server's rate, so
// clients believe in their sessions for too long, and two hold a lock.
func TestSimulationOfWrongClocks(t *testing.T) {
	simulateWrongClocks(t, fewSeeds, "", func(chaos.Violation) bool { return true })
}

// simulateWrongClocks looks for violations of a sort in worlds with wrong clocks.
func simulateWrongClocks(t *testing.T, seeds int, locks string, counts func(chaos.Violation) bool) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	if s := os.Getenv(sharesVariable); s != "" {
		simulateShare(t, s)
		return
	}
	s := simulateAll(t, *firstFlag, uint64(seeds), options{Skew: 2, NoAdmin: true, GoOn: true, Locks: locks})
	found := make(map[string]int)
	for _, v := range s.Results.Violations {
		if counts(v) {
			found[v.Oracle]++
		}
	}
	t.Logf("%d of %d seeds are bad; %v", s.Bad, s.Seeds, found)
	if found["overlap"] == 0 || found["linearizability"] == 0 {
		t.Error("no lock was held by two clients at once")
	}
}

// A simulation that is stopped says how many seeds have run.
func TestStoppedSimulationTellsItsSeeds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		args   []string
		signal os.Signal
		want   string
	}{
		{"interrupt", []string{"-test.timeout=10m"}, os.Interrupt, "interrupt signal received"},
		{"timeout", []string{"-test.timeout=13s"}, nil, "the time of the test is over"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.signal != nil && runtime.GOOS == "windows" {
				t.Skip("Windows sends no signals")
			}
			t.Parallel()
			cmd := exec.Command(os.Args[0], append(tt.args, "-test.run=^TestSimulation$", "-test.count=1", "-test.v", "-seeds=1000000")...)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Process.Kill()
			said, line := bufio.NewReader(out), ""
			for !strings.Contains(line, "1000000 seeds from 0 on") {
				if line, err = said.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			if tt.signal != nil {
				if err := cmd.Process.Signal(tt.signal); err != nil {
					t.Fatal(err)
				}
			}
			rest, err := io.ReadAll(said)
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Error("the simulation that was stopped passes")
			}
			if want := regexp.MustCompile(`stopped after \d+ of 1000000 seeds, 0 of them bad: ` + tt.want); !want.Match(rest) {
				t.Errorf("%s\nwant %s", rest, want)
			}
		})
	}
}

// mark begins what a process tells the one that started it.
const mark = "simulation: "

func simulateShare(t *testing.T, text string) {
	signal.Ignore(os.Interrupt) // of a terminal: the process that started this one ends it
	var s share
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	for seed := s.First; seed < s.End; seed += s.Step {
		fmt.Printf("%sseed %d\n", mark, seed)
		r := simulate(t, seed, s.Options)
		if len(r.Violations) > 0 && !s.Options.GoOn {
			for _, l := range r.trace {
				fmt.Println(l)
			}
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%s%s\n", mark, b)
	}
}

// A summary has the results of all processes.
type summary struct {
	mu        sync.Mutex
	Seeds     int
	Results   result // sums
	Bad       int    // seeds with violations
	failed    []string
	took      time.Duration
	processes int
}

// simulateAll distributes the seeds over processes. It stops at the first violation. A signal and the
// end of the test's time stop it, too. It then says how many seeds have run.
func simulateAll(t *testing.T, first, n uint64, o options) *summary {
	sum := &summary{processes: runtime.NumCPU()}
	began := time.Now()
	ctx, stopSignals := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stopSignals()
	if deadline, ok := t.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, deadline.Add(-10*time.Second), errors.New("the time of the test is over"))
		defer cancel()
	}
	t.Logf("%d seeds from %d on", n, first)
	stopped := ctx // by somebody else than a seed
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	for i := range uint64(sum.processes) {
		s := share{First: first + i, End: first + n, Step: uint64(sum.processes), Options: o}
		wg.Go(func() {
			if !sum.process(ctx, t, s) {
				stop()
			}
		})
	}
	wg.Wait()
	sum.took = time.Since(began)
	if stopped.Err() != nil {
		t.Errorf("stopped after %d of %d seeds, %d of them bad: %v", sum.Seeds, n, sum.Bad, context.Cause(stopped))
	}
	return sum
}

// stuckAfter bounds a seed's time on the real clock; seeds take well below a second.
const stuckAfter = 2 * time.Minute

// process runs one share, and reports whether all was well.
func (sum *summary) process(ctx context.Context, t *testing.T, s share) bool {
	text, err := json.Marshal(s)
	if err != nil {
		t.Error(err)
		return false
	}
	args := []string{"-test.run=^" + t.Name() + "$", "-test.timeout=0", "-test.count=1"}
	if dir := os.Getenv(coverageVariable); dir != "" {
		args = append(args, "-test.gocoverdir="+dir)
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), sharesVariable+"="+string(text), "GOMAXPROCS=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return false
	}
	var errout bytes.Buffer
	cmd.Stderr = &errout
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return false
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		sc := bufio.NewScanner(out)
		sc.Buffer(nil, 16<<20)
		for sc.Scan() {
			lines <- sc.Text()
		}
	}()
	defer func() {
		cmd.Process.Kill()
		for range lines {
		}
		cmd.Wait()
	}()
	seed, running := "none", false
	var said strings.Builder
	timer := time.NewTimer(stuckAfter)
	defer timer.Stop()
	for {
		timer.Reset(stuckAfter)
		select {
		case l, more := <-lines:
			rest, ours := strings.CutPrefix(l, mark)
			switch now, begins := strings.CutPrefix(rest, "seed "); {
			case !more && !running:
				return true
			case !more:
				t.Errorf("seed %s: goroutines: the process ended; to see it again: go test ./chaos -run '^%s$' -seed %[1]s\n%s\n%.8000s", seed, t.Name(), errout.String(), said.String())
				return false
			case !ours:
				said.WriteString(l + "\n")
			case begins:
				seed, running = now, true
				said.Reset()
			default:
				running = false
				var r result
				if err := json.Unmarshal([]byte(rest), &r); err != nil {
					t.Errorf("seed %s: %v in %.200q", seed, err, rest)
					return false
				}
				if !sum.add(r) && !s.Options.GoOn {
					report(t, r, said.String())
					return false
				}
			}
		case <-timer.C:
			t.Errorf("seed %s: stuck: it has run for %v", seed, stuckAfter)
			return false
		case <-ctx.Done():
			return true
		}
	}
}

func (sum *summary) add(r result) bool {
	sum.mu.Lock()
	defer sum.mu.Unlock()
	sum.Seeds++
	all := &sum.Results
	all.Virtual += r.Virtual
	all.Attempts += r.Attempts
	all.Claims += r.Claims
	all.Handed += r.Handed
	all.Lost += r.Lost
	all.Commits += r.Commits
	all.Queued += r.Queued
	all.Operations += r.Operations
	all.Pieces += r.Pieces
	all.Undecided += r.Undecided
	all.Judged += r.Judged
	all.Steps += r.Steps
	all.Lossy += r.Lossy
	all.Behind += r.Behind
	all.Observed += r.Observed
	all.Shards.add(r.Shards)
	all.Faults.add(r.Faults)
	for what, n := range r.Onces {
		if all.Onces == nil {
			all.Onces = make(map[string]int)
		}
		all.Onces[what] += n
	}
	if len(r.Violations) > 0 {
		sum.Bad++
		sum.failed = append(sum.failed, fmt.Sprintf("seed %d: found by: %s: %.300v", r.Seed, strings.Join(r.oracles(), ", "), r.Violations[0]))
	}
	all.Violations = append(all.Violations, r.Violations...)
	return len(r.Violations) == 0
}

// oracles returns the oracles that found something, each once.
func (r *result) oracles() (names []string) {
	for _, v := range r.Violations {
		if !slices.Contains(names, v.Oracle) {
			names = append(names, v.Oracle)
		}
	}
	return names
}

func report(t *testing.T, r result, trace string) {
	t.Errorf("seed %d: found by: %s\nTo see it again: go test ./chaos -run '^%s$' -seed %d -times 50", r.Seed, strings.Join(r.oracles(), ", "), t.Name(), r.Seed)
	for _, v := range r.Violations {
		t.Errorf("seed %d: %v", r.Seed, v)
	}
	t.Logf("seed %d, what happened:\n%s", r.Seed, trace)
}

func (sum *summary) String() string {
	r := &sum.Results
	return fmt.Sprintf("%d seeds, %.1f virtual hours in %v by %d processes; %d attempts, %d claims, of which %d lost, %d handed on in memory and %d checked for their turn; "+
		"%d commits; %d operations checked by Porcupine in %d pieces, %d undecided; %d steps of locks held against the specification; %d frames lost and sent again, %d connections refused by servers that were behind; %d holds reported to observers; faults with an effect:%v",
		sum.Seeds, r.Virtual.Hours(), sum.took.Round(time.Second), sum.processes, r.Attempts, r.Claims, r.Lost, r.Handed, r.Queued,
		r.Commits, r.Operations, r.Pieces, r.Undecided, r.Steps, r.Lossy, r.Behind, r.Observed, r.Faults)
}

// mustBeWorthIt fails a run that did not exercise what it claims to have survived.
func (sum *summary) mustBeWorthIt(t *testing.T) {
	r, n := &sum.Results, sum.Seeds
	if r.Claims < 20*n || r.Operations < 40*n || r.Lost < n/10 {
		t.Errorf("%d claims, %d operations, %d losses from %d seeds: too few to tell anything", r.Claims, r.Operations, r.Lost, n)
	}
	if r.Queued < r.Claims/5 {
		t.Errorf("of %d of %d claims it is known since when they were in the queue: too few to tell who overtook", r.Queued, r.Claims)
	}
	if r.Undecided > r.Pieces/100 {
		t.Errorf("%d of %d pieces are undecided", r.Undecided, r.Pieces)
	}
	if n < fewSeeds {
		return
	}
	if r.Handed < n/2 {
		t.Errorf("%d of %d claims with %d seeds were handed on in memory: too few to tell anything", r.Handed, r.Claims, n)
	}
	if r.Steps < r.Claims/2 {
		t.Errorf("%d steps of locks held against the specification, of %d claims: too few to tell anything", r.Steps, r.Claims)
	}
	if r.Observed < r.Claims/4 {
		t.Errorf("%d holds reported to observers, of %d claims: too few to tell anything", r.Observed, r.Claims)
	}
	if r.Lossy < n || r.Behind < n/25 {
		t.Errorf("%d frames lost, %d connections refused by servers that were behind, with %d seeds: too few to tell anything", r.Lossy, r.Behind, n)
	}
	for _, f := range allFaults() {
		if c := r.Faults[f.kind]; c == nil || c.Effect < 1+n/50 {
			t.Errorf("%q: %+v with %d seeds: it has hardly ever had an effect", f.kind, c, n)
		}
	}
}
