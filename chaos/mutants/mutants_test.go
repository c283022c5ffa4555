package mutants

import (
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	run   = flag.Bool("mutants", false, "put the bugs in and run the tests that must find them")
	part  = flag.Int("part", 0, "1, 2 or 3: only a third of the bugs, by number; 0: all")
	write = flag.Bool("write", false, "write docs/contributing/mutants.md, the list of all bugs")
)

// root is the module's directory, seen from here.
const root = "../.."

// A mutant is a bug and the tests that must fail because of it.
type mutant struct {
	number int    // up to 24 as in the list that we began with, before there was any code
	bug    string // in one line, what the changed code does
	where  string // who had it
	edits  []edit
	pkg    string   // the package of the tests, relative to the module's root
	tests  []string // each of them must fail
	args   []string // for the tests' binary

	simulated bool // the simulation in chaos finds it, too
	explored  bool // the scenes in chaos find it, too

	took time.Duration // of all tries
}

// An edit is a piece of the product's source that occurs once in its file, and what
// becomes of it.
type edit struct{ file, old, new string }

// beside is the module of the tests against other clients and servers. They pass without a bug in
// every run of the tests, so this package does not try that again.
const beside = "interop"

// mutants are all of them, by number.
func mutants() []mutant {
	all := slices.Concat(
		ofTheList(),
		ofTheLocks(),
		ofTheHandoff(),
		ofTheClient(),
		ofTheServer(),
		ofTheCommand(),
		ofTheLine(),
		ofTheDirectory(),
		ofCauses(),
		ofTheWatchdog(),
		ofTheNames(),
		ofTheRemovedDirectory(),
		ofTheMessages(),
		ofTheLease(),
		ofTheEnsemble(),
		ofTheHost(),
		ofTheBounds(),
		ofTheStore(),
		ofOneMachine(),
		ofLogins(),
		ofTheScheduler(),
		ofServe(),
		ofPortions(),
		ofTellings(),
		ofOwners(),
		ofSimulatedProcesses(),
		ofTheGuarantees(),
		ofTheHazards(),
		ofMoreHazards(),
		besideOthers(),
		ofTheEndings(),
		ofTrees(),
		ofTheGaps(),
		ofTheOnce(),
		ofTheSlots(),
		ofDevices(),
		ofTheNewest(),
		ofTheShards(),
		ofKeep(),
		ofTheDoctor(),
		ofTheWaitGraph(),
		ofConfig(),
		ofEnds(),
		ofRuns(),
		ofLead(),
		ofPreferences(),
		ofHandovers(),
		ofDetached(),
		ofSeeing(),
		ofWatching(),
		ofTop(),
		ofSights(),
		ofWorlds(),
		ofMetricsFlags(),
		ofPages(),
		ofShares(),
		ofTerraform(),
		ofMCP(),
		ofMendedHolds(),
		ofMendedKinds(),
		ofMendedServe(),
		ofProcesses(),
		ofMendedClient(),
		ofBoundedStore(),
		ofCrashes(),
		ofCycles(),
		ofNeeds(),
		ofEarlyEnds(),
		ofTheGone(),
	)
	slices.SortFunc(all, func(a, b mutant) int { return a.number - b.number })
	return all
}

// chosen are the bugs that -part selects.
func chosen() []mutant {
	return slices.DeleteFunc(mutants(), func(m mutant) bool {
		return *part != 0 && m.number%3 != *part-1
	})
}

// changed is what the edits make of the files, by path from the module's root. A piece that
// is not found, or twice, is an error: then the code has moved on and the table must follow,
// since a bug that is not put in is not caught either.
func (m *mutant) changed() (map[string]string, error) {
	files := make(map[string]string)
	for _, e := range m.edits {
		source, ok := files[e.file]
		if !ok {
			b, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				return nil, err
			}
			source = string(b)
		}
		if n := strings.Count(source, e.old); n != 1 {
			return nil, fmt.Errorf("the seed no longer fits: %s has this %d times, not once:\n%s", e.file, n, e.old)
		}
		files[e.file] = strings.Replace(source, e.old, e.new, 1)
	}
	return files, nil
}

func TestEverySeedFitsTheSource(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	known := make(map[string]map[string]bool) // the tests of each package
	last := 0
	for _, m := range mutants() {
		if m.number <= last {
			t.Errorf("number %d comes after %d", m.number, last)
		}
		last = m.number
		if len(m.tests) == 0 {
			t.Errorf("%d: no test", m.number)
		}
		files, err := m.changed()
		if err != nil {
			t.Errorf("%d: %v", m.number, err)
		}
		for name, source := range files {
			if _, err := parser.ParseFile(token.NewFileSet(), name, source, 0); err != nil {
				t.Errorf("%d: %v", m.number, err)
			}
		}
		if known[m.pkg] == nil {
			known[m.pkg] = make(map[string]bool)
			names, err := filepath.Glob(filepath.Join(root, m.pkg, "*_test.go"))
			if err != nil || len(names) == 0 {
				t.Errorf("%d: no tests in %q (%v)", m.number, m.pkg, err)
			}
			for _, name := range names {
				source, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				for _, match := range declared.FindAllStringSubmatch(string(source), -1) {
					known[m.pkg][match[1]] = true
				}
			}
		}
		for _, name := range m.tests {
			if !known[m.pkg][name] {
				t.Errorf("%d: there is no %s in %q", m.number, name, m.pkg)
			}
		}
	}
}

func TestSeedThatDoesNotFitIsReported(t *testing.T) {
	const file = "internal/queue/names/contender.go"
	for _, old := range []string{"no such line", "Contender"} {
		m := mutant{edits: []edit{{file: file, old: old, new: "x"}}}
		if _, err := m.changed(); err == nil || !strings.Contains(err.Error(), "no longer fits") {
			t.Errorf("%q: %v", old, err)
		}
	}
}
