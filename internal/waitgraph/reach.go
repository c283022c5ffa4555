package waitgraph

import "slices"

// OwnerOfSession returns the owner that a session belongs to, and false if the session has no place.
func (g *Graph) OwnerOfSession(session int64) (int, bool) {
	i := slices.IndexFunc(g.Owners, func(o Owner) bool { return !o.Thread && slices.Contains(o.Sessions, session) })
	return max(i, 0), i >= 0
}

// CycleOf returns the cycle that an owner is in, or nil.
func (g *Graph) CycleOf(owner int) *Cycle {
	for i := range g.Cycles {
		if slices.Contains(g.Cycles[i].Owners, owner) {
			return &g.Cycles[i]
		}
	}
	return nil
}

// HeldBehind returns the locks that an owner holds, and those that the owners hold that wait for it, and for these, and so
// on. If somebody joins the queue of one of them, the owner can come into a cycle. Otherwise it cannot, unless an owner that
// waits acquires a lock meanwhile, by another thread.
func (g *Graph) HeldBehind(owner int) (locks []int) {
	waiting := make(map[int][]int) // the owners that wait for an owner
	for _, e := range g.Edges() {
		waiting[e.To] = append(waiting[e.To], e.Owner)
	}
	for lock := range g.Locks {
		g.smaller(lock, func(ahead, behind int) { waiting[ahead] = append(waiting[ahead], behind) })
	}
	seen := map[int]bool{owner: true}
	for next := []int{owner}; len(next) > 0; next = next[1:] {
		for _, r := range g.Owners[next[0]].Holds {
			locks = append(locks, r.Lock)
		}
		for _, o := range waiting[next[0]] {
			if !seen[o] {
				seen[o] = true
				next = append(next, o)
			}
		}
	}
	slices.Sort(locks)
	return slices.Compact(locks)
}

// smaller calls see with each waiter for permits and the nearest one ahead that needs more: when more permits are free, the
// one ahead can be all that the other one waits for.
func (g *Graph) smaller(lock int, see func(ahead, behind int)) {
	l := &g.Locks[lock]
	if !l.Counted {
		return
	}
	var larger []int // places, each of which needs less than the one before it
	for place := range l.Queue {
		for len(larger) > 0 && l.need(larger[len(larger)-1]) <= l.need(place) {
			larger = larger[:len(larger)-1]
		}
		if len(larger) > 0 {
			see(g.queue[lock][larger[len(larger)-1]], g.queue[lock][place])
		}
		larger = append(larger, place)
	}
}
