package chaos

import (
	"slices"
	"time"
)

// Lasting checks what outlasts the holders of locks: reservations, and the records of turns. Its times are those of
// one clock, which is the server's, too.
//
//   - reservation: a claim that was granted before the end of another holder's reservation. All attempts must respect
//     reservations. A later Reserve of the lock, whatever its outcome, ends an earlier one here. A claim that was
//     taken away before the reservation was granted before it, too: the answer was still on its way to the client.
//   - turn: a run that is recorded, or that begins, within the period of another one that was recorded before; and a
//     turn that was refused because of a run that is not of the period, or that did not happen.
func Lasting(ops []Op) []Violation {
	var vs []Violation
	for _, l := range locks(ops) {
		vs = append(vs, l.reserved(ops)...)
	}
	byLock := make(map[string][]Op)
	var order []string
	for _, o := range ops {
		if o.Kind == Turn || o.Kind == Done {
			if byLock[o.Lock] == nil {
				order = append(order, o.Lock)
			}
			byLock[o.Lock] = append(byLock[o.Lock], o)
		}
	}
	for _, path := range order {
		vs = append(vs, runsOf(&lock{path: path}, byLock[path])...)
	}
	return vs
}

func (l *lock) reserved(ops []Op) []Violation {
	var all []Op
	for _, o := range ops {
		if o.Kind == Reserve && o.Lock == l.path {
			all = append(all, o)
		}
	}
	slices.SortStableFunc(all, func(a, b Op) int { return int(min(max(a.Call-b.Call, -1), 1)) })
	var vs []Violation
	for i, r := range all {
		if r.Outcome != OK {
			continue
		}
		until := r.Call + r.Lasts // it was recorded after the call
		if i+1 < len(all) {
			until = min(until, all[i+1].Call)
		}
		for _, c := range l.claims {
			if c.Token != r.Token && c.from() > r.Return && c.from() < until && c.until > r.Call {
				vs = append(vs, l.violation("reservation", "%v was granted, though %v lasts until %v", c.Op, r, until))
			}
		}
	}
	return vs
}

// within reports whether two runs are of one period.
func within(a, b Op, period time.Duration) bool {
	return max(a.Began-b.Began, b.Began-a.Began) < period
}

func runsOf(l *lock, ops []Op) []Violation {
	var vs []Violation
	for i, o := range ops {
		happened := false
		for j, d := range ops {
			if d.Kind != Done {
				continue
			}
			happened = happened || d.Token == o.Token
			switch {
			case d.Outcome != OK || d.Token == o.Token:
			case o.Kind == Done && o.Outcome == OK && i < j && within(o, d, o.Lasts):
				vs = append(vs, l.violation("turn", "%v and %v are of one period of %v", o, d, o.Lasts))
			case o.Kind == Turn && o.Outcome == OK && d.Return < o.Call && within(o, d, o.Lasts):
				vs = append(vs, l.violation("turn", "%v begins, though %v", o, d))
			}
		}
		if o.Kind == Turn && o.Outcome == Failed && !happened {
			vs = append(vs, l.violation("turn", "%v names a run that did not happen", o))
		}
		if o.Kind == Turn && o.Outcome == Failed && max(o.Began-o.Queued, o.Queued-o.Began) >= o.Lasts {
			vs = append(vs, l.violation("turn", "%v is refused %v after the run", o, o.Queued-o.Began))
		}
	}
	return vs
}

// Leftovers finds detached locks that are held though somebody was told that they are released. held are their tokens
// when nobody uses the locks any more.
func Leftovers(ops []Op, held []int64) []Violation {
	var vs []Violation
	for _, o := range ops {
		if o.Kind == Release && o.Outcome == OK && o.Return != Never && slices.Contains(held, o.Token) {
			vs = append(vs, Violation{Oracle: "detached", Lock: o.Lock, Text: "it is held, though " + o.String()})
		}
	}
	return vs
}
