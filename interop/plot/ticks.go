package plot

import (
	"math"
	"strconv"

	gonum "gonum.org/v1/plot"
)

// ticks are those of a logarithmic axis: the decades in words that a reader need not
// count the zeros of, and 2 to 9 between them unlabelled.
type ticks struct{}

func (ticks) Ticks(low, high float64) []gonum.Tick {
	var all []gonum.Tick
	for d := math.Pow(10, math.Floor(math.Log10(low))); d <= high*1.0001; d *= 10 {
		for i := 1.0; i < 10; i++ {
			t := gonum.Tick{Value: i * d}
			if i == 1 {
				t.Label = decade(d)
			}
			if t.Value >= low*0.9999 && t.Value <= high*1.0001 {
				all = append(all, t)
			}
		}
	}
	return all
}

func decade(d float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if d >= unit.size*0.9999 {
			return strconv.FormatFloat(math.Round(d/unit.size), 'f', -1, 64) + unit.name
		}
	}
	return strconv.FormatFloat(d, 'g', 3, 64)
}

// decades widens an axis to whole decades.
func decades(low, high *float64) {
	*low = math.Pow(10, math.Floor(math.Log10(*low)+1e-9))
	*high = math.Pow(10, math.Ceil(math.Log10(*high)-1e-9))
	if *high <= *low {
		*high = 10 * *low
	}
}
