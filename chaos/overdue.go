package chaos

import (
	"slices"
	"time"
)

// Overdue finds waiters that got the lock late: while one was waiting, the lock was free for
// longer than within. It is for histories of single locks in which no network, server or client
// failed. Edits of nodes by hand may be in them. within must leave room for a waiter that wakes
// and gives up at that moment.
func Overdue(ops []Op, within time.Duration) []Violation {
	var vs []Violation
	for _, l := range locks(ops) {
		var disturbed []time.Duration // when somebody left the queue, or was thrown out
		for _, o := range l.attempts {
			if o.Return != Never {
				disturbed = append(disturbed, o.Return)
			}
		}
		for _, b := range ops {
			if b.Kind == Break && b.Lock == l.path {
				disturbed = append(disturbed, b.Call)
			}
		}
		slices.Sort(disturbed)
		var free time.Duration // since when nobody has it
		for _, c := range l.claims {
			since := max(free, c.Call)
			for _, at := range disturbed {
				if at > since && at < c.from() {
					since = at
				}
			}
			if d := c.from() - since; d > within {
				vs = append(vs, l.violation("overdue", "%v: nobody had the lock for %v", c.Op, d))
			}
			end := c.gone
			if end == Never {
				end = c.until
			}
			free = max(free, end)
		}
	}
	return vs
}
