package chaos_test

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var coveredFlag = flag.Int("covered", 0, "measure how much of the locks and of the client so many seeds of the simulation execute; 0 leaves it out")

// leastCovered is the coverage, in per cent, that a run with at least five thousand seeds must reach in
// each package.
const leastCovered = 90

// simulated are the packages that are counted. Those of the locks have one figure, and the client has one.
var simulated = []string{"holdfast", "holdfast/once", "holdfast/reserve", "holdfast/shards", "holdfast/internal/tenure", "holdfast/zk"}

// markedOnly are packages that have marks of rare states, and no part in the figures.
var markedOnly = []string{"holdfast/internal/queue"}

// notSimulated lists the files that the simulation cannot reach, and why. The figure omits them whole.
var notSimulated = map[string]string{
	"holdfast/detached.go":            "has expiry and TryLock, which the worlds with detached locks do not use",
	"holdfast/reserve/reservation.go": "has reservations that others read and end; the worlds only make and respect them",
	"holdfast/zk/clock_linux.go":      "asks the kernel whether the machine has slept; in a bubble it has not",
	"holdfast/zk/rotation.go":         "mostly looks up names, which is Config.Dial's where there is one, as in the simulation",
	"holdfast/zk/held.go":             "bounds answers that are longer than any of a lock's",
	"holdfast/zk/unknown.go":          "finds requests that a server does not know; the servers of the worlds know all",
	"holdfast/zk/close_session.go":    "ends the session of a dead client, which the watchdog of a command does",
	"holdfast/zk/mechanism.go":        "has SASL mechanisms of other packages, which the worlds do not use",
}

// The simulation is worth as much as it executes. This test compiles it once more with counters, and
// reports how many statements of the locks, of shards and of the client it has executed. Code for states that are rare has
// a mark, a comment "rare: NAME". With at least five thousand seeds, the simulation must reach each of them:
//
//	go test ./chaos -run '^TestSimulationCoversTheLocks$' -v -covered 5000
func TestSimulationCoversTheLocks(t *testing.T) {
	if *coveredFlag == 0 {
		t.Skip("compiles and runs the simulation once more: go test ./chaos -run '^TestSimulationCoversTheLocks$' -v -covered 5000")
	}
	dir := t.TempDir()
	binary, counters, profile := filepath.Join(dir, "simulation.test"), filepath.Join(dir, "counters"), filepath.Join(dir, "profile")
	if err := os.Mkdir(counters, 0o700); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), coverageVariable+"="+counters)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%.8000s", name, strings.Join(args, " "), err, out)
		}
	}
	run("go", "test", "-c", "-covermode=count", "-coverpkg="+strings.Join(slices.Concat(markedOnly, simulated), ","), "-o", binary, ".")
	run(binary, "-test.run=^TestSimulation$", fmt.Sprintf("-seeds=%d", *coveredFlag))
	for _, kind := range []string{"Once", "Slots", "Shards", "Reservations", "Detached", "Turns", "Processes"} { // each in worlds of its own
		run(binary, "-test.run=^TestSimulationOf"+kind+"$", fmt.Sprintf("-seeds=%d", *coveredFlag/10))
	}
	for _, kind := range []string{"Deadlocks", "TheNewest"} { // they take longer
		run(binary, "-test.run=^TestSimulationOf"+kind+"$", fmt.Sprintf("-seeds=%d", *coveredFlag/50))
	}
	run("go", "tool", "covdata", "textfmt", "-i="+counters, "-o="+profile)
	files, err := readProfile(profile)
	if err != nil {
		t.Fatal(err)
	}
	mustReachMarks(t, files)
	packages := make(map[string]statements)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		s := sum(files[name])
		t.Logf("%5.1f %% of %4d statements in %s", s.percent(), s.all, name)
		if !slices.Contains(markedOnly, filepath.Dir(name)) && notSimulated[name] == "" {
			part := "the locks"
			if filepath.Dir(name) == "holdfast/zk" {
				part = "holdfast/zk"
			}
			packages[part] = packages[part].plus(s)
		}
	}
	for name, why := range notSimulated {
		if _, ok := files[name]; !ok {
			t.Errorf("the list of files left out names %s, which does not exist", name)
		}
		t.Logf("left out: %s, which %s", name, why)
	}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		s := packages[name]
		t.Logf("figure: the simulation executes %.1f %% of the %d statements of %s, with %d seeds", s.percent(), s.all, name, *coveredFlag)
		if *coveredFlag >= 5000 && s.percent() < leastCovered {
			t.Errorf("%s: %.1f %% is less than %d %%", name, s.percent(), leastCovered)
		}
	}
	if len(packages) != 2 {
		t.Errorf("figures of %d packages; want two", len(packages))
	}
}

type statements struct{ all, executed int }

func (s statements) plus(o statements) statements {
	return statements{s.all + o.all, s.executed + o.executed}
}
func (s statements) percent() float64 { return 100 * float64(s.executed) / float64(s.all) }

func sum(blocks []block) (s statements) {
	for _, b := range blocks {
		s.all += b.statements
		if b.times > 0 {
			s.executed += b.statements
		}
	}
	return s
}

// A block is a piece of a file that is executed as a whole, from a line and a column to another.
type block struct {
	from, to   [2]int
	statements int
	times      int
}

// readProfile reads a profile as the go command writes it, by file. A block that several processes have
// counted occurs once.
func readProfile(name string) (map[string][]block, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	files := make(map[string][]block)
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		file, rest, ok := strings.Cut(lines.Text(), ":")
		if !ok || file == "mode" {
			continue
		}
		var b block
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.from[0], &b.from[1], &b.to[0], &b.to[1], &b.statements, &b.times); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", name, lines.Text(), err)
		}
		files[file] = append(files[file], b)
	}
	return files, nil
}

// A mark of a rare state is a comment in the block of its code.
type rareMark struct {
	name  string
	where string
	times int // how often the block was executed
}

var rare = regexp.MustCompile(`// rare: (.+)$`)

// leastMarks is how many marks the product has at least, so that they are not lost in a change.
const leastMarks = 12

// marksIn finds the marks in a file's text.
func marksIn(file, text string, blocks []block) (marks []rareMark, err error) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		found := rare.FindStringSubmatchIndex(line)
		if found == nil {
			continue
		}
		m := rareMark{name: line[found[2]:found[3]], where: fmt.Sprintf("%s:%d", file, i+1)}
		at := [2]int{i + 1, found[0] + 1}
		if strings.TrimSpace(line[:found[0]]) == "" && i+1 < len(lines) { // a line of its own belongs to the next one
			next := lines[i+1]
			at = [2]int{i + 2, 1 + len(next) - len(strings.TrimLeft(next, "\t"))}
		}
		before := -1
		for j, b := range blocks { // the latest that begins before
			if slices.Compare(b.from[:], at[:]) <= 0 && (before < 0 || slices.Compare(b.from[:], blocks[before].from[:]) > 0) {
				before = j
			}
		}
		if before < 0 || blocks[before].to[0] < at[0] {
			return nil, fmt.Errorf("%s: the mark is in no block", m.where)
		}
		m.times = blocks[before].times
		marks = append(marks, m)
	}
	return marks, nil
}

// mustReachMarks fails if the simulation has never reached a rare state.
func mustReachMarks(t *testing.T, files map[string][]block) {
	var all []rareMark
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text, err := os.ReadFile(filepath.Join("..", strings.TrimPrefix(name, "holdfast/")))
		if err != nil {
			t.Fatal(err)
		}
		marks, err := marksIn(name, string(text), files[name])
		if err != nil {
			t.Error(err)
		}
		all = append(all, marks...)
	}
	if len(all) < leastMarks {
		t.Errorf("%d marks of rare states; want at least %d", len(all), leastMarks)
	}
	reached := 0
	for _, m := range all {
		t.Logf("%6d times: %s (%s)", m.times, m.name, m.where)
		if m.times > 0 {
			reached++
		} else if *coveredFlag >= 5000 {
			t.Errorf("the simulation has never reached the mark %q (%s)", m.name, m.where)
		}
	}
	t.Logf("figure: the simulation reaches %d of %d marks of rare states", reached, len(all))
}

// A mark belongs to the block that begins last before it, and one on a line of its own to the block of the next line.
func TestMarksOfRareStates(t *testing.T) {
	const text = `package p

func f(a int) {
	if a > 0 { // rare: positive
		a--
	}
	switch {
	case a > 1: // rare: more
		a--
	case a > 2:
		// rare: much more
		a--
	}
	if a > 3 {
		return // rare: the end
	}
}
`
	name := filepath.Join(t.TempDir(), "profile")
	const profile = `mode: count
holdfast/p.go:3.15,4.11 1 10
holdfast/p.go:4.11,6.3 1 1
holdfast/p.go:7.2,7.9 1 10
holdfast/p.go:8.13,9.6 1 2
holdfast/p.go:10.13,12.6 1 3
holdfast/p.go:14.2,14.11 1 10
holdfast/p.go:14.11,16.3 1 4
`
	if err := os.WriteFile(name, []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := readProfile(name)
	if err != nil {
		t.Fatal(err)
	}
	marks, err := marksIn("p.go", text, files["holdfast/p.go"])
	want := []rareMark{{"positive", "p.go:4", 1}, {"more", "p.go:8", 2}, {"much more", "p.go:11", 3}, {"the end", "p.go:15", 4}}
	if err != nil || !slices.Equal(marks, want) {
		t.Errorf("%+v, %v; want %+v", marks, err, want)
	}
	if _, err := marksIn("p.go", "// rare: nowhere\n", files["holdfast/p.go"]); err == nil {
		t.Error("a mark outside of all blocks is accepted")
	}
}
