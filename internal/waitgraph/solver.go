package waitgraph

// A solver takes owners who can proceed out of the graph, until nobody is left who can. It can undo its
// changes, so that it can try an owner's end.
type solver struct {
	*Graph
	gone    []bool   // owners who can proceed
	left    []int    // how many waits an owner has that have not ended
	granted [][]bool // waits that have ended
	head    []int    // in each queue: no place before it can change
	free    []int    // permits that are free
	hard    [][]int  // in each queue: places that hold the lock, or whose owners wait elsewhere, too
	lacks   []lacks  // of each lock, see lacking

	changes int   // counts them
	dirty   []int // locks to look at again
	isDirty []bool
	done    []change
}

// A lacks is what lacking has found, after so many changes.
type lacks struct {
	at    int
	ahead []int
}

// A change is something to undo.
type change struct {
	what        byte // 'o': owner a is gone; 'g': place b of lock a is granted; 'h': the head of lock a was b
	first, then int
}

// newSolver returns a solver whose owners without a wait have proceeded.
func newSolver(g *Graph) *solver {
	s := begin(g)
	for i := range g.Owners {
		if s.left[i] == 0 {
			s.remove(i)
		}
	}
	return s
}

// begin returns a solver in which nobody has proceeded.
func begin(g *Graph) *solver {
	s := &solver{
		Graph: g, gone: make([]bool, len(g.Owners)), left: make([]int, len(g.Owners)),
		granted: make([][]bool, len(g.Locks)), head: make([]int, len(g.Locks)), free: make([]int, len(g.Locks)),
		isDirty: make([]bool, len(g.Locks)), hard: make([][]int, len(g.Locks)), lacks: make([]lacks, len(g.Locks)),
	}
	for i := range g.Locks {
		for place, owner := range g.queue[i] {
			if g.held[i][place] || len(g.Owners[owner].Waits) > 1 {
				s.hard[i] = append(s.hard[i], place)
			}
		}
		s.granted[i] = make([]bool, len(g.Locks[i].Queue))
		s.free[i] = g.Locks[i].limit() - len(g.Locks[i].Permits)
		s.touch(i)
	}
	for i, o := range g.Owners {
		s.left[i] = len(o.Waits)
	}
	return s
}

func (s *solver) touch(lock int) {
	if !s.isDirty[lock] {
		s.isDirty[lock] = true
		s.dirty = append(s.dirty, lock)
	}
}

// remove lets an owner proceed: it gives everything back.
func (s *solver) remove(owner int) {
	s.gone[owner] = true
	s.done = append(s.done, change{'o', owner, 0})
	s.give(owner, 1)
}

// give adds the permits of an owner to the free ones, or takes them back.
func (s *solver) give(owner, sign int) {
	s.changes++
	for _, r := range s.Owners[owner].Holds {
		if r.Permit {
			s.free[r.Lock] += sign
		}
		s.touch(r.Lock)
	}
	for _, r := range s.Owners[owner].Waits {
		if l := &s.Locks[r.Lock]; l.Counted && s.granted[r.Lock][r.Place] {
			s.free[r.Lock] += sign * l.need(r.Place)
		}
		s.touch(r.Lock)
	}
}

// grant ends the wait of a place. If its owner has no other waits, the owner proceeds.
func (s *solver) grant(lock, place int) {
	s.changes++
	s.granted[lock][place] = true
	s.done = append(s.done, change{'g', lock, place})
	if l := &s.Locks[lock]; l.Counted {
		s.free[lock] -= l.need(place)
	}
	owner := s.queue[lock][place]
	if s.left[owner]--; s.left[owner] == 0 {
		s.remove(owner)
	}
}

// run goes on until nobody can proceed.
func (s *solver) run() {
	for len(s.dirty) > 0 {
		lock := s.dirty[len(s.dirty)-1]
		s.dirty = s.dirty[:len(s.dirty)-1]
		s.isDirty[lock] = false
		if s.Locks[lock].Counted {
			s.scanPermits(lock)
		} else {
			s.scan(lock)
		}
	}
}

// scan ends the waits for a plain lock that have no conflicting place ahead.
func (s *solver) scan(lock int) {
	owners, places := s.queue[lock], s.Locks[lock].Queue
	start := s.head[lock]
	for start < len(places) && s.gone[owners[start]] {
		start++
	}
	s.setHead(lock, start)
	anybody := false // ahead, a reader
	for i := start; i < len(places); i++ {
		if s.gone[owners[i]] {
			continue
		}
		if !s.held[lock][i] && !s.granted[lock][i] && (places[i].Shared || !anybody) {
			if s.grant(lock, i); s.gone[owners[i]] {
				continue
			}
		}
		if !places[i].Shared {
			return
		}
		anybody = true
	}
}

// scanPermits gives free permits to the waiters for them, in order.
func (s *solver) scanPermits(lock int) {
	owners := s.queue[lock]
	i := s.head[lock]
	for ; i < len(owners); i++ {
		if s.gone[owners[i]] || s.granted[lock][i] {
			continue
		}
		if s.Locks[lock].lacks(i, s.free[lock]) > 0 {
			break
		}
		s.grant(lock, i)
	}
	s.setHead(lock, i)
}

func (s *solver) setHead(lock, head int) {
	if s.head[lock] != head {
		s.done = append(s.done, change{'h', lock, s.head[lock]})
		s.head[lock] = head
	}
}

// try ends an owner by force, calls look, and undoes everything.
func (s *solver) try(owner int, look func()) {
	mark := len(s.done)
	s.remove(owner)
	s.run()
	look()
	for len(s.done) > mark {
		c := s.done[len(s.done)-1]
		s.done = s.done[:len(s.done)-1]
		s.changes++
		switch c.what {
		case 'o':
			s.give(c.first, -1)
			s.gone[c.first] = false
		case 'g':
			s.granted[c.first][c.then] = false
			s.left[s.queue[c.first][c.then]]++
			if l := &s.Locks[c.first]; l.Counted {
				s.free[c.first] += l.need(c.then)
			}
		case 'h':
			s.head[c.first] = c.then
		}
	}
	s.run() // what undoing has touched: nothing changes
}
