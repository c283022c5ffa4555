package main

import (
	"regexp"
	"testing"
)

func TestBenchOnATerminal(t *testing.T) {
	t.Parallel()
	c := startConsole(t)
	c.enter(`holdfast bench --duration 1h --clients 3; echo "rc=$?"`)
	c.expect(`1s of 1h: [0-9]+ cycles, [0-9]+/s, wait p99 \S+s, 0 errors`)
	c.expect(`2s of 1h: `)
	c.keys(ctrlC)
	c.expect(`, interrupted\s`)
	c.expect(`0 violations, 0 lost updates`)
	c.expect("rc=0")
	c.enter(`holdfast ls / ; echo list""ed`)
	if shown := c.expect(`(?s).*listed`); regexp.MustCompile(`holdfast-bench`).MatchString(shown) {
		t.Errorf("bench leaves nodes:\n%s", shown)
	}
}
