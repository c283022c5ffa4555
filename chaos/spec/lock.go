package spec

import (
	"fmt"
	"slices"
)

// A Place is a node in the queue of a lock (guarantees.md, "Words").
type Place struct {
	Token   int64 // the zxid at which it was created
	Client  int
	Session int64 // 0: the node is persistent, as that of a detached lock
	Shared  bool  // of a reader
}

// conflicts reports whether two places exclude each other.
func (p Place) conflicts(o Place) bool { return !p.Shared || !o.Shared }

// A place is what a Lock knows of a Place. It is kept for a while after the node is gone, since a claim can come later.
type place struct {
	Place
	led    bool // it has been the first of those that it conflicts with
	gone   bool // the node is removed
	byHand bool // somebody else has removed it, or ended its session, so nothing is promised of it
	// Its client's claims: it believes that it holds the lock, for itself or with readers, until it is told otherwise or
	// unlocks. A writer may step down to a reader.
	writes, reads int8
}

// claims reports whether the client of a place claims the lock.
func (p *place) claims() bool { return p.writes > 0 || p.reads > 0 }

// A Lock is a lock as its servers see it, and the claims of its clients. Its methods are the steps that can happen. A
// step that breaks a promise returns a [Refusal], and changes nothing. A Lock is not safe for concurrent use.
type Lock struct {
	places []place // in the order of their tokens
	newest int64   // token of the latest place
	// The largest tokens that were claimed, of writers and of readers.
	exclusive, shared int64
}

// remembered is how many places that are gone a Lock keeps at most.
const remembered = 256

// A Refusal is a step that breaks a promise.
type Refusal struct {
	Promise string // its number in guarantees.md
	Step    string
	Why     string
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s: %s: %s", r.Promise, r.Step, r.Why) }

func refuse(promise, step, why string, args ...any) error {
	return &Refusal{promise, step, fmt.Sprintf(why, args...)}
}

// Join creates a place. Tokens grow, since each is the zxid of its creation (S3).
func (l *Lock) Join(p Place) error {
	if p.Token <= l.newest {
		return refuse("S3", "join", "place %#x comes after place %#x", p.Token, l.newest)
	}
	l.newest = p.Token
	l.places = append(l.places, place{Place: p})
	l.lead()
	return nil
}

// Last makes the place of a waiter one that lasts. Nobody is ahead of it (S17).
func (l *Lock) Last(token int64) error {
	i := l.index(token)
	if i < 0 || l.places[i].gone || !l.first(i) {
		return refuse("S17", "last", "place %#x is not the first", token)
	}
	l.places[i].Session = 0
	return nil
}

// Gone removes a place. by is the session that does so, or whose end does; a place of another session is removed by
// hand.
func (l *Lock) Gone(token, by int64) error {
	i := l.index(token)
	if i < 0 || l.places[i].gone {
		return refuse("S1", "gone", "there is no place %#x", token)
	}
	p := &l.places[i]
	p.gone, p.byHand = true, p.byHand || p.Session != by
	if old := len(l.places) - remembered; old > 0 {
		l.places = slices.DeleteFunc(l.places, func(p place) bool {
			forget := old > 0 && p.gone && !p.claims()
			old--
			return forget
		})
	}
	l.lead()
	return nil
}

// Taken says that somebody else has taken the lock away from a place, or may have. Nothing is promised of it. A writer that
// has stepped down has another node than its place, so the removal of that node does not tell.
func (l *Lock) Taken(token int64) {
	if i := l.index(token); i >= 0 {
		l.places[i].byHand = true
	}
}

// Forced says that a session has been ended by somebody else. Nothing is promised of its places.
func (l *Lock) Forced(session int64) {
	for i := range l.places {
		if p := &l.places[i]; p.Session == session {
			p.byHand = true
		}
	}
}

// Ended ends a session: all its places are gone (L1).
func (l *Lock) Ended(session int64) {
	for i := range l.places {
		if p := &l.places[i]; p.Session == session {
			p.gone = true
		}
	}
	l.lead()
}

// Claim tells a client that it holds a place, alone or with readers. The place has been the first of those that it
// conflicts with (S1), its token is larger than theirs (S3), and nobody with whom it conflicts claims the lock (C1).
func (l *Lock) Claim(token int64, shared bool) error {
	i := l.index(token)
	if i < 0 || !l.places[i].led {
		return refuse("S1", "claim", "place %#x has not been the first", token)
	}
	p := &l.places[i]
	for k := range l.places {
		o := &l.places[k]
		if k != i && !o.byHand && !p.byHand && (o.writes > 0 || !shared && o.reads > 0) {
			return refuse("C1", "claim", "client %d claims place %#x, and client %d claims place %#x", p.Client, token, o.Client, o.Token)
		}
	}
	if !p.byHand && (token < l.exclusive || !shared && token < l.shared) {
		return refuse("S3", "claim", "client %d claims place %#x after one with a larger token", p.Client, token)
	}
	last := &l.exclusive
	if shared {
		last = &l.shared
		p.reads++
	} else {
		p.writes++
	}
	if !p.byHand {
		*last = max(*last, token)
	}
	return nil
}

// End ends a claim: its client was told of the loss, or unlocks (S6).
func (l *Lock) End(token int64, shared bool) error {
	i := l.index(token)
	if i < 0 || shared && l.places[i].reads == 0 || !shared && l.places[i].writes == 0 {
		return refuse("S6", "end", "nobody claims place %#x", token)
	}
	if shared {
		l.places[i].reads--
	} else {
		l.places[i].writes--
	}
	return nil
}

// Commit applies a transaction that checks a place: only a holder's changes anything (S2).
func (l *Lock) Commit(token int64) error {
	if i := l.index(token); i < 0 || l.places[i].gone || !l.first(i) {
		return refuse("S2", "commit", "place %#x does not hold the lock", token)
	}
	return nil
}

// index returns the index of a place, or -1. Recent ones are at the end.
func (l *Lock) index(token int64) int {
	for i := len(l.places) - 1; i >= 0; i-- {
		if l.places[i].Token == token {
			return i
		}
	}
	return -1
}

// first reports whether nobody whom the i-th place conflicts with is ahead of it.
func (l *Lock) first(i int) bool {
	for _, p := range l.places[:i] {
		if !p.gone && p.conflicts(l.places[i].Place) {
			return false
		}
	}
	return true
}

// lead notes which places are the first now. They stay so as long as they exist.
func (l *Lock) lead() {
	for i := range l.places {
		if p := &l.places[i]; !p.gone && !p.led {
			p.led = l.first(i)
		}
	}
}
