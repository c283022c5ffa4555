// Package duration has the one notation of durations, for what people type and for what they read: 250ms, 90s, 1h30m,
// 1d12h. JSON has integers instead, in milliseconds or microseconds.
package duration

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// Parse reads a duration as [time.ParseDuration] does, with seconds as the unit of a bare number and with days of 24
// hours at the front. It is the inverse of [Text].
func Parse(text string) (time.Duration, error) {
	wrong := fmt.Errorf("%q is not a duration: want a number of seconds such as 90, or one with units such as 250ms, 5m or 1d12h", short(text))
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		ns := math.Round(seconds * float64(time.Second))
		if !(math.Abs(ns) < math.MaxInt64) { // not a number is refused, too
			return 0, wrong
		}
		return time.Duration(ns), nil
	}
	front, rest, hasDays := strings.Cut(text, "d")
	number := strings.TrimLeft(front, "+-")
	if !hasDays || number == "" || len(front)-len(number) > 1 || strings.Trim(number, "0123456789") != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, wrong
		}
		return d, nil
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n > int64(math.MaxInt64/day)-1 {
		return 0, wrong
	}
	sum := time.Duration(n) * day
	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 || d >= day {
			return 0, wrong
		}
		sum += d
	}
	if front[0] == '-' {
		sum = -sum
	}
	return sum, nil
}

// short cuts text for a message.
func short(text string) string {
	const most = 40
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Text returns d exactly, without parts that are zero: 1h, not 1h0m0s.
func Text(d time.Duration) string {
	switch {
	case d < 0 && d != math.MinInt64:
		return "-" + Text(-d)
	case d < time.Minute:
		return d.String()
	}
	var b strings.Builder
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if n := d / unit.length; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, unit.name)
			d %= unit.length
		}
	}
	if d > 0 {
		b.WriteString(d.String())
	}
	return b.String()
}

// Age returns d for a text about how long something has lasted: to the millisecond below a second, to the second below a
// day, else to the hour. The clocks of two machines differ, so d may be negative, which counts as 0.
func Age(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		d = d.Round(time.Millisecond)
	case d < day:
		d = d.Round(time.Second)
	default:
		d = d.Truncate(time.Hour)
	}
	return Text(d)
}

// Measured returns d for a table of measurements: with few digits, and below a minute more precisely than [Age].
func Measured(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return Text(d.Round(time.Microsecond))
	case d < time.Second:
		return Text(d.Round(time.Millisecond / 10))
	case d < time.Minute:
		return Text(d.Round(time.Second / 100))
	}
	return Age(d)
}

// InMessage returns the arguments of a message with its durations as [Text] has them.
func InMessage(args []any) []any {
	spelt := make([]any, len(args))
	for i, arg := range args {
		if d, ok := arg.(time.Duration); ok {
			arg = Text(d)
		}
		spelt[i] = arg
	}
	return spelt
}
