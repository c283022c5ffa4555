package chaos

import (
	"slices"
	"time"
)

// A claim is the time for which a client believed to hold a lock.
type claim struct {
	Op                  // the attempt
	until time.Duration // it claims nothing any more; Never: to the end of the history
	gone  time.Duration // the server may have had its node until then
}

// from returns the start of the claim: the time at which the client learns of it.
func (c *claim) from() time.Duration { return c.Return }

func (c *claim) permits() int { return max(c.Permits, 1) }

// excludes reports whether two claims of one lock must not overlap. A claim inside another
// claim does not compete with it.
func (c *claim) excludes(o *claim) bool {
	switch {
	case c.Type == Semaphore, c.Shared && o.Shared:
		return false
	case c.Inside != 0 && (c.Inside == o.Claim || c.Inside == o.Inside), o.Inside == c.Claim:
		return false
	}
	return true
}

// handedBy reports whether c may have got its node, and so its token, from o, an earlier holder
// in the same client.
func (c *claim) handedBy(o *claim) bool {
	known := c.HasSeq && o.HasSeq // of a MultiLock, only the first part's node is
	return c.reuses() && o.reuses() && c.Token == o.Token && (c.Node == o.Node || !known) && c.Session == o.Session
}

// A lock is the history of one lock.
type lock struct {
	path     string
	typ      LockType
	limit    int      // of a semaphore, at first
	changes  []change // of that limit, in order
	claims   []*claim // by their start
	attempts []Op     // those that ended without a claim, and those that failed
	observed []Op
	answers  []Op // of a Once
}

// A change is a change of a limit. Changes do not overlap.
type change struct {
	from, until time.Duration // at some instant in between
	limit       int
	op          Op
}

// mostDuring returns the largest limit at any instant between from and until.
func (l *lock) mostDuring(from, until time.Duration) int {
	most, limit := 0, l.limit // before the changes seen so far
	for _, c := range l.changes {
		if from <= c.until {
			most = max(most, limit)
		}
		limit = c.limit
		if until < c.from {
			return most
		}
	}
	return max(most, limit)
}

// locks splits a history by lock, in the order in which the locks first appear.
func locks(ops []Op) []*lock {
	var all []*lock
	byPath := make(map[string]*lock)
	lockOf := func(o Op) *lock {
		l := byPath[o.Lock]
		if l == nil {
			l = &lock{path: o.Lock}
			byPath[o.Lock] = l
			all = append(all, l)
		}
		switch {
		case o.Kind == Change:
			l.typ = o.Type
			l.changes = append(l.changes, change{o.Call, o.Return, o.Limit, o})
		case o.Type != "":
			l.typ, l.limit = o.Type, max(l.limit, o.Limit)
		}
		return l
	}
	attempts := make(map[int]Op)
	var order []int
	for _, o := range ops {
		switch o.Kind {
		case Acquire, Try:
			if _, again := attempts[o.Claim]; !again {
				order = append(order, o.Claim)
			}
			attempts[o.Claim] = o
		case Change:
			lockOf(o)
		case Answer:
			l := lockOf(o)
			l.answers = append(l.answers, o)
		case Observe:
			if o.Outcome == OK {
				l := lockOf(o)
				l.observed = append(l.observed, o)
			}
		}
	}
	claims := make(map[int]*claim)
	for _, id := range order {
		o := attempts[id]
		l := lockOf(o)
		if o.Outcome == OK {
			c := &claim{Op: o, until: Never, gone: Never}
			claims[id] = c
			l.claims = append(l.claims, c)
		} else {
			l.attempts = append(l.attempts, o)
		}
	}
	for _, o := range ops {
		if c := claims[o.Claim]; c != nil && (o.Kind == Release || o.Kind == Lose) && o.Call < c.until {
			c.until, c.gone = o.Call, o.Return
		}
	}
	takeAway(ops, byPath)
	for _, l := range all {
		slices.SortFunc(l.claims, func(a, b *claim) int { return int(min(max(a.from()-b.from(), -1), 1)) })
	}
	return all
}

// takeAway ends the claims that were broken, because no one could have notified their holders
// in time.
func takeAway(ops []Op, byPath map[string]*lock) {
	for _, b := range ops {
		if b.Kind != Break {
			continue
		}
		for path, l := range byPath {
			if b.Lock != "" && b.Lock != path {
				continue
			}
			for _, c := range l.claims {
				// A name may be used again, a token never. Only a claim that has stepped down
				// has another token than its node, which is younger.
				named := b.Node != "" && b.Node == c.Node && (b.Token == 0 || c.Inside != 0 && b.Token > c.Token)
				hit := named || b.Token != 0 && b.Token == c.Token || b.Session != 0 && b.Session == c.Session
				switch {
				case !hit || b.Call >= c.until:
				case b.Call >= c.Call:
					c.until, c.gone = b.Call, Never
				case c.Inside != 0, l.handedLate(c, b):
					// c joined a claim, or was handed a node by one, that had already ended
					// without its holder's knowledge.
					c.until, c.gone = 0, 0
				case b.Session != 0: // it does not end at once
					c.until, c.gone = c.Call, Never
				default: // an earlier node of the same name
				}
			}
			l.claims = slices.DeleteFunc(l.claims, func(c *claim) bool { return c.until == 0 })
		}
	}
}

// handedLate reports whether c, which began after the break, was handed a node from before the
// break.
func (l *lock) handedLate(c *claim, b Op) bool {
	return c.reuses() && slices.ContainsFunc(l.claims, func(o *claim) bool {
		return o.Claim != c.Claim && o.reuses() && o.Token == c.Token && o.Call <= b.Call
	})
}

// excused reports which of the failed attempts had another client in their way that claims
// nothing: a waiter, a simultaneous attempt, or an attempt whose node may still exist. (If one
// of several permits was taken away, the nodes of the others may stay. If a client keeps the lock,
// its node may stay while the client is out of reach.) For all other failed
// attempts, some client must have held the lock.
func (l *lock) excused() []bool {
	// The waiters: [Call, Return]. There are two lists, because a reader conflicts with writers
	// only.
	var all, exclusive []window
	add := func(o Op, until time.Duration) {
		w := window{o.Call, until, o.Claim}
		all = append(all, w)
		if !o.Shared {
			exclusive = append(exclusive, w)
		}
	}
	for _, o := range l.attempts {
		if o.Outcome == Unknown || o.Keep > 0 && o.Kind == Acquire { // the lock may come as the caller gives up
			add(o, Never)
		} else {
			add(o, o.Return)
		}
	}
	for _, c := range l.claims {
		if c.Strayed || c.Keep > 0 || c.permits() > 1 && c.gone == Never {
			add(c.Op, Never)
		} else {
			add(c.Op, c.Return)
		}
	}
	any, writers := newPresence(all), newPresence(exclusive)
	excused := make([]bool, len(l.attempts))
	for i, o := range l.attempts {
		if o.Shared {
			excused[i] = writers.during(o)
		} else {
			excused[i] = any.during(o)
		}
	}
	return excused
}

// A window is a time during which a client may have been in the way.
type window struct {
	from, until time.Duration
	claim       int
}

// A presence finds the clients that were in the way at some time.
type presence struct {
	windows []window // by from
	latest  [][2]int // of the windows up to here, the two that end last
}

func newPresence(ws []window) *presence {
	slices.SortFunc(ws, func(a, b window) int { return int(min(max(a.from-b.from, -1), 1)) })
	p := &presence{windows: ws, latest: make([][2]int, len(ws))}
	best := [2]int{-1, -1}
	for i, w := range ws {
		switch {
		case best[0] < 0 || w.until > ws[best[0]].until:
			best = [2]int{i, best[0]}
		case best[1] < 0 || w.until > ws[best[1]].until:
			best[1] = i
		}
		p.latest[i] = best
	}
	return p
}

// during reports whether a client other than o's was there at some instant of o.
func (p *presence) during(o Op) bool {
	n, _ := slices.BinarySearchFunc(p.windows, o.Return, func(w window, t time.Duration) int {
		if w.from <= t {
			return -1
		}
		return 1
	})
	if n == 0 {
		return false
	}
	for _, i := range p.latest[n-1] {
		if i >= 0 && p.windows[i].claim != o.Claim && p.windows[i].until >= o.Call {
			return true
		}
	}
	return false
}
