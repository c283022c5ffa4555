package ui

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/internal/locks"
	"holdfast/internal/lockwatch"
	"holdfast/internal/waitgraph"
	"holdfast/zk"
)

// A lockKey names a lock. Two layouts in one directory are two locks.
type lockKey struct{ path, layout, kind string }

// A lock is a lock with its places. It is not changed after it was made.
type lock struct {
	locks.Lock
	key     lockKey
	holders []place // of a semaphore, the permits
	waiters []place // in order
	members []place // candidates and workers that hold nothing: they do not wait
}

// A place is a place of a client in a queue.
type place struct {
	locks.Place
	Ref      int       // its index in the queue
	Acquired time.Time // when this page saw it acquire the lock; zero if it did not
}

// A contact says how fresh the state is.
type contact struct {
	Loaded  bool
	Stale   time.Time // since when the state may be old; zero: it is up to date
	Why     string
	Proven  time.Time // the latest moment for which the state is known to be complete
	Polls   bool
	Session int64
	Timeout time.Duration
	Trip    time.Duration // of the latest probe
	Denied  int           // nodes that may not be read
	Nodes   int
}

const (
	probeEvery = time.Second
	// staleAfter is how long a server may be silent before the page says so.
	staleAfter = 3 * time.Second
	// longQueue is the length of a directory from which on its locks are computed once for several changes.
	longQueue = 256
)

// A state is what the server has, and what has happened to it. It is safe for concurrent use.
type state struct {
	client *zk.Client
	base   string // every node that is watched is at base or below it
	prefix string

	mu      sync.RWMutex // guards the fields below, and the mirror
	mirror  *lockwatch.Mirror
	locks   map[string][]*lock // by path
	dirty   map[string]bool    // paths whose locks have to be computed again
	version uint64             // counts the changes of locks, and the readings of all of them
	contact contact
	past    *past

	hub   *hub
	first chan struct{} // closed when the locks have been read for the first time

	sorted shared[snapshot]
	graph  shared[*waitgraph.Blocking]
	before []waitgraph.Lock // the locks of the graph before; only the function that makes a graph uses it
}

func newState(c *zk.Client, prefix string) *state {
	base := prefix[:strings.LastIndexByte(prefix, '/')]
	if base == "" {
		base = "/"
	}
	s := &state{client: c, base: base, prefix: prefix, locks: make(map[string][]*lock), dirty: make(map[string]bool), past: newPast(), hub: newHub(), first: make(chan struct{})}
	s.contact.Stale, s.contact.Why = time.Now(), "the locks have not been read yet"
	s.mirror = &lockwatch.Mirror{
		Base: base,
		Hold: func(change func()) {
			s.mu.Lock()
			defer s.mu.Unlock()
			change()
			s.settle(time.Now())
		},
		Changed: s.changed,
		Reset:   s.reset,
		Lost: func(err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.stale(whyLost(err))
		},
	}
	return s
}

func whyLost(err error) string {
	switch {
	case errors.Is(err, zk.ErrSessionExpired):
		return "the session of this page has expired"
	case errors.Is(err, zk.ErrConnectionLoss):
		return "the connection to the server is lost"
	case errors.Is(err, zk.ErrEventsMissed):
		return "the connection to the server was lost for a moment; the locks are being read again"
	case errors.Is(err, zk.ErrNoAuth):
		return "no permission to read the locks"
	case errors.Is(err, zk.ErrClosed):
		return "the client is closed"
	case err == nil:
		return "the watch has ended"
	}
	return err.Error()
}

// stale notes that the state may be old. s.mu must be held.
func (s *state) stale(why string) {
	if s.contact.Stale.IsZero() {
		s.contact.Stale = s.contact.Proven
		if s.contact.Stale.IsZero() {
			s.contact.Stale = time.Now()
		}
	}
	s.contact.Why = why
	s.hub.mark()
}

// follow keeps the state up to date until ctx ends.
func (s *state) follow(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.mirror.Follow(ctx, s.client)
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		s.stale(whyLost(err))
		s.mu.Unlock()
		sleep(ctx, time.Second) // such as a missing permission
	}
}

// probe asks the server once a second. An answer proves that every change before it has been reported: Sync waits for what
// the leader has committed, so a server that lags behind proves nothing.
func (s *state) probe(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		within, cancel := context.WithTimeout(ctx, staleAfter)
		session, err := s.client.Session(within)
		if err == nil {
			err = session.Sync(within, s.base)
		}
		cancel()
		s.mu.Lock()
		switch {
		case err == nil:
			s.contact.Session, s.contact.Timeout, s.contact.Trip = session.ID(), session.Timeout(), time.Since(began)
			if s.contact.Loaded && s.contact.Stale.IsZero() {
				s.contact.Proven = began
				s.past.hour.at(began) // so that a quiet minute has its numbers
			}
		case ctx.Err() == nil && s.contact.Stale.IsZero() && time.Since(s.contact.Proven) >= staleAfter-probeEvery:
			s.stale("no server answers")
		}
		if err == nil && s.contact.Why == "no server answers" && s.contact.Loaded { // no gap: the watch is still there
			s.contact.Stale, s.contact.Why = time.Time{}, ""
			s.hub.mark()
		}
		s.mu.Unlock()
		sleep(ctx, probeEvery)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// changed notes a change of a node. s.mu is held.
func (s *state) changed(path string, at time.Time) {
	for _, of := range locks.Owners(path) {
		if !strings.HasPrefix(of, s.prefix) {
			continue
		}
		if n := s.mirror.Nodes[of]; n != nil && len(n.Children) > longQueue {
			s.dirty[of] = true
			continue
		}
		s.compute(of, at)
	}
}

// settle computes what is left to compute. s.mu is held.
func (s *state) settle(at time.Time) {
	for path := range s.dirty {
		s.compute(path, at)
	}
	clear(s.dirty)
	s.contact.Nodes = len(s.mirror.Nodes)
	s.hub.mark()
}

// reset computes everything. s.mu is held.
func (s *state) reset(polls bool) {
	now := time.Now()
	first := !s.contact.Loaded
	paths := maps.Clone(s.mirror.Nodes)
	for path := range s.locks {
		paths[path] = nil
	}
	denied := 0
	for path, n := range paths {
		if n != nil && n.Denied {
			denied++
		}
		if strings.HasPrefix(path, s.prefix) {
			s.compute(path, time.Time{})
		}
	}
	if !first && !polls && !s.contact.Stale.IsZero() { // else nothing was lost: the mirror has looked again
		s.past.gap(s.contact.Stale, now, s.contact.Why)
	}
	if s.contact.Loaded, s.contact.Polls, s.contact.Denied = true, polls, denied; first {
		close(s.first)
	}
	s.contact.Stale, s.contact.Why, s.contact.Proven = time.Time{}, "", now
	s.version++ // without locks, too: a reading is a version
}

// firstPatience is how long a page waits for the first reading. Then it says that there are no data yet.
const firstPatience = 2 * time.Second

func (s *state) awaitFirst(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstPatience)
	defer cancel()
	select {
	case <-s.first:
	case <-ctx.Done():
	}
}

// look returns a node of the mirror.
func (s *state) look(path string) (locks.Copy, bool) {
	n := s.mirror.Nodes[path]
	if n == nil {
		return locks.Copy{}, false
	}
	return locks.Copy{
		Children: func() []string { return slices.Sorted(maps.Keys(n.Children)) }, Data: n.Data, Stat: n.Stat, Unknown: n.Denied && n.Stat.Czxid == 0,
	}, true
}

// compute finds the locks at a path, and notes what has happened to them. at is zero if the moment is not known.
// s.mu is held.
func (s *state) compute(path string, at time.Time) {
	old := s.locks[path]
	var found []*lock
	for _, l := range locks.In(s.look, path) {
		n := s.complete(l)
		for _, o := range old {
			if o.key == n.key {
				n.keep(o)
			}
		}
		found = append(found, n)
	}
	s.past.note(old, found, at)
	s.past.hour.note(old, found, time.Now())
	s.version++
	if len(found) == 0 {
		delete(s.locks, path)
		return
	}
	s.locks[path] = found
}

// unreadable stands for the owner of a node that the page may not read.
const unreadable = "cannot be read"

// complete sorts the places of a lock.
func (s *state) complete(l locks.Lock) *lock {
	n := &lock{Lock: l, key: lockKey{l.Path, l.Layout, string(l.Kind)}}
	for i, p := range l.Queue {
		at := place{Place: p, Ref: i}
		if p.Unknown {
			at.Owner = unreadable
		}
		switch {
		case p.Second:
		case p.Held:
			n.holders = append(n.holders, at)
		case p.Member:
			n.members = append(n.members, at)
		default:
			n.waiters = append(n.waiters, at)
		}
	}
	return n
}

// taken reports whether somebody is known to hold the lock.
func (l *lock) taken() bool { return len(l.holders) > 0 && !l.Unreadable }

// places returns all places of the lock: the holders, the waiters and the members.
func (l *lock) places() []place { return slices.Concat(l.holders, l.waiters, l.members) }

// keep takes over what was seen of the same places before.
func (l *lock) keep(old *lock) {
	seen := make(map[tenure]time.Time)
	for _, p := range old.holders {
		seen[p.tenure()] = p.Acquired
	}
	for i := range l.holders {
		if at, ok := seen[l.holders[i].tenure()]; ok {
			l.holders[i].Acquired = at
		}
	}
}

// since returns when a holder acquired the lock as well as it is known, and whether that is a bound: it was at that
// time or later. The time is zero if the node cannot be read.
func (p place) since() (at time.Time, bound bool) {
	switch {
	case !p.HeldSince.IsZero():
		return p.HeldSince, false
	case !p.Acquired.IsZero():
		return p.Acquired, false
	}
	return p.Since, true
}

// A snapshot is the locks at one moment, by path. It is not changed after it was made.
type snapshot struct {
	locks   []*lock
	version uint64
	then    contact
}

// A view is the state at one moment.
type view struct {
	snapshot
	now     time.Time
	contact contact
	graph   *waitgraph.Blocking // set by render
}

// view returns the present state. If many locks change all the time, the locks can be those of a moment ago. The tabs
// then get a mark.
func (s *state) view() view {
	s.mu.RLock()
	v := view{now: time.Now(), contact: s.contact}
	version := s.version
	s.mu.RUnlock()
	var made, old time.Time
	v.snapshot, made, old = s.sorted.get(version, 0, 0, func() (snapshot, uint64) {
		s.mu.RLock()
		now := snapshot{version: s.version, then: s.contact, locks: make([]*lock, 0, len(s.locks))}
		for _, some := range s.locks {
			now.locks = append(now.locks, some...)
		}
		s.mu.RUnlock()
		slices.SortFunc(now.locks, func(a, b *lock) int {
			return cmp.Or(strings.Compare(a.key.path, b.key.path), strings.Compare(a.key.layout, b.key.layout), strings.Compare(a.key.kind, b.key.kind))
		})
		return now, now.version
	})
	if !old.IsZero() {
		v.now = made
		s.hub.markAt(old)
		if !v.then.Stale.IsZero() { // these locks are from before the end of contact, also if there is contact again
			v.contact = v.then
		}
	}
	return v
}

// graphEvery is the least time between two graphs.
const graphEvery = 300 * time.Millisecond

// waits returns the wait-for graph, and whether it is of an older version. The events of the watch come in order, so
// the state is one that the server had, and a cycle in it is real. A graph that is a bit older is good for a moment;
// then the tabs get a mark. Without a watch, a cycle has to be the same in two readings. A place that its program keeps
// for its next use is no part of a cycle: the program gives it up.
func (s *state) waits(v view) (graph *waitgraph.Blocking, old bool) {
	graph, _, until := s.graph.get(v.version, graphEvery, 0, func() (*waitgraph.Blocking, uint64) {
		all := make([]locks.Lock, 0, len(v.locks))
		for _, l := range v.locks {
			all = append(all, l.Lock)
		}
		found := locks.Graph(all)
		g := waitgraph.Analyze(found)
		if len(g.Cycles) > 0 {
			suspects := g.Suspects()
			before := suspects
			if v.contact.Polls {
				before = s.before
			}
			g = waitgraph.Analyze(waitgraph.Replace(found, suspects, waitgraph.Stable(before, suspects)))
		}
		s.before = found
		return g.Blocking(), v.version
	})
	if !until.IsZero() { // there may be no further change, and so no other mark
		s.hub.markAt(until)
	}
	return graph, !until.IsZero()
}
