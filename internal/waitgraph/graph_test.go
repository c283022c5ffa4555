package waitgraph

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// at returns a place of a session, made after zxid steps.
func at(session, zxid int64) Place {
	return Place{Node: fmt.Sprintf("/n%d", zxid), Zxid: zxid, Session: session, Since: epoch.Add(time.Duration(zxid) * time.Second)}
}

func reader(p Place) Place { p.Shared = true; return p }

func within(p Place, outer int64) Place { p.Within = outer; return p }

func needing(p Place, permits int) Place { p.Needs = permits; return p }

func plain(path string, queue ...Place) Lock { return Lock{Path: path, Kind: "lock", Queue: queue} }

func semaphore(path string, limit int, permits, waiters []Place) Lock {
	return Lock{Path: path, Kind: "semaphore", Counted: true, Limit: limit, Permits: permits, Queue: waiters}
}

// sessionsOf returns the sessions of the owners of each cycle.
func sessionsOf(g *Graph) (all [][]int64) {
	for _, c := range g.Cycles {
		var sessions []int64
		for _, o := range c.Owners {
			sessions = append(sessions, g.Owners[o].Sessions...)
		}
		slices.Sort(sessions)
		all = append(all, sessions)
	}
	return all
}

func TestCycles(t *testing.T) {
	for _, tt := range []struct {
		name   string
		locks  []Lock
		want   [][]int64
		victim int64
	}{
		{"nobody", nil, nil, 0},
		{"a queue", []Lock{plain("a", at(1, 1), at(2, 2), at(3, 3))}, nil, 0},
		{"two sessions and two locks", []Lock{plain("a", at(1, 1), at(2, 4)), plain("b", at(2, 2), at(1, 3))}, [][]int64{{1, 2}}, 2},
		{"the victim holds the fewest locks", []Lock{plain("a", at(1, 1), at(2, 4)), plain("b", at(2, 2), at(1, 3)), plain("c", at(2, 5))}, [][]int64{{1, 2}}, 1},
		{"a chain without an end is none", []Lock{plain("a", at(1, 1), at(2, 4)), plain("b", at(2, 2), at(3, 5))}, nil, 0},
		{"a waiter between is not in the cycle", []Lock{plain("a", at(1, 1), at(3, 3), at(2, 4)), plain("b", at(2, 2), at(1, 5))}, [][]int64{{1, 2}}, 1},
		{"readers do not wait for readers", []Lock{plain("a", reader(at(1, 1)), reader(at(2, 4))), plain("b", at(2, 2), at(1, 3))}, nil, 0},
		{
			"a reader waits for the writer ahead, which waits for a reader",
			[]Lock{plain("a", reader(at(1, 1)), at(3, 3), reader(at(2, 4))), plain("b", at(2, 2), at(1, 5))}, [][]int64{{1, 2, 3}}, 3,
		},
		{
			"two writers ahead of the reader: the end of one is not enough",
			[]Lock{plain("a", reader(at(1, 1)), at(3, 3), at(4, 4), reader(at(2, 5))), plain("b", at(2, 2), at(1, 6))}, [][]int64{{1, 2, 4}}, 1,
		},
		{"a permit is free", []Lock{semaphore("s", 2, []Place{at(1, 1)}, []Place{at(2, 4)}), plain("b", at(2, 2), at(1, 3))}, nil, 0},
		{"another holder of a permit can proceed", []Lock{semaphore("s", 2, []Place{at(1, 1), at(3, 5)}, []Place{at(2, 4)}), plain("b", at(2, 2), at(1, 3))}, nil, 0},
		{
			"all holders of permits wait for the waiter",
			[]Lock{semaphore("s", 2, []Place{at(1, 1), at(3, 5)}, []Place{at(2, 4)}), plain("b", at(2, 2), at(1, 3), at(3, 6))}, [][]int64{{1, 2, 3}}, 3,
		},
		{
			"one permit for two waiters: the second is not stuck behind the first",
			[]Lock{semaphore("s", 1, []Place{at(9, 1)}, []Place{at(1, 5), at(2, 6)}), plain("b", at(2, 2), at(4, 3))}, nil, 0,
		},
		{
			"two permits of three: both holders are needed",
			[]Lock{semaphore("s", 3, []Place{at(1, 1), at(3, 5)}, []Place{needing(at(2, 4), 3)}), plain("b", at(2, 2), at(1, 3))}, [][]int64{{1, 2}}, 2,
		},
		{
			"two permits of three: the end of the holder that works is enough",
			[]Lock{semaphore("s", 3, []Place{at(1, 1), at(3, 5)}, []Place{needing(at(2, 4), 2)}), plain("b", at(2, 2), at(1, 3))}, nil, 0,
		},
		{
			"one client has two permits of three",
			[]Lock{semaphore("s", 3, []Place{at(1, 1), at(1, 1)}, []Place{needing(at(2, 4), 2)}), plain("b", at(2, 2), at(1, 3))}, [][]int64{{1, 2}}, 2,
		},
		{
			"a waiter behind one that needs more than are free",
			[]Lock{semaphore("s", 3, []Place{at(1, 1)}, []Place{needing(at(3, 4), 3), at(2, 5)}), plain("b", at(2, 2), at(1, 3))}, [][]int64{{1, 2, 3}}, 3,
		},
		{
			"a waiter behind one that needs no more than are free is behind that one's end only",
			[]Lock{semaphore("s", 3, []Place{at(1, 1)}, []Place{needing(at(4, 4), 3), needing(at(3, 6), 2), at(2, 7)}), plain("b", at(2, 2), at(1, 3))},
			[][]int64{{1, 2, 4}}, 4,
		},
		{
			"a waiter behind one that needs more waits for permits alone if it lacks some, too",
			[]Lock{semaphore("s", 3, []Place{at(1, 1), at(1, 1)}, []Place{needing(at(3, 4), 3), needing(at(2, 5), 2)}), plain("b", at(2, 2), at(1, 3))},
			[][]int64{{1, 2}}, 2,
		},
		{
			"a waiter that needs more permits than there are gives up when it is the first",
			[]Lock{semaphore("s", 2, []Place{at(1, 1)}, []Place{needing(at(3, 4), 3), at(2, 5)}), plain("b", at(2, 2), at(1, 3), at(3, 6))}, nil, 0,
		},
		{"as many permits as are free", []Lock{semaphore("s", 3, []Place{at(1, 1)}, []Place{needing(at(2, 4), 2)}), plain("b", at(2, 2), at(1, 3))}, nil, 0},
		{
			"without a limit, the first waiter lacks one permit",
			[]Lock{semaphore("s", 0, []Place{at(1, 1), at(3, 5)}, []Place{needing(at(2, 4), 2)}), plain("b", at(2, 2), at(1, 3))}, nil, 0,
		},
		{"without a limit, the permits are all in use", []Lock{semaphore("s", 0, []Place{at(1, 1)}, []Place{at(2, 4)}), plain("b", at(2, 2), at(1, 3))}, [][]int64{{1, 2}}, 2},
		{"goroutines of two programs contend for one lock", []Lock{plain("a", at(1, 1), at(2, 2), at(1, 3), at(2, 4))}, nil, 0},
		{
			"the waiting thread of a session that holds the lock does not hold it up",
			[]Lock{plain("a", at(1, 1), at(2, 2), at(1, 3)), plain("b", at(3, 4), at(2, 5))}, nil, 0,
		},
		{"a candidate waits beside its work", []Lock{plain("a", at(1, 1), Place{Node: "/x", Zxid: 9, Session: 2, Idle: true}), plain("b", at(2, 2), at(1, 3))}, nil, 0},
		{
			"commands within commands",
			[]Lock{plain("a", at(1, 1), within(at(12, 4), 2)), plain("b", at(2, 2), within(at(11, 3), 1))}, [][]int64{{1, 2, 11, 12}}, 2,
		},
		{"three levels", []Lock{plain("a", at(1, 1), at(2, 4)), plain("b", within(at(11, 2), 1)), plain("c", at(2, 3), within(at(21, 5), 11))}, [][]int64{{1, 2, 11, 21}}, 2},
		{"a session that waits for what its own command waits behind", []Lock{plain("a", reader(at(1, 1)), at(2, 2), reader(within(at(3, 3), 1)))}, [][]int64{{1, 2, 3}}, 2},
		{"a command waits for its own parent", []Lock{plain("a", at(1, 1), within(at(2, 2), 1))}, [][]int64{{1, 2}}, 1},
		{"persistent nodes are of different owners", []Lock{plain("a", at(0, 1), at(0, 4)), plain("b", at(0, 2), at(0, 3))}, nil, 0},
		{
			"two cycles, the older first",
			[]Lock{plain("a", at(1, 1), at(2, 8)), plain("b", at(2, 2), at(1, 9)), plain("c", at(3, 3), at(4, 6)), plain("d", at(4, 4), at(3, 7))},
			[][]int64{{3, 4}, {1, 2}}, 3,
		},
		{
			"two cycles over one session: it is the victim, though it holds more",
			[]Lock{plain("a", at(1, 1), at(2, 6)), plain("b", at(2, 2), at(1, 7)), plain("c", at(1, 3), at(3, 8)), plain("d", at(3, 4), at(1, 9))},
			[][]int64{{1, 2, 3}}, 1,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := Analyze(tt.locks)
			if got := sessionsOf(g); !reflect.DeepEqual(got, tt.want) {
				t.Fatalf("cycles %v; want %v", got, tt.want)
			}
			if len(tt.want) == 0 {
				return
			}
			c := g.Cycles[0]
			if victim := g.Owners[c.Victim].Sessions[0]; victim != tt.victim || c.Rest {
				t.Errorf("victim %d, rest %v; want %d", victim, c.Rest, tt.victim)
			}
			checkSteps(t, g)
		})
	}
}

// A reader behind a writer waits for it once.
func TestAReaderWaitsOnceForTheWriterThatHoldsTheLock(t *testing.T) {
	g := Analyze([]Lock{plain("a", at(1, 1), reader(at(2, 2)))})
	if edges := g.Edges(); len(edges) != 1 {
		t.Errorf("edges %+v; want one", edges)
	}
}

// checkSteps checks that each step of a cycle is a wait for the owner of the next one.
func checkSteps(t *testing.T, g *Graph) {
	t.Helper()
	for _, c := range g.Cycles {
		if len(c.Steps) == 0 || c.Steps[0].Owner != c.Victim {
			t.Fatalf("the way round is %+v; want one from the victim %d", c.Steps, c.Victim)
		}
		for i, s := range c.Steps {
			next := c.Steps[(i+1)%len(c.Steps)]
			wait, other := g.Place(s.Wait), g.Place(s.For)
			switch {
			case g.OwnerOf(s.Wait) != s.Owner || g.OwnerOf(s.For) != next.Owner || s.Wait.Lock != s.For.Lock || g.Held(s.Wait):
				t.Fatalf("step %+v is followed by %+v", s, next)
			case !s.For.Permit && (s.For.Place >= s.Wait.Place || wait.Shared && other.Shared && !g.Locks[s.Wait.Lock].Counted):
				t.Fatalf("step %+v is no wait", s)
			}
		}
	}
}

func TestThreadsAreToldInCycles(t *testing.T) {
	locks := []Lock{plain("a", at(1, 1), at(2, 4)), plain("b", at(2, 2), at(1, 3)), plain("c", at(3, 5), at(1, 6))}
	g := Analyze(locks)
	if len(g.Cycles) != 1 || len(g.Cycles[0].Threads) != 1 || g.Owners[g.Cycles[0].Threads[0]].Sessions[0] != 1 {
		t.Errorf("%+v; want session 1 to have threads", g.Cycles)
	}
	if g := Analyze(locks[:2]); len(g.Cycles) != 1 || len(g.Cycles[0].Threads) != 0 || !g.Cycles[0].Since.Equal(epoch.Add(4*time.Second)) {
		t.Errorf("%+v; want no threads, since the fourth second", g.Cycles)
	}
}

// The yielder of a cycle is its youngest place that says so, whoever else is in it. Places outside it do not count.
func TestTheYoungestOfThoseThatYield(t *testing.T) {
	yields := func(p Place) Place { p.Yields = true; return p }
	pair := func(second, first Place) []Lock {
		return []Lock{plain("a", at(1, 1), second), plain("b", at(2, 2), first)}
	}
	for _, tt := range []struct {
		name  string
		locks []Lock
		want  int64 // its zxid; 0: nobody yields
	}{
		{"nobody", pair(at(2, 4), at(1, 3)), 0},
		{"both", pair(yields(at(2, 4)), yields(at(1, 3))), 4},
		{"the older one", pair(at(2, 4), yields(at(1, 3))), 3},
		{"a holder", []Lock{plain("a", yields(at(1, 1)), at(2, 4)), plain("b", yields(at(2, 2)), at(1, 3))}, 0},
		{"behind the cycle", append(pair(at(2, 4), yields(at(1, 3))), plain("c", at(1, 5), yields(at(3, 6)))), 3},
		{
			"one that needs more, ahead of the cycle's waiter",
			[]Lock{semaphore("s", 3, []Place{at(1, 1)}, []Place{yields(needing(at(3, 4), 3)), at(2, 5)}), plain("b", at(2, 2), at(1, 3))}, 4,
		},
		{
			"one that needs more, and whose end does not help",
			[]Lock{semaphore("s", 3, []Place{at(1, 1), at(1, 1)}, []Place{yields(needing(at(3, 4), 3)), needing(at(2, 5), 2)}), plain("b", at(2, 2), at(1, 3))}, 0,
		},
		{"threads", append(pair(yields(at(2, 4)), yields(at(1, 3))), plain("c", at(3, 5), yields(at(1, 6)))), 0},
		{"a writer between readers", []Lock{plain("a", reader(at(1, 1)), yields(at(3, 3)), reader(at(2, 4))), plain("b", at(2, 2), at(1, 5))}, 3},
	} {
		g := Analyze(tt.locks)
		if len(g.Cycles) != 1 {
			t.Fatalf("%s: %d cycles", tt.name, len(g.Cycles))
		}
		got := int64(0)
		if y := g.Cycles[0].Yielder; y != nil {
			got = y.Zxid
		}
		if got != tt.want {
			t.Errorf("%s: %d yields, want %d", tt.name, got, tt.want)
		}
	}
}

// A cycle that was read together from two moments is not in both readings.
func TestStableLeavesOutWhatHasChanged(t *testing.T) {
	first := []Lock{plain("a", at(1, 1), at(2, 4)), plain("b", at(2, 2), at(1, 3))}
	again := []Lock{plain("a", at(1, 1), at(2, 4)), plain("b", at(2, 2), at(1, 3))}
	if g := Analyze(Stable(first, again)); len(g.Cycles) != 1 {
		t.Errorf("%d cycles after two equal readings; want 1", len(g.Cycles))
	}
	for name, second := range map[string][]Lock{
		"the holder has left":         {plain("a", at(1, 1), at(2, 4)), plain("b", at(1, 3))},
		"the waiter has come again":   {plain("a", at(1, 1), at(2, 9)), plain("b", at(2, 2), at(1, 3))},
		"the name is there once more": {plain("a", at(1, 1), Place{Node: "/n4", Zxid: 9, Session: 2}), plain("b", at(2, 2), at(1, 3))},
		"a lock has gone":             {plain("b", at(2, 2), at(1, 3))},
	} {
		if g := Analyze(Stable(first, second)); len(g.Cycles) != 0 {
			t.Errorf("%s: %v; want no cycle", name, sessionsOf(g))
		}
	}
	// A waiter of a semaphore has had another way out meanwhile.
	first = []Lock{semaphore("s", 2, []Place{at(1, 1), at(3, 5)}, []Place{at(2, 4)}), plain("b", at(2, 2), at(1, 3), at(3, 6), at(4, 8))}
	second := []Lock{semaphore("s", 2, []Place{at(1, 1), at(4, 7)}, []Place{at(2, 4)}), first[1]}
	if g := Analyze(second); len(g.Cycles) != 1 {
		t.Fatal("the second reading alone has no cycle")
	}
	if g := Analyze(Stable(first, second)); len(g.Cycles) != 0 {
		t.Errorf("%v; want no cycle, since the permits differ", sessionsOf(g))
	}
}

// A reference without any of the solver's ideas: it plays the future with lists of places, and finds cycles by
// closing the relation.

// A future has the places that are left.
type future struct {
	locks   []Lock
	owner   map[int64]int // by zxid
	several []bool        // the owner waits with several places at the beginning
	gone    map[int]bool
}

func futureOf(g *Graph) *future {
	f := &future{owner: make(map[int64]int), gone: make(map[int]bool)}
	for _, o := range g.Owners {
		f.several = append(f.several, len(o.Waits) > 1)
	}
	for li, l := range g.Locks {
		for i, p := range l.Permits {
			f.owner[p.Zxid] = g.OwnerOf(Ref{li, i, true})
		}
		for i, p := range l.Queue {
			f.owner[p.Zxid] = g.OwnerOf(Ref{li, i, false})
		}
		l.Permits, l.Queue = slices.Clone(l.Permits), slices.Clone(l.Queue)
		if l.Limit == 0 {
			l.Limit = len(l.Permits)
			if len(l.Queue) > 0 {
				l.Limit += max(l.Queue[0].Needs, 1) - 1
			}
		}
		f.locks = append(f.locks, l)
	}
	return f
}

// blockers returns those that place i of a queue waits for.
func (f *future) blockers(l Lock, i int) (all []int) {
	if l.Counted {
		return f.permitBlockers(l, i)
	}
	for _, p := range l.Queue[:i] {
		if !p.Shared || !l.Queue[i].Shared {
			all = append(all, f.owner[p.Zxid])
		}
	}
	return all
}

// permitBlockers returns the holders of permits, if too few are free. Of those ahead, it returns those that keep the place
// from its permits: they lack permits themselves, or wait elsewhere, too.
func (f *future) permitBlockers(l Lock, i int) (all []int) {
	lacks := func(i int) bool {
		n := max(l.Queue[i].Needs, 1)
		return n <= l.Limit && n > max(l.Limit-len(l.Permits), 0)
	}
	if lacks(i) {
		for _, p := range l.Permits {
			all = append(all, f.owner[p.Zxid])
		}
	}
	for j, p := range l.Queue[:i] {
		if owner := f.owner[p.Zxid]; !lacks(i) && lacks(j) || f.several[owner] {
			all = append(all, owner)
		}
	}
	return all
}

// play lets permits be taken and owners proceed until nothing changes.
func (f *future) play(owners int) {
	for changed := true; changed; {
		changed = false
		waits := make(map[int]bool)
		for li := range f.locks {
			l := &f.locks[li]
			for l.Counted && len(l.Queue) > 0 {
				n := max(l.Queue[0].Needs, 1)
				if n > l.Limit {
					n = 0 // it fails
				} else if n > l.Limit-len(l.Permits) {
					break
				}
				l.Permits, l.Queue = append(l.Permits, slices.Repeat(l.Queue[:1], n)...), l.Queue[1:]
			}
			for i, p := range l.Queue {
				if l.Counted || len(f.blockers(*l, i)) > 0 {
					waits[f.owner[p.Zxid]] = true
				}
			}
		}
		for o := range owners {
			if !waits[o] && !f.gone[o] {
				f.end(o)
				changed = true
			}
		}
	}
}

func (f *future) end(owner int) {
	f.gone[owner] = true
	of := func(p Place) bool { return f.owner[p.Zxid] == owner }
	for li := range f.locks {
		l := &f.locks[li]
		l.Permits, l.Queue = slices.DeleteFunc(l.Permits, of), slices.DeleteFunc(l.Queue, of)
	}
}

// reaches returns which owners wait for which, over any number of others.
func (f *future) reaches(owners int) [][]bool {
	r := make([][]bool, owners)
	for i := range r {
		r[i] = make([]bool, owners)
	}
	for _, l := range f.locks {
		for i, p := range l.Queue {
			for _, o := range f.blockers(l, i) {
				r[f.owner[p.Zxid]][o] = true
			}
		}
	}
	for k := range owners {
		for i := range owners {
			for j := range owners {
				r[i][j] = r[i][j] || r[i][k] && r[k][j]
			}
		}
	}
	return r
}

// compare checks a graph against the reference.
func compare(t *testing.T, g *Graph) {
	t.Helper()
	n := len(g.Owners)
	f := futureOf(g)
	f.play(n)
	stuck := 0
	for i, o := range g.Owners {
		if o.Stuck == f.gone[i] {
			t.Fatalf("owner %d stuck: %v; in the reference: %v\n%+v", i, o.Stuck, !f.gone[i], g.Locks)
		}
		if o.Stuck {
			stuck++
		}
	}
	if (stuck > 0) != (len(g.Cycles) > 0) {
		t.Fatalf("%d are stuck, %d cycles\n%+v", stuck, len(g.Cycles), g.Locks)
	}
	reaches := f.reaches(n)
	in := make(map[int]bool)
	for _, c := range g.Cycles {
		for _, a := range c.Owners {
			in[a] = true
			for _, b := range c.Owners {
				if !reaches[a][b] {
					t.Fatalf("owner %d of a cycle does not wait for %d\n%+v", a, b, g.Locks)
				}
			}
		}
		tried := futureOf(g)
		tried.end(c.Victim)
		tried.play(n)
		left := tried.reaches(n)
		if broken := !slices.ContainsFunc(c.Owners, func(o int) bool { return left[o][o] }); broken == c.Rest {
			t.Fatalf("the end of victim %d breaks the cycles: %v; it says %v\n%+v", c.Victim, broken, !c.Rest, g.Locks)
		}
	}
	// Every stuck owner is in a cycle, or waits for one.
	for i, o := range g.Owners {
		if o.Stuck && !in[i] && !slices.ContainsFunc(g.Cycles, func(c Cycle) bool { return reaches[i][c.Owners[0]] }) {
			t.Fatalf("owner %d is stuck without a cycle\n%+v", i, g.Locks)
		}
	}
	checkSteps(t, g)
}

// A world makes states as clients do: one request after the other.
type world struct {
	rng   *rand.Rand
	locks []Lock
	zxid  int64
}

func newWorld(rng *rand.Rand) *world {
	w := &world{rng: rng}
	for i := range 3 + rng.IntN(6) {
		l := plain(fmt.Sprintf("/lock%d", i))
		if rng.IntN(3) == 0 {
			l.Counted, l.Kind, l.Limit = true, "semaphore", 1+rng.IntN(4)
		}
		w.locks = append(w.locks, l)
	}
	return w
}

// ask joins the queue of a lock and reports whether the session has the lock.
func (w *world) ask(lock int, session, outer int64) bool {
	l := &w.locks[lock]
	w.zxid++
	p := within(at(session, w.zxid), outer)
	if !l.Counted {
		p.Shared = w.rng.IntN(2) == 0
		l.Queue = append(l.Queue, p)
		return !slices.ContainsFunc(l.Queue[:len(l.Queue)-1], func(q Place) bool { return !q.Shared || !p.Shared })
	}
	if w.rng.IntN(2) == 0 {
		p.Needs = 1 + w.rng.IntN(l.Limit)
		if w.rng.IntN(20) == 0 {
			p.Needs = l.Limit + 1 // somebody has changed the limit
		}
	}
	if n := max(p.Needs, 1); len(l.Queue) == 0 && len(l.Permits)+n <= l.Limit {
		l.Permits = append(l.Permits, slices.Repeat([]Place{p}, n)...)
		return true
	}
	l.Queue = append(l.Queue, p)
	return false
}

// take gives a session permits.
func (w *world) take(l *Lock, session int64, permits int) {
	w.zxid++
	l.Permits = append(l.Permits, slices.Repeat([]Place{at(session, w.zxid)}, permits)...)
}

// join lets a session wait for permits.
func (w *world) join(l *Lock, session int64, permits int) {
	w.zxid++
	l.Queue = append(l.Queue, needing(at(session, w.zxid), permits))
}

// The solver agrees with the reference on random states: also of sessions with threads, of commands within
// commands, and with cycles in all sizes.
func TestRandomStates(t *testing.T) {
	cycles := 0
	for seed := range uint64(10_000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(rng)
		sessions := 2 + rng.Int64N(6)
		waits := make(map[int64]bool)
		for range 5 + rng.IntN(25) {
			s := 1 + rng.Int64N(sessions)
			if waits[s] && rng.IntN(6) > 0 {
				continue // mostly, a session has one thread
			}
			outer := int64(0)
			if s > sessions/2 && rng.IntN(3) == 0 {
				outer = 1 + rng.Int64N(s)
			}
			if !w.ask(rng.IntN(len(w.locks)), s, outer) {
				waits[s] = true
			}
		}
		for i := range w.locks {
			if rng.IntN(8) == 0 {
				w.locks[i].Limit = 0 // unknown
			}
		}
		g := Analyze(w.locks)
		compare(t, g)
		cycles += len(g.Cycles)
	}
	if cycles < 1000 {
		t.Errorf("%d cycles in all states; the test needs more", cycles)
	}
}

// Sessions that acquire their locks in one order never wait in a circle.
func TestNoCycleWhereThereIsNone(t *testing.T) {
	waiters := 0
	for seed := range uint64(10_000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		w := newWorld(rng)
		next, waits := make(map[int64]int), make(map[int64]bool)
		sessions := 2 + rng.Int64N(8)
		for range 40 {
			s := 1 + rng.Int64N(sessions)
			if waits[s] || next[s] >= len(w.locks) {
				continue
			}
			lock := next[s] + rng.IntN(len(w.locks)-next[s])
			next[s] = lock + 1
			if !w.ask(lock, s, 0) {
				waits[s] = true
				waiters++
			}
		}
		if g := Analyze(w.locks); len(g.Cycles) > 0 || slices.ContainsFunc(g.Owners, func(o Owner) bool { return o.Stuck }) {
			t.Fatalf("seed %d: %v in\n%+v", seed, sessionsOf(g), w.locks)
		}
	}
	if waiters < 10_000 {
		t.Errorf("%d waiters in all states; the test needs more", waiters)
	}
}

// Between sessions that are in nobody's way, 2 to 5 sessions wait in a circle. They are found, and nobody else.
func TestEveryPlantedCycleIsFound(t *testing.T) {
	for seed := range uint64(10_000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		w := newWorld(rng)
		for s := range int64(5) {
			w.ask(rng.IntN(len(w.locks)), 100+s, 0) // one lock each: they wait, but nobody in the circle for them
		}
		n := 2 + rng.Int64N(4)
		first := len(w.locks)
		for i := range n {
			l := plain(fmt.Sprintf("/planted%d", i))
			if rng.IntN(3) == 0 {
				l.Counted, l.Kind, l.Limit = true, "semaphore", 1+rng.IntN(4)
			}
			w.locks = append(w.locks, l)
		}
		var want []int64
		for i := range n {
			want = append(want, 1+i)
			if l := &w.locks[first+int(i)]; l.Counted {
				w.take(l, 1+i, 1+rng.IntN(l.Limit))
			} else {
				w.ask(first+int(i), 1+i, 0)
			}
		}
		for i := range n {
			lock := first + int((i+1)%n)
			l := &w.locks[lock]
			if !l.Counted {
				w.ask(lock, 1+i, 0)
				l.Queue[1].Shared = l.Queue[1].Shared && !l.Queue[0].Shared // readers do not wait for readers
				continue
			}
			free := l.Limit - len(l.Permits)
			if free > 0 && rng.IntN(2) == 0 { // it waits behind another one that needs more than are free
				w.join(l, 300+i, free+1)
				want = append(want, 300+i)
				w.join(l, 1+i, 1+rng.IntN(free))
			} else {
				w.join(l, 1+i, free+1+rng.IntN(l.Limit-free))
			}
		}
		slices.Sort(want)
		if l := &w.locks[first]; l.Counted {
			w.join(l, 200, l.Limit) // behind the circle, not in it
		} else {
			w.ask(first, 200, 0)
		}
		g := Analyze(w.locks)
		if got := sessionsOf(g); len(got) != 1 || !slices.Equal(got[0], want) {
			t.Fatalf("seed %d: %v; want %v in\n%+v", seed, got, want, w.locks)
		}
		compare(t, g)
	}
}

// An owner comes into a cycle when somebody joins the queue of a lock that it holds, or that an owner holds that waits behind
// it: also one that would have its permits if the owner did not need more than are free.
func TestLocksBehindAWaiterThatNeedsSeveralPermits(t *testing.T) {
	locks := []Lock{
		semaphore("s", 4, []Place{at(9, 1), at(9, 1)}, []Place{needing(at(1, 4), 4), needing(at(2, 5), 3), at(3, 6)}),
		plain("b", at(2, 2)), plain("c", at(3, 3)), plain("d", at(1, 7)),
	}
	g := Analyze(locks)
	for session, want := range map[int64][]int{1: {1, 2, 3}, 2: {1, 2}, 3: {2}, 9: {0, 1, 2, 3}} {
		o, ok := g.OwnerOfSession(session)
		if got := g.HeldBehind(o); !ok || !slices.Equal(got, want) {
			t.Errorf("behind session %d: %v, want %v", session, got, want)
		}
	}
}

// A waiter for permits is behind the holder that gives back the last one that it lacks.
func TestWhoEndsAWaitForSeveralPermits(t *testing.T) {
	for _, tt := range []struct {
		needs int
		want  int64
	}{{1, 1}, {2, 2}, {3, 3}} {
		b := Analyze([]Lock{
			semaphore("s", 3, []Place{at(1, 1), at(2, 2), at(3, 3)}, []Place{needing(at(4, 4), tt.needs)}),
			plain("a", at(1, 5), at(2, 6), at(3, 7)), // so they end one after the other
		}).Blocking()
		var got []int64
		for o, owner := range b.Owners {
			for _, e := range b.Below(o) {
				if b.Locks[e.Wait.Lock].Path == "s" {
					got = append(got, owner.Sessions[0])
				}
			}
		}
		if !slices.Equal(got, []int64{tt.want}) {
			t.Errorf("a wait for %d permits is behind the sessions %d, want %d", tt.needs, got, tt.want)
		}
	}
}

// A deadlock with ten thousand waiters behind it takes no long time.
func TestLargeQueues(t *testing.T) {
	var a, b Lock
	a, b = plain("/a", at(1, 1)), plain("/b", at(2, 2))
	for i := range int64(10_000) {
		p := at(100+i, 100+i)
		p.Shared = i%2 == 0
		a.Queue = append(a.Queue, p)
	}
	a.Queue = append(a.Queue, at(2, 50_000))
	b.Queue = append(b.Queue, at(1, 50_001))
	g := Analyze([]Lock{a, b})
	if got := sessionsOf(g); len(got) != 1 || !slices.Equal(got[0], []int64{1, 2}) {
		t.Errorf("%v; want one cycle of two", got)
	}
}
