package ui

import (
	"fmt"
	"testing"
	"time"

	"holdfast/internal/waitgraph"
)

// pass lets a client hold a lock for a time.
func pass(h *past, path, node string, at time.Time, hold time.Duration) {
	l := &lock{Lock: waitgraph.Lock{Path: path, Kind: "lock"}, key: lockKey{path, "curator", "lock"}}
	l.holders = []place{{Place: waitgraph.Place{Node: path + "/" + node, Session: 1}, Held: true}}
	h.note(nil, []*lock{l}, at)
	h.note([]*lock{l}, nil, at.Add(hold))
}

func TestThePastIsBounded(t *testing.T) {
	h := newPast()
	t0 := time.Unix(1e9, 0)
	for i := range 3 * pastOfLock {
		pass(h, "/hot", fmt.Sprint(i), t0, time.Millisecond)
	}
	if n := len(h.byLock[lockKey{"/hot", "curator", "lock"}]); n != pastOfLock {
		t.Errorf("%d turns of a lock; want %d", n, pastOfLock)
	}
	for i := range pastTurns + 1000 {
		pass(h, fmt.Sprintf("/lock%d", i), "n", t0.Add(time.Second), time.Millisecond)
	}
	if len(h.order) > pastTurns || len(h.byLock) > pastTurns || len(h.recent) > pastRecent || len(h.open) != 0 {
		t.Errorf("%d turns, %d locks, %d events, %d open", len(h.order), len(h.byLock), len(h.recent), len(h.open))
	}
	if _, ok := h.byLock[lockKey{"/hot", "curator", "lock"}]; ok {
		t.Error("the oldest turns are still there")
	}
	pass(h, "/later", "n", t0.Add(pastFor+2*time.Second), time.Millisecond)
	if len(h.byLock) != 1 || len(h.order) != 1 {
		t.Errorf("%d locks and %d turns after an hour; want 1", len(h.byLock), len(h.order))
	}
	for range 3 * pastGaps {
		h.gap(t0, t0.Add(time.Second), "x")
	}
	if len(h.gaps) != pastGaps {
		t.Errorf("%d gaps", len(h.gaps))
	}
}

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"db/migrate": "db/migrate", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)`": "'$(x)`'", "a\nb'c\\": `$'a\x0ab\'c\\'`, "*": "'*'", "~": "'~'", "ä": "'ä'",
	} {
		if got := quote(word); got != want {
			t.Errorf("quote(%q) = %s; want %s", word, got, want)
		}
	}
}
