package lockwatch

import (
	"slices"
	"strings"
	"time"

	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// A model is the tree as far as it is known, and the locks in it. It is pure: it gets the changes of nodes, in
// order, and says what they mean for the locks.
type model struct {
	grammar *names.Grammar // nil: the name of each node tells its layout
	base    string         // the node that is watched, with everything below it
	prefix  string         // of the paths of the locks to report
	emit    func(Event)

	dirs  map[string]*dir // nodes that may have children, by path
	locks map[lockKey]*lock

	loading bool             // only Gaps are reported
	tallies map[*lock]*tally // while a reading is compared; nil: count for each event
}

// A dir is a node that may have children.
type dir struct {
	czxid    int64 // 0 if it is not known
	cversion int32 // counts the changes of children that the model has
	unsure   bool  // cversion may be wrong: there were changes while the tree was read
	veiled   bool  // some children may not be read, so a server does not report them
	children map[string]*place
}

// A place is a node.
type place struct {
	role  role
	lock  *lock
	path  string
	name  names.Contender
	info  info
	since time.Time // when the watcher saw that it queued, or acquired the lock; zero if it did not see that

	held     bool
	admitted bool   // a turn whose permit has been seen
	awaits   *place // the turn of a permit, until it is gone; then the permit is granted
	unread   bool   // of role other: it was gone before it was read
	gone     bool   // a reading does not have it any more
}

// info is what a read of a node tells.
type info struct {
	known  bool
	denied bool // there is no permission to read the node
	ours   bool // the data are those of this package's locks
	note   queue.Note
	stat   zk.Stat
	hidden int32 // of a new directory: children that came or went without an event, if it is above zero
}

// token returns the fencing token, or 0. The data are believed only where a client of this package has a reason to
// write it there.
func (p *place) token() int64 {
	if detached := names.IsDetached(p.name.Name) && p.info.stat.EphemeralOwner == 0; p.info.note.Token != 0 && (p.name.Shared || detached) {
		return p.info.note.Token // older than the node: a writer has taken the read side
	}
	return p.info.stat.Czxid
}

// A lockKey names a lock. If the model has all layouts, two queues in one directory are two locks.
type lockKey struct{ path, label string }

// A lock is the places of one lock.
type lock struct {
	lockKey
	queue   []*place // in order; of a semaphore, its turns
	permits []*place
	mixed   bool // queue is not in order yet
}

// order puts the queue in order.
func (l *lock) order() {
	if l.mixed {
		slices.SortStableFunc(l.queue, inOrder)
		l.mixed = false
	}
}

// A tally is what events say of all places of a lock.
type tally struct {
	waiting int
	held    map[tenureID]int // the nodes of each tenure
}

// A tenureID is what several nodes of a holder have in common.
type tenureID struct{ token, session int64 }

func (p *place) tenure() tenureID { return tenureID{p.token(), p.info.stat.EphemeralOwner} }

// tally counts the places of a lock, or returns the count.
func (m *model) tally(l *lock) *tally {
	if t := m.tallies[l]; t != nil {
		return t
	}
	t := &tally{held: make(map[tenureID]int)}
	for _, p := range l.queue {
		if p.waits() {
			t.waiting++
		}
	}
	for _, some := range [][]*place{l.queue, l.permits} {
		for _, p := range some {
			if p.held && p.info.known {
				t.held[p.tenure()]++
			}
		}
	}
	if m.tallies != nil {
		m.tallies[l] = t
	}
	return t
}

func (m *model) hold(p *place, at time.Time) {
	waited := p.role != permit && p.waits()
	p.held, p.since = true, at
	t := m.tallies[p.lock]
	if t == nil {
		return
	}
	if waited {
		t.waiting--
	}
	if p.info.known {
		t.held[p.tenure()]++
	}
}

func newModel(g *names.Grammar, prefix string, emit func(Event)) *model {
	base := prefix[:strings.LastIndexByte(prefix, '/')]
	if base == "" {
		base = "/"
	}
	return &model{grammar: g, base: base, prefix: prefix, emit: emit, dirs: make(map[string]*dir), locks: make(map[lockKey]*lock)}
}

// knows reports whether the model has the node.
func (m *model) knows(path string) bool {
	parent, name := split(path)
	d := m.dirs[parent]
	if d == nil {
		return m.dirs[path] != nil
	}
	_, ok := d.children[name]
	return ok
}

// sibling counts a node beside those that are relevant. A gap in the count would be one of the directory.
func (m *model) sibling(path string, created bool) {
	parent, name := split(path)
	d := m.dirs[parent]
	if d == nil {
		return
	}
	if _, ok := d.children[name]; ok == created {
		return // reported twice
	}
	d.cversion++
	if created {
		d.children[name] = nil
	} else {
		delete(d.children, name)
	}
}

// replaces reports whether the model has another node at the path.
func (m *model) replaces(path string, i info) bool {
	parent, name := split(path)
	d := m.dirs[parent]
	if d == nil || d.children[name] == nil {
		return false
	}
	p := d.children[name]
	return p.info.stat.Czxid != 0 && p.replaced(&node{info: i})
}

// created tells the model that a node was created. at is zero if the moment is not known. ofTurn means that it is
// a permit of a turn that has just gone, after it has waited. settle means that the model reports at once who
// holds the lock now.
func (m *model) created(path string, i info, at time.Time, waited time.Duration, ofTurn, settle bool) {
	if path == m.base {
		if m.dirs[path] == nil {
			m.dirs[path] = &dir{czxid: i.stat.Czxid, children: make(map[string]*place)}
			if i.denied {
				m.gap(path, at, noPermission)
			}
		}
		return
	}
	parent, name := split(path)
	d := m.dirs[parent]
	if d == nil {
		return // below a node that is no directory, or is gone
	}
	if _, ok := d.children[name]; ok {
		return // reported twice
	}
	d.cversion++
	p := m.place(path, i)
	d.children[name] = p
	if p.role == other {
		switch {
		case i.known && i.stat.EphemeralOwner == 0:
			d := &dir{czxid: i.stat.Czxid, cversion: max(i.hidden, 0), children: make(map[string]*place)}
			m.dirs[path] = d
			m.reclassify(path)
			if i.hidden > 0 {
				m.hide(path, d, at)
			}
		case i.denied:
			m.gap(path, at, noPermission)
		}
		return
	}
	p.since = at
	l := p.lock
	switch p.role {
	case permit:
		l.permits = append(l.permits, p)
		if !settle {
			return
		}
		if !ofTurn {
			p.awaits = l.admit(p)
		}
		if p.awaits == nil {
			p.held = true
			m.report(Acquired, p, at, waited)
		}
		return
	default:
		if !settle { // many come, and are put in order together
			l.queue, l.mixed = append(l.queue, p), true
			return
		}
		i, _ := slices.BinarySearchFunc(l.queue, p, inOrder)
		l.queue = slices.Insert(l.queue, i, p)
	}
	if settle {
		m.settle(l, at)
		if !p.held {
			m.report(Queued, p, at, 0)
		}
	}
}

// place makes the place of a node.
func (m *model) place(path string, i info) *place {
	r, of, name := m.classify(path, i.stat.EphemeralOwner != 0)
	p := &place{role: r, path: path, name: name, info: i, unread: !i.known}
	if r != other {
		p.lock = m.lock(of)
	}
	return p
}

// lock returns the lock, which is new if nobody uses it.
func (m *model) lock(of lockKey) *lock {
	l := m.locks[of]
	if l == nil {
		l = &lock{lockKey: of}
		m.locks[of] = l
	}
	return l
}

func inOrder(a, b *place) int {
	switch {
	case names.Before(a.name.Seq, b.name.Seq):
		return -1
	case names.Before(b.name.Seq, a.name.Seq):
		return 1
	case a.name.Shared != b.name.Shared && b.name.Shared:
		return -1 // a writer that has taken the read side, too
	case a.name.Shared != b.name.Shared:
		return 1
	}
	return 0
}

// reclassify turns the places of a queue into those of a turnstile, when the directory of the permits comes.
func (m *model) reclassify(permits string) {
	var turnstiles []string
	for _, pair := range m.turnstiles() {
		if of, ok := strings.CutSuffix(permits, pair[1]); ok {
			turnstiles = append(turnstiles, of+pair[0])
		}
	}
	if m.bare() != "" {
		turnstiles = append(turnstiles, permits+m.bare())
	}
	for _, path := range turnstiles {
		of, ok := m.semaphoreOf(path)
		d := m.dirs[path]
		if d == nil || !ok {
			continue
		}
		for _, p := range d.children {
			if p == nil || p.role != inQueue {
				continue
			}
			if r, _, _ := m.classify(p.path, true); r != turn {
				continue
			}
			old := p.lock
			m.take(p)
			m.forget(old)
			p.role, p.held = turn, false
			p.lock = m.lock(lockKey{path: of})
			p.lock.order()
			i, _ := slices.BinarySearchFunc(p.lock.queue, p, inOrder)
			p.lock.queue = slices.Insert(p.lock.queue, i, p)
		}
	}
}

// admit returns the turn that a new permit belongs to: the first in the queue, if the session is the same.
// (Curator and kazoo create the permit while they hold the turnstile, and Curator then waits until there are
// few enough. We create it in the transaction that leaves the turnstile.)
func (l *lock) admit(p *place) *place {
	for _, t := range l.queue {
		if t.role != turn || t.admitted {
			continue
		}
		if !t.info.known || !p.info.known || t.info.stat.EphemeralOwner == p.info.stat.EphemeralOwner {
			t.admitted = true
			return t
		}
		return nil
	}
	return nil
}

// pend finds the permit that waits, among permits of which the model has not seen the creation. It is the last one
// that the session of the first turn has made since it queued. Our own permits, and those of kazoo, never wait.
func (l *lock) pend(fresh []*place) {
	if len(l.queue) == 0 {
		return
	}
	first := l.queue[0]
	if first.role != turn || first.admitted || !first.info.known {
		return
	}
	var last *place
	for _, p := range fresh {
		_, slot := names.SlotOf(p.name.Name)
		kazoos := p.name.Form == ""
		if slot || kazoos || p.info.ours || p.info.stat.EphemeralOwner != first.info.stat.EphemeralOwner || p.info.stat.Czxid < first.info.stat.Czxid {
			continue
		}
		if last == nil || last.info.stat.Czxid < p.info.stat.Czxid {
			last = p
		}
	}
	if last != nil {
		last.awaits, first.admitted = first, true
	}
}

// permitOf reports whether a node is a permit that the client at a turn may have made in the transaction that removed
// the turn.
func (m *model) permitOf(t *place, path string, i info) bool {
	r, of, _ := m.classify(path, i.stat.EphemeralOwner != 0)
	if r != permit || of != t.lock.lockKey {
		return false
	}
	return !t.info.known || !i.known || t.info.stat.EphemeralOwner == i.stat.EphemeralOwner
}

// isFirst reports whether a turn is the first at its turnstile. Only the client at the first turn can take permits.
func (p *place) isFirst() bool {
	i := slices.IndexFunc(p.lock.queue, func(q *place) bool { return q.role == turn })
	return i >= 0 && p.lock.queue[i] == p
}

// grant gives the permits of a turn that is gone to its client.
func (m *model) grant(gone *place, at time.Time) {
	for _, q := range gone.lock.permits {
		if q.awaits == gone {
			q.awaits = nil
			m.hold(q, at)
			m.report(Acquired, q, at, gone.lasted(at))
		}
	}
}

// deleted tells the model that a node was deleted. admitted means that it was a turn whose permits come in the
// same transaction.
func (m *model) deleted(path string, at time.Time, admitted bool) {
	parent, name := split(path)
	d := m.dirs[parent]
	if gone := m.dirs[path]; gone != nil {
		m.dropDir(path, gone)
	}
	if d == nil {
		return
	}
	p, ok := d.children[name]
	if !ok {
		return
	}
	d.cversion++
	delete(d.children, name)
	if p == nil {
		return
	}
	if p.role == other {
		if p.unread && !p.info.denied {
			m.gap(path, at, "a node came and went before it could be read")
		}
		return
	}
	m.take(p)
	switch {
	case p.held:
		m.report(Released, p, at, p.lasted(at))
	case p.role == permit: // it was not granted
		p.awaits.admitted = false
	case p.role == turn && (p.admitted || admitted):
		m.grant(p, at)
	default:
		m.report(Left, p, at, p.lasted(at))
	}
	m.settle(p.lock, at)
	m.forget(p.lock)
}

// dropDir removes a directory that is gone. Its children went before it.
func (m *model) dropDir(path string, d *dir) {
	delete(m.dirs, path)
	for name, p := range d.children {
		if sub := m.dirs[join(path, name)]; sub != nil {
			m.dropDir(join(path, name), sub)
		}
		if p != nil && p.role != other {
			m.take(p)
			m.forget(p.lock)
		}
	}
}

// take removes a place from its lock.
func (m *model) take(p *place) {
	is := func(q *place) bool { return q == p }
	p.lock.queue = slices.DeleteFunc(p.lock.queue, is)
	p.lock.permits = slices.DeleteFunc(p.lock.permits, is)
}

// forget drops a lock that nobody uses.
func (m *model) forget(l *lock) {
	if len(l.queue) == 0 && len(l.permits) == 0 {
		delete(m.locks, l.lockKey)
	}
}

func (p *place) lasted(at time.Time) time.Duration {
	if p.since.IsZero() || at.IsZero() {
		return 0
	}
	return at.Sub(p.since)
}

// settle finds the places that hold the lock now and did not before.
func (m *model) settle(l *lock, at time.Time) {
	var first, firstExclusive *place
	for _, p := range l.queue {
		if p.role == turn {
			continue
		}
		ahead := first
		if p.name.Shared {
			ahead = firstExclusive
		}
		waits := ahead != nil && p.name.WaitsFor(ahead.name)
		if !waits && !p.held {
			took := p.lasted(at)
			m.hold(p, at)
			m.report(Acquired, p, at, took)
		}
		if first == nil {
			first = p
		}
		if !p.name.Shared {
			if firstExclusive == nil {
				firstExclusive = p
			}
			if waits {
				return // so do all that follow
			}
		}
	}
}

// waits reports whether the client of a place in a queue or at a turnstile still waits. An admitted turn that no permit
// awaits belongs to a client that has its permit. A reading still shows the turn because it lists the turns first.
func (p *place) waits() bool {
	if p.held || !p.admitted {
		return !p.held
	}
	return slices.ContainsFunc(p.lock.permits, func(q *place) bool { return q.awaits == p })
}

// turnAt returns the place of a client at a turnstile that has no permit yet, or nil.
func (m *model) turnAt(path string) *place {
	parent, name := split(path)
	d := m.dirs[parent]
	if d == nil {
		return nil
	}
	if p := d.children[name]; p != nil && p.role == turn && !p.admitted {
		return p
	}
	return nil
}

func (m *model) summary() Summary {
	var s Summary
	for key, l := range m.locks {
		if !strings.HasPrefix(key.path, m.prefix) {
			continue
		}
		s.Locks++
		held := slices.ContainsFunc(l.permits, func(p *place) bool { return p.held })
		for _, p := range l.queue {
			switch {
			case p.held:
				held = true
			case p.waits():
				s.Waiters++
			}
		}
		if held {
			s.Held++
		}
	}
	return s
}
