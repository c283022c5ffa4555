package lockwatch

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// report emits an event. A tenure can have several nodes (permits, or the two sides of a lock): then it is
// acquired with the first and released with the last.
func (m *model) report(t Type, p *place, at time.Time, took time.Duration) {
	if m.loading || m.veils(p.lock) {
		return
	}
	all := m.tally(p.lock)
	if (t == Acquired || t == Released) && p.info.known {
		others := all.held[p.tenure()]
		if t == Acquired {
			others-- // itself
		}
		if others > 0 {
			return
		}
	}
	e := Event{Type: t, At: at, Lock: p.lock.path, Node: p.path, Shared: p.name.Shared && p.role == inQueue, Took: took}
	e.Waiters = all.waiting
	if p.info.known {
		n := p.info.note
		e.Known, e.Owner, e.Reason = true, n.Owner, n.Reason
		e.Session, e.Token = p.info.stat.EphemeralOwner, p.token()
	}
	m.send(e)
}

// noPermission says why nothing of a lock is reported.
const noPermission = "no permission to read all of it: its events are not reported"

// veil notes the directories with places that may not be read, and reports a Gap for each that is new. The server
// reports no event of such a place, so nobody knows who holds the lock. veil also notes those that can be read again.
func (m *model) veil(t tree, at time.Time) {
	veiled := make(map[string]bool)
	for path, n := range t {
		if parent, name := split(path); n.info.denied && path != m.base && m.dirs[parent] != nil {
			p := m.dirs[parent].children[name]
			veiled[parent] = veiled[parent] || p != nil && p.role != other
		}
	}
	for _, path := range slices.Sorted(maps.Keys(m.dirs)) {
		if d := m.dirs[path]; d.veiled != veiled[path] {
			d.veiled = veiled[path]
			why := "until now, there was no permission to read all of it"
			if d.veiled {
				why = noPermission
			}
			m.gap(m.owner(path, t), at, why)
		}
	}
}

// hide notes that a directory has places that no event has reported.
func (m *model) hide(path string, d *dir, at time.Time) {
	d.veiled = true
	m.gap(m.owner(path, nil), at, noPermission)
}

// veils reports whether a lock may have places that the model does not know.
func (m *model) veils(l *lock) bool {
	veiled := func(path string) bool { d := m.dirs[path]; return d != nil && d.veiled }
	for _, pair := range m.turnstiles() {
		if veiled(l.path+pair[0]) || veiled(l.path+pair[1]) {
			return true
		}
	}
	return veiled(l.path) || m.bare() != "" && veiled(l.path+m.bare())
}

// gap reports changes at path, or below it, that the model has not seen.
func (m *model) gap(path string, at time.Time, why string) {
	m.send(Event{Type: Gap, At: at, Lock: path, Why: why})
}

func (m *model) send(e Event) {
	if strings.HasPrefix(e.Lock, m.prefix) || e.Type == Gap && m.relevant(e.Lock) {
		m.emit(e)
	}
}
