// Package waitgraph finds out who waits for whom across many locks, and which of the waiters can never
// proceed. It is pure: it works on queues that somebody else has read.
//
// The vertices are owners. An owner is a session, together with the sessions that run under its locks (see
// [Place.Within]). An owner proceeds when all of its waits have ended, and then it releases all that it holds.
// A waiter for a plain lock waits for every conflicting place ahead of it. A waiter for permits waits for as many of the
// permits in use as it lacks, whoever gives them back, and for the waiters ahead of it that lack some, even if enough are free
// for it: permits are given in the order of the queue. So a cycle is a deadlock only if the owners cannot be taken out of the graph one
// after the other: [Analyze] removes all owners who can proceed until nobody is left who can. The owners that
// stay are stuck, and the cycles among them are the strongly connected components.
//
// A session that waits for a lock of which it already has a place is taken for a program with several
// threads: the later place belongs to a thread that holds nothing. Nothing on the server tells whether that
// is so. A session that waits for two different locks has several threads, too, but which of them has the
// locks that it holds is unknown. Analyze assumes that it needs both. See [Cycle.Threads].
package waitgraph

import "time"

// A Place is a node in the queue of a lock, or a permit.
type Place struct {
	Node    string // its path
	Zxid    int64  // of its creation: together with the path it is never used again
	Session int64  // 0: of no session; then the place is an owner of its own
	Within  int64  // the session whose command or program runs this session's program; 0: none
	Shared  bool   // a reader
	Idle    bool   // its program does not wait for the lock, but goes on meanwhile: a worker among many, a candidate
	// Candidate: it stands for an election. Its program may go on meanwhile, or not: it counts in cycles, and nobody blocks it.
	Candidate bool
	Yields    bool // its client gives up the wait if it is the victim, see Cycle.Yielder
	Needs     int  // of a waiter for permits: how many; 0: one, as far as anybody knows
	Kept      bool // its program has released the lock, and keeps it until somebody else joins the queue
	Since     time.Time
	Owner     string // for people
	Reason    string
	Process   string // of its client, for people, see locks.Gone; "": it is not noted
}

// A Lock is a lock with everybody who holds it or waits for it.
type Lock struct {
	Path   string
	Layout string   // two layouts in one directory are two locks
	Kind   string   // lock, semaphore, slots or node
	Dirs   []string // the directories of its nodes

	// Queue is in the order of the queue. In a plain lock, the places without a conflicting place ahead
	// hold the lock. In a semaphore, all places wait.
	Queue []Place

	Counted bool    // it is a semaphore
	Limit   int     // of a semaphore: how many permits there are; 0: unknown, and all are in use if somebody waits
	Permits []Place // of a semaphore: the permits in use
}

type lockKey struct{ path, layout string }

func (l *Lock) key() lockKey { return lockKey{l.Path, l.Layout} }

// mostNeeds limits what a node can say that its waiter needs.
const mostNeeds = 1 << 20

func (p *Place) needs() int { return min(max(p.Needs, 1), mostNeeds) }

// limit returns how many permits there are. If that is not known, the first waiter lacks one.
func (l *Lock) limit() int {
	if l.Limit > 0 || len(l.Queue) == 0 {
		return l.Limit
	}
	return len(l.Permits) + l.Queue[0].needs() - 1
}

// need returns how many permits a waiter needs. It is 0 if there are not so many: then the waiter gives up when it is the
// first in the queue.
func (l *Lock) need(place int) int {
	if n := l.Queue[place].needs(); n <= l.limit() {
		return n
	}
	return 0
}

// lacks returns how many permits a waiter lacks if so many are free. After a cut of the limit, that is a negative number.
func (l *Lock) lacks(place, free int) int {
	if n := l.need(place); n > max(free, 0) {
		return n - free
	}
	return 0
}

// Stable returns what was the same in two readings of the same locks, one after the other. Locks that were
// read only once are left out.
//
// A reading of several locks is not a snapshot: every lock is read at another moment, and a cycle in it may
// never have existed. But a place that is in both readings was in its queue during the whole time between
// them, since no node comes back under its old name and zxid, and it waited for the places ahead of it that
// are in both readings. So all waits in the result existed at one moment, and a cycle of them is real. No
// deadlock is lost: its places do not change. The waiters of a semaphore count only if the permits are the
// same in both readings, since each permit is a way out.
//
// A place that is kept in the second reading is left out: its program gives it up by itself.
func Stable(first, second []Lock) []Lock {
	before := make(map[lockKey]*Lock, len(first))
	for i := range first {
		before[first[i].key()] = &first[i]
	}
	var both []Lock
	for _, l := range second {
		f := before[l.key()]
		if f == nil || f.Counted != l.Counted {
			continue
		}
		waiting := common(f.Queue, l.Queue)
		if l.Counted && (f.Limit != l.Limit || len(f.Permits) != len(l.Permits) || len(common(f.Permits, l.Permits)) != len(l.Permits)) {
			waiting = nil
		}
		l.Queue = waiting
		both = append(both, l)
	}
	return both
}

// Twice makes the graph of the second of two readings of all locks. It has the cycles alone that are in both of them.
func Twice(first, second []Lock) *Graph {
	g := Analyze(second)
	if len(g.Cycles) == 0 {
		return g
	}
	suspects := g.Suspects()
	return Analyze(Replace(second, suspects, Stable(first, suspects)))
}

// common returns the places of the second list that are in the first, too.
func common(first, second []Place) (both []Place) {
	type node struct {
		path string
		zxid int64
	}
	seen := make(map[node]bool, len(first))
	for _, p := range first {
		seen[node{p.Node, p.Zxid}] = true
	}
	for _, p := range second {
		if seen[node{p.Node, p.Zxid}] && !p.Kept {
			both = append(both, p)
		}
	}
	return both
}
