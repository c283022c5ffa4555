// Package mutants is the test of the tests: it puts a bug that was real elsewhere into the
// product, one at a time, and sees whether the test that is there for it fails. A bug is a
// few lines of the source and what they become; the go command compiles the changed file in
// place of the right one (-overlay), in a process of its own, so the product has neither
// hooks nor build tags for this.
//
//	go test ./chaos/mutants                        do the bugs still fit the source, and the document the table?
//	go test ./chaos/mutants -mutants               is every one of them caught? (some minutes)
//	go test ./chaos/mutants -mutants -v -run 'Caught/each/^13_'
//	go test ./chaos/mutants -mutants -write        and write the table of docs/contributing/mutants.md
package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	run   = flag.Bool("mutants", false, "put the bugs in and run the tests that must find them")
	write = flag.Bool("write", false, "write the table of docs/contributing/mutants.md anew")
)

// root is the module's directory, seen from here.
const root = "../.."

// A mutant is a bug and the tests that must fail because of it.
type mutant struct {
	number int    // up to 24 as in the list that we began with, see docs/contributing/mutants.md
	bug    string // in one line, what the changed code does
	where  string // who had it
	edits  []edit
	pkg    string   // the package of the tests, relative to the module's root
	tests  []string // each of them must fail
	args   []string // for the tests' binary

	simulated bool // the simulation in chaos finds it, too
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
		ofTheGuarantees(),
		ofTheHazards(),
		ofMoreHazards(),
		besideOthers(),
		ofTheEndings(),
		ofTrees(),
		ofTheGaps(),
		ofTheOnce(),
		ofTheSlots(),
		ofTheShards(),
		ofKeep(),
		ofTheDoctor(),
		ofTheWaitGraph(),
		ofConfig(),
		ofEnds(),
		ofRuns(),
		ofLead(),
		ofDetached(),
		ofSeeing(),
		ofWatching(),
		ofTop(),
		ofSights(),
		ofTerraform(),
	)
	slices.SortFunc(all, func(a, b mutant) int { return a.number - b.number })
	return all
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

// Every bug is caught by its tests, which succeed without it.
func TestEveryBugIsCaught(t *testing.T) {
	if !*run {
		t.Skip("takes some minutes: go test ./chaos/mutants -mutants")
	}
	var mu sync.Mutex
	took := make(map[int]time.Duration)
	two := make(chan struct{}, 2) // at a time: each has a compiler and a linker of its own
	t.Run("each", func(t *testing.T) {
		for name, m := range sound() {
			t.Run("sound "+name, func(t *testing.T) {
				t.Parallel()
				two <- struct{}{}
				defer func() { <-two }()
				out, err := goTest(t, &m, nil)
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				for _, test := range m.tests {
					if !regexp.MustCompile(`(?m)^--- PASS: ` + test + ` `).MatchString(out) {
						t.Errorf("%s does not pass without any bug\n%s", test, out)
					}
				}
			})
		}
		for _, m := range mutants() {
			if m.pkg == beside {
				continue
			}
			t.Run(fmt.Sprintf("%d %s", m.number, m.bug), func(t *testing.T) {
				t.Parallel()
				two <- struct{}{}
				defer func() { <-two }()
				began := time.Now()
				m.mustBeCaught(t)
				mu.Lock()
				defer mu.Unlock()
				took[m.number] = time.Since(began)
			})
		}
	})
	t.Run(beside, func(t *testing.T) { // one at a time: these tests measure how long others take
		for _, m := range mutants() {
			if m.pkg == beside {
				t.Run(fmt.Sprintf("%d %s", m.number, m.bug), func(t *testing.T) {
					began := time.Now()
					m.mustBeCaught(t)
					took[m.number] = time.Since(began)
				})
			}
		}
	})
	var all time.Duration
	for _, d := range took {
		all += d
	}
	t.Logf("figure: %d seeded bugs, %v of compiling and testing, two at a time", len(took), all.Round(time.Second))
	if *write && !t.Failed() {
		writeTable(t, took)
	}
}

// sound is a mutant without a bug for each package: with all its tests.
func sound() map[string]mutant {
	packages := make(map[string]mutant)
	for _, m := range mutants() {
		if m.pkg == beside {
			continue
		}
		all := packages[m.pkg]
		all.pkg = m.pkg
		for _, test := range m.tests {
			if !slices.Contains(all.tests, test) {
				all.tests = append(all.tests, test)
			}
		}
		packages[m.pkg] = all
	}
	return packages
}

// tries is how often a bug may be tried. A test that depends on how processes are scheduled may
// miss its bug once on a busy machine.
const tries = 3

// mustBeCaught logs the tries that missed the bug: a bug with such a line wants a better test.
func (m *mutant) mustBeCaught(t *testing.T) {
	files, err := m.changed()
	if err != nil {
		t.Fatal(err)
	}
	for try := 1; ; try++ {
		err := m.caught(t, files)
		switch {
		case err == nil:
			return
		case try == tries || t.Context().Err() != nil:
			t.Fatalf("try %d of %d: %v", try, tries, err)
		}
		t.Logf("try %d of %d: %v", try, tries, err)
	}
}

// caught returns nil if all tests of m fail with these files.
func (m *mutant) caught(t *testing.T, files map[string]string) error {
	out, err := goTest(t, m, files)
	var failed *exec.ExitError
	switch {
	case err == nil:
		return fmt.Errorf("not caught: %v succeed with it", m.tests)
	case !errors.As(err, &failed):
		return fmt.Errorf("%w\n%s", err, out)
	case strings.Contains(out, "[build failed]"), strings.Contains(out, "[setup failed]"):
		return fmt.Errorf("it does not compile\n%s", out)
	case strings.Contains(out, "panic: test timed out"):
		return fmt.Errorf("a test hangs, which tells nobody what is wrong\n%s", out)
	}
	for _, test := range m.tests {
		// A test with a clock of its own notices that it hangs, and says so.
		if !regexp.MustCompile(`(?m)^(--- FAIL: ` + test + ` |panic: ` + test + `[ /].*has hung)`).MatchString(out) {
			return fmt.Errorf("not caught by %s\n%s", test, out)
		}
	}
	return nil
}

// goTest runs the tests of m with some files replaced.
func goTest(t *testing.T, m *mutant, files map[string]string) (out string, err error) {
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	for name, source := range files {
		to := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(to, []byte(source), 0o600); err != nil {
			return "", err
		}
		from, err := filepath.Abs(filepath.Join(root, name))
		if err != nil {
			return "", err
		}
		overlay.Replace[from] = to
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	config := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(config, list, 0o600); err != nil {
		return "", err
	}
	patience := 2 * time.Minute
	if len(m.edits) == 0 { // all tests of a package, beside other mutants
		patience = 8 * time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience+3*time.Minute) // the first one compiles everything
	defer cancel()
	module, pkg := root, "./"+m.pkg
	if m.pkg == beside {
		module, pkg = filepath.Join(root, beside), "."
	}
	args := []string{"test", "-vet=off", "-count=1", "-v", "-timeout=" + patience.String(), "-run", "^(" + strings.Join(m.tests, "|") + ")$", pkg}
	cmd := exec.CommandContext(ctx, "go", append(args, m.args...)...)
	cmd.Dir = module
	cmd.WaitDelay = 10 * time.Second
	mark := "HOLDFAST_MUTANT=" + dir
	cmd.Env = append(os.Environ(), mark, "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+config) // also for the commands that tests build
	b, err := cmd.CombinedOutput()
	killMarked(mark)
	return string(b), err
}

// killMarked ends what a test has left behind because of its bug: processes that have mark
// in their environment, also those that start new ones meanwhile. Where there is no /proc it
// does nothing.
func killMarked(mark string) {
	for end, found := time.Now().Add(10*time.Second), true; found && time.Now().Before(end); {
		found = false
		environs, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, name := range environs {
			environ, err := os.ReadFile(name)
			if err != nil || !slices.Contains(strings.Split(string(environ), "\x00"), mark) {
				continue
			}
			if pid, err := strconv.Atoi(strings.Split(name, "/")[2]); err == nil {
				if p, err := os.FindProcess(pid); err == nil {
					found = p.Kill() == nil || found
				}
			}
		}
	}
}
