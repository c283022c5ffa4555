package lockwatch

import (
	"cmp"
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
	if s := &cmp.Or(m.grammar, names.Default).Semaphore; s.Numbered {
		pairs = append(pairs, [2]string{s.Turnstile, s.Leases})
	}
	return pairs
}

// kazoo is the layout whose permits have no directory of their own.
var kazoo = names.Compile(names.Kazoo)

// bare is the end of the path of the queue of semaphores whose permits are children of the lock's path itself, as kazoo's
// are. It is "" if no semaphore in the model's layout is like that.
func (m *model) bare() string {
	s := &cmp.Or(m.grammar, kazoo).Semaphore
	if s.Lease == "" || s.Numbered {
		return ""
	}
	return s.Turnstile
}

// cutBare returns the path of the semaphore whose queue, like kazoo's, dir may be.
func (m *model) cutBare(dir string) (of string, ok bool) {
	end := m.bare()
	of, ok = strings.CutSuffix(dir, end)
	return of, ok && end != "" && of != ""
}

// parse returns the place that a name gives, and the label of its layout if the model has all layouts.
func (m *model) parse(base string) (name names.Contender, label string, ok bool) {
	g := m.grammar
	if g == nil {
		if g = names.Detect(base); g == nil {
			return names.Contender{}, "", false
		}
		label = g.Label
	}
	name, ok = g.Parse(base)
	return name, label, ok
}

// permitsFor returns the path of the permits whose turnstile dir may be.
func (m *model) permitsFor(dir string) (permits string, ok bool) {
	for _, pair := range m.turnstiles() {
		if of, ok := strings.CutSuffix(dir, pair[0]); ok && of != "" {
			return of + pair[1], true
		}
	}
	return m.cutBare(dir)
}

// semaphoreOf returns the path of the lock whose turnstile is dir.
func (m *model) semaphoreOf(path string) (of string, ok bool) {
	permits, ok := m.permitsFor(path)
	if !ok || m.dirs[permits] == nil {
		return "", false
	}
	if _, ok := m.cutBare(path); ok {
		return permits, true
	}
	of, _ = split(permits)
	return of, true
}

// classify returns what a child is. ephemeral counts only if the name does not tell.
func (m *model) classify(path string, ephemeral bool) (r role, of lockKey, name names.Contender) {
	parent, base := split(path)
	for _, s := range []*names.Semaphore{&names.Slots.Semaphore, &cmp.Or(m.grammar, names.Default).Semaphore} {
		if of, ok := strings.CutSuffix(parent, s.Leases); ok && s.Numbered && of != "" {
			if name, ok := s.Queue.Parse(base); ok {
				return permit, lockKey{path: of}, name
			}
		}
	}
	if of, ok := m.semaphoreOf(parent); ok {
		name, _, ok := m.parse(base)
		if strings.HasSuffix(parent, names.Slots.Semaphore.Turnstile) {
			name, ok = names.Slots.Parse(base)
		}
		if ok {
			return turn, lockKey{path: of}, name
		}
	}
	if name, label, ok := m.parse(base); ok {
		return inQueue, lockKey{parent, label}, name
	}
	switch {
	case !ephemeral:
		return other, lockKey{}, names.Contender{}
	case m.barePermit(parent, base):
		return permit, lockKey{path: parent}, names.Contender{Name: base, Shared: true}
	case names.Numbered(base): // a place in a queue of another layout
		return other, lockKey{}, names.Contender{}
	}
	return inQueue, lockKey{path: path}, names.Contender{Name: base} // a NodeLock
}

// barePermit reports whether an ephemeral child of a node is a permit without a directory of its own. If the model has all
// layouts, the semaphore's queue tells, which is there before the first permit.
func (m *model) barePermit(parent, base string) bool {
	return m.bare() != "" && len(base) == 32 && strings.Trim(base, "0123456789abcdef") == "" && (m.grammar != nil || m.dirs[parent+m.bare()] != nil)
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
	_, _, numbered := m.parse(base)
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
