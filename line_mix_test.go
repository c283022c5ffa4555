package holdfast_test

import (
	"testing"

	"holdfast"
	"holdfast/zktest"
)

// A lock is handed on to those who want this one: a client may wait for several.
func TestLinesOfTwoLocksDoNotMix(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		other := holdfast.NewMutex(c, lockPath+"2", holdfast.WithLocalHandoff(5))
		a := lock(t, inMemory(c, 5))
		w := wait(t.Context(), other) // free
		if w.waiting() {
			t.Fatal("waits for a lock that nobody has")
		}
		b := w.got(t)
		next := wait(t.Context(), other)
		unlock(t, a)
		if !next.waiting() {
			t.Errorf("%s is handed on to who waits for %s", a.Path(), b.Path())
		}
		unlock(t, b)
		h := next.got(t)
		if h.Token() != b.Token() || h.Path() != b.Path() {
			t.Errorf("%s, token %d; want what was handed on, %s, token %d", h.Path(), h.Token(), b.Path(), b.Token())
		}
		unlock(t, h)
		wantQueued(t, c, 0)
	})
}
