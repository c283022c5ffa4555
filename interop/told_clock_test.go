//go:build unix

package interop

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"holdfast/interop/peers"
)

// Telling a holder in time depends on clocks whose rates differ by at most 1 %. Here the
// servers' clocks differ from ours by the maximum. At twice our rate the promise must break.
// Otherwise it would hold for an unknown reason, or the servers would not have the clocks that
// we think.
func TestToldInTimeWithServersOfAnotherClock(t *testing.T) {
	need(t, peers.NeedFaketime())
	for _, rate := range []float64{1.01, 0.99, 2} {
		t.Run(fmt.Sprint("x", rate), func(t *testing.T) {
			t.Parallel()
			s := toldSetting{timeout: 6 * time.Second, tick: time.Second, rate: rate, hopeless: rate == 2}
			ensembles := startTold(t, s)
			began := make([]clockReading, len(ensembles))
			for k, z := range ensembles {
				began[k] = readClock(t, z)
			}
			cut := toldFault{name: "follower cut off", few: 2, holders: 4, meet: meetFollowerCut}
			result := cut.onAll(t, s, ensembles)
			for k, z := range ensembles {
				awaitRate(t, z, began[k], rate)
			}
			if s.hopeless && result.late == 0 {
				t.Errorf("the servers' clocks run at %v of ours, and all %d holders were told in time", rate, len(result.margins))
			}
		})
	}
}

// A clockReading is the value of the leader's clock between two instants of ours.
type clockReading struct {
	leader         int
	sent, received time.Time
	up             time.Duration
}

func readClock(t *testing.T, z *peers.ZooKeeper) clockReading {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stepTime)
	defer cancel()
	for {
		leader, err := z.AwaitLeader(ctx)
		must(t, err)
		sent := time.Now()
		up, err := z.Uptime(ctx, leader)
		if err == nil {
			return clockReading{leader, sent, time.Now(), up}
		}
		// On a crowded machine an answer may take longer than Uptime waits for it.
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// awaitRate returns when it is certain that the leader's clock has run at the given rate since
// the first reading, and not at ours. More time makes that more certain. A new leader counts
// from its election, so the reading starts again.
func awaitRate(t *testing.T, z *peers.ZooKeeper, first clockReading, rate float64) {
	t.Helper()
	limit := time.Now().Add(time.Minute)
	for {
		now := readClock(t, z)
		const unit = time.Millisecond // the server's unit
		passed := now.up - first.up
		least := float64(passed-unit) / float64(now.received.Sub(first.sent))
		most := float64(passed+unit) / float64(now.sent.Sub(first.received))
		certain := now.leader == first.leader && now.sent.After(first.received) && most-least < math.Abs(rate-1)
		switch {
		case certain && least <= rate && rate <= most:
			measured(t, "the leader's clock ran at %.4f to %.4f of ours for %v", least, most, now.sent.Sub(first.received).Round(time.Second))
			return
		case now.sent.After(limit):
			t.Fatalf("the leader's clock was not seen to run at %v of ours; last it was %.4f to %.4f", rate, least, most)
		case certain || now.leader != first.leader:
			first = now
		}
		time.Sleep(100 * time.Millisecond) // there is no event to wait for
	}
}
