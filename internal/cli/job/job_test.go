package job

import (
	"slices"
	"strings"
	"testing"
)

// Programs in Go take the first of two values of a variable, and shells the last. So there is one.
func TestVariablesOfTheCommandOccurOnce(t *testing.T) {
	t.Setenv("HOLDFAST_LOCK", "outer")
	t.Setenv("HOLDFAST_LOCKER", "mine")
	got := Environ([]string{"HOLDFAST_LOCK=inner", "HOLDFAST_TOKEN=1"})
	got = slices.DeleteFunc(got, func(v string) bool {
		return !strings.HasPrefix(v, "HOLDFAST_LOCK") && !strings.HasPrefix(v, "HOLDFAST_TOKEN")
	})
	slices.Sort(got)
	if want := []string{"HOLDFAST_LOCK=inner", "HOLDFAST_LOCKER=mine", "HOLDFAST_TOKEN=1"}; !slices.Equal(got, want) {
		t.Errorf("%q; want %q", got, want)
	}
}
