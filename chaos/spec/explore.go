package spec

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// A Result is what an exploration has found.
type Result struct {
	States, Steps, Depth int
	// Whole reports that every state was visited that can be reached.
	Whole bool
	// Violation is nil if no promise was broken.
	Violation *Violation
}

// A Violation is a promise that was broken, and a shortest way to it.
type Violation struct {
	Err  error
	Path []string
}

func (v *Violation) String() string { return strings.Join(v.Path, "\n") + "\n" + v.Err.Error() }

// Explore visits the states that c permits, breadth first, up to a number of them. In every state it asks whether each
// waiter gets its turn if nothing fails any more (S8). It ends at the first violation.
func Explore(c Config, limit int) Result {
	seed := maphash.MakeSeed()
	var buf []byte
	sum := func(s *state) uint64 {
		buf = s.key(buf[:0])
		return maphash.Bytes(seed, buf)
	}
	first := c.begin()
	from := map[uint64]uint64{sum(first): 0}
	r := Result{States: 1}
	level := []*state{first}
	var bad *Violation
	for len(level) > 0 && bad == nil && r.States < limit {
		r.Depth++
		var next []*state
		for _, s := range level {
			if err := c.quiet(s); err != nil {
				bad = &Violation{Err: err, Path: c.path(from, sum, sum(s))}
				break
			}
			here := sum(s)
			c.steps(s, func(t step) {
				r.Steps++
				if bad != nil {
					return
				}
				if t.err != nil {
					bad = &Violation{Err: t.err, Path: append(c.path(from, sum, here), t.String())}
					return
				}
				k := sum(t.next)
				if _, seen := from[k]; !seen {
					from[k] = here
					next = append(next, t.next)
					r.States++
				}
			})
			if bad != nil || r.States >= limit {
				break
			}
		}
		level = next
	}
	r.Violation = bad
	r.Whole = bad == nil && len(level) == 0
	return r
}

// path returns the steps that lead to a state.
func (c Config) path(from map[uint64]uint64, sum func(*state) uint64, to uint64) []string {
	s := c.begin()
	first := sum(s)
	var sums []uint64
	for at := to; at != first; at = from[at] {
		sums = append(sums, at)
	}
	slices.Reverse(sums)
	var path []string
	for _, want := range sums {
		found := false
		c.steps(s, func(t step) {
			if !found && t.err == nil && sum(t.next) == want {
				found, s = true, t.next
				path = append(path, t.String())
			}
		})
	}
	return path
}

func (t step) String() string {
	if t.client < 0 {
		return t.name
	}
	return fmt.Sprintf("client %d %s", t.client, t.name)
}

// quietly are the names of the acts that are no faults, and that nobody decides.
var quietly = func() (list []*act) {
	for _, name := range []string{
		"is told that its session is over", "has its create applied", "has a create applied that it has given up", "is told its place", "looks for its place", "looks at the queue",
		"sets its watch", "has a server that catches up", "has its place made lasting", "has a detached lock", "has its result applied",
		"unlocks", "has its delete applied", "is told that its place is gone",
		"removes a detached lock that has expired",
	} {
		i := slices.IndexFunc(acts, func(a act) bool { return a.name == name })
		list = append(list, &acts[i])
	}
	return list
}()

// quiet lets a state come to rest: nobody joins, and nothing fails. Then every waiter gets its turn (S8), and no place
// is left (S7).
func (c Config) quiet(s *state) error {
	s = s.clone()
	c.Sessions = len(s.sessions) // nobody begins again
	for range 200 {
		for i := range s.clients {
			if s.heard(&s.clients[i]) {
				s.clients[i].lease = c.timeout()
			}
		}
		moved, err := c.settle(s)
		if err != nil {
			return err
		}
		if !moved && s.lasts < lastingTime {
			s.lasts, moved = s.lasts+1, true
		}
		if !moved {
			return s.rest()
		}
	}
	return refuse("S8", "wait", "no state of rest is reached")
}

// settle makes the first quiet step that is possible, of each client.
func (c Config) settle(s *state) (moved bool, err error) {
	for i := range s.sessions {
		used := slices.ContainsFunc(s.clients, func(k client) bool { return k.phase != dead && int(k.session) == i+1 })
		if s.sessions[i].alive && !used {
			s.sessions[i].alive, moved = false, true
			s.lock.Ended(int64(i + 1))
		}
	}
	for i := range s.clients {
		k := &s.clients[i]
		for _, a := range quietly {
			if a.can(c, s, k) {
				if err := a.do(c, s, k); err != nil {
					return false, err
				}
				moved = true
				break
			}
		}
	}
	return moved, nil
}

// rest returns an error if somebody still waits, or a place is left.
func (s *state) rest() error {
	for i, k := range s.clients {
		if k.phase != idle && k.phase != dead {
			return refuse("S8", "wait", "client %d waits for ever for place %d, its own is %d", i, k.watch, k.token)
		}
	}
	for _, p := range s.lock.places {
		if !p.gone && p.Session != 0 {
			return refuse("S7", "end", "place %d is left behind", p.Token)
		}
	}
	return nil
}
