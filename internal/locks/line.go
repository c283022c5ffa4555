package locks

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// A Line is the queue in one directory of a copy of the tree, as [In] finds it. In reads the whole directory for each
// answer. A Line keeps what it has parsed, and its owner tells it of each child that is made, changed or removed. It
// knows queues of one layout, which most directories of locks are; see Plain. It is not safe for concurrent use.
type Line struct {
	look    func(path string) (Copy, bool)
	path    string
	beside  []string // nodes with which the directory belongs to a semaphore, to shards or to a reservation
	lock    Lock     // without its places
	grammar *names.Grammar
	members []*member // in the order of the queue
	by      map[string]*member
	odd     map[string]bool // children that may be places of other queues
	numbers map[int32]int   // of the members
	tokens  map[int64]int
	twins   int // members that share a number or a token, or have the token of another node
	held    int // members that hold the lock

	dirty []*member // since the last call of Changed
	gone  []int64
}

// A member is a place of a Line.
type member struct {
	names.Contender
	place             Place // HeldSince and Kept are as they are for a holder
	held, dirty, gone bool
}

// NewLine returns the Line of the directory at path, or nil if the path says that it is no plain queue. look returns a
// node of the copy.
func NewLine(look func(path string) (Copy, bool), path string) *Line {
	if !mayBePlain(path) {
		return nil
	}
	l := &Line{look: look, path: path}
	for _, end := range turnstileDirs {
		l.beside = append(l.beside, path+end)
	}
	var children []string
	if n, ok := look(path); ok && n.Children != nil {
		children = n.Children()
	}
	l.fill(slices.Values(children))
	return l
}

// mayBePlain reports whether a path can be that of a plain queue.
func mayBePlain(path string) bool {
	i := strings.LastIndexByte(path, '/')
	if i < 0 || path == "/" || strings.Contains(path+"/", "/"+ownDirectory+"/") || noLock(path[:i], path[i+1:]) || Numbered(path) {
		return false
	}
	if name := path[i+1:]; len(name) == 32 && strings.Trim(name, "0123456789abcdef") == "" { // it may be one of kazoo's permits
		return false
	}
	if strings.HasSuffix(path[:i], "/"+queue.ShardQueues) { // its waiters may be workers
		return false
	}
	return !slices.ContainsFunc(turnstileDirs, func(end string) bool { return strings.HasSuffix(path, end) })
}

// fill forgets all children, and reads those with these names.
func (l *Line) fill(children iter.Seq[string]) {
	l.grammar, l.members, l.twins, l.held = nil, nil, 0, 0
	l.by, l.odd = make(map[string]*member), make(map[string]bool)
	l.numbers, l.tokens = make(map[int32]int), make(map[int64]int)
	for name := range children {
		if c, ok := l.look(join(l.path, name)); ok {
			l.Put(name, c.Data, c.Stat)
		}
	}
}

// Put tells the line that a child was made, or has other data.
func (l *Line) Put(name string, data []byte, stat zk.Stat) {
	if !names.Numbered(name) {
		return
	}
	l.Remove(name)
	g := names.Detect(name)
	if g == nil && stat.EphemeralOwner == 0 {
		return
	}
	if g != nil && l.grammar == nil && len(l.odd) == 0 && !g.Bare() {
		l.begin(g)
	}
	if g == nil || l.grammar == nil || g.Label != l.grammar.Label {
		l.odd[name] = true
		return
	}
	c, ok := l.grammar.Parse(name)
	if !ok {
		return
	}
	m := &member{Contender: c, place: placeOf(join(l.path, name), name, false, c.Shared, zk.Result{Data: data, Stat: stat})}
	l.members = slices.Insert(l.members, l.index(c.Seq), m)
	l.by[name] = m
	l.count(m, 1)
	l.touch(m)
}

// begin sets the layout when the first place comes.
func (l *Line) begin(g *names.Grammar) {
	l.grammar = g
	f := found{lock: Lock{Path: l.path, Layout: g.Label, label: g.Label, Kind: Queue, Dirs: []string{l.path}, idle: g.Label == names.LeaderLatch.Name}}
	f.inTree()
	l.lock = f.lock
}

// index returns the index of the first member that has the number or a later one.
func (l *Line) index(seq int32) int {
	i, _ := slices.BinarySearchFunc(l.members, seq, func(m *member, seq int32) int {
		if names.Before(m.Seq, seq) {
			return -1
		}
		return 1
	})
	return i
}

// count notes that a member has come or gone, by 1 or -1.
func (l *Line) count(m *member, by int) {
	if m.place.Token != m.place.Zxid {
		l.twins += by
	}
	l.twins += add(l.numbers, m.Seq, by) + add(l.tokens, m.place.Token, by)
}

// add changes how often a key counts by 1 or -1. It returns by if there is another one with the key.
func add[K comparable](counts map[K]int, key K, by int) int {
	counts[key] += by
	switch n := counts[key]; {
	case n == 0:
		delete(counts, key)
		return 0
	case n == 1 && by > 0:
		return 0
	}
	return by
}

func (l *Line) touch(m *member) {
	if !m.dirty {
		m.dirty = true
		l.dirty = append(l.dirty, m)
	}
}

// Remove tells the line that a child was removed.
func (l *Line) Remove(name string) {
	delete(l.odd, name)
	m := l.by[name]
	if m == nil {
		return
	}
	delete(l.by, name)
	i := l.index(m.Seq)
	i += slices.Index(l.members[i:], m)
	l.members = slices.Delete(l.members, i, i+1)
	l.count(m, -1)
	l.gone = append(l.gone, m.place.Token)
	if m.gone = true; m.held {
		l.held--
	}
	if len(l.members) == 0 { // one of the others may tell the layout now
		l.fill(maps.Keys(l.odd))
	}
}

// Plain reports whether everything in the directory that takes part in a lock is one queue of one layout. If it is not,
// ask In, and call Touch.
func (l *Line) Plain() bool {
	if n, ok := l.look(l.path); !ok || n.Stat.EphemeralOwner != 0 || l.twins > 0 || len(l.odd) > 0 {
		return false
	}
	return !slices.ContainsFunc(l.beside, func(path string) bool { _, ok := l.look(path); return ok })
}

// Path returns the path of the lock as its users name it.
func (l *Line) Path() string { return Typed(l.path) }

// Lock returns the lock without its places.
func (l *Line) Lock() Lock { return l.lock }

// All returns all places, and begins anew for Changed.
func (l *Line) All() []Place {
	for _, m := range l.members {
		l.touch(m)
	}
	_, places := l.Changed()
	return places
}

// Changed returns what is different since the last call of Changed or All: the tokens of removed places, and the places
// that are new, have other data, or have acquired or lost the lock. The line must be plain.
func (l *Line) Changed() (gone []int64, places []Place) {
	// The holders are at the front: a reader waits for the writers ahead, and a writer for everybody.
	front := 0
	for front < len(l.members) && (front == 0 || l.members[0].Shared && l.members[front].Shared) {
		l.hold(l.members[front], true)
		front++
	}
	for i := front; l.held > front; i++ { // a node with a smaller number was made later
		l.hold(l.members[i], false)
	}
	for _, m := range l.dirty {
		if m.dirty = false; !m.gone {
			places = append(places, l.present(m))
		}
	}
	gone, l.gone, l.dirty = l.gone, nil, l.dirty[:0]
	return gone, places
}

// hold notes whether a member holds the lock.
func (l *Line) hold(m *member, held bool) {
	if m.held == held {
		return
	}
	if m.held = held; held {
		l.held++
	} else {
		l.held--
	}
	l.touch(m)
}

// present returns the place of a member as In does.
func (l *Line) present(m *member) Place {
	p := m.place
	p.Held = m.held
	if !p.Held && !p.Detached {
		p.HeldSince = time.Time{}
	}
	p.Kept = p.Held && p.Kept
	p.Member = !p.Held && (l.lock.idle || l.lock.Kind == Queue && l.lock.election(&p))
	return p
}
