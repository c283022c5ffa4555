package queue

import (
	"math"
	"testing"
	"time"

	"holdfast/zk"
)

// What is left of a lock counts from the moment of its transaction by both clocks: however far the clocks are apart, and
// however long ago the place was made.
func TestLeftCountsFromTheChange(t *testing.T) {
	now := time.Now()
	for name, tt := range map[string]struct {
		expires, ctime int64
		ago            time.Duration // since the request was sent
		want           int64
	}{
		"at once":                           {11_000, 1000, 0, 9999},
		"the answer took three seconds":     {11_000, 1000, 3 * time.Second, 6999},
		"it expires before it was made":     {11_000, 12_000, 0, -1001},
		"it expired on the way":             {11_000, 1000, time.Minute, -50_001},
		"a server whose clock is far ahead": {1<<50 + 10_000, 1 << 50, time.Second, 8999},
		"as long as a lock can last":        {1000 + math.MaxInt64/1_000_000, 1000, 0, math.MaxInt64/1_000_000 - 1},
	} {
		c := Change{Stat: zk.Stat{Czxid: 7, Ctime: tt.ctime}, sent: now.Add(-tt.ago)}
		if got := c.Left(tt.expires); got > tt.want || got < tt.want-1000 {
			t.Errorf("%s: %d ms; want %d", name, got, tt.want)
		}
	}
	if c := (Change{sent: now}); c.Left(1<<50) > 0 {
		t.Error("something is left of a lock whose node is gone")
	}
	// The machine has slept: the monotonic clock has stood still.
	if c := (Change{Stat: zk.Stat{Czxid: 7, Ctime: 1000}, sent: now.Round(0).Add(-time.Minute)}); c.Left(11_000) > -50_000 {
		t.Error("the time that the machine has slept does not count")
	}
}

// A place compares the clocks anew whenever the server tells it a later time, and not when it tells the same again.
func TestPlaceHearsTheServersClock(t *testing.T) {
	long := time.Now().Add(-10 * time.Hour)
	p := &Place{ctime: 1000, asked: long}
	for _, early := range []int64{0, 999, 1000} {
		if got := p.hear(early); got != (moment{1000, long}) {
			t.Errorf("after %d: %v", early, got)
		}
	}
	first := p.hear(36_000_000) // the server's clock is a second slower in ten hours
	if first.ms != 36_000_000 || time.Since(first.at) > time.Minute {
		t.Errorf("%v", first)
	}
	if again := p.hear(36_000_000); again != first {
		t.Errorf("%v; want %v", again, first)
	}
}
