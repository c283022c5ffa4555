package zk

import (
	"testing"
	"time"
)

func TestProofTakesTwoStepsBack(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	const tick = 800 * time.Millisecond // pings at most 500 ms apart
	tests := []struct {
		name    string
		commits [][2]int // times of sending and acknowledgement
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
			t.Errorf("a commit after the resume proves %v; want the time of the resume", p.touched.Sub(at(0)))
		}
	})
}

func TestSmallestTimeoutLeavesRoomForItsProbes(t *testing.T) {
	for _, tick := range []time.Duration{time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second, time.Minute} {
		timeout := smallestTimeout(tick)
		if left := timeout - 3*(probeEvery(tick, timeout)+pingEvery(tick)); left < 999*time.Millisecond {
			t.Errorf("tick %v: of a timeout of %v, %v are left", tick, timeout, left)
		}
	}
}
