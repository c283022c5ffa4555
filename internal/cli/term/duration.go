package term

import (
	"strings"
	"time"

	"github.com/spf13/pflag"

	"holdfast/internal/duration"
)

// durationValue is a flag's duration, as [duration.Parse] reads it.
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
	return duration.Text(time.Duration(*v))
}

// Type returns the name of the value in the help.
func (v *durationValue) Type() string { return "duration" }

// Set reads the duration.
func (v *durationValue) Set(text string) error {
	d, err := duration.Parse(text)
	if err != nil {
		return err
	}
	*v = durationValue(d)
	return nil
}

// MaxDuration bounds the times of a run. A longer one is a mistake: --min-hold would keep the job from running, and sums
// of such times overflow.
const MaxDuration = 366 * 24 * time.Hour

// Cut shortens text to at most n bytes for a message.
func Cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
