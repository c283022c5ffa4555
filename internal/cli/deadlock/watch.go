// Package deadlock tells a client that waits for a lock that it waits in a cycle: who waits for whom, whom to end, and
// what to type.
package deadlock

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"holdfast/internal/budget"
	"holdfast/internal/cli/conn"
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
	LockName func(path string) string
	// Called is what to call the owner, and End what to type to end it.
	Called, End string

	changes map[string]int32 // of the directories of these locks, before the last reading
	next    time.Time        // of the next reading without a change
	pause   time.Duration    // before it
	rest    time.Time        // no reading before
	credit  int              // readings after changes
	earned  time.Time        // the last credit
	session int64
	told    *Deadlock
}

const (
	// step is how often a Watch looks for changes.
	step = time.Second
	// firstPause and lastPause are the times between readings without a change.
	firstPause, lastPause = 4 * time.Second, 2 * time.Minute
	// A reading takes at most one part in share of the time.
	share = 10
	// burst is how many readings may follow changes at once, and earn the time after which there may be another.
	burst, earn = 20, 5 * time.Second
	// patience limits a reading.
	patience = 10 * time.Second
	// most is how many directories are looked at for changes, and mostNodes how many nodes a reading keeps.
	most, mostNodes = 200, 50_000
)

// Run looks for a cycle until ctx ends, and calls tell with each new one, and with nil when it is gone. If the locks are
// too many to be read, or cannot be read, it returns.
func (w *Watch) Run(ctx context.Context, tell func(*Deadlock)) {
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
		if (d == nil) != (w.told == nil) || d != nil && *d != *w.told {
			w.told = d
			tell(d)
		}
	}
}

// look returns the deadlock, or nil.
func (w *Watch) look(ctx context.Context) (*Deadlock, error) {
	session, err := w.Client.Session(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	if session.ID() != w.session { // its places are new
		w.session, w.changes, w.next, w.pause, w.credit, w.earned = session.ID(), nil, now, firstPause, burst, now
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
		changed, err := w.changed(ctx)
		if err != nil || !changed || w.credit == 0 {
			return w.told, err
		}
		if w.credit--; w.credit == burst-1 {
			w.earned = now
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	d, err := w.read(ctx)
	end := time.Now()
	w.rest = end.Add((share - 1) * end.Sub(now))
	w.next = end.Add(w.pause)
	return d, err
}

// changed reports whether one of the directories has changed.
func (w *Watch) changed(ctx context.Context) (bool, error) {
	if len(w.changes) == 0 {
		return false, nil
	}
	now, err := locks.Changes(ctx, w.Client, slices.Collect(maps.Keys(w.changes)))
	return err == nil && !maps.Equal(now, w.changes), err
}

// read reads all locks. The changes of a directory must be read before its locks, so that none is missed: if there are
// new directories, it reads the locks again.
func (w *Watch) read(ctx context.Context) (*Deadlock, error) {
	dirs := slices.Collect(maps.Keys(w.changes))
	for range 3 {
		changes, err := locks.Changes(ctx, w.Client, dirs)
		if err != nil {
			return nil, err
		}
		found, err := read(ctx, w.Client, w.Prefixes)
		if err != nil {
			return nil, err
		}
		g := waitgraph.Analyze(found)
		me, ok := g.OwnerOfSession(w.session)
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

// confirm reads the locks of the cycles again.
func (w *Watch) confirm(ctx context.Context, found []waitgraph.Lock, dirs []string) (*Deadlock, error) {
	changes, err := locks.Changes(ctx, w.Client, dirs)
	if err != nil {
		return nil, err
	}
	g, err := locks.Confirmed(ctx, w.Client, found, nil)
	if err != nil {
		return nil, err
	}
	w.changes = changes
	d := w.of(g)
	if d == nil {
		w.pause = step // the cycle never was, or is over: what has come about meanwhile?
	}
	return d, nil
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

// of returns the deadlock in a graph that the client is in, or nil.
func (w *Watch) of(g *waitgraph.Graph) *Deadlock {
	me, ok := g.OwnerOfSession(w.session)
	if !ok {
		return nil
	}
	c := g.CycleOf(me)
	if c == nil {
		return nil
	}
	d := Words{g, w.LockName}.Of(c, me, w.Called, w.End)
	return &d
}

// At returns the deadlock that a lock is in, or nil. It reads all locks of the namespace and beside the lock.
func At(ctx context.Context, c *zk.Client, g *conn.Flags, path string) (*Deadlock, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := read(ctx, c, Prefixes(g, []string{path}))
	if err != nil {
		return nil, err
	}
	graph, err := locks.Confirmed(ctx, c, found, nil)
	if err != nil {
		return nil, err
	}
	return Words{graph, g.LockName}.ByLock()[path], nil
}

// read reads the locks below the prefixes as the server shows them.
func read(ctx context.Context, c *zk.Client, prefixes []string) (found []waitgraph.Lock, err error) {
	for _, prefix := range prefixes {
		s, err := locks.Shown(ctx, c, locks.Query{Prefix: prefix}, mostNodes)
		if err != nil {
			return nil, err
		}
		found = append(found, s.Graph()...)
	}
	return found, nil
}

// Prefixes returns the prefixes below which the locks at the paths are, and those of the namespace.
func Prefixes(g *conn.Flags, paths []string) (all []string) {
	prefixes := []string{strings.TrimSuffix(g.Namespace, "/") + "/"}
	for _, p := range paths {
		prefixes = append(prefixes, strings.TrimSuffix(conn.Parent(p), "/")+"/")
	}
	slices.Sort(prefixes)
	for _, p := range prefixes { // what is above comes first
		if !slices.ContainsFunc(all, func(above string) bool { return strings.HasPrefix(p, above) }) {
			all = append(all, p)
		}
	}
	return all
}
