package ui

import (
	"testing"
	"time"

	"holdfast"
	"holdfast/internal/locks"
)

// queueOf returns a lock with a holder, if there is one, and waiters.
func queueOf(path string, holder int64, waiters ...int64) *lock {
	l := &lock{Lock: locks.Lock{Path: path, Kind: locks.Queue}, key: lockKey{path, "curator", "lock"}}
	at := func(session int64) place {
		return place{Place: locks.Place{Zxid: session, Entry: holdfast.Entry{Path: path + "/n", Session: session, Held: session == holder}}}
	}
	if holder != 0 {
		l.holders = []place{at(holder)}
	}
	for _, w := range waiters {
		l.waiters = append(l.waiters, at(w))
	}
	return l
}

// The hour has the most of each minute, and the handoffs. Minutes without contact are missing in its lines.
func TestTheHour(t *testing.T) {
	h := newPast()
	t0 := time.Unix(1_800_000_000, 0)
	step := func(after time.Duration, old, now *lock) {
		var before, next []*lock
		if old != nil {
			before = []*lock{old}
		}
		if now != nil {
			next = []*lock{now}
		}
		h.note(before, next, t0.Add(after))
		h.hour.note(before, next, t0.Add(after))
	}
	one, two, three := queueOf("/a", 1), queueOf("/a", 1, 2, 3), queueOf("/a", 2, 3)
	step(0, nil, one)
	step(time.Second, one, two)
	step(2*time.Second, two, three)
	step(time.Minute, three, nil)
	h.hour.at(t0.Add(3 * time.Minute))
	want := []minute{{30_000_000, 1, 2, 1}, {30_000_001, 1, 1, 0}, {30_000_003, 0, 0, 0}}
	if len(h.hour.minutes) != len(want) {
		t.Fatalf("%+v; want %+v", h.hour.minutes, want)
	}
	for i, m := range h.hour.minutes {
		if m != want[i] {
			t.Errorf("minute %d: %+v; want %+v", i, m, want[i])
		}
	}
	now := t0.Add(3 * time.Minute)
	lines := h.hour.trends(now)
	for i, want := range []trend{
		{"Held", "0 now, at most 1", "M560 2h10V2h10M590 38h10"}, {"Waiting", "0 now, at most 2", "M560 2h10V20h10M590 38h10"},
		{"Handoffs", "1 in all, at most 1 a minute", "M560 2h10V38h10M590 38h10"},
	} {
		if lines[i] != want {
			t.Errorf("%+v; want %+v", lines[i], want)
		}
	}
	if began := h.hour.began(now); !began.Equal(t0) {
		t.Errorf("began at %v", began)
	}
	h.hour.at(t0.Add(2 * time.Hour))
	if len(h.hour.minutes) != 1 || !h.hour.began(t0.Add(4*time.Hour)).IsZero() {
		t.Errorf("after two hours: %+v", h.hour.minutes)
	}
}
