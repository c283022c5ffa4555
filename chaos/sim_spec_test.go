package chaos_test

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"holdfast/chaos"
	"holdfast/chaos/spec"
	"holdfast/zkproto"
)

// applied is a transaction, and when the first server applied it.
type applied struct {
	*txn
	at time.Duration // since the ensemble began
}

// note records a transaction that a server applies. The first server to do so has applied all that come before it.
func (e *ensemble) note(t *txn) {
	if n := len(e.applied); n == 0 || e.applied[n-1].zxid < t.zxid {
		e.applied = append(e.applied, applied{t, e.now()})
	}
}

// final returns the transactions that have stayed. A server that starts applies its whole log, also the end that the
// next leader takes back.
func (e *ensemble) final() map[*txn]bool {
	var all []*txn
	for _, s := range e.servers {
		if log := s.log[:s.committed]; len(log) > len(all) {
			all = log
		}
	}
	final := make(map[*txn]bool, len(all))
	for _, t := range all {
		final[t] = true
	}
	return final
}

// A move is one step of a lock: at the servers, or what a client was told.
type move struct {
	at   time.Duration
	rank int // order of moves at one time: the servers first
	step func(*spec.Lock) error
}

// specified holds the run of an ensemble against the specification: each transaction that concerns the queue of a
// mutex, a read-write lock or an election, and each claim of its clients, must be a step of a spec.Lock. It returns the
// number of steps.
func (w *world) specified(ops []chaos.Op) (steps int, wrong []chaos.Violation) {
	if w.many == nil {
		return 0, nil
	}
	q := w.queues(ops)
	moves := q.claimed(ops)
	w.queued(q, moves)
	for lock, list := range moves {
		slices.SortStableFunc(list, func(a, b move) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.rank, b.rank)) })
		var l spec.Lock
		for _, m := range list {
			steps++
			if err := m.step(&l); err != nil {
				wrong = append(wrong, chaos.Violation{Oracle: "specification", Lock: lock, Text: m.at.String() + ": " + err.Error()})
				break
			}
		}
	}
	return steps, wrong
}

// queues are the locks of a world that have a queue, and how to read their names.
type queues struct {
	dirs    map[string]string // directory to the name of the lock in histories
	writers map[string]bool   // the lock has no readers: every place excludes all others
	readers map[string]bool   // by the skeleton of a name: it is one of a reader, or of a writer

	forced map[int64]time.Duration // sessions that somebody has ended, and when: a request on its way may join still
}

// queues finds the locks with a queue, and learns the names of readers and writers from the claims.
func (w *world) queues(ops []chaos.Op) queues {
	q := queues{make(map[string]string), make(map[string]bool), make(map[string]bool), make(map[int64]time.Duration)}
	types := make(map[string]chaos.LockType)
	numbered := make(map[string]bool)
	for _, o := range ops {
		if (o.Kind == chaos.Acquire || o.Kind == chaos.Try) && o.Outcome == chaos.OK {
			types[o.Lock] = o.Type
			if o.Node != "" && o.Inside == 0 { // a writer that steps down has the node of a writer
				numbered[o.Lock] = o.HasSeq
				q.readers[skeleton(o.Node)] = o.Shared
			}
		}
	}
	for _, s := range w.locks {
		if len(s.ids) > 1 && s.ids[0].node == s.ids[1].node {
			continue // locks that share a directory
		}
		for _, id := range s.ids {
			seen, known := numbered[id.id]
			if t := types[id.id]; !s.clashes && (seen || !known) && (t == chaos.Mutex || t == chaos.ReadWrite || t == chaos.Election) {
				q.dirs[w.chroot+id.node] = id.id
				q.writers[id.id] = t != chaos.ReadWrite
			}
		}
	}
	return q
}

// reader reports whether a place is a reader's. It is known if the name is one of those of claims.
func (q queues) reader(lock, node string) (reader, known bool) {
	if q.writers[lock] {
		return false, true
	}
	reader, known = q.readers[skeleton(node)]
	return reader, known
}

// claimed returns the moves of clients, by lock.
func (q queues) claimed(ops []chaos.Op) map[string][]move {
	moves := make(map[string][]move)
	for _, lock := range q.dirs {
		moves[lock] = nil
	}
	excuse := func(lock string, at time.Duration, step func(*spec.Lock)) {
		moves[lock] = append(moves[lock], move{at, 0, func(l *spec.Lock) error {
			step(l)
			return nil
		}})
	}
	down := make(map[string][]int64) // tokens of claims that have stepped down, by their node
	for _, o := range ops {
		if o.Inside != 0 && o.Token != 0 {
			down[o.Node] = append(down[o.Node], o.Token)
		}
	}
	for _, o := range ops {
		switch {
		case o.Kind != chaos.Break:
		case o.Session != 0:
			q.forced[o.Session] = o.Call
			for lock := range moves {
				excuse(lock, o.Call, func(l *spec.Lock) { l.Forced(o.Session) })
			}
		default:
			for _, token := range append(slices.Clone(down[o.Node]), o.Token) {
				if _, has := moves[o.Lock]; has && token <= o.Token {
					excuse(o.Lock, o.Call, func(l *spec.Lock) { l.Taken(token) })
				}
			}
		}
		if _, has := moves[o.Lock]; !has {
			continue
		}
		token, shared := o.Token, o.Shared
		switch {
		case (o.Kind == chaos.Acquire || o.Kind == chaos.Try) && o.Outcome == chaos.OK:
			moves[o.Lock] = append(moves[o.Lock], move{o.Return, 1, func(l *spec.Lock) error { return l.Claim(token, shared) }})
		case o.Kind == chaos.Release, o.Kind == chaos.Lose:
			moves[o.Lock] = append(moves[o.Lock], move{o.Call, 1, func(l *spec.Lock) error { return l.End(token, shared) }})
		}
	}
	return moves
}

var unique = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}|-?[0-9]{10}$`)

// skeleton returns the part of a node's name that tells readers from writers.
func skeleton(node string) string { return unique.ReplaceAllString(path.Base(node), "") }

// queued adds the moves at the servers.
func (w *world) queued(q queues, moves map[string][]move) {
	d := newDatabase()
	tokens := make(map[string]int64)
	final := w.many.final()
	for _, c := range w.many.applied {
		if !final[c.txn] {
			continue
		}
		d.apply(c.txn)
		at := w.many.began.Add(c.at).Sub(w.began)
		for _, f := range d.fired {
			lock, has := q.dirs[path.Dir(f.event.Path)]
			if !has || strings.HasPrefix(path.Base(f.event.Path), ".") { // the latter has records, no place
				continue
			}
			reader, known := q.reader(lock, f.event.Path)
			if !known {
				continue
			}
			var m move
			switch token := tokens[f.event.Path]; {
			case f.event.Type == zkproto.EventNodeCreated && d.nodes[f.event.Path] != nil && token == 0:
				stat := d.nodes[f.event.Path].stat
				tokens[f.event.Path] = stat.Czxid
				m.step = func(l *spec.Lock) error {
					if err := l.Join(spec.Place{Token: stat.Czxid, Session: stat.EphemeralOwner, Shared: reader}); err != nil {
						return err
					}
					if since, forced := q.forced[stat.EphemeralOwner]; forced && since <= at {
						l.Forced(stat.EphemeralOwner)
					}
					return nil
				}
			case f.event.Type == zkproto.EventNodeDeleted && token != 0:
				delete(tokens, f.event.Path)
				m.step = func(l *spec.Lock) error { return l.Gone(token, c.session) }
			default:
				continue
			}
			m.at = at
			moves[lock] = append(moves[lock], m)
		}
		d.fired = nil
	}
}
