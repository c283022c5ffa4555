package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// A Report is the result of Linearizable.
type Report struct {
	Operations int // that were checked
	Pieces     int // the histories that were cut out of the whole, each checked by itself
	Undecided  int // of these, how many took too long: neither right nor wrong
	Violations []Violation
}

// Linearizable checks every lock of the history by itself with Porcupine. It gives up on a
// piece that takes longer than patience. In the models, an attempt that succeeded takes effect
// at some instant between its Call and its Return. A claim ends at some instant of its Release,
// or at any instant from its Lose or Break on. An attempt with unknown outcome claims nothing,
// and may be in the queue at any time that makes the other results right. So its only effect is
// to excuse attempts that were refused.
func Linearizable(ops []Op, patience time.Duration) Report {
	var r Report
	for _, l := range locks(ops) {
		for _, p := range l.pieces() {
			r.Pieces++
			r.Operations += len(p.ops)
			switch porcupine.CheckOperationsTimeout(p.model, p.ops, patience) {
			case porcupine.Unknown:
				r.Undecided++
			case porcupine.Illegal:
				r.Violations = append(r.Violations, Violation{Oracle: "linearizability", Lock: l.path, Text: p.explain()})
			}
		}
	}
	return r
}

// A piece is a part of a lock's history with no holder at its ends.
type piece struct {
	model porcupine.Model
	ops   []porcupine.Operation
}

// The effects of an operation on the state.
const (
	begins = "begins"
	ends   = "ends"
	fails  = "is refused"
	reads  = "observes"
	limits = "limits"
)

// A step is the input of one operation. Outcomes are known, so there are no outputs.
type step struct {
	what string
	c    *claim // of begins and ends
	o    Op
}

// pieceLength is the approximate number of operations in a piece. Porcupine's memory grows with
// its square.
const pieceLength = 400

// pieces cuts the history at times with no holder and no operation in progress. An operation
// before a cut may still act after it (see Never); that excuses attempts that fail there.
func (l *lock) pieces() []piece {
	var all []porcupine.Operation
	add := func(call, ret time.Duration, s step) {
		all = append(all, porcupine.Operation{ClientId: s.o.Client, Input: s, Call: int64(call), Return: int64(ret)})
	}
	terms := make(map[int64]bool)
	soonest := l.soonest()
	for _, c := range l.claims {
		terms[c.Token] = true
		add(soonest[c], c.Return, step{begins, c, c.Op})
		if c.until != Never { // which may be before it was granted, if somebody took it away
			add(max(c.until, soonest[c]), c.gone, step{ends, c, c.Op})
		}
	}
	for i, excused := range l.excused() {
		if o := l.attempts[i]; o.Kind == Try && o.Outcome == Failed && !excused {
			add(o.Call, o.Return, step{what: fails, o: o})
		}
	}
	for _, o := range l.observed {
		if terms[o.Token] { // otherwise of a candidate who never knew
			add(o.Call, o.Return, step{what: reads, o: o})
		}
	}
	for _, c := range l.changes {
		add(c.from, c.until, step{what: limits, o: c.op})
	}
	slices.SortFunc(all, func(a, b porcupine.Operation) int {
		if d := cmp.Compare(a.Call, b.Call); d != 0 {
			return d
		}
		return cmp.Compare(a.Return, b.Return)
	})
	return l.cut(all)
}

// soonest returns the earliest time at which each claim can have been granted: not before the
// end of the claims that exclude it and have smaller tokens, because those came first. The
// models imply the same, but with many waiters Porcupine needs too long to find it.
func (l *lock) soonest() map[*claim]time.Duration {
	at := make(map[*claim]time.Duration)
	byToken := slices.Clone(l.claims)
	slices.SortFunc(byToken, func(a, b *claim) int { return cmp.Compare(a.Token, b.Token) })
	var all, writers time.Duration // when the last of those so far has ended
	for i := 0; i < len(byToken); {
		same := i // of one token: what was taken again, or handed on
		for ; same < len(byToken) && byToken[same].Token == byToken[i].Token; same++ {
			c := byToken[same]
			before := all
			if c.Shared {
				before = writers
			}
			at[c] = c.Call
			if l.typ != Semaphore && before <= c.Return {
				at[c] = max(c.Call, before)
			}
		}
		for _, c := range byToken[i:same] {
			end := max(c.until, at[c])
			if all = max(all, end); !c.Shared {
				writers = max(writers, end)
			}
		}
		i = same
	}
	return at
}

func (l *lock) cut(all []porcupine.Operation) []piece {
	var out []piece
	var ops []porcupine.Operation
	var tok tokens
	start, limit := tok, l.limit
	startLimit := limit
	lingers := false // somebody before the cut may still be there, as far as we know
	var busy int64   // until then, some operation is under way
	live := 0
	flush := func() {
		if len(ops) > 0 {
			out = append(out, piece{l.model(start, startLimit), ops})
		}
		ops, start, startLimit = nil, tok, limit
	}
	for _, op := range all {
		s := op.Input.(step)
		if len(ops) >= pieceLength && live == 0 && busy < op.Call {
			flush()
			for _, o := range all {
				if o.Call < op.Call && o.Return == int64(Never) {
					lingers = true
					break
				}
			}
		}
		if len(out) > 0 && (lingers && s.what == fails || s.what == reads && s.o.Token <= start.last) {
			continue
		}
		ops = append(ops, op)
		switch s.what {
		case begins:
			live++
			tok.grant(s.c)
		case ends:
			live--
		case limits:
			limit = s.o.Limit
		}
		if op.Return != int64(Never) {
			busy = max(busy, op.Return)
		}
	}
	flush()
	return out
}

// tokens are the largest tokens granted so far.
type tokens struct{ last, writer int64 }

func (t *tokens) grant(c *claim) {
	t.last = max(t.last, c.Token)
	if !c.Shared {
		t.writer = max(t.writer, c.Token)
	}
}

// A state is the state of a lock of any type. It is a value: holders is never changed in place.
type state struct {
	holders []*claim // by their numbers
	tokens
	used, limit int // permits
}

func (l *lock) model(start tokens, limit int) porcupine.Model {
	rules := map[LockType]func(state, *claim) bool{
		Mutex: mayLock, Election: mayLock, Once: mayLock, AtMostOnce: mayLock, ReadWrite: mayShare,
		Semaphore: func(st state, c *claim) bool {
			return st.used+c.permits() <= st.limit && c.Token > st.last
		},
	}
	may := rules[l.typ]
	return porcupine.Model{
		Init: func() any { return state{tokens: start, limit: limit} },
		Step: func(in, input, _ any) (bool, any) {
			st, s := in.(state), input.(step)
			switch s.what {
			case begins:
				if !may(st, s.c) {
					return false, st
				}
				return true, st.with(s.c)
			case ends:
				if !slices.Contains(st.holders, s.c) {
					return false, st
				}
				return true, st.without(s.c)
			case fails:
				return l.refuses(st, s.o), st
			case limits:
				st.limit = s.o.Limit
				return true, st
			default: // reads
				return len(st.holders) > 0 && st.holders[0].Token == s.o.Token, st
			}
		},
		Equal: func(a, b any) bool {
			x, y := a.(state), b.(state)
			return x.tokens == y.tokens && x.limit == y.limit && slices.Equal(x.holders, y.holders)
		},
		DescribeOperation: func(input, _ any) string { s := input.(step); return fmt.Sprintf("%s: %v", s.what, s.o) },
	}
}

// mayLock is the rule of a mutex. There must be no holder. The token must be larger than all
// before it, or equal to the last one if its client hands on. (Sweep checks which client handed
// it on.)
func mayLock(st state, c *claim) bool {
	if c.Inside != 0 {
		return st.inside(c)
	}
	return len(st.holders) == 0 && (c.Token > st.last || c.reuses() && c.Token == st.last)
}

// mayShare is the rule of a read-write lock: a reader conflicts with writers only.
func mayShare(st state, c *claim) bool {
	if c.Inside != 0 || !c.Shared {
		return mayLock(st, c)
	}
	for _, h := range st.holders {
		if !h.Shared {
			return false
		}
	}
	return c.Token > st.writer
}

// inside reports whether c joins a claim that is held, with the same token.
func (st state) inside(c *claim) bool {
	return slices.ContainsFunc(st.holders, func(h *claim) bool {
		return (h.Claim == c.Inside || h.Inside == c.Inside) && h.Token == c.Token
	})
}

// refuses reports whether the lock's holders are a reason to refuse o.
func (l *lock) refuses(st state, o Op) bool {
	switch {
	case l.typ == Semaphore:
		return st.used+max(o.Permits, 1) > st.limit
	case o.Shared:
		return slices.ContainsFunc(st.holders, func(h *claim) bool { return !h.Shared })
	}
	return len(st.holders) > 0
}

func (st state) with(c *claim) state {
	i, _ := slices.BinarySearchFunc(st.holders, c, func(a, b *claim) int { return a.Claim - b.Claim })
	st.holders = slices.Insert(slices.Clone(st.holders), i, c)
	st.used += c.permits()
	st.tokens.grant(c)
	return st
}

func (st state) without(c *claim) state {
	i := slices.Index(st.holders, c)
	st.holders = slices.Delete(slices.Clone(st.holders), i, i+1)
	st.used -= c.permits()
	return st
}

// explain shows the piece up to the point where no order continues: the longest part that has
// an order, and the operations that could not follow.
func (p piece) explain() string {
	_, info := porcupine.CheckOperationsVerbose(p.model, p.ops, time.Second)
	longest := 0
	for _, part := range info.PartialLinearizations() {
		for _, order := range part {
			longest = max(longest, len(order))
		}
	}
	const shown = 12
	var b strings.Builder
	fmt.Fprintf(&b, "no order explains these; %d of %d operations can be put in order, around:", longest, len(p.ops))
	for i, op := range p.ops {
		if i >= longest-shown/2 && i < longest+shown/2 {
			s := op.Input.(step)
			end := "never"
			if op.Return != int64(Never) {
				end = time.Duration(op.Return).String()
			}
			fmt.Fprintf(&b, "\n\t%v..%s %s: %v", time.Duration(op.Call), end, s.what, s.o)
		}
	}
	return b.String()
}
