package balance

import (
	"testing"
	"time"
)

// A step is what a Damper sees at a time, and what it does.
type step struct {
	at      time.Duration
	present string // one letter for each worker
	want    string // the workers of the plan
	wait    time.Duration
}

func TestDamperWaitsForWorkersToSettle(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"the first workers", []step{{0, "a", "", 1000 * ms}, {400 * ms, "ab", "", 600 * ms}, {1000 * ms, "ab", "ab", 400 * ms}, {1400 * ms, "ab", "ab", 0}}},
		{"a join", []step{{0, "a", "", 1000 * ms}, {1000 * ms, "a", "a", 0}, {5000 * ms, "ab", "a", 1000 * ms}, {6000 * ms, "ab", "ab", 0}}},
		{"a leave", []step{{0, "ab", "", 1000 * ms}, {1000 * ms, "ab", "ab", 0}, {5000 * ms, "a", "ab", 1000 * ms}, {5900 * ms, "a", "ab", 100 * ms}, {6000 * ms, "a", "a", 0}}},
		{"a short absence", []step{{0, "ab", "", 1000 * ms}, {1000 * ms, "ab", "ab", 0}, {5000 * ms, "a", "ab", 1000 * ms}, {5900 * ms, "ab", "ab", 0}, {6500 * ms, "a", "ab", 1000 * ms}}},
		{"a worker that flaps", []step{{0, "a", "", 1000 * ms}, {1000 * ms, "a", "a", 0}, {1500 * ms, "ab", "a", 1000 * ms}, {2400 * ms, "a", "a", 0}, {2500 * ms, "ab", "a", 1000 * ms}, {3400 * ms, "a", "a", 0}}},
		{"a restart", []step{{0, "ab", "", 1000 * ms}, {1000 * ms, "ab", "ab", 0}, {5000 * ms, "a", "ab", 1000 * ms}, {5800 * ms, "ac", "ab", 200 * ms}, {6000 * ms, "ac", "ac", 800 * ms}}},
		{"all leave", []step{{0, "a", "", 1000 * ms}, {1000 * ms, "a", "a", 0}, {2000 * ms, "", "a", 1000 * ms}, {3000 * ms, "", "a", 0}, {3500 * ms, "b", "a", 1000 * ms}, {4500 * ms, "b", "b", 0}}},
		{"the other is absent while one leaves", []step{{0, "abc", "", 1000 * ms}, {1000 * ms, "abc", "abc", 0}, {2000 * ms, "ab", "abc", 1000 * ms}, {2500 * ms, "a", "abc", 500 * ms}, {3000 * ms, "a", "ab", 500 * ms}, {3500 * ms, "a", "a", 0}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			began, d, p := time.Now(), Damper{Settle: time.Second}, Empty(12)
			for _, s := range tt.steps {
				var present []Worker
				for _, r := range s.present {
					present = append(present, Worker{ID: string(r), Weight: 1})
				}
				next, wait := d.Next(began.Add(s.at), present, p)
				got := ""
				for _, w := range next.Workers {
					got += w.ID
				}
				if got != s.want || wait != s.wait {
					t.Errorf("at %v: the plan is for %q, wait %v; want %q, %v", s.at, got, wait, s.want, s.wait)
				}
				p = next
			}
		})
	}
}

// A worker that is absent gets no more shards when another leaves.
func TestAbsentWorkerGetsNothing(t *testing.T) {
	began, d := time.Now(), Damper{Settle: time.Second}
	p := Empty(12).Balance(crew(3))
	d.Next(began, crew(2), p)                             // the third leaves
	d.Next(began.Add(500*time.Millisecond), crew(1), p)   // and the second
	next, _ := d.Next(began.Add(time.Second), crew(1), p) // the third has left for good
	if n := len(next.Of(crew(2)[1].ID)); n != 4 {
		t.Errorf("the absent worker had 4 shards, and has %d", n)
	}
	if n := len(next.Of(crew(1)[0].ID)); n != 8 {
		t.Errorf("the present worker has %d shards; want 8", n)
	}
}
