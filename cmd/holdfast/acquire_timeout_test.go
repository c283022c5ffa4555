package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestASessionLongerThanAskedForIsRefused(t *testing.T) {
	for _, test := range []struct {
		asked, granted time.Duration
		given, refused bool
	}{
		{200 * time.Millisecond, 4 * time.Second, true, true},
		{3999 * time.Millisecond, 4 * time.Second, true, true},
		{4 * time.Second, 4 * time.Second, true, false},
		{time.Minute, 40 * time.Second, true, false},       // less than was asked for
		{15 * time.Second, 20 * time.Second, false, false}, // nobody asked
	} {
		g := &globals{timeout: test.asked, timeoutGiven: test.given}
		err := g.granted(test.granted)
		if (err != nil) != test.refused {
			t.Errorf("asked for %v, granted %v: got %v", test.asked, test.granted, err)
			continue
		}
		if err == nil {
			continue
		}
		var f *fault
		if !errors.As(err, &f) || f.code != exitUsage || !strings.Contains(f.hint, test.granted.String()) || !strings.Contains(err.Error(), test.asked.String()) {
			t.Errorf("got %v; want a usage error that names %v and %v", err, test.asked, test.granted)
		}
	}
}
