// Command runtests runs the steps of test.sh. A step that fails does not stop the others.
//
//	runtests step NAME [-C DIR] COMMAND ARG...   runs a command
//	runtests step NAME [-C DIR] go test ARG...   runs tests; a test that fails is repeated, see repeat.go
//	runtests report [TIER...]                    prints all results, and fails if a step has failed; its last line
//	                                             names the tiers, which have not run
//
// The results are lines of JSON in the file that RUNTESTS_RESULTS names.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// A result is the outcome of a step, or of the tests of one package in a step.
type result struct {
	Step    string
	Package string  `json:",omitempty"`
	Seconds float64 // of the real clock
	Failed  bool
	Why     []string `json:",omitempty"` // the tests that failed for good, or the error of a command
	Flaky   []flake  `json:",omitempty"`
	LeftOut []string `json:",omitempty"` // tests that were skipped, with their reasons
	Passed  int      `json:",omitempty"` // tests, without subtests
}

// A flake is a test that failed once, and then passed ten times alone on a busy machine.
type flake struct {
	Test string
	Seed string // of -shuffle; "" if the tests were not shuffled
	Log  string // what the test printed when it failed
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "runtests:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: runtests step NAME [-C DIR] COMMAND ARG... | runtests report [TIER...]")

func run(args []string) error {
	path := os.Getenv("RUNTESTS_RESULTS")
	switch {
	case path == "":
		return errors.New("RUNTESTS_RESULTS names no file for the results")
	case len(args) > 0 && args[0] == "report":
		all, err := read(path)
		if err != nil {
			return err
		}
		return report(os.Stdout, all, args[1:])
	case len(args) < 3 || args[0] != "step":
		return errUsage
	}
	name, args, dir := args[1], args[2:], ""
	if args[0] == "-C" {
		if len(args) < 3 {
			return errUsage
		}
		dir, args = args[1], args[2:]
	}
	fmt.Printf("\n== %s, %s\n", name, time.Now().Format(time.TimeOnly))
	var results []result
	if isTests(args) {
		results = (&tests{step: name, dir: dir, args: args[2:], out: os.Stdout}).run()
	} else {
		results = []result{command(name, dir, args)}
	}
	return write(path, results)
}

// isTests reports whether a command runs tests that can be repeated. What fuzzing finds is no matter of luck.
func isTests(args []string) bool {
	fuzzes := func(arg string) bool { return strings.HasPrefix(arg, "-fuzz=") }
	return len(args) > 1 && args[0] == "go" && args[1] == "test" && !slices.ContainsFunc(args, fuzzes)
}

// command runs a step that has no tests.
func command(name, dir string, args []string) result {
	began := time.Now()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stdout, os.Stderr
	r := result{Step: name}
	if err := cmd.Run(); err != nil {
		r.Failed, r.Why = true, []string{strings.Join(args, " ") + ": " + err.Error()}
	}
	r.Seconds = time.Since(began).Seconds()
	return r
}

func write(path string, results []result) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	e := json.NewEncoder(f)
	for _, r := range results {
		if err := e.Encode(r); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}

func read(path string) (all []result, _ error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for d := json.NewDecoder(f); ; {
		var r result
		switch err := d.Decode(&r); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, r)
	}
}
