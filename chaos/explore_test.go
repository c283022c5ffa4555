package chaos_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/chaos"
)

var (
	schedulesFlag = flag.Int("schedules", 0, "run this many schedules of the scenes, and at least all with one deviation; 0 is a few thousand")
	sceneFlag     = flag.String("scene", "", "explore this scene alone")
	scheduleFlag  = flag.String("schedule", "", `run this schedule of -scene alone, and tell what happens; "none" is the default one`)
)

// exploreVariable tells a process of TestExplore its scene and its number of schedules.
const exploreVariable = "HOLDFAST_EXPLORE"

// A portion is what one process explores.
type portion struct {
	Scene     string
	Schedules int
	Few       bool // also of those with one deviation, only a part
}

// An exploration is what has come of it.
type exploration struct {
	Clients, Operations int
	Points              int   // of the default schedule
	Schedules           []int // that were run, by the number of deviations
	Possible            []int // that there are
	Different           int   // orders of events
	Took                time.Duration
	Bad                 string // the first schedule with a violation
	Violations          []chaos.Violation
}

// TestExplore runs small scenes by every schedule with one deviation, and by a part of those with two and three. Then
// everything is made whole, and the oracles of the simulation look at what has happened. The schedules with fewer
// deviations come first, so the first that is wrong is the shortest.
//
// A schedule is replayed by -scene and -schedule. docs/contributing/tests.md has figures.
func TestExplore(t *testing.T) {
	if s := os.Getenv(exploreVariable); s != "" {
		explorePortion(t, s)
		return
	}
	if *scheduleFlag != "" {
		replaySchedule(t)
		return
	}
	n, few := *schedulesFlag, false
	switch {
	case n > 0:
	case testing.Short() || shuffled:
		n, few = 500, true
	default:
		n = 12000
	}
	var of []scene
	for _, s := range scenes {
		if *sceneFlag == "" || s.name == *sceneFlag {
			of = append(of, s)
		}
	}
	work := make(chan scene)
	var workers sync.WaitGroup
	var mu sync.Mutex
	results := make(map[string]exploration)
	for range runtime.NumCPU() {
		workers.Go(func() {
			for s := range work {
				x, err := exploreElsewhere(t, portion{s.name, n / len(of), few})
				mu.Lock()
				results[s.name] = x
				mu.Unlock()
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, s := range of {
		work <- s
	}
	close(work)
	workers.Wait()
	reportExplorations(t, of, results)
}

func reportExplorations(t *testing.T, of []scene, results map[string]exploration) {
	var table strings.Builder
	sum := 0
	for _, s := range of {
		x := results[s.name]
		table.WriteString(fmt.Sprintf("| %s | %d | %d | %d |", s.name, x.Clients, x.Operations, x.Points))
		for d := range 3 {
			if d+1 < len(x.Schedules) {
				sum += x.Schedules[d+1]
				table.WriteString(fmt.Sprintf(" %d of %d |", x.Schedules[d+1], x.Possible[d+1]))
			} else {
				table.WriteString(" – |")
			}
		}
		table.WriteString(fmt.Sprintf(" %d | %v | %d |\n", x.Different, x.Took.Round(100*time.Millisecond), len(x.Violations)))
		for _, v := range x.Violations {
			t.Errorf("%s, schedule %s: %v", s.name, x.Bad, v)
		}
		if x.Bad != "" {
			t.Errorf("found after %d schedules of %s: %s\nTo see it again: %s", total(x.Schedules), s.name, x.Bad, replayCommand(s.name, x.Bad))
		}
	}
	t.Logf("%d schedules\n| Scene | Clients | Operations | Points | With one deviation | With two | With three | Different | Time | Violations |\n|---|---|---|---|---|---|---|---|---|---|\n%s", sum+len(of), table.String())
}

func total(counts []int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

func replayCommand(scene, schedule string) string {
	return fmt.Sprintf("go test ./chaos -run '^TestExplore$' -v -scene '%s' -schedule %s -times 20", scene, schedule)
}

func sceneOf(t *testing.T, name string) scene {
	for _, s := range scenes {
		if s.name == name {
			return s
		}
	}
	t.Fatalf("there is no scene %q", name)
	return scene{}
}

// replaySchedule runs one schedule until it fails, as often as -times says, and tells everything of the last run.
func replaySchedule(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	of, err := parseSchedule(*scheduleFlag)
	if err != nil {
		t.Fatal(err)
	}
	var x explored
	for range *timesFlag {
		if x = explore(t, sceneOf(t, *sceneFlag), of, true); len(x.Violations) > 0 {
			break
		}
	}
	for _, line := range x.trace {
		t.Log(line)
	}
	for _, op := range x.ops {
		t.Log(op)
	}
	for _, v := range x.Violations {
		t.Error(v)
	}
	if len(x.unused) > 0 {
		t.Errorf("the scene has only %d points, so %v did not happen", len(x.points), x.unused)
	}
}

const exploring = "exploring: "

// exploreElsewhere explores in a process of its own, which runs one goroutine at a time.
func exploreElsewhere(t *testing.T, p portion) (x exploration, err error) {
	text, err := json.Marshal(p)
	if err != nil {
		return x, err
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestExplore$", "-test.timeout=0", "-test.count=1")
	cmd.Env = append(os.Environ(), exploreVariable+"="+string(text), "GOMAXPROCS=1")
	var errout bytes.Buffer
	cmd.Stderr = &errout
	out, err := cmd.StdoutPipe()
	if err != nil {
		return x, err
	}
	if err := cmd.Start(); err != nil {
		return x, err
	}
	stuck := time.AfterFunc(stuckAfter, func() { cmd.Process.Kill() })
	last, said := "", ""
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		stuck.Reset(stuckAfter)
		if rest, ours := strings.CutPrefix(lines.Text(), exploring); ours {
			last = rest
		} else if len(said) < 8000 {
			said += lines.Text() + "\n"
		}
	}
	stuck.Stop()
	err = cmd.Wait()
	if result, done := strings.CutPrefix(last, "done "); done {
		return x, json.Unmarshal([]byte(result), &x)
	}
	return x, fmt.Errorf("%s, schedule %s: goroutines: the process ended: %v\nTo see it again: %s\n%.8000s%s", p.Scene, last, err, replayCommand(p.Scene, last), errout.String(), said)
}

func explorePortion(t *testing.T, text string) {
	var p portion
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	s := sceneOf(t, p.Scene)
	x := exploration{Clients: s.clients}
	x.search(t, s, p)
	x.Took = time.Since(began)
	b, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%sdone %s\n", exploring, b)
}

// A branch is a schedule that was run, and what it can be continued with: deviations at its points from first on.
type branch struct {
	of     schedule
	points []point
	first  int
}

// maxDeviations bounds the search.
const maxDeviations = 3

// search runs schedules, those with few deviations first: all with one, and an even sample of those with more. A schedule whose events came in an order that was seen before is not
// continued: its last deviation has changed nothing, or nothing that another has not.
func (x *exploration) search(t *testing.T, s scene, p portion) {
	seen := make(map[uint64]bool)
	run := func(of schedule) (b branch, isNew bool) {
		text := of.String()
		if text == "" {
			text = "none"
		}
		fmt.Printf("%s%s\n", exploring, text)
		r := explore(t, s, of, false)
		if len(of) == 0 {
			x.Operations, x.Points = r.calls, len(r.points)
		}
		if x.Schedules[len(of)]++; len(r.Violations) > 0 {
			x.Bad, x.Violations = text, r.Violations
		}
		isNew = !seen[r.order]
		seen[r.order] = true
		x.Different = len(seen)
		b = branch{of: of, points: r.points}
		if len(of) > 0 {
			b.first = of[len(of)-1].point + 1
		}
		return b, isNew
	}
	x.Schedules, x.Possible = []int{0}, []int{1}
	root, _ := run(nil)
	level := []branch{root}
	for d := 1; d <= maxDeviations && x.Bad == "" && (total(x.Schedules) < p.Schedules || d == 1); d++ {
		possible := 0
		for _, b := range level {
			for _, q := range b.points[min(b.first, len(b.points)):] {
				possible += len(q.may())
			}
		}
		x.Schedules, x.Possible = append(x.Schedules, 0), append(x.Possible, possible)
		take, at := min(possible, max(p.Schedules-total(x.Schedules), 0)), 0
		if d == 1 && !p.Few {
			take = possible
		}
		var next []branch
		for _, b := range level {
			for q := b.first; q < len(b.points); q++ {
				for _, kind := range b.points[q].may() {
					if at++; at*take/possible == (at-1)*take/possible || x.Bad != "" {
						continue
					}
					if more, isNew := run(append(b.of[:len(b.of):len(b.of)], deviation{q, kind})); isNew {
						next = append(next, more)
					}
				}
			}
		}
		level = next
	}
}

// A schedule is of use only if it can be replayed. It decides everything but which of two ready cases a select takes, and
// that hardly ever matters.
func TestSchedulesAreReplayed(t *testing.T) {
	if shuffled {
		t.Skip("the race detector runs goroutines in random order")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	same, all := 0, 0
	for _, s := range scenes {
		points := explore(t, s, nil, false).points
		for i, kind := range kinds {
			of := schedule{{(2*i + 1) * len(points) / (2 * len(kinds)), kind}}
			all++
			if a, b := explore(t, s, of, false), explore(t, s, of, false); a.order == b.order {
				same++
			} else {
				t.Logf("%s, schedule %v: two runs are different", s.name, of)
			}
		}
	}
	t.Logf("figure: %d of %d schedules had the same events in the same order twice", same, all)
	if same < all*9/10 {
		t.Errorf("only %d of %d schedules had the same events in the same order twice", same, all)
	}
}
