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

// notSimulated lists the files that the simulation cannot reach, and why. The figure omits them whole.
var notSimulated = map[string]string{
	"holdfast/detached.go":            "has expiry and TryLock, which the worlds with detached locks do not use",
	"holdfast/reserve/reservation.go": "has reservations that others read and end; the worlds only make and respect them",
	"holdfast/zk/clock_linux.go":      "asks the kernel whether the machine has slept; in a bubble it has not",
	"holdfast/zk/rotation.go":         "mostly looks up names, which is Config.Dial's where there is one, as in the simulation",
	"holdfast/zk/held.go":             "bounds answers that are longer than any of a lock's",
	"holdfast/zk/unknown.go":          "finds requests that a server does not know; the servers of the worlds know all",
	"holdfast/zk/share.go":            "names the processes of a session over a Unix socket; the worlds have other connections",
	"holdfast/zk/close_session.go":    "ends the session of a dead client, which the watchdog of a command does",
	"holdfast/zk/mechanism.go":        "has SASL mechanisms of other packages, which the worlds do not use",
}

// The simulation is worth as much as it executes. This test compiles it once more with counters, and
// reports how many statements of the locks, of shards and of the client it has executed:
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
	run("go", "test", "-c", "-cover", "-coverpkg="+strings.Join(simulated, ","), "-o", binary, ".")
	run(binary, "-test.run=^TestSimulation$", fmt.Sprintf("-seeds=%d", *coveredFlag))
	for _, kind := range []string{"Once", "Slots", "Shards", "Reservations", "Detached", "Turns"} { // each in worlds of its own
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
	packages := make(map[string]statements)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		s := files[name]
		t.Logf("%5.1f %% of %4d statements in %s", s.percent(), s.all, name)
		if notSimulated[name] == "" {
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

// readProfile reads a profile as the go command writes it, by file. A block that several processes have
// counted occurs once.
func readProfile(name string) (map[string]statements, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	files := make(map[string]statements)
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		file, rest, ok := strings.Cut(lines.Text(), ":")
		if !ok || file == "mode" {
			continue
		}
		var where string
		var n, times int
		if _, err := fmt.Sscan(rest, &where, &n, &times); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", name, lines.Text(), err)
		}
		s := statements{all: n}
		if times > 0 {
			s.executed = n
		}
		files[file] = files[file].plus(s)
	}
	return files, nil
}
