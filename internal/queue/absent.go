package queue

import (
	"errors"
	"sync"
	"time"

	"holdfast/zk"
)

// Above most locks there is no tree, and none comes. So a session watches the directories where trees above its locks
// would be, and does not read a directory again while its watch says that it is absent.
//
// The answer to a request arrives after the events of all changes that it may show (see [zk.Event]). So if the watch has
// not fired when the answer to our create has arrived, the directory did not exist when our node was made. A client gets
// no event of a node that it may not read. So everybody may read the directory of a tree's root (see directoryACL).

// absences are the directories of trees that each session watches.
var absences zk.Shared[absent]

type absent struct {
	sync.Mutex                    // guards m
	m          map[string]watched // by directory
}

// MostWatched is how many directories a session watches. The others are read each time. Tests lower it.
var MostWatched = 64

// A watched is the watch that came with the last answer about a directory.
type watched struct {
	*zk.Watch
	exists bool      // the directory did when the watch was set
	until  time.Time // then the directory is read again: the event may have been lost
}

// fired reports whether the watch says nothing any more.
func (w watched) fired() bool { return len(w.C) > 0 }

// has reports whether the directory does not exist, as of the last answer that has arrived in the session.
func (a *absent) has(dir string) bool {
	a.Lock()
	defer a.Unlock()
	w, ok := a.m[dir]
	return ok && !w.exists && !w.fired()
}

// read returns the operation that reads a directory. known: there is none, since the session knows that the directory
// is absent.
func (a *absent) read(dir string) (_ zk.Op, known bool) {
	now := time.Now()
	a.Lock()
	defer a.Unlock()
	w, ok := a.m[dir]
	switch lasts := ok && !w.fired() && now.Before(w.until); {
	case lasts && !w.exists:
		return zk.Op{}, true
	case lasts, !ok && a.full(now):
		return zk.ExistsOp(dir), false
	}
	return zk.ExistsWOp(dir), false
}

// full reports whether there is no room for another watch. Watches that nobody has renewed make room. The mutex must be held.
func (a *absent) full(now time.Time) bool {
	if len(a.m) < MostWatched {
		return false
	}
	for dir, w := range a.m {
		if w.fired() || now.After(w.until) {
			w.Stop()
			delete(a.m, dir)
		}
	}
	return len(a.m) >= MostWatched
}

// note takes the answer to read.
func (a *absent) note(dir string, r zk.Result) {
	if r.Watch == nil {
		return
	}
	a.Lock()
	defer a.Unlock()
	before, ok := a.m[dir]
	switch {
	case ok:
		before.Stop()
	case len(a.m) >= MostWatched: // others were quicker
		r.Watch.Stop()
		return
	case a.m == nil:
		a.m = make(map[string]watched)
	}
	a.m[dir] = watched{Watch: r.Watch, exists: !errors.Is(r.Err, zk.ErrNoNode), until: time.Now().Add(LookAgain())}
}

// An Around is one reading of what is around a queue.
type Around struct {
	known   *absent     // of the session that reads
	trees   []string    // the directories of trees that are read; the session knew that the others are absent
	results []zk.Result // of the reads: one for each of trees, and one more for the queue's outer
}

// looks appends the reads that show what is around q. Mostly there are none.
func (q *Queue) looks(s *zk.Session, ops []zk.Op) ([]zk.Op, *Around) {
	a := &Around{known: absences.In(s)}
	for _, tree := range q.trees {
		if op, absent := a.known.read(tree); !absent {
			a.trees = append(a.trees, tree)
			ops = append(ops, op)
		}
	}
	if q.outer != nil {
		ops = append(ops, zk.ChildrenOp(q.outer.Path))
	}
	return ops, a
}

// take takes the results of looks. Every answer must be taken: it can have a watch.
func (a *Around) take(results []zk.Result) {
	a.results = results
	for i, tree := range a.trees {
		a.known.note(tree, results[i])
	}
}

// shows reports whether a shows all that is around q. It is asked after our own node was made.
func (a *Around) shows(q *Queue) bool {
	want := len(a.trees)
	if q.outer != nil {
		want++
	}
	if len(a.results) < want {
		return false
	}
	for _, r := range a.results {
		if r.Err != nil && !errors.Is(r.Err, zk.ErrNoNode) {
			return false
		}
	}
	read := a.trees // those of q's trees that are left, in their order
	for _, tree := range q.trees {
		switch {
		case len(read) > 0 && read[0] == tree:
			read = read[1:]
		case !a.known.has(tree):
			return false
		}
	}
	return true
}
