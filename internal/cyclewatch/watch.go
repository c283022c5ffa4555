// Package cyclewatch tells a client that waits for a lock that it waits in a cycle, and whether it is the one that gives up.
package cyclewatch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"holdfast/internal/budget"
	"holdfast/internal/locks"
	"holdfast/internal/waitgraph"
	"holdfast/zk"
)

// A Watch looks for a cycle through a client's own wait.
//
// Only an owner that holds a lock while it waits can be in a cycle. Nobody can tell from the server what a given session
// waits for, so the Watch reads all locks below its prefixes. It does so when the wait has lasted a second, and then rarely. In
// between, it reads once a second whether somebody has joined the queue of a lock that its owner holds, or that an owner
// holds who waits for its owner: without that, no cycle can have come about. See [waitgraph.Graph.HeldBehind].
type Watch struct {
	Client   *zk.Client
	Prefixes []string // of the paths of the locks that are read; each ends with /
	// Yield says that the client gives up its wait if it is the victim. Its places must say so, too, see queue.Note.
	Yield bool
	// Place is what the path of the node begins with that waits for the caller, and Held are the nodes of the locks that it holds meanwhile. The client's
	// other places are then of other callers. Without Place, all of them are of one caller.
	Place string
	Held  []string

	changes map[string]int32           // of the directories of these locks, before the last reading, or when nobody had joined since
	known   map[string]map[string]bool // of these directories, the children that there were before a reading; nil: not known
	listed  map[string]map[string]bool // the children since
	next    time.Time                  // of the next reading without a change
	pause   time.Duration              // before it
	rest    time.Time                  // no reading before
	credit  int                        // readings after changes
	earned  time.Time                  // the last credit
	session int64
	seen    bool // the last reading had places of the client
	unseen  int  // readings that had none
	told    *Found
}

// A Found is a cycle that the client waits in.
type Found struct {
	*waitgraph.Graph
	Cycle  *waitgraph.Cycle
	Self   int  // the owner of the client's place
	Victim bool // the client is the one that gives up
}

// Before returns a wait for the client.
func (f *Found) Before() waitgraph.Step { return f.Graph.Before(f.Cycle, f.Self) }

// same reports whether both are of the same waits.
func (f *Found) same(g *Found) bool {
	if f == nil || g == nil {
		return f == g
	}
	return f.Victim == g.Victim && slices.EqualFunc(f.Cycle.Steps, g.Cycle.Steps, func(a, b waitgraph.Step) bool {
		return f.Place(a.Wait) == g.Place(b.Wait) && f.Place(a.For) == g.Place(b.For)
	})
}

const (
	// step is how often a Watch looks for changes.
	step = time.Second
	// firstPause and lastPause are the times between readings without a change.
	firstPause, lastPause = 4 * time.Second, 2 * time.Minute
	// A reading takes at most one part in share of the time.
	share = 10
	// burst is how many readings may follow changes at once, and earn the time after which there may be another.
	burst, earn = 20, 2 * time.Second
	// patience limits a reading, with those that confirm it. A server that is behind can take seconds for each of them.
	patience = 30 * time.Second
	// most is how many directories are looked at for changes, and mostNodes how many nodes a reading keeps.
	most, mostNodes = 200, 50_000
	// patient is how many readings in a row may miss the client's places.
	patient = 10
	// certain is how long a victim waits before it reads the cycle again and gives up.
	certain = 500 * time.Millisecond
)

// Run looks for a cycle until ctx ends, and calls tell with each new one, and with nil when it is gone. If the locks are
// too many to be read, or cannot be read, it returns.
func (w *Watch) Run(ctx context.Context, tell func(*Found)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(step):
		}
		d, err := w.look(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, budget.ErrTooMuch), errors.Is(err, zk.ErrNoAuth):
			return
		case err != nil: // there is no connection, for example
			continue
		}
		if !d.same(w.told) {
			w.told = d
			tell(d)
		}
	}
}

// look returns the cycle, or nil.
func (w *Watch) look(ctx context.Context) (*Found, error) {
	session, err := w.Client.Session(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	if session.ID() != w.session { // its places are new
		w.session, w.changes, w.known, w.next, w.pause, w.credit, w.earned, w.unseen = session.ID(), nil, nil, now, firstPause, burst, now, 0
	}
	for ; w.credit < burst && now.Sub(w.earned) >= earn; w.earned = w.earned.Add(earn) {
		w.credit++
	}
	if now.Before(w.rest) {
		return w.told, nil
	}
	if due := !now.Before(w.next); due {
		w.pause = min(2*w.pause, lastPause)
	} else {
		if w.credit == 0 {
			return w.told, nil
		}
		joined, err := w.joined(ctx)
		if err != nil || !joined {
			return w.told, err
		}
		if w.credit--; w.credit == burst-1 {
			w.earned = now
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	d, err := w.read(ctx)
	if err != nil || !w.seen && w.unseen < patient {
		w.unseen++
		w.pause = step // there was no answer, or the server does not show the client's places yet
	}
	if err == nil {
		w.learn()
	}
	end := time.Now()
	w.rest = end.Add((share - 1) * end.Sub(now))
	w.next = end.Add(w.pause)
	return d, err
}

// joined reports whether somebody may have joined one of the queues. A node that has gone, such as that of a TryLock, closes
// no cycle.
func (w *Watch) joined(ctx context.Context) (bool, error) {
	if len(w.changes) == 0 {
		return false, nil
	}
	now, err := locks.Changes(ctx, w.Client, slices.Collect(maps.Keys(w.changes)))
	if err != nil || maps.Equal(now, w.changes) {
		return false, err
	}
	if w.told != nil { // it may be over
		return true, nil
	}
	var dirs []string
	for dir, n := range now {
		if n != w.changes[dir] {
			dirs = append(dirs, dir)
		}
	}
	if w.listed, err = locks.Children(ctx, w.Client, dirs); err != nil {
		return false, err
	}
	for dir, names := range w.listed {
		for name := range names {
			if !w.known[dir][name] {
				return true, nil
			}
		}
	}
	w.learn()
	w.changes = now
	return false, nil
}

// learn notes that the children that were listed need no reading.
func (w *Watch) learn() {
	if w.known == nil {
		w.known = make(map[string]map[string]bool)
	}
	maps.Copy(w.known, w.listed)
	w.listed = nil
	maps.DeleteFunc(w.known, func(dir string, _ map[string]bool) bool { _, watched := w.changes[dir]; return !watched })
}

// read reads all locks. The changes of a directory must be read before its locks, so that none is missed: if there are
// new directories, it reads the locks again.
func (w *Watch) read(ctx context.Context) (*Found, error) {
	dirs := slices.Collect(maps.Keys(w.changes))
	for range 3 {
		changes, err := locks.Changes(ctx, w.Client, dirs)
		if err != nil {
			return nil, err
		}
		found, err := Read(ctx, w.Client, w.Prefixes)
		if err != nil {
			return nil, err
		}
		found = w.own(found)
		g := waitgraph.Analyze(found)
		me, ok := g.OwnerOfSession(w.session)
		w.seen = ok
		if dirs = nil; ok {
			dirs = directories(g, me)
		}
		if ok && g.CycleOf(me) != nil {
			return w.confirm(ctx, found, dirs)
		}
		w.changes = make(map[string]int32, len(dirs))
		for _, d := range dirs {
			if n, before := changes[d]; before {
				w.changes[d] = n
			}
		}
		if len(w.changes) == len(dirs) {
			break
		}
	}
	return nil, nil
}

// confirm reads the locks of the cycles again, and once more some time later before the client gives up.
func (w *Watch) confirm(ctx context.Context, found []waitgraph.Lock, dirs []string) (*Found, error) {
	changes, err := locks.Changes(ctx, w.Client, dirs)
	if err != nil {
		return nil, err
	}
	d, err := w.again(ctx, found)
	if err == nil && d != nil && d.Victim {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(certain):
		}
		d, err = w.again(ctx, d.Locks)
	}
	if err != nil {
		return nil, err
	}
	w.changes = changes
	if d == nil {
		w.pause = step // the cycle never was, or is over: what has come about meanwhile?
	}
	return d, nil
}

// again reads the locks of the cycles again, and returns the one that is in both readings.
func (w *Watch) again(ctx context.Context, found []waitgraph.Lock) (*Found, error) {
	g, err := locks.Confirmed(ctx, w.Client, found, nil)
	if err != nil {
		return nil, err
	}
	if w.Place != "" { // the places that are in both readings are as the second one shows them
		g = waitgraph.Analyze(w.own(g.Locks))
	}
	return w.of(g), nil
}

// directories returns those of the locks that decide whether an owner comes into a cycle. There are none if they are too
// many.
func directories(g *waitgraph.Graph, owner int) (dirs []string) {
	for _, i := range g.HeldBehind(owner) {
		dirs = append(dirs, g.Locks[i].Dirs...)
	}
	slices.Sort(dirs)
	if dirs = slices.Compact(dirs); len(dirs) > most {
		return nil
	}
	return dirs
}

// Find returns the cycle of a session in a graph, or nil. Nobody is its victim.
func Find(g *waitgraph.Graph, session int64) *Found {
	me, ok := g.OwnerOfSession(session)
	if !ok {
		return nil
	}
	c := g.CycleOf(me)
	if c == nil {
		return nil
	}
	return &Found{Graph: g, Cycle: c, Self: me}
}

// of returns what a graph says of the client's wait, or nil.
func (w *Watch) of(g *waitgraph.Graph) *Found {
	f := Find(g, w.session)
	if f != nil && w.Yield && f.Cycle.Yielder != nil {
		y := f.Cycle.Yielder
		f.Victim = y.Session == w.session && strings.HasPrefix(y.Node, w.Place)
	}
	return f
}

// own leaves to the client what is its own: its other places become owners of their own, whose thread is another one.
func (w *Watch) own(found []waitgraph.Lock) []waitgraph.Lock {
	if w.Place == "" {
		return found
	}
	for i := range found {
		for _, places := range [][]waitgraph.Place{found[i].Queue, found[i].Permits} {
			for j := range places {
				if p := &places[j]; p.Session == w.session && !strings.HasPrefix(p.Node, w.Place) && !slices.Contains(w.Held, p.Node) {
					p.Session, p.Within = 0, 0
				}
			}
		}
	}
	return found
}

// Read reads the locks below the prefixes as the server shows them.
func Read(ctx context.Context, c *zk.Client, prefixes []string) (found []waitgraph.Lock, err error) {
	for _, prefix := range prefixes {
		s, err := locks.Shown(ctx, c, locks.Query{Prefix: prefix}, mostNodes)
		if err != nil {
			return nil, err
		}
		found = append(found, s.Graph()...)
	}
	return found, nil
}

// Above returns the prefixes without those that are below another one.
func Above(prefixes []string) (all []string) {
	for _, p := range slices.Sorted(slices.Values(prefixes)) { // what is above comes first
		if !slices.ContainsFunc(all, func(above string) bool { return strings.HasPrefix(p, above) }) {
			all = append(all, p)
		}
	}
	return all
}
