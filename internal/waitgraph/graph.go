package waitgraph

import (
	"slices"
	"time"
)

// A Graph says who waits for whom.
type Graph struct {
	Locks  []Lock
	Owners []Owner
	Cycles []Cycle // the longest standing first

	queue, permits [][]int  // the owner of each place
	held           [][]bool // whether a place in a queue holds the lock
}

// An Owner is a vertex: a session, with the sessions that run under its locks. Its locks become free when it
// proceeds.
type Owner struct {
	Sessions []int64 // without duplicates, in order; empty if its one place is of no session
	Thread   bool    // a further place of a session in one queue: it holds nothing, see the package comment
	Holds    []Ref
	Waits    []Ref
	Stuck    bool // it can never proceed, unless an owner is removed by force or gives up
	Turn     int  // a possible order in which owners proceed; those that are stuck come last
}

// A Ref names a place.
type Ref struct {
	Lock, Place int
	Permit      bool // the place is among the permits, not in the queue
}

// Place returns the place.
func (g *Graph) Place(r Ref) Place {
	if r.Permit {
		return g.Locks[r.Lock].Permits[r.Place]
	}
	return g.Locks[r.Lock].Queue[r.Place]
}

// OwnerOf returns the owner of the place.
func (g *Graph) OwnerOf(r Ref) int {
	if r.Permit {
		return g.permits[r.Lock][r.Place]
	}
	return g.queue[r.Lock][r.Place]
}

// Held reports whether the place holds its lock.
func (g *Graph) Held(r Ref) bool { return r.Permit || g.held[r.Lock][r.Place] }

// A Cycle is a set of owners who wait for each other: each of them waits, over some of the others, for each
// of them. An owner of several sessions can also wait for itself.
type Cycle struct {
	Owners []int
	Steps  []Step // a shortest way round that begins with the victim; not always over all owners
	// Victim is the owner whose end costs least. If it ends, no cycle is left among the owners, unless
	// Rest is set.
	Victim int
	Rest   bool // no single owner breaks all cycles among them, or there are too many owners to try each
	// Yielder is the youngest place of the cycle whose client gives up the wait if it is the victim. It depends on the
	// places of the cycle alone, so it is the same for all who read them. It is nil if there is none, and if there are
	// Threads: then nobody gives up.
	Yielder *Place
	// Threads are the owners with a session that waits for several locks at a time, or with several
	// places in one queue. They have several threads. So the cycle may end by itself: the thread that holds
	// a lock may be another one than the thread that waits.
	Threads []int
	Since   time.Time // when the last wait of Steps began: the cycle is as old as that
}

// A Step is a wait for the owner of the next step.
type Step struct {
	Owner int
	Wait  Ref  // the place of the owner that waits
	For   Ref  // the place of the next owner that it waits for
	Any   bool // it waits for some of several permits, see Graph.Lacks
}

// Analyze makes the graph of the locks.
func Analyze(locks []Lock) *Graph {
	g := &Graph{Locks: locks}
	g.assign()
	s := newSolver(g)
	s.run()
	for i := range g.Owners {
		g.Owners[i].Stuck, g.Owners[i].Turn = !s.gone[i], len(g.Owners)
	}
	for turn, c := range s.done {
		if c.what == 'o' {
			g.Owners[c.first].Turn = turn - len(s.done)
		}
	}
	s.findCycles()
	return g
}

// assign finds the owner of each place.
func (g *Graph) assign() {
	outer := outermost(g.Locks)
	known := make(map[int64]int) // owners by their outermost session
	add := func(session int64, thread bool) int {
		g.Owners = append(g.Owners, Owner{Thread: thread})
		if o := &g.Owners[len(g.Owners)-1]; session != 0 {
			o.Sessions = []int64{session}
		}
		return len(g.Owners) - 1
	}
	main := func(session int64) int {
		if session == 0 {
			return add(0, false)
		}
		root := outer(session)
		o, ok := known[root]
		if !ok {
			o = add(session, false)
			known[root] = o
		} else if at, found := slices.BinarySearch(g.Owners[o].Sessions, session); !found {
			g.Owners[o].Sessions = slices.Insert(g.Owners[o].Sessions, at, session)
		}
		return o
	}
	for li := range g.Locks {
		l := &g.Locks[li]
		permits, queue, held := make([]int, len(l.Permits)), make([]int, len(l.Queue)), make([]bool, len(l.Queue))
		here := make(map[int64]bool) // sessions that have a place in this lock
		for i, p := range l.Permits {
			o := main(p.Session)
			permits[i], here[p.Session] = o, p.Session != 0
			g.Owners[o].Holds = append(g.Owners[o].Holds, Ref{li, i, true})
		}
		anybody, writer := false, false // ahead
		for i, p := range l.Queue {
			held[i] = !l.Counted && !writer && (p.Shared || !anybody)
			anybody, writer = true, writer || !p.Shared
			o := main(p.Session)
			switch {
			case held[i]:
				g.Owners[o].Holds = append(g.Owners[o].Holds, Ref{li, i, false})
			case p.Idle:
				o = add(p.Session, true)
			case here[p.Session]:
				o = add(p.Session, true)
				fallthrough
			default:
				g.Owners[o].Waits = append(g.Owners[o].Waits, Ref{li, i, false})
			}
			queue[i], here[p.Session] = o, p.Session != 0
		}
		g.permits, g.queue, g.held = append(g.permits, permits), append(g.queue, queue), append(g.held, held)
	}
}

// outermost returns a function that maps each session to one session of its owner.
func outermost(locks []Lock) func(int64) int64 {
	above := make(map[int64]int64)
	find := func(s int64) int64 {
		for {
			next, ok := above[s]
			if !ok {
				return s
			}
			if further, ok := above[next]; ok {
				above[s] = further
			}
			s = next
		}
	}
	for i := range locks {
		for _, places := range [][]Place{locks[i].Permits, locks[i].Queue} {
			for _, p := range places {
				if p.Session == 0 || p.Within == 0 {
					continue
				}
				if inner, around := find(p.Session), find(p.Within); inner != around {
					above[inner] = around
				}
			}
		}
	}
	return find
}
