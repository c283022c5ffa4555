package lockwatch

import (
	"strings"

	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
)

// A role is what a place is for.
type role int

const (
	inQueue role = iota // a place in the queue, or the node of a NodeLock
	permit              // of a semaphore or of slots
	turn                // at their turnstile
	other               // no place: a directory, or a node that was gone before it was read
)

// split returns the parent's path and the name of a node.
func split(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	if i == 0 {
		return "/", path[1:]
	}
	return path[:i], path[i+1:]
}

func join(dir, name string) string { return strings.TrimSuffix(dir, "/") + "/" + name }

// turnstiles are the directories of a semaphore's queue, and those of its permits.
func (m *model) turnstiles() [][2]string {
	slots := &names.Slots.Semaphore
	pairs := [][2]string{{slots.Turnstile, slots.Leases}}
	if s := &m.grammar.Semaphore; s.Numbered {
		pairs = append(pairs, [2]string{s.Turnstile, s.Leases})
	}
	return pairs
}

// bare reports whether permits are children of the lock's path itself, as kazoo's are.
func (m *model) bare() bool { s := &m.grammar.Semaphore; return s.Lease != "" && !s.Numbered }

// permitsFor returns the path of the permits whose turnstile dir may be.
func (m *model) permitsFor(dir string) (permits string, ok bool) {
	for _, pair := range m.turnstiles() {
		if of, ok := strings.CutSuffix(dir, pair[0]); ok && of != "" {
			return of + pair[1], true
		}
	}
	if of, ok := strings.CutSuffix(dir, m.grammar.Semaphore.Turnstile); ok && m.bare() && of != "" {
		return of, true
	}
	return "", false
}

// semaphoreOf returns the path of the lock whose turnstile is dir.
func (m *model) semaphoreOf(path string) (of string, ok bool) {
	permits, ok := m.permitsFor(path)
	if !ok || m.dirs[permits] == nil {
		return "", false
	}
	if m.bare() && strings.HasSuffix(path, m.grammar.Semaphore.Turnstile) {
		return permits, true
	}
	of, _ = split(permits)
	return of, true
}

// classify returns what a child is. ephemeral counts only if the name does not tell.
func (m *model) classify(path string, ephemeral bool) (r role, lock string, name names.Contender) {
	parent, base := split(path)
	for _, s := range []*names.Semaphore{&names.Slots.Semaphore, &m.grammar.Semaphore} {
		if of, ok := strings.CutSuffix(parent, s.Leases); ok && s.Numbered && of != "" {
			if name, ok := s.Queue.Parse(base); ok {
				return permit, of, name
			}
		}
	}
	if of, ok := m.semaphoreOf(parent); ok {
		g := m.grammar
		if strings.HasSuffix(parent, names.Slots.Semaphore.Turnstile) {
			g = names.Slots
		}
		if name, ok := g.Parse(base); ok {
			return turn, of, name
		}
	}
	if name, ok := m.grammar.Parse(base); ok {
		return inQueue, parent, name
	}
	switch {
	case !ephemeral:
		return other, "", names.Contender{}
	case m.bare() && len(base) == 32 && strings.Trim(base, "0123456789abcdef") == "":
		return permit, parent, names.Contender{Name: base, Shared: true}
	case names.Numbered(base): // a place in a queue of another layout
		return other, "", names.Contender{}
	}
	return inQueue, path, names.Contender{Name: base} // a NodeLock
}

// nameTells reports whether the name of a node tells that it is a place.
func (m *model) nameTells(path string) bool {
	r, _, _ := m.classify(path, false)
	return r != other
}

// reusable reports whether another node may get this name later.
func (m *model) reusable(path string) bool {
	_, base := split(path)
	_, slot := names.SlotOf(base)
	_, numbered := m.grammar.Parse(base)
	return slot || !numbered
}

// skipped reports whether nothing at a path is of interest: the records of a Once and the nodes of doctor, which
// are not locks.
func skipped(path string) bool {
	if _, name := split(path); strings.HasPrefix(name, queue.Probe) {
		return true
	}
	parts := strings.Split(path, "/")
	for i := 1; i+2 < len(parts); i++ {
		digit, ok := strings.CutPrefix(parts[i], queue.OnceShard)
		if ok && len(digit) == 1 && (parts[i+2] == "done" || parts[i+2] == "begun") {
			return true
		}
	}
	return path == "/zookeeper"
}

// relevant reports whether a node can be a lock of the prefix, above one or below one.
func (m *model) relevant(path string) bool {
	return !skipped(path) && (strings.HasPrefix(path, m.prefix) || strings.HasPrefix(m.prefix, strings.TrimSuffix(path, "/")+"/"))
}
