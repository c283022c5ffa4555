package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A Violation is a broken rule in a history.
type Violation struct {
	Oracle string // which rule: "overlap", "permit limit", "token order", "handoff", "FIFO", "try", "term", "tree token", "once", "linearizability", "specification"
	Lock   string
	Text   string
}

func (v Violation) String() string { return fmt.Sprintf("%s: %s: %s", v.Oracle, v.Lock, v.Text) }

// Sweep checks a history of any length, in O(n log n):
//
//   - overlap: two claims that exclude each other at one instant
//   - permit limit: a claim with which there are more permits than the limit was, at any
//     instant of the attempt
//   - token order: a token that is not above that of every earlier claim which excluded it,
//     or which had ended its attempt before this one began
//   - handoff: more claims of one token than a client may hand on
//   - FIFO: a claim that began after another which excludes it, with a smaller number, both
//     of one parent's life; and, whatever the tokens and the numbers say, an attempt that began
//     when another which excludes it was in the queue, and was granted first
//   - try: an attempt that failed because somebody was ahead, when nobody was there
//   - term: an observed term older than one that was observed or had ended before
//   - tree token: two holders of a Tree that exclude each other, and the later one has no larger
//     token of the root
//   - once: a key of a Once that ran again, or has answers that do not agree; see [Answer]
//
// Sweep is less strict than [Linearizable] where several explanations must fit together.
func Sweep(ops []Op) []Violation {
	var vs []Violation
	for _, l := range locks(ops) {
		vs = append(vs, l.overlaps()...)
		vs = append(vs, l.tokens()...)
		vs = append(vs, l.order()...)
		vs = append(vs, l.handoffs()...)
		vs = append(vs, l.tries()...)
		vs = append(vs, l.terms()...)
		vs = append(vs, l.trees()...)
		vs = append(vs, l.runs()...)
	}
	return vs
}

func (l *lock) violation(oracle, format string, args ...any) Violation {
	return Violation{Oracle: oracle, Lock: l.path, Text: fmt.Sprintf(format, args...)}
}

// overlaps goes through the starts and ends of claims by time.
func (l *lock) overlaps() []Violation {
	type edge struct {
		at    time.Duration
		begin bool
		c     *claim
	}
	var edges []edge
	for _, c := range l.claims {
		if c.until <= c.from() { // taken away before the client was told
			continue
		}
		edges = append(edges, edge{c.from(), true, c}, edge{c.until, false, c})
	}
	slices.SortStableFunc(edges, func(a, b edge) int {
		if d := cmp.Compare(a.at, b.at); d != 0 {
			return d
		}
		if a.begin != b.begin { // at one instant, the end comes first
			if b.begin {
				return -1
			}
			return 1
		}
		return 0
	})
	var vs []Violation
	used := 0
	// With no violation so far, live has one writer, or readers, or claims inside another
	// claim. Any one of several readers is enough to find a writer that it excludes. But a
	// claim inside one of them needs that one. The numbers are small.
	live := make(map[int]*claim)
	for _, e := range edges {
		if !e.begin {
			delete(live, e.c.Claim)
			used -= e.c.permits()
			continue
		}
		for _, o := range live {
			if e.c.excludes(o) {
				vs = append(vs, l.violation("overlap", "%v, while %v claims it until %v", e.c.Op, o.Op, o.until))
				break
			}
		}
		live[e.c.Claim] = e.c
		used += e.c.permits()
		if limit := l.mostDuring(e.c.Call, e.c.Return); l.typ == Semaphore && used > limit {
			vs = append(vs, l.violation("permit limit", "%v makes %d permits of %d", e.c.Op, used, limit))
		}
	}
	return vs
}

// tokens checks that tokens and numbers grow with the grants. Claims that exclude each other
// are ordered by their starts, or they overlap.
func (l *lock) tokens() []Violation {
	var vs []Violation
	var last, lastWriter *claim // with the largest token so far
	var before [2]*claim        // the latest reader, the latest writer, with numbers
	for _, c := range l.claims {
		if c.Inside != 0 || l.typ == Semaphore || c.until <= c.from() { // the last: taken away before the client was told
			continue
		}
		rival := last
		if c.Shared {
			rival = lastWriter
		}
		if rival != nil && c.Token <= rival.Token && !c.handedBy(rival) {
			vs = append(vs, l.violation("token order", "%v was granted after %v", c.Op, rival.Op))
		}
		for i, o := range before {
			if o != nil && c.HasSeq && !(i == 0 && c.Shared) && c.Seq-o.Seq < 0 && c.Token <= o.Token {
				vs = append(vs, l.violation("FIFO", "%v overtook: it was granted before %v", o.Op, c.Op))
			}
		}
		if last == nil || c.Token > last.Token {
			last = c
		}
		if !c.Shared && (lastWriter == nil || c.Token > lastWriter.Token) {
			lastWriter = c
		}
		if c.HasSeq {
			if i := 0; c.Shared {
				before[i] = c
			} else {
				before[1] = c
			}
		}
	}
	return append(vs, l.realTime()...)
}

// realTime checks tokens against real time: a token is the number of a transaction, so an
// attempt that begins after another has returned must have the larger one.
func (l *lock) realTime() []Violation {
	byCall := slices.Clone(l.claims)
	slices.SortFunc(byCall, func(a, b *claim) int { return cmp.Compare(a.Call, b.Call) })
	var vs []Violation
	var largest *claim // among those that had returned
	returned := 0      // of l.claims, which are by their returns
	for _, c := range byCall {
		for ; returned < len(l.claims) && l.claims[returned].Return < c.Call; returned++ {
			if o := l.claims[returned]; largest == nil || o.Token > largest.Token {
				largest = o
			}
		}
		if largest != nil && c.Inside == 0 && c.Token <= largest.Token && !c.handedBy(largest) {
			vs = append(vs, l.violation("token order", "%v began after %v had returned", c.Op, largest.Op))
		}
	}
	return vs
}

// order checks who overtook, by the times of the callers alone. Permits are in no queue of their
// own, and a claim that is handed on has the place of an earlier one.
func (l *lock) order() []Violation {
	if l.typ == Semaphore {
		return nil
	}
	var queued []*claim
	for _, c := range l.claims {
		if c.Queued > 0 && c.Inside == 0 && c.until > c.from() { // the last: not taken away before the client was told
			queued = append(queued, c)
		}
	}
	slices.SortFunc(queued, func(a, b *claim) int { return cmp.Compare(a.Queued, b.Queued) })
	byCall := slices.Clone(l.claims)
	slices.SortFunc(byCall, func(a, b *claim) int { return cmp.Compare(a.Call, b.Call) })
	var vs []Violation
	var last, lastWriter *claim // of those that were in the queue: who was granted last
	for _, c := range byCall {
		for ; len(queued) > 0 && queued[0].Queued < c.Call; queued = queued[1:] {
			o := queued[0]
			if last == nil || o.from() > last.from() {
				last = o
			}
			if !o.Shared && (lastWriter == nil || o.from() > lastWriter.from()) {
				lastWriter = o
			}
		}
		before := last
		if c.Shared {
			before = lastWriter
		}
		if before != nil && c.Inside == 0 && !c.reuses() && before.from() > c.from() {
			vs = append(vs, l.violation("FIFO", "%v overtook %v, which was in the queue at %v", c.Op, before.Op, before.Queued))
		}
	}
	return vs
}

// handoffs checks that a client which hands its node on returns to the queue in time. A client that keeps the lock
// has no bound while nobody else waits.
func (l *lock) handoffs() []Violation {
	var vs []Violation
	shares := make(map[int64]int)
	for _, c := range l.claims {
		if c.Handoff == 0 || c.Keep > 0 || c.Inside != 0 {
			continue
		}
		if shares[c.Token]++; shares[c.Token] == c.Handoff+2 {
			vs = append(vs, l.violation("handoff", "%v is the holder number %d of one node", c.Op, c.Handoff+2))
		}
	}
	return vs
}

// tries checks the attempts that were refused.
func (l *lock) tries() []Violation {
	var held, writers []window
	for _, c := range l.claims {
		w := window{c.Call, c.gone, c.Claim}
		held = append(held, w)
		if !c.Shared {
			writers = append(writers, w)
		}
	}
	all, exclusive := newPresence(held), newPresence(writers)
	var vs []Violation
	for i, excused := range l.excused() {
		o := l.attempts[i]
		if o.Kind != Try || o.Outcome != Failed || excused {
			continue
		}
		holders := all
		if o.Shared {
			holders = exclusive
		}
		if !holders.during(o) {
			vs = append(vs, l.violation("try", "%v was refused, and nobody was there", o))
		}
	}
	return vs
}

// terms checks the terms that observers have read. A term must not be older than one that had
// ended, or that any observer had seen, before the read began.
func (l *lock) terms() []Violation {
	type known struct {
		at   time.Duration
		term int64
	}
	var ks []known
	for _, o := range l.observed {
		ks = append(ks, known{o.Return, o.Token})
	}
	for _, c := range l.claims {
		if l.typ == Election {
			ks = append(ks, known{c.from(), c.Token})
		}
	}
	slices.SortFunc(ks, func(a, b known) int { return cmp.Compare(a.at, b.at) })
	byCall := slices.Clone(l.observed)
	slices.SortFunc(byCall, func(a, b Op) int { return cmp.Compare(a.Call, b.Call) })
	var vs []Violation
	var newest int64
	for _, o := range byCall {
		for ; len(ks) > 0 && ks[0].at < o.Call; ks = ks[1:] {
			newest = max(newest, ks[0].term)
		}
		if o.Token < newest {
			vs = append(vs, l.violation("term", "%v, when %d was known to lead or to have led", o, newest))
		}
	}
	return vs
}
