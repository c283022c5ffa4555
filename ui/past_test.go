package ui

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"holdfast"
	"holdfast/internal/locks"
)

// pass lets a client hold a lock for a time.
func pass(h *past, path, node string, at time.Time, hold time.Duration) {
	l := &lock{Lock: locks.Lock{Path: path, Kind: "lock"}, key: lockKey{path, "curator", "lock"}}
	l.holders = []place{{Place: locks.Place{Entry: holdfast.Entry{Path: path + "/" + node, Session: 1, Held: true}}}}
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

// A turn keeps the beginning of an owner and a reason.
func TestATurnKeepsShortTexts(t *testing.T) {
	h := newPast()
	l := &lock{key: lockKey{"/db", "curator", "lock"}}
	l.Path = "/db"
	l.waiters = []place{{Place: locks.Place{Zxid: 1, Entry: holdfast.Entry{Path: "/db/a", Owner: strings.Repeat("é", 1<<15), Reason: strings.Repeat("x", 1<<16)}}}}
	h.note(nil, []*lock{l}, time.Unix(1e9, 0))
	h.note([]*lock{l}, nil, time.Unix(1e9+1, 0))
	turns := h.byLock[l.key]
	if len(turns) != 1 || len(turns[0].Owner) > pastText+3 || len(turns[0].Reason) != pastText+3 || !utf8.ValidString(turns[0].Owner) {
		t.Errorf("%d turns: %.300v", len(turns), turns)
	}
	if e := h.recent[0]; len(e.Reason) > pastText+3 {
		t.Errorf("an event has a reason of %d bytes", len(e.Reason))
	}
}

// A name that comes back within one batch is another turn, with the owner that it has now.
func TestANameThatComesBackIsAnotherTurn(t *testing.T) {
	h := newPast()
	at := func(zxid int64, owner string) *lock {
		l := &lock{key: lockKey{"/db", "node", "lock"}}
		l.Path = "/db"
		l.holders = []place{{Place: locks.Place{Zxid: zxid, Entry: holdfast.Entry{Path: "/db", Owner: owner, Held: true}}}}
		return l
	}
	t0 := time.Unix(1e9, 0)
	first, second := at(1, "ada"), at(2, "bob")
	h.note(nil, []*lock{first}, t0)
	second.keep(first)
	if got := second.holders[0].Acquired; !got.IsZero() {
		t.Errorf("bob has the lock since %v, when ada acquired it", got)
	}
	h.note([]*lock{first}, []*lock{second}, t0.Add(time.Second))
	h.note([]*lock{second}, nil, t0.Add(2*time.Second))
	turns := h.byLock[first.key]
	if len(turns) != 2 || turns[0].Owner != "ada" || turns[1].Owner != "bob" || !turns[1].Acquired.Equal(t0.Add(time.Second)) || len(h.open) > 0 {
		t.Errorf("%+v", turns)
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
