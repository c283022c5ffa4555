package main

import (
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
)

// report prints the results by step and package, and at last what the run shows, in one line. others are the tiers of
// tests that have not run. It returns an error if a step has failed.
func report(w io.Writer, all []result, others []string) error {
	fmt.Fprintf(w, "\n== results\n")
	reasons := make(map[string][]string) // tests that were left out, by reason
	var failed, left, flaky, passed, steps int
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].Step == all[0].Step {
			n++
		}
		step := all[:n]
		all = all[n:]
		steps++
		var seconds, short float64
		shorts := 0
		for _, r := range step {
			seconds += r.Seconds
		}
		fmt.Fprintf(w, "%7.1f s  %s\n", seconds, step[0].Step)
		for _, r := range step {
			passed += r.Passed
			for _, l := range r.LeftOut {
				test, reason, _ := strings.Cut(l, ": ")
				reasons[reason] = append(reasons[reason], path.Base(r.Package)+"."+test)
				left++
			}
			flaky += len(r.Flaky)
			switch {
			case r.Failed:
				failed++
				fmt.Fprintf(w, "%7.1f s  FAILED  %s %s\n", r.Seconds, r.Step, r.Package)
				for _, why := range r.Why {
					fmt.Fprintf(w, "                   %s\n", why)
				}
			case r.Package == "":
			case r.Seconds < 5:
				short += r.Seconds
				shorts++
			default:
				fmt.Fprintf(w, "%7.1f s      %s\n", r.Seconds, r.Package)
			}
			for _, f := range r.Flaky {
				fmt.Fprintf(w, "           FLAKY %s.%s, seed %s, log:\n%s\n", r.Package, f.Test, f.Seed, indent(f.Log))
			}
		}
		if shorts > 0 {
			fmt.Fprintf(w, "%7.1f s      %d packages of less than 5 s each\n", short, shorts)
		}
	}
	printLeftOut(w, reasons)
	said := "passed"
	if failed > 0 {
		said = fmt.Sprintf("FAILED (%d)", failed)
	}
	fmt.Fprintf(w, "%s: %d steps, %d tests; %d flaky", said, steps, passed, flaky)
	if left > 0 {
		fmt.Fprintf(w, "; %d tests left out, reasons above", left)
	}
	if len(others) > 0 {
		fmt.Fprintf(w, "; not run: %s (sh test.sh %s)", strings.Join(others, ", "), strings.Join(others, " "))
	}
	fmt.Fprintln(w)
	if failed > 0 {
		return fmt.Errorf("%d failed", failed)
	}
	return nil
}

// printLeftOut prints why tests did not run, and some of the tests for each reason.
func printLeftOut(w io.Writer, reasons map[string][]string) {
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		tests, more := reasons[reason], ""
		if len(tests) > 3 {
			more = fmt.Sprintf(" and %d more", len(tests)-3)
			tests = tests[:3]
		}
		fmt.Fprintf(w, "left out: %s%s: %s\n", strings.Join(tests, ", "), more, reason)
	}
}

func indent(log string) string {
	const most = 4000
	if len(log) > most {
		log = log[:most/2] + "\n…\n" + log[len(log)-most/2:]
	}
	return "             " + strings.ReplaceAll(strings.TrimSpace(log), "\n", "\n             ")
}
