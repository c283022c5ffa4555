package holdfast

import "slices"

// A contender is what the name of a child says about its place in the queue.
type contender struct {
	name   string
	form   string // the name without its number
	seq    int32
	shared bool // a reader: it bears others of its sort, and nobody else
}

// before orders sequence numbers as serial numbers (RFC 1982): the parent's counter
// is an int32 and wraps, and a queue is never 2^31 long. Peers compare strings, and
// hand the lock to everybody at the wrap (kazoo #730).
func before(a, b int32) bool { return a-b < 0 }

// waitsFor is all that there is to the kinds of lock: who comes later waits for who came
// earlier unless both are readers. So a writer, or a mutex, waits for everybody ahead,
// and a reader for the writers ahead; nobody overtakes, so nobody starves.
func (c contender) waitsFor(other contender) bool {
	return before(other.seq, c.seq) && !(c.shared && other.shared)
}

// inQueue is the queue that the names of the children make up, first place first.
func (g *grammar) inQueue(names []string) []contender {
	var q []contender
	for _, name := range names {
		if c, ok := g.parse(name); ok {
			q = append(q, c)
		}
	}
	slices.SortFunc(q, func(a, b contender) int {
		switch {
		case before(a.seq, b.seq):
			return -1
		case before(b.seq, a.seq):
			return 1
		case a.shared != b.shared && b.shared:
			return -1 // a writer that has taken the read side too: one number, two nodes
		case a.shared != b.shared:
			return 1
		}
		return 0
	})
	return q
}
