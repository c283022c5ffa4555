package chaos

// runs checks a key of a Once, whose claims are the runs of its function. (That no two of them are at one
// instant is checked by overlaps.)
//
//   - At most once: there is one run.
//   - Otherwise there is no run after one with a result: a later run has a larger token.
//   - All answers name one run, and it is in the history. (A run can begin and die before its process
//     records it. Then an answer says only that it began.)
//   - Once an answer had a result, all later calls get it.
func (l *lock) runs() []Violation {
	if l.typ != Once && l.typ != AtMostOnce {
		return nil
	}
	var vs []Violation
	runs := make(map[int]*claim)
	for i, c := range l.claims {
		runs[c.Claim] = c
		if l.typ == AtMostOnce && i > 0 {
			vs = append(vs, l.violation("once", "%v, after %v", c.Op, l.claims[0].Op))
		}
	}
	var first *Op // answer with a result
	for i, o := range l.answers {
		if o.Outcome != OK {
			continue
		}
		if first == nil || o.Return < first.Return {
			first = &l.answers[i]
		}
		if r := runs[o.Inside]; r == nil || r.Token != o.Token {
			vs = append(vs, l.violation("once", "%v names a run that did not happen", o))
		}
	}
	for _, o := range l.answers {
		switch {
		case o.Outcome == OK && o.Token != first.Token:
			vs = append(vs, l.violation("once", "%v, though %v", o, *first))
		case o.Outcome == OK:
		case l.typ != AtMostOnce:
			vs = append(vs, l.violation("once", "%v, and the key runs at least once", o))
		case first != nil && (first.Return < o.Call || first.Token != o.Token):
			vs = append(vs, l.violation("once", "%v, though %v", o, *first))
		case len(l.claims) > 0 && l.claims[0].Token != o.Token:
			vs = append(vs, l.violation("once", "%v, though %v ran", o, l.claims[0].Op))
		}
	}
	for _, c := range l.claims {
		if first != nil && l.typ == Once && c.Token > first.Token {
			vs = append(vs, l.violation("once", "%v ran, though %v", c.Op, *first))
		}
	}
	return vs
}
