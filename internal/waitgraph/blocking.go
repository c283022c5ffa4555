package waitgraph

import "slices"

// Suspects returns the locks with places of owners who are stuck.
func (g *Graph) Suspects() []Lock {
	in := make(map[int]bool)
	for _, o := range g.Owners {
		if o.Stuck {
			for _, r := range slices.Concat(o.Holds, o.Waits) {
				in[r.Lock] = true
			}
		}
	}
	var all []Lock
	for i, l := range g.Locks {
		if in[i] {
			all = append(all, l)
		}
	}
	return all
}

// Replace returns the locks with those that were read again in place of the suspects.
func Replace(all, suspects, again []Lock) []Lock {
	key := func(l Lock) [3]string { return [3]string{l.Path, l.Layout, l.Kind} }
	old := make(map[[3]string]bool)
	for _, l := range suspects {
		old[key(l)] = true
	}
	rest := slices.DeleteFunc(slices.Clone(all), func(l Lock) bool { return old[key(l)] })
	return append(rest, again...)
}

// A Blocking is a graph with its waits sorted by who blocks whom.
type Blocking struct {
	*Graph
	Edges   []Edge
	InCycle map[int]int // owners in cycles, with the number of the cycle from 1 on

	below map[int][]Edge
}

// Blocking sorts the waits of the graph.
func (g *Graph) Blocking() *Blocking {
	b := &Blocking{Graph: g, Edges: g.Edges(), InCycle: make(map[int]int)}
	for i, c := range g.Cycles {
		for _, o := range c.Owners {
			b.InCycle[o] = i + 1
		}
	}
	b.below = b.children()
	return b
}

// A Root is an owner that blocks others.
type Root struct {
	Owner  int
	Blocks int // how many owners
}

// Roots returns the owners that block others and wait for nobody, and the members of cycles that block others. The
// owner that blocks most is the first.
func (b *Blocking) Roots() (roots []Root) {
	for o, owner := range b.Owners {
		if len(b.below[o]) == 0 || b.waits(owner) && b.InCycle[o] == 0 {
			continue
		}
		if b.InCycle[o] > 0 && !slices.ContainsFunc(b.below[o], func(e Edge) bool { return b.InCycle[e.Owner] == 0 }) {
			continue // it blocks members of the cycle only
		}
		roots = append(roots, Root{o, b.Blocked(o)})
	}
	slices.SortStableFunc(roots, func(x, y Root) int { return y.Blocks - x.Blocks })
	return roots
}

// waits reports whether an owner waits for a lock, and does not only stand for an election.
func (b *Blocking) waits(o Owner) bool {
	return slices.ContainsFunc(o.Waits, func(r Ref) bool { return !b.Place(r).Candidate })
}

// children returns the waits behind each owner. A wait for several owners is behind the one that ends it, see last.
func (b *Blocking) children() map[int][]Edge {
	below := make(map[int][]Edge)
	for from := 0; from < len(b.Edges); {
		wait := b.Edges[from].Wait
		to := from
		for to < len(b.Edges) && b.Edges[to].Wait == wait {
			to++
		}
		if e, ok := b.last(b.Edges[from:to]); ok && (!b.Place(wait).Candidate || b.InCycle[e.Owner] > 0) {
			below[e.To] = append(below[e.To], e)
		}
		from = to
	}
	return below
}

// last returns which of the edges of one wait ends it: the last one whose owner proceeds. If some of several permits are
// enough, only as many of them count.
func (b *Blocking) last(wait []Edge) (last Edge, found bool) {
	var some []Edge
	turn := func(e Edge) int { return b.Owners[e.To].Turn }
	see := func(e Edge) {
		if !found || turn(e) > turn(last) {
			last, found = e, true
		}
	}
	for _, e := range wait {
		switch {
		case e.To == e.Owner:
		case e.Any:
			some = append(some, e)
		default:
			see(e)
		}
	}
	if len(some) > 0 {
		slices.SortStableFunc(some, func(x, y Edge) int { return turn(x) - turn(y) })
		see(some[min(b.Lacks(some[0].Wait), len(some))-1])
	}
	return last, found
}

// Blocked counts the owners behind an owner. Behind a cycle, it counts those that are in none.
func (b *Blocking) Blocked(owner int) int {
	seen := map[int]bool{owner: true}
	for next := []int{owner}; len(next) > 0; {
		o := next[0]
		next = next[1:]
		for _, e := range b.below[o] {
			if !seen[e.Owner] && (b.InCycle[owner] == 0 || b.InCycle[e.Owner] == 0) {
				seen[e.Owner] = true
				next = append(next, e.Owner)
			}
		}
	}
	return len(seen) - 1
}

// Below returns the waits that end when an owner proceeds, by lock and place. Among the members of a cycle, it leaves
// the waits for each other out.
func (b *Blocking) Below(owner int) (rows []Edge) {
	for _, e := range b.below[owner] {
		if b.InCycle[e.Owner] == 0 || b.InCycle[owner] == 0 {
			rows = append(rows, e)
		}
	}
	slices.SortStableFunc(rows, func(x, y Edge) int {
		if x.Wait.Lock != y.Wait.Lock {
			return x.Wait.Lock - y.Wait.Lock
		}
		return x.Wait.Place - y.Wait.Place
	})
	return rows
}

// Position returns a waiter's position among the waiters, from 1 on.
func (b *Blocking) Position(r Ref) int {
	n := 1
	for i := range r.Place {
		if !b.Held(Ref{Lock: r.Lock, Place: i}) {
			n++
		}
	}
	return n
}
