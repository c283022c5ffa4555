package zk

import (
	"math/rand/v2"
	"testing"
	"time"
)

// ensemble is the way of a session's writes and of the leader's pings through a
// follower, with random delays on ordered links. It tells when the leader has really
// touched the session.
type ensemble struct {
	rng      *rand.Rand
	tick     time.Duration
	slow     time.Duration // the longest that a message takes
	toF, toL time.Time     // the latest arrival on each link between leader and follower

	nextPing time.Time
	replies  []reply     // from the follower to the leader, on their way
	heard    []time.Time // when the follower heard the session, not told yet
	touches  []time.Time // when the leader touched the session
}

type reply struct {
	arrives time.Time
	touches bool
}

func (e *ensemble) delay() time.Duration { return time.Duration(e.rng.Int64N(int64(e.slow))) }

func after(latest *time.Time, t time.Time) time.Time {
	if t.Before(*latest) {
		t = *latest
	}
	*latest = t
	return t
}

// pings lets the leader send its pings up to t, and the follower answer them.
func (e *ensemble) pings(t time.Time) {
	for !e.nextPing.After(t) {
		atF := after(&e.toF, e.nextPing.Add(e.delay()))
		told := false
		rest := e.heard[:0]
		for _, h := range e.heard {
			if h.After(atF) {
				rest = append(rest, h)
			} else {
				told = true
			}
		}
		e.heard = rest
		e.replies = append(e.replies, reply{after(&e.toL, atF), told})
		e.nextPing = e.nextPing.Add(e.tick / 2)
	}
}

// write sends one write of the session at the time given through the follower and
// returns when its acknowledgement arrives.
func (e *ensemble) write(sent time.Time) (acked time.Time) {
	atF := sent.Add(e.delay())
	e.pings(atF.Add(-e.slow)) // those that are certainly before
	// A ping may still be under way to the follower and be answered before or after.
	for e.nextPing.Before(atF) {
		e.pings(e.nextPing)
	}
	e.heard = append(e.heard, atF)
	atL := after(&e.toL, atF.Add(e.delay()))
	committed := atL.Add(e.delay()) // the others agree
	e.pings(committed)
	return after(&e.toF, committed.Add(e.delay())).Add(e.delay())
}

// touched is the leader's latest touch at t.
func (e *ensemble) touched(t time.Time) time.Time {
	var last time.Time
	for _, r := range e.replies {
		if r.touches && !r.arrives.After(t) {
			last = r.arrives
		}
	}
	return last
}

// FuzzProofIsNeverAheadOfTheLeader runs random histories: what is proven when a write is
// acknowledged must not be later than what the leader knows.
func FuzzProofIsNeverAheadOfTheLeader(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed, uint16(200+100*(seed%20)), uint16(1+seed%700))
	}
	naive := 0
	f.Fuzz(func(t *testing.T, seed uint64, tickMS, slowMS uint16) {
		if tickMS < 16 || slowMS == 0 {
			t.Skip("no ensemble runs so")
		}
		tick := time.Duration(tickMS) * time.Millisecond
		start := time.Unix(1_000_000, 0)
		e := &ensemble{
			rng: rand.New(rand.NewPCG(seed, 1)), tick: tick, slow: time.Duration(slowMS) * time.Millisecond,
			nextPing: start, toF: start, toL: start,
		}
		p := quorumProof{tick: tick}
		p.created(start)
		now := start
		for range 200 {
			sent := now.Add(time.Duration(e.rng.Int64N(int64(2 * tick))))
			acked := e.write(sent)
			p.committed(sent, acked)
			known := e.touched(acked)
			if p.touched.After(known) && !p.touched.Equal(start) {
				t.Fatalf("%v after the start the proof is %v, the leader has touched the session at %v", acked.Sub(start), p.touched.Sub(start), known.Sub(start))
			}
			if sent.After(known) {
				naive++
			}
			now = acked
		}
		if p.touched.Equal(start) {
			t.Fatal("200 writes have proven nothing")
		}
		if behind := now.Sub(p.touched); behind > 3*(2*tick+4*e.slow)+2*tick {
			t.Errorf("the proof is %v behind", behind)
		}
	})
	f.Cleanup(func() {
		if naive == 0 {
			f.Error("the latest acknowledged write was a proof in every history: the model sees nothing")
		}
	})
}

func TestProofTakesTwoStepsBack(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	const tick = 800 * time.Millisecond // pings at most 500 ms apart
	tests := []struct {
		name    string
		commits [][2]int // sent, acknowledged
		want    int
	}{
		{"one", [][2]int{{100, 110}}, 0},
		{"two", [][2]int{{100, 110}, {700, 710}}, 0},
		{"three", [][2]int{{100, 110}, {700, 710}, {800, 810}}, 100},
		{"the second too soon after the first", [][2]int{{100, 300}, {700, 710}, {800, 810}}, 0},
		{"the third sent before the second was acknowledged", [][2]int{{100, 110}, {700, 800}, {790, 810}}, 0},
		{"the newest of several firsts", [][2]int{{100, 110}, {210, 220}, {800, 810}, {900, 910}}, 210},
		{"a chain", [][2]int{{0, 10}, {600, 610}, {1200, 1210}, {1800, 1810}}, 600},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := quorumProof{tick: tick}
			p.created(at(0))
			for _, c := range tt.commits {
				p.committed(at(c[0]), at(c[1]))
			}
			if !p.touched.Equal(at(tt.want)) {
				t.Errorf("proven at %v; want %v ms", p.touched.Sub(at(0)), tt.want)
			}
		})
	}
	t.Run("a new connection begins again, and keeps what was proven", func(t *testing.T) {
		p := quorumProof{tick: tick}
		p.created(at(0))
		p.committed(at(100), at(110))
		p.committed(at(700), at(710))
		p.resumed(at(5000))
		if !p.touched.Equal(at(0)) {
			t.Errorf("a resume alone proved %v", p.touched.Sub(at(0)))
		}
		p.committed(at(5100), at(5110))
		if !p.touched.Equal(at(5000)) {
			t.Errorf("a commit after the resume proves %v; want the resume", p.touched.Sub(at(0)))
		}
	})
}

func TestSmallestTimeoutLeavesRoomForItsProbes(t *testing.T) {
	for _, tick := range []time.Duration{time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second, time.Minute} {
		timeout := smallestTimeout(tick)
		if left := timeout - 3*(probeEvery(tick, timeout)+pingEvery(tick)); left < 999*time.Millisecond {
			t.Errorf("tick %v: of %v, %v are left", tick, timeout, left)
		}
	}
}
