package mutants

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
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

// running limits the shared binaries that run at the same time. Most of the tests wait for longer
// than they compute.
var running = make(chan struct{}, 6)

// compiling limits the compilers and linkers that run at the same time.
var compiling = make(chan struct{}, 2)

// crowded is the package whose tests start thousands of processes. Beside each other they hang.
const crowded = "internal/supervise"

// TestMain lets all bugs wait for running and compiling at the same time. With the usual limit
// of parallel tests, a few bugs that wait for a compiler would hold up all others.
func TestMain(m *testing.M) {
	flag.Parse()
	if *run {
		if err := flag.Set("test.parallel", "10000"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// Every bug is caught by its tests, which succeed without it.
func TestEveryBugIsCaught(t *testing.T) {
	if !*run {
		t.Skip("takes some minutes: go test ./chaos/mutants -mutants")
	}
	if *part < 0 || *part > 3 {
		t.Fatalf("-part %d: want 0 to 3", *part)
	}
	began := time.Now()
	var mu sync.Mutex
	took := make(map[int]time.Duration)
	var ways tally
	t.Run("each", func(t *testing.T) {
		groups := make(map[string]*group)
		for _, m := range chosen() {
			if m.pkg != beside && groups[m.pkg] == nil {
				groups[m.pkg] = &group{pkg: m.pkg, dir: t.TempDir()}
			}
		}
		for _, m := range sound() {
			t.Run("sound "+m.pkg+" "+strings.Join(m.args, " "), func(t *testing.T) {
				t.Parallel()
				groups[m.pkg].build(t)
				m.mustPass(t, groups[m.pkg])
			})
		}
		for _, m := range chosen() {
			if m.pkg == beside {
				continue
			}
			t.Run(fmt.Sprintf("%d %s", m.number, m.bug), func(t *testing.T) {
				g := groups[m.pkg]
				g.bugs = append(g.bugs, m) // those that -run selects, and all of them before the first one goes on
				t.Parallel()
				g.build(t)
				m.mustBeCaught(t, g, &ways)
				mu.Lock()
				defer mu.Unlock()
				took[m.number] = m.took
			})
		}
	})
	t.Run(beside, func(t *testing.T) { // one at a time: these tests measure how long others take
		for _, m := range chosen() {
			if m.pkg == beside {
				t.Run(fmt.Sprintf("%d %s", m.number, m.bug), func(t *testing.T) {
					m.mustBeCaught(t, nil, &ways)
					took[m.number] = m.took
				})
			}
		}
	})
	t.Logf("figure: %d seeded bugs in %v: %d from shared binaries, %d from binaries of their own, of which %d were missed in a shared one",
		len(took), time.Since(began).Round(time.Second), ways.shared, ways.own, ways.missed)
	if *write && *part == 0 && !t.Failed() {
		writeList(t, took)
	}
}

// sound returns mutants without a bug: one for each package, with all its tests, and one for each test of which the
// bugs name parts, with these parts. To run all scripts of the command would take ten minutes.
func sound() (all []mutant) {
	packages := make(map[string]*mutant)
	parts := make(map[[2]string][]string)
	for _, m := range chosen() {
		if m.pkg == beside {
			continue
		}
		if packages[m.pkg] == nil {
			packages[m.pkg] = &mutant{pkg: m.pkg}
		}
		whole := packages[m.pkg]
		for _, test := range m.tests {
			if part := m.part(test); part != "" {
				parts[[2]string{m.pkg, test}] = append(parts[[2]string{m.pkg, test}], part)
			} else if !slices.Contains(whole.tests, test) {
				whole.tests = append(whole.tests, test)
			}
		}
	}
	for at, some := range parts {
		if pkg, test := at[0], at[1]; !slices.Contains(packages[pkg].tests, test) {
			slices.Sort(some)
			all = append(all, mutant{pkg: pkg, tests: []string{test}, args: []string{partOf(test) + "(" + strings.Join(slices.Compact(some), "|") + ")"}})
		}
	}
	for _, m := range packages {
		if len(m.tests) > 0 {
			all = append(all, *m)
		}
	}
	return all
}

// partOf begins the argument that runs a part of a test.
func partOf(test string) string { return "-run=^" + test + "$/" }

// part returns the pattern of the only part of a test that a bug needs, or "" if it needs all of it.
func (m *mutant) part(test string) (pattern string) {
	for _, arg := range m.args {
		if part, ok := strings.CutPrefix(arg, partOf(test)); ok {
			pattern = part
		}
	}
	return pattern
}

// ownBinary has the tests that fail in a shared binary though no bug is selected, and the reason.
// Their bugs get binaries of their own.
var ownBinary = map[string]string{}

// A group is the bugs that run in one package's tests, and the binary that they share.
type group struct {
	pkg  string
	dir  string
	bugs []mutant   // all that are selected
	turn sync.Mutex // of the tests of a crowded package

	once    sync.Once
	binary  string // "" without one
	overlay string
	shared  map[int]bool // the bugs in binary
	err     error
}

// takeTurn waits until no other test of a crowded package runs. The caller calls done after its own.
func (g *group) takeTurn() (done func()) {
	if g.pkg != crowded {
		return func() {}
	}
	g.turn.Lock()
	return g.turn.Unlock
}

// build compiles the shared binary, once. A single bug needs none.
func (g *group) build(t *testing.T) {
	g.once.Do(func() { g.err = g.compile(t) })
	if g.err != nil {
		t.Fatal(g.err)
	}
}

func (g *group) compile(t *testing.T) error {
	compiling <- struct{}{}
	defer func() { <-compiling }()
	wanted := make(map[int]seeded)
	for _, m := range g.bugs {
		if slices.ContainsFunc(m.tests, func(name string) bool { return ownBinary[name] != "" }) {
			continue
		}
		files, err := m.changed()
		if err != nil {
			return err
		}
		wanted[m.number] = seeded{m.number, files}
	}
	for len(wanted) > 1 {
		bugs := slices.SortedFunc(maps.Values(wanted), func(a, b seeded) int { return cmp.Compare(a.number, b.number) })
		sources, refused, err := combine(bugs, readSource)
		if err != nil {
			return err
		}
		for number, why := range refused {
			t.Logf("%d gets a binary of its own: %v", number, why)
			delete(wanted, number)
		}
		if len(wanted) < 2 {
			break
		}
		if g.overlay, err = writeOverlay(g.dir, sources); err != nil {
			return err
		}
		binary := filepath.Join(g.dir, "shared.test")
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-o", binary, "./"+g.pkg)
		cmd.Dir = root
		cmd.Env = append(cmd.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+g.overlay)
		out, err := cmd.CombinedOutput()
		cancel()
		if err == nil {
			g.binary, g.shared = binary, make(map[int]bool)
			for number := range wanted {
				g.shared[number] = true
			}
			return nil
		}
		bad := doNotCompile(string(out))
		if len(bad) == 0 {
			return fmt.Errorf("the shared binary of %q does not compile: %w\n%s", g.pkg, err, out)
		}
		for _, number := range bad { // each says so again, in a binary of its own
			t.Logf("%d does not compile:\n%s", number, out)
			delete(wanted, number)
		}
	}
	return nil
}

// doNotCompile returns the bugs that the compiler names.
func doNotCompile(out string) (bugs []int) {
	for _, m := range regexp.MustCompile(`(?m)\bbug(\d+)/\w+\.go:\d+`).FindAllStringSubmatch(out, -1) {
		if n, err := strconv.Atoi(m[1]); err == nil && !slices.Contains(bugs, n) {
			bugs = append(bugs, n)
		}
	}
	return bugs
}

func readSource(name string) (string, error) {
	b, err := os.ReadFile(filepath.Join(root, name))
	return string(b), err
}

// mustPass runs the tests without a bug. In a shared binary it runs them twice: with the
// originals, and with an exact copy of each function that a bug changes.
func (m *mutant) mustPass(t *testing.T, g *group) {
	passes := func(way string, numbered func(tests []string) (string, error), tests []string) {
		if len(tests) == 0 {
			return
		}
		out, err := numbered(tests)
		if err != nil {
			// The other processes have bugs, and some of those end processes of others. So a failure counts if it
			// comes twice. In the tier test, one failure counts.
			t.Logf("%s, try 1 of 2: %v\n%s", way, err, out)
			out, err = numbered(tests)
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", way, err, out)
		}
		for _, test := range tests {
			if !regexp.MustCompile(`(?m)^--- PASS: ` + test + ` `).MatchString(out) {
				t.Errorf("%s: %s does not pass without any bug\n%s", way, test, out)
			}
		}
	}
	var together, alone []string
	for _, name := range m.tests {
		if g.binary == "" || ownBinary[name] != "" {
			alone = append(alone, name)
		} else {
			together = append(together, name)
		}
	}
	of := func(number int) func([]string) (string, error) {
		return func(tests []string) (string, error) {
			return g.runBinary(t, &mutant{number: number, pkg: m.pkg, tests: tests, args: m.args})
		}
	}
	passes("the originals", of(0), together)
	passes("the copies", of(everyCopy), together)
	passes("without a shared binary", func(tests []string) (string, error) {
		defer g.takeTurn()()
		return goTest(t, &mutant{pkg: m.pkg, tests: tests, args: m.args}, nil)
	}, alone)
}

// tries is how often a bug may be tried. A test that depends on how processes are scheduled may
// miss its bug once on a busy machine.
const tries = 3

// A tally counts how the bugs were caught.
type tally struct {
	mu                  sync.Mutex
	shared, own, missed int
}

// mustBeCaught logs the tries that missed the bug: a bug with such a line wants a better test.
// The first try is in the binary of g if the bug is there, and each other one in a binary of the
// bug's own.
func (m *mutant) mustBeCaught(t *testing.T, g *group, ways *tally) {
	files, err := m.changed()
	if err != nil {
		t.Fatal(err)
	}
	inShared := g != nil && g.shared[m.number]
	for try := 1; ; try++ {
		var err error
		switch {
		case inShared && try == 1:
			err = m.verdict(g.runBinary(t, m))
		case g == nil:
			err = m.verdict(goTest(t, m, files))
		default:
			done := g.takeTurn()
			err = m.verdict(goTest(t, m, files))
			done()
		}
		switch {
		case err == nil:
			ways.mu.Lock()
			defer ways.mu.Unlock()
			switch {
			case inShared && try == 1:
				ways.shared++
			case inShared:
				ways.missed++
				fallthrough
			default:
				ways.own++
			}
			return
		case try == tries || t.Context().Err() != nil:
			t.Fatalf("try %d of %d: %v", try, tries, err)
		}
		t.Logf("try %d of %d: %v", try, tries, err)
	}
}

// verdict returns nil if all tests of m have failed in this run.
func (m *mutant) verdict(out string, err error) error {
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

// writeOverlay writes sources and the file for -overlay that puts them in place of the originals.
func writeOverlay(dir string, sources map[string]string) (config string, err error) {
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	for name, source := range sources {
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
	config = filepath.Join(dir, "overlay.json")
	return config, os.WriteFile(config, list, 0o600)
}

// goTest compiles and runs the tests of m with some files replaced.
func goTest(t *testing.T, m *mutant, files map[string]string) (out string, err error) {
	compiling <- struct{}{}
	defer func() { <-compiling }()
	config, err := writeOverlay(t.TempDir(), files)
	if err != nil {
		return "", err
	}
	module, pkg := root, "./"+m.pkg
	if m.pkg == beside {
		module, pkg = filepath.Join(root, beside), "."
	}
	args := []string{"go", "test", "-vet=off", "-count=1", "-v", "-timeout=" + m.patience().String(), "-run", m.pattern(), pkg}
	return runTests(t, m, module, config, append(args, m.args...))
}

// runBinary runs the tests of m in the shared binary, as go test does.
func (g *group) runBinary(t *testing.T, m *mutant) (out string, err error) {
	defer g.takeTurn()()
	running <- struct{}{}
	defer func() { <-running }()
	args := []string{g.binary, "-test.paniconexit0", "-test.count=1", "-test.v", "-test.timeout=" + m.patience().String(), "-test.run", m.pattern()}
	for _, arg := range m.args {
		if name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "="); flag.Lookup("test."+name) != nil {
			arg = "-test." + strings.TrimPrefix(arg, "-")
		}
		args = append(args, arg)
	}
	return runTests(t, m, filepath.Join(root, g.pkg), g.overlay, args)
}

// pattern is the tests of m for -run.
func (m *mutant) pattern() string { return "^(" + strings.Join(m.tests, "|") + ")$" }

// patience is how long the tests of m may run.
func (m *mutant) patience() time.Duration {
	if len(m.edits) == 0 { // all tests of a package, beside other mutants
		return 8 * time.Minute
	}
	return 2 * time.Minute
}

// runTests runs a command in dir with the number of m, and ends the processes that the command
// leaves behind.
func runTests(t *testing.T, m *mutant, dir, config string, args []string) (out string, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), m.patience()+3*time.Minute) // the first one compiles everything
	defer cancel()
	number := filepath.Join(t.TempDir(), numberPrefix+strconv.Itoa(m.number))
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(cmd.Environ(),
		"PATH="+os.Getenv("PATH")+string(filepath.ListSeparator)+number,
		"GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+config) // also for the commands that tests build
	began := time.Now()
	b, err := cmd.CombinedOutput()
	m.took += time.Since(began)
	killMarked(number)
	return string(b), err
}

// killMarked ends the processes that a test has left behind because of its bug. They have mark
// in their environment. It also ends those that they start meanwhile. Where there is no /proc it
// does nothing.
func killMarked(mark string) {
	for end, found := time.Now().Add(10*time.Second), true; found && time.Now().Before(end); {
		found = false
		environs, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, name := range environs {
			environ, err := os.ReadFile(name)
			if err != nil || !strings.Contains(string(environ), mark) {
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
