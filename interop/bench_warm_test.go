//go:build linux

package interop

import (
	"context"
	"flag"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

var warmUp = flag.Duration("warm", 30*time.Second, "benchmarks: how long a contestant may warm up before its first sample")

const warmWindow = time.Second

// warm runs the sides until the rate of each stands still. They take turns of one window, as the
// rounds do later. The time is limited, and the table names the sides that were still changing.
func (m *measurement) warm(tb testing.TB) {
	n := time.Duration(len(m.sides))
	limit := min(n**warmUp, max(75*time.Second, n*6*time.Second)) // or the table takes more than 25 minutes
	if *quick {
		limit /= 4
	}
	began := time.Now()
	rates := make(map[string][]float64)
	cold := slices.Clone(m.sides)
	for len(cold) > 0 && time.Since(began) < limit {
		cold = slices.DeleteFunc(cold, func(s side) bool {
			rate, err := m.window(tb, s)
			if err != nil {
				m.fail(tb, s, err)
				return true
			}
			rates[s.name] = append(rates[s.name], rate)
			return standsStill(m.row.units[0], rates[s.name])
		})
	}
	for _, s := range cold {
		m.cold = append(m.cold, s.name)
	}
	progress("row %d warmed up in %v", m.row.number, time.Since(began).Round(100*time.Millisecond))
}

// window returns the mean of a side's samples in one window, in the row's first unit.
func (m *measurement) window(tb testing.TB, s side) (float64, error) {
	sum, n := 0.0, 0
	for began := time.Now(); n == 0 || time.Since(began) < warmWindow; n++ {
		f, err := sampleOnce(tb.Context(), s)
		if err != nil {
			return 0, err
		}
		sum += f[m.row.units[0]]
	}
	return sum / float64(n), nil
}

// standsStill reports whether none of the last three rates is more than 5 % better than the best
// before them. Single rates differ by more, so the rule looks for progress only.
func standsStill(unit string, rates []float64) bool {
	const last, progress = 3, 1.05
	best := 0
	for i := range rates {
		if i == 0 || faster(unit, rates[i], rates[best]) > progress {
			best = i
		}
	}
	return len(rates)-1-best >= last
}

func TestWarmingEndsWhenTheRateStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		samples := make(map[string]int)
		sideOf := func(name string, rate func(n int) float64) side {
			return side{name, func(context.Context) (figures, error) {
				time.Sleep(warmWindow)
				samples[name]++
				return figures{"cycles/s": rate(samples[name])}, nil
			}}
		}
		m := measurement{row: row{units: []string{"cycles/s"}, sides: func(testing.TB) []side {
			return []side{
				sideOf("steady", func(int) float64 { return 100 }),
				sideOf("climbs for ten windows", func(n int) float64 { return 100 * float64(min(n, 10)) }),
				sideOf("never stands still", func(n int) float64 { return math.Pow(1.06, float64(n)) }),
			}
		}}}
		m.prepare(t)
		if got := samples["steady"]; got != 4 {
			t.Errorf("the steady side: %d windows; want 4", got)
		}
		if got := samples["climbs for ten windows"]; got != 13 {
			t.Errorf("the climbing side: %d windows; want 13", got)
		}
		if want := []string{"never stands still"}; !slices.Equal(m.cold, want) {
			t.Errorf("the table names %q; want %q", m.cold, want)
		}
		if n := len(m.values["steady"]["cycles/s"]); n != 0 {
			t.Errorf("warming left %d samples", n)
		}
	})
}
