package term

import (
	"strings"
	"testing"
	"time"
)

func TestDurationsAreReadAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"5": 5 * time.Second, "0": 0, "0.25": 250 * time.Millisecond, "-3": -3 * time.Second, "90s": 90 * time.Second, "5m": 5 * time.Minute,
		"1d": 24 * time.Hour, "1d12h": 36 * time.Hour, "2d30m": 48*time.Hour + 30*time.Minute, "-1d1h": -25 * time.Hour, "250ms": 250 * time.Millisecond,
		"106750d": 106750 * 24 * time.Hour,
	} {
		if d, err := ParseDuration(text); err != nil || d != want {
			t.Errorf("parseDuration(%q) = %v, %v; want %v", text, d, err, want)
		}
	}
	for _, text := range []string{"", "d", "1w", "1d-1h", "1d24h", "1.5d", "1h1d", "soon", "NaN", "Inf", "1e300", "9223372037", "106752d", strings.Repeat("9", 100_000)} {
		d, err := ParseDuration(text)
		if err == nil {
			t.Errorf("parseDuration(%.20q) = %v", text, d)
		} else if len(err.Error()) > 250 {
			t.Errorf("parseDuration(%.20q): an error of %d bytes", text, len(err.Error()))
		}
	}
}
