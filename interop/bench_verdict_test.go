//go:build linux

package interop

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

func TestVerdictLooksAtTheInterval(t *testing.T) {
	nan := math.NaN()
	atLeast, atMost, limit := goal{atLeast: 2}, goal{atMost: 2}, goal{limit: 2}
	for _, c := range []struct {
		goal goal
		e    estimate
		want string
	}{
		{atLeast, estimate{2.5, 2.1, 3, 6}, "met"},
		{atLeast, estimate{2.5, 2, 3, 6}, "met"},
		{atLeast, estimate{2.5, 1.9, 3, 6}, "not decided"},
		{atLeast, estimate{1.5, 1, 2, 6}, "not decided"},
		{atLeast, estimate{1.5, 1, 1.9, 6}, "missed by 25 %"},
		{atMost, estimate{1.5, 1, 1.9, 6}, "met"},
		{atMost, estimate{1.5, 1, 2.1, 6}, "not decided"},
		{atMost, estimate{2.5, 1.9, 3, 6}, "not decided"},
		{atMost, estimate{2.5, 2.1, 3, 6}, "missed by 25 %"},
		{limit, estimate{1.5, -1, 1.9, 6}, "met"},
		{limit, estimate{1.5, 1, 2.1, 6}, "not decided"},
		{limit, estimate{3, 2.1, 4, 6}, "missed by 50 %"},
		{atLeast, estimate{9, 9, 9, 1}, "not decided"},
		{atLeast, estimate{nan, nan, nan, 0}, "not measured"},
		{goal{}, estimate{1, 1, 1, 6}, ""},
	} {
		if got := c.goal.verdict(c.e); got != c.want {
			t.Errorf("%v, %+v: got %q; want %q", c.goal, c.e, got, c.want)
		}
	}
}

func TestDigitsAreGroupedByThousands(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.00", 1.234: "1.23", -1.06: "-1.06", 12.34: "12.3", 99.96: "100.0",
		821: "821", -821: "-821", 1234: "1,234", -1234: "-1,234", -82_100: "-82,100",
		12_345: "12,350", 1_234_567: "1,234,570", -1_234_567: "-1,234,570", math.NaN(): "–",
	} {
		if got := digits(v); got != want {
			t.Errorf("%v: got %q; want %q", v, got, want)
		}
	}
}

func TestRatios(t *testing.T) {
	for _, c := range []struct {
		goal goal
		want float64
	}{
		{goal{unit: "cycles/s", atLeast: 2}, 4},
		{goal{unit: "cycles/s", atMost: 2}, 0.25},
		{goal{unit: "µs", atLeast: 2}, 0.25},
		{goal{unit: "µs", atMost: 2}, 4},
		{goal{unit: "cycles/s"}, 4},
		{goal{unit: "µs"}, 4},
	} {
		if got := c.goal.ratios([]float64{8}, []float64{2}); got[0] != c.want {
			t.Errorf("%+v of 8 and 2: got %v; want %v", c.goal, got, c.want)
		}
	}
}

func TestFiguresCarryTheirCommit(t *testing.T) {
	m := &measurement{
		row:    row{number: 1, name: "one", work: "work", units: []string{"cycles/s"}, goals: fixed(nil)},
		sides:  []side{{name: "ours"}},
		values: map[string]map[string][]float64{"ours": {"cycles/s": {1000}}},
	}
	r := &report{commit: "abc1234", rows: []*measurement{m}}
	var table bytes.Buffer
	m.table(&table, r.commit)
	if head := "| at abc1234 | cycles/s |"; !strings.Contains(table.String(), head) {
		t.Errorf("the table has no %q:\n%s", head, &table)
	}
	if samples := string(r.samples()); !strings.HasPrefix(samples, "commit: abc1234\n") || !strings.HasSuffix(samples, "BenchmarkTable/1-one/ours 1 1000 cycles/s\n") {
		t.Errorf("got samples\n%s", samples)
	}
}
