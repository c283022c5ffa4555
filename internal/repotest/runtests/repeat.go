package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// repetitions is how often a test that has failed must pass, alone, beside two processes that compute.
	repetitions = 10
	// mostFailures is how many tests of a package may fail before none is repeated: that is no matter of luck.
	mostFailures = 5
	// mostRepeating bounds the time for repeating the tests of one step.
	mostRepeating = 25 * time.Minute
)

// judge repeats the tests of a package that have failed. The package has failed if one of them fails again.
func (ts *tests) judge(p *ran) {
	failed := innermost(slices.Concat(p.failed, unfinished(p)))
	switch {
	case !p.built:
		p.Why = []string{"it does not compile"}
		return
	case len(failed) == 0:
		p.Why = []string{"no test has failed, and the package has: " + lastLine(p.log("").String())}
		return
	case len(failed) > mostFailures:
		p.Why = failed
		return
	}
	burning, err := burn(2)
	defer burning()
	if err != nil {
		p.Why = append(failed, err.Error())
		return
	}
	deadline := time.Now().Add(mostRepeating)
	for _, test := range failed {
		fmt.Fprintf(ts.out, "%s: %s has failed, and is repeated %d times beside two processes that compute\n", p.Package, test, repetitions)
		if why := ts.repeat(p.Package, test, deadline); why != "" {
			p.Why = append(p.Why, test+": "+why)
			continue
		}
		f := flake{Test: test, Seed: p.seed, Log: p.log(test).String()}
		p.Flaky = append(p.Flaky, f)
		fmt.Fprintf(ts.out, "FLAKY %s.%s, seed %s\n", p.Package, test, f.Seed)
	}
	p.Failed = len(p.Why) > 0
}

// repeat returns why a test is not flaky but broken: it failed again, or there was no time to find out.
func (ts *tests) repeat(pkg, test string, deadline time.Time) (why string) {
	args := alone(ts.args, pkg, test)
	for i := range repetitions {
		if time.Now().After(deadline) {
			return fmt.Sprintf("passed %d times; there was no time for %d", i, repetitions)
		}
		cmd := exec.Command("go", append([]string{"test"}, args...)...)
		cmd.Dir = ts.dir
		out, err := cmd.CombinedOutput()
		switch {
		case err != nil:
			ts.out.Write(out)
			return fmt.Sprintf("failed again, at the repetition %d", i+1)
		case strings.Contains(string(out), "no tests to run"):
			return "cannot be repeated: no test matches go test " + strings.Join(args, " ")
		}
	}
	return ""
}

// alone returns the arguments of go test for one test of a package. The others stay, but for those that choose
// tests and packages. An argument before the first package is one of go test. An argument behind it can be a flag
// of the tests themselves.
func alone(args []string, pkg, test string) (own []string) {
	var before, behind []string
	packages := false
	for _, a := range args {
		name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
		switch {
		case !strings.HasPrefix(a, "-"):
			packages = true
		case slices.Contains([]string{"run", "skip", "shuffle", "count", "v", "short"}, name):
			if name == "short" {
				before = append(before, a)
			}
		case packages:
			behind = append(behind, a)
		default:
			before = append(before, a)
		}
	}
	parts := strings.Split(test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	own = append(before, "-count=1", "-run="+strings.Join(parts, "/"))
	if packages {
		own = append(own, pkg)
	}
	return append(own, behind...)
}

// innermost leaves out the tests that have failed because of their subtests. A test with more than mostFailures of
// these stands for them.
func innermost(failed []string) (inner []string) {
	below := func(test string) (n int) {
		for _, other := range failed {
			if strings.HasPrefix(other, test+"/") {
				n++
			}
		}
		return n
	}
	for _, test := range failed {
		if below(test) == 0 {
			inner = append(inner, test)
		}
	}
	if len(inner) <= mostFailures {
		return inner
	}
	var tops []string
	for _, test := range failed {
		if !strings.Contains(test, "/") {
			tops = append(tops, test)
		}
	}
	return tops
}

// unfinished returns the tests that ran when their process ended.
func unfinished(p *ran) (names []string) {
	for name := range p.running {
		if !slices.Contains(p.failed, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// burn starts n processes that compute until stop is called.
func burn(n int) (stop func(), err error) {
	var all []*exec.Cmd
	stop = func() {
		for _, cmd := range all {
			cmd.Process.Kill()
			cmd.Wait()
		}
	}
	for range n {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			return stop, fmt.Errorf("start a process that computes: %w", err)
		}
		all = append(all, cmd)
	}
	return stop, nil
}
