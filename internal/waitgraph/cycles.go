package waitgraph

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// tries is how many owners of a cycle are tried as its victim.
const tries = 32

// An Edge says that an owner waits for another one.
type Edge struct {
	Step
	To int // the owner that it waits for
}

// Edges returns the waits between owners, sorted by owner and wait. It leaves out the waiters ahead that wait for
// the same holders: the end of such a waiter lets nobody proceed. A waiter ahead that lacks permits counts if enough are free
// for the one behind it.
func (g *Graph) Edges() (all []Edge) {
	s := begin(g)
	for o := range g.Owners {
		s.edges(o, func(e Edge) { all = append(all, e) })
	}
	return all
}

// edges calls visit for the edges of an owner, without owners that are gone.
func (s *solver) edges(owner int, visit func(Edge)) {
	for _, w := range s.Owners[owner].Waits {
		if s.granted[w.Lock][w.Place] {
			continue
		}
		l := &s.Locks[w.Lock]
		see := func(r Ref, any bool) {
			if to := s.OwnerOf(r); !s.gone[to] {
				visit(Edge{Step{owner, w, r, any}, to})
			}
		}
		lacks := l.Counted && l.lacks(w.Place, s.free[w.Lock]) > 0
		if lacks {
			for i := range l.Permits {
				see(Ref{w.Lock, i, true}, s.Lacks(w) < len(l.Permits))
			}
		}
		shared := l.Queue[w.Place].Shared && !l.Counted
		nearest := s.nearest(w)
		if nearest >= 0 {
			see(Ref{w.Lock, nearest, false}, false)
		}
		for _, i := range s.hard[w.Lock] {
			if l.Counted && s.granted[w.Lock][i] && (!lacks || l.need(i) == 0) {
				continue // what it has is not needed
			}
			if i < w.Place && i != nearest && !(shared && l.Queue[i].Shared) {
				see(Ref{w.Lock, i, false}, false)
			}
		}
	}
}

// nearest returns the nearest waiter ahead that alone keeps a waiter from the lock, or -1: it waits for everybody ahead of it,
// or for the holders. For a reader that is a writer. For a waiter for permits that lacks none it is one that lacks some.
func (s *solver) nearest(w Ref) int {
	l := &s.Locks[w.Lock]
	switch {
	case l.Counted && l.lacks(w.Place, s.free[w.Lock]) > 0:
		return -1
	case l.Counted:
		return s.lacking(w.Lock)[w.Place]
	case !l.Queue[w.Place].Shared:
		return -1
	}
	for i := w.Place - 1; i >= 0; i-- {
		if !l.Queue[i].Shared && !s.gone[s.queue[w.Lock][i]] {
			return i
		}
	}
	return -1
}

// lacking returns, for each waiter for permits, the nearest waiter ahead of it that lacks some, or -1.
func (s *solver) lacking(lock int) []int {
	c := &s.lacks[lock]
	if c.ahead == nil || c.at != s.changes {
		c.at, c.ahead = s.changes, c.ahead[:0]
		nearest := -1
		for i, owner := range s.queue[lock] {
			c.ahead = append(c.ahead, nearest)
			if !s.gone[owner] && !s.granted[lock][i] && s.Locks[lock].lacks(i, s.free[lock]) > 0 {
				nearest = i
			}
		}
	}
	return c.ahead
}

// Lacks returns how many of the permits in use must be given back for a waiter, at least one.
func (g *Graph) Lacks(r Ref) int {
	l := &g.Locks[r.Lock]
	return max(l.lacks(r.Place, l.limit()-len(l.Permits)), 1)
}

// Some says in a word how many of the permits in use must be given back for a waiter.
func (g *Graph) Some(r Ref) string {
	if n := g.Lacks(r); n > 1 {
		return strconv.Itoa(n)
	}
	return "any"
}

// Before returns the wait of a member of a cycle for another one.
func (g *Graph) Before(c *Cycle, owner int) (before Step) {
	s := newSolver(g)
	s.run()
	for _, o := range c.Owners {
		s.edges(o, func(e Edge) {
			if e.To == owner {
				before = e.Step
			}
		})
	}
	return before
}

// components returns the sets of stuck owners that reach each other (Tarjan's algorithm), among those that
// the given ones wait for. An owner alone is a set if it waits for itself.
func (s *solver) components(from []int) (all [][]int) {
	const unseen = 0
	index, low := make(map[int]int), make(map[int]int)
	var stack []int
	onStack := make(map[int]bool)
	var visit func(o int)
	visit = func(o int) {
		index[o] = len(index) + 1
		low[o] = index[o]
		stack = append(stack, o)
		onStack[o] = true
		self, seen := false, make(map[int]bool)
		s.edges(o, func(e Edge) {
			self = self || e.To == o
			if seen[e.To] {
				return
			}
			seen[e.To] = true
			if index[e.To] == unseen {
				visit(e.To)
				low[o] = min(low[o], low[e.To])
			} else if onStack[e.To] {
				low[o] = min(low[o], index[e.To])
			}
		})
		if low[o] != index[o] {
			return
		}
		at := len(stack) - 1
		for stack[at] != o {
			at--
		}
		for _, member := range stack[at:] {
			onStack[member] = false
		}
		if component := slices.Clone(stack[at:]); len(component) > 1 || self {
			slices.Sort(component)
			all = append(all, component)
		}
		stack = stack[:at]
	}
	for _, o := range from {
		if !s.gone[o] && index[o] == unseen {
			visit(o)
		}
	}
	return all
}

// findCycles fills in Cycles.
func (s *solver) findCycles() {
	threaded := s.threaded()
	var stuck []int
	for i, o := range s.Owners {
		if o.Stuck {
			stuck = append(stuck, i)
		}
	}
	for _, set := range s.components(stuck) {
		c := Cycle{Owners: set}
		for _, o := range set {
			if threaded[o] {
				c.Threads = append(c.Threads, o)
			}
		}
		s.chooseVictim(&c)
		s.findYielder(&c)
		c.Steps = s.wayRound(set, c.Victim)
		for _, step := range c.Steps {
			if since := s.Place(step.Wait).Since; since.After(c.Since) {
				c.Since = since
			}
		}
		s.Cycles = append(s.Cycles, c)
	}
	slices.SortStableFunc(s.Cycles, func(a, b Cycle) int { return a.Since.Compare(b.Since) })
}

// threaded returns the owners that surely have several threads.
func (g *Graph) threaded() map[int]bool {
	all := make(map[int]bool)
	waits := make(map[int64]int)
	for i, o := range g.Owners {
		all[i] = o.Thread
		for _, w := range o.Waits {
			waits[g.Place(w).Session]++
		}
	}
	for i, o := range g.Owners {
		all[i] = all[i] || slices.ContainsFunc(o.Sessions, func(session int64) bool { return waits[session] > 1 })
	}
	return all
}

// chooseVictim picks the owner whose end costs least: the one that holds the fewest locks, and of these the
// one that has waited for the shortest time. An owner whose end leaves a cycle among the others is picked
// only if there is no better one.
func (s *solver) chooseVictim(c *Cycle) {
	youngest := make(map[int]time.Time)
	for _, o := range c.Owners {
		for _, w := range s.Owners[o].Waits {
			if since := s.Place(w).Since; since.After(youngest[o]) {
				youngest[o] = since
			}
		}
	}
	order := slices.Clone(c.Owners)
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(s.LocksHeld(a), s.LocksHeld(b)), youngest[b].Compare(youngest[a]))
	})
	for _, o := range order[:min(tries, len(order))] {
		broken := false
		s.try(o, func() { broken = !slices.ContainsFunc(s.components(c.Owners), c.meets) })
		if broken {
			c.Victim = o
			return
		}
	}
	c.Victim, c.Rest = order[0], true
}

// findYielder fills in Yielder. The nodes of one transaction have one zxid, so their paths decide between them.
func (s *solver) findYielder(c *Cycle) {
	if len(c.Threads) > 0 {
		return
	}
	for _, o := range c.Owners {
		s.edges(o, func(e Edge) {
			p := s.Place(e.Wait)
			if _, in := slices.BinarySearch(c.Owners, e.To); !in || !p.Yields {
				return
			}
			if c.Yielder == nil || cmp.Or(cmp.Compare(p.Zxid, c.Yielder.Zxid), cmp.Compare(p.Node, c.Yielder.Node)) > 0 {
				c.Yielder = &p
			}
		})
	}
}

func (c *Cycle) meets(owners []int) bool {
	return slices.ContainsFunc(owners, func(o int) bool { _, in := slices.BinarySearch(c.Owners, o); return in })
}

// LocksHeld returns how many locks an owner holds. The permits of one semaphore count once. A lock that is only
// kept does not count.
func (g *Graph) LocksHeld(owner int) int {
	locks := make(map[int]bool)
	for _, r := range g.Owners[owner].Holds {
		if !g.Place(r).Kept {
			locks[r.Lock] = true
		}
	}
	return len(locks)
}

// wayRound returns a shortest way from an owner over the members of its cycle back to it.
func (s *solver) wayRound(set []int, start int) []Step {
	from := make(map[int]Step) // the step that reached an owner first
	before := make(map[int]int)
	next := []int{start}
	for len(next) > 0 {
		o := next[0]
		next = next[1:]
		var last *Step
		s.edges(o, func(e Edge) {
			if e.To == start && last == nil {
				last = &e.Step
				return
			}
			if _, inSet := slices.BinarySearch(set, e.To); !inSet || e.To == start {
				return
			}
			if _, seen := from[e.To]; !seen {
				from[e.To], before[e.To] = e.Step, o
				next = append(next, e.To)
			}
		})
		if last != nil {
			steps := []Step{*last}
			for ; o != start; o = before[o] {
				steps = append(steps, from[o])
			}
			slices.Reverse(steps)
			return steps
		}
	}
	return nil
}
