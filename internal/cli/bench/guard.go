package bench

import (
	"sync"
	"time"
)

// A guard is the resource behind a lock of bench: a counter that accepts a write only with a token that is
// not stale, and that notices holders who should have excluded each other. Its mutex is held for moments
// only, never for a tenure, so it does not do the work of the lock. It is safe for concurrent use.
type guard struct {
	limit   int  // holders at a time that may write
	ordered bool // tokens grow from one holder to the next that it excludes

	mu            sync.Mutex // guards the fields below
	inside        map[*presence]struct{}
	highest       int64     // of all tokens so far
	highestWriter int64     // of those of exclusive holders
	left          time.Time // when the latest holder left
	value         int       // the counter
	accepted      int       // writes
	refused       int
	violations    int
}

// A presence is one tenure of a holder at the guard.
type presence struct {
	hold      interface{ Err() error } // not nil once the holder was told of the loss
	token     int64
	exclusive bool
	read      int // what the counter was
}

// enter is called when the lock is held. It returns when the holder before released the lock.
func (g *guard) enter(hold interface{ Err() error }, token int64, exclusive bool) (v *presence, released time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v = &presence{hold, token, exclusive, g.value}
	beside := 0
	for other := range g.inside {
		if (exclusive || other.exclusive) && other.hold.Err() == nil {
			beside++
		}
	}
	if beside >= g.limit && hold.Err() == nil {
		g.violations++
	}
	if g.ordered && (token <= g.highestWriter || exclusive && token <= g.highest) {
		g.violations++
	}
	g.highest = max(g.highest, token)
	if exclusive {
		g.highestWriter = max(g.highestWriter, token)
	}
	if g.inside == nil {
		g.inside = make(map[*presence]struct{})
	}
	g.inside[v] = struct{}{}
	return v, g.left
}

// leave writes the counter plus one if the holder is exclusive and its token is not stale.
func (g *guard) leave(v *presence, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.inside, v)
	g.left = now
	if !v.exclusive || !g.ordered {
		return
	}
	if v.token < g.highest {
		g.refused++
		if v.hold.Err() == nil { // it believes that it holds the lock
			g.violations++
		}
		return
	}
	g.value = v.read + 1
	g.accepted++
}

// result returns the violations, the accepted writes that are not in the counter, and the refused ones.
func (g *guard) result() (violations, lost, refused int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.violations, g.accepted - g.value, g.refused
}
