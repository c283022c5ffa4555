package holdfast

import "slices"

// before orders sequence numbers as serial numbers (RFC 1982): the parent's counter
// is an int32 and wraps, and a queue is never 2^31 long. Peers compare strings, and
// hand the lock to everybody at the wrap (kazoo #730).
func before(a, b int32) bool { return a-b < 0 }

// inQueue is the queue that the names of the children make up, first place first.
func inQueue(names []string) []contender {
	var q []contender
	for _, name := range names {
		if c, ok := parse(name); ok {
			q = append(q, c)
		}
	}
	slices.SortFunc(q, func(a, b contender) int {
		switch {
		case before(a.seq, b.seq):
			return -1
		case before(b.seq, a.seq):
			return 1
		}
		return 0
	})
	return q
}

// mutexAhead says whom a mutex waits for: the last contender before me. There is none
// if the name is "". Without me among the names, present is false: my node is gone,
// and whoever took that for "nobody ahead" would hold a lock that is not his
// (etcd #11456).
func mutexAhead(names []string, me string) (name string, present bool) {
	mine, ok := parse(me)
	if !ok {
		return "", false
	}
	var ahead contender
	for _, n := range names {
		c, ok := parse(n)
		switch {
		case !ok:
		case c.name == me:
			present = true
		case before(c.seq, mine.seq) && (ahead.name == "" || before(ahead.seq, c.seq)):
			ahead = c
		}
	}
	return ahead.name, present
}
