//go:build linux

package interop

import (
	"math"
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
