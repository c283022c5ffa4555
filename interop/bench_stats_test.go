//go:build linux

package interop

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"golang.org/x/perf/benchmath"
)

// figures are what one sample came to, by unit.
type figures map[string]float64

// An estimate is a median and the interval around it: of 95 % confidence as benchstat
// computes it, which takes six samples; of fewer, from the smallest to the largest.
type estimate struct {
	median, lo, hi float64
	n              int
}

func estimateOf(values []float64) estimate {
	if len(values) == 0 {
		return estimate{median: math.NaN(), lo: math.NaN(), hi: math.NaN()}
	}
	sample := benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds)
	s := benchmath.AssumeNothing.Summary(sample, 0.95)
	e := estimate{s.Center, s.Lo, s.Hi, len(values)}
	if math.IsInf(e.lo, 0) || math.IsInf(e.hi, 0) {
		e.lo, e.hi = sample.Values[0], sample.Values[len(values)-1]
	}
	return e
}

// spread is how far the interval reaches from the median, in percent.
func (e estimate) spread() string {
	if e.n < 2 || e.median == 0 {
		return "–"
	}
	return fmt.Sprintf("± %.0f %%", 100*max(e.hi/e.median-1, 1-e.lo/e.median))
}

// digits writes v with three digits that mean something.
func digits(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case math.Abs(v) >= 10_000:
		return grouped(math.Round(v/10) * 10)
	case math.Abs(v) >= 100:
		return grouped(v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func grouped(v float64) string { return thousands(int(math.Round(v))) }

// faster is by how much a is better than b: of rates the larger is, of all else the
// smaller.
func faster(unit string, a, b float64) float64 {
	if strings.HasSuffix(unit, "/s") {
		return a / b
	}
	return b / a
}

// A goal is what the issue asks for: who is to be how much better than whom, by what.
// Without a number the comparison is only shown.
type goal struct {
	unit    string
	who     string // the first side, if empty
	than    string
	atLeast float64 // times as good: a rate over theirs, or their time over ours
	atMost  float64 // times their time, or their bytes
	limit   float64 // of the figure itself, whatever others do
}

// ratios returns the ratio of each round. Without a number it is who's figure over than's.
func (g goal) ratios(who, than []float64) []float64 {
	n := min(len(who), len(than))
	ratios := make([]float64, n)
	for i := range n {
		switch {
		case g.atLeast > 0:
			ratios[i] = faster(g.unit, who[i], than[i])
		case g.atMost > 0:
			ratios[i] = 1 / faster(g.unit, who[i], than[i])
		default:
			ratios[i] = who[i] / than[i]
		}
	}
	return ratios
}

// verdict compares the interval of a ratio, or of a figure, with the goal. The goal is met or
// missed if the whole interval is on one side of it. Otherwise the samples do not decide.
func (g goal) verdict(e estimate) string {
	bound, sign := g.atLeast, 1.0
	switch {
	case g.atLeast > 0:
	case g.atMost > 0:
		bound, sign = g.atMost, -1
	case g.limit > 0:
		bound, sign = g.limit, -1
	default:
		return ""
	}
	worst, best := e.lo, e.hi
	if sign < 0 {
		worst, best = e.hi, e.lo
	}
	switch {
	case math.IsNaN(e.median):
		return "not measured"
	case e.n < 2:
		return "not decided"
	case sign*(worst-bound) >= 0:
		return "met"
	case sign*(best-bound) < 0:
		return fmt.Sprintf("missed by %.0f %%", 100*math.Abs(e.median/bound-1))
	}
	return "not decided"
}

func (g goal) String() string {
	switch {
	case g.atLeast > 0:
		return fmt.Sprintf("≥ %g ×", g.atLeast)
	case g.atMost > 0:
		return fmt.Sprintf("≤ %g ×", g.atMost)
	case g.limit > 0:
		return fmt.Sprintf("≤ %g %s", g.limit, g.unit)
	}
	return ""
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
