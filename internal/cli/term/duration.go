package term

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// durationValue is a flag's duration: a number of seconds (90, 0.5), or numbers with units (1d, 1d12h, 250ms).
type durationValue time.Duration

// DurationVar defines a flag with a duration.
func DurationVar(flags *pflag.FlagSet, d *time.Duration, name, short string, value time.Duration, usage string) {
	*d = value
	flags.VarP((*durationValue)(d), name, short, usage)
}

// String returns "0" for 0, which the help does not show as a default.
func (v *durationValue) String() string {
	if *v == 0 {
		return "0"
	}
	return time.Duration(*v).String()
}

// Type returns the name of the value in the help.
func (v *durationValue) Type() string { return "duration" }

// Set reads the duration.
func (v *durationValue) Set(text string) error {
	d, err := ParseDuration(text)
	if err != nil {
		return err
	}
	*v = durationValue(d)
	return nil
}

// MaxDuration bounds the times of a run. A longer one is a mistake: --min-hold would keep the job from running, and sums
// of such times overflow.
const MaxDuration = 366 * 24 * time.Hour

var days = regexp.MustCompile(`^([+-]?)([0-9]+)d`)

// ParseDuration reads a duration as time.ParseDuration does, with seconds as the unit of a bare number and
// with days (of 24 hours) at the front.
func ParseDuration(text string) (time.Duration, error) {
	wrong := fmt.Errorf("%q is not a duration: want a number of seconds such as 90, or one with units such as 250ms, 5m or 1d12h", Cut(text, 40))
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		ns := math.Round(seconds * float64(time.Second))
		if !(math.Abs(ns) < math.MaxInt64) { // not a number is refused, too
			return 0, wrong
		}
		return time.Duration(ns), nil
	}
	day := days.FindStringSubmatch(text)
	if day == nil {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, wrong
		}
		return d, nil
	}
	n, err := strconv.ParseInt(day[2], 10, 64)
	if err != nil || n > int64(math.MaxInt64/(24*time.Hour))-1 {
		return 0, wrong
	}
	sum := time.Duration(n) * 24 * time.Hour
	if rest := strings.TrimPrefix(text, day[0]); rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 || d >= 24*time.Hour {
			return 0, wrong
		}
		sum += d
	}
	if day[1] == "-" {
		sum = -sum
	}
	return sum, nil
}

// Cut shortens text to at most n bytes for a message.
func Cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
