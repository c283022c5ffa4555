package duration

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"5": 5 * time.Second, "0": 0, "0.25": 250 * time.Millisecond, "-3": -3 * time.Second, "90s": 90 * time.Second, "5m": 5 * time.Minute,
		"1d": 24 * time.Hour, "1d12h": 36 * time.Hour, "2d30m": 48*time.Hour + 30*time.Minute, "-1d1h": -25 * time.Hour, "250ms": 250 * time.Millisecond,
		"106750d": 106750 * 24 * time.Hour,
	} {
		if d, err := Parse(text); err != nil || d != want {
			t.Errorf("Parse(%q) = %v, %v; want %v", text, d, err, want)
		}
	}
	for _, text := range []string{
		"", "d", "1w", "1d-1h", "1d24h", "1.5d", "1h1d", "soon", "NaN", "Inf", "1e300", "9223372037", "106752d",
		strings.Repeat("9", 100_000), strings.Repeat("ä", 100_000),
	} {
		d, err := Parse(text)
		if err == nil {
			t.Errorf("Parse(%.20q) = %v", text, d)
		} else if len(err.Error()) > 250 {
			t.Errorf("Parse(%.20q): an error of %d bytes", text, len(err.Error()))
		}
	}
}

func TestEachDurationIsWrittenInOneNotation(t *testing.T) {
	const h, d = time.Hour, 24 * time.Hour
	for _, test := range []struct {
		d                   time.Duration
		text, age, measured string
	}{
		{0, "0s", "0s", "0s"},
		{-h, "-1h", "0s", "-1h"},
		{123456 * time.Microsecond, "123.456ms", "123ms", "123.5ms"},
		{1456 * time.Microsecond, "1.456ms", "1ms", "1.5ms"},
		{1456 * time.Nanosecond, "1.456µs", "0s", "1µs"},
		{1456 * time.Millisecond, "1.456s", "1s", "1.46s"},
		{3 * time.Second, "3s", "3s", "3s"},
		{time.Minute, "1m", "1m", "1m"},
		{3*time.Minute + 12*time.Second + 300*time.Millisecond, "3m12.3s", "3m12s", "3m12s"},
		{time.Minute + time.Millisecond, "1m1ms", "1m", "1m"},
		{h, "1h", "1h", "1h"},
		{h + 5*time.Second, "1h5s", "1h5s", "1h5s"},
		{24 * h, "1d", "1d", "1d"},
		{47*h + 59*time.Minute, "1d23h59m", "1d23h", "1d23h"},
		{366 * d, "366d", "366d", "366d"},
		{math.MaxInt64, "106751d23h47m16.854775807s", "106751d23h", "106751d23h"},
	} {
		if got := Text(test.d); got != test.text {
			t.Errorf("Text(%v) = %q; want %q", test.d, got, test.text)
		}
		if got := Age(test.d); got != test.age {
			t.Errorf("Age(%v) = %q; want %q", test.d, got, test.age)
		}
		if got := Measured(test.d); got != test.measured {
			t.Errorf("Measured(%v) = %q; want %q", test.d, got, test.measured)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"90", "0.5", "250ms", "1h30m", "1d12h", "-1d1h", "1m1ms", "NaN"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Parse(text)
		if err != nil || d.Abs() >= (math.MaxInt64/day-1)*day {
			return
		}
		if again, err := Parse(Text(d)); err != nil || again != d {
			t.Errorf("%q is %v, which Text writes as %q: %v, %v", text, d, Text(d), again, err)
		}
	})
}
