package conn

import (
	"errors"
	"strings"
	"testing"
	"time"

	"holdfast/internal/cli/term"
)

func TestASessionLongerThanAskedForIsRefused(t *testing.T) {
	for _, test := range []struct {
		asked, granted time.Duration
		given, refused bool
	}{
		{200 * time.Millisecond, 4 * time.Second, true, true},
		{3999 * time.Millisecond, 4 * time.Second, true, true},
		{4 * time.Second, 4 * time.Second, true, false},
		{time.Minute, 40 * time.Second, true, false},       // less than the user's
		{15 * time.Second, 20 * time.Second, false, false}, // the default
	} {
		g := &Flags{Timeout: test.asked, TimeoutGiven: test.given}
		err := Granted(g, test.granted)
		if (err != nil) != test.refused {
			t.Errorf("asked for %v, granted %v: got %v", test.asked, test.granted, err)
			continue
		}
		if err == nil {
			continue
		}
		var f *term.Fault
		if !errors.As(err, &f) || f.Code != term.ExitUsage || !strings.Contains(f.Hint, test.granted.String()) || !strings.Contains(err.Error(), test.asked.String()) {
			t.Errorf("got %v; want a usage error that names %v and %v", err, test.asked, test.granted)
		}
	}
}
