package names

// A Contender is a child of a lock's directory whose name is a place in the queue.
type Contender struct {
	Name   string
	Form   string // the name without its number
	Seq    int32
	Shared bool // a reader: it shares the lock with readers only
}

// Before orders sequence numbers as serial numbers (RFC 1982): the parent's counter is an int32 and
// wraps, and a queue is never 2^31 long. Libraries that compare strings hand the lock to everybody
// at the wrap (kazoo #730).
func Before(a, b int32) bool { return a-b < 0 }

// WaitsFor reports whether c waits for other. It is all that differs between the kinds of lock: a
// later contender waits for an earlier one unless both are readers. So a writer, or a mutex, waits
// for everybody ahead, and a reader for the writers ahead. Nobody overtakes, so nobody starves.
func (c Contender) WaitsFor(other Contender) bool {
	return Before(other.Seq, c.Seq) && !(c.Shared && other.Shared)
}
