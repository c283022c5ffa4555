package deadlock

import (
	"fmt"
	"slices"
	"strings"

	"holdfast/internal/cli/term"
	"holdfast/internal/locks"
	"holdfast/internal/waitgraph"
)

// Words says in words who waits for whom.
type Words struct {
	*waitgraph.Graph
	LockName func(path string) string
}

// Lock names the lock of a place.
func (w Words) Lock(r waitgraph.Ref) string {
	l := w.Locks[r.Lock]
	name := term.Escape(w.LockName(l.Path))
	if l.Layout != "" && l.Layout != "curator" {
		name += " [" + term.Escape(l.Layout) + "]"
	}
	return name
}

// Owner names an owner: by the text of one of its places, and by its sessions.
func (w Words) Owner(o int) string {
	text, sessions := w.Whose(o)
	if len(sessions) == 0 {
		sessions = []string{"no session"}
	}
	if text == "" {
		return "session " + strings.Join(sessions, " ")
	}
	return term.Escape(term.Cut(text, term.MaxCell)) + " " + strings.Join(sessions, " ")
}

// Whose returns the text of an owner that says most, and its sessions. The text is that of a lock that it holds.
func (w Words) Whose(o int) (text string, sessions []string) {
	owner := w.Owners[o]
	for _, r := range slices.Concat(owner.Holds, owner.Waits) {
		if text = w.Place(r).Owner; text != "" {
			break
		}
	}
	for _, s := range owner.Sessions {
		sessions = append(sessions, locks.SessionText(s))
	}
	return text, sessions
}

// How says in what way the owner of a wait depends on the owner that it waits for.
func (w Words) How(s waitgraph.Step) string {
	switch {
	case s.Any:
		return fmt.Sprintf("%s of %d permits, one of them held by", w.Some(s.Wait), len(w.Locks[s.Wait.Lock].Permits))
	case !w.Held(s.For):
		return "in the queue behind"
	}
	return "held by"
}

// A Deadlock is what people are told of a cycle.
type Deadlock struct {
	Cycle string // who waits for whom
	End   string // what ends it: the victim, and what to type; or who gives up
	// Victim says that the client that is told gives up. Of tells nobody.
	Victim bool
	// Waiter waits for the client that is told, for the lock Release. They are "" if nobody is told. Token is that of the
	// client's place in it.
	Waiter, Release string
	Token           int64
}

// Of describes a cycle. called is the text of the owner self, who is told: "this command" for example. Nobody is told if
// self is -1. end ends self.
func (w Words) Of(c *waitgraph.Cycle, self int, called, end string) Deadlock {
	name := func(o int) string {
		if o == self {
			return called
		}
		return w.Owner(o)
	}
	steps := c.Steps
	if i := slices.IndexFunc(steps, func(s waitgraph.Step) bool { return s.Owner == self }); i > 0 {
		steps = slices.Concat(steps[i:], steps[:i])
	}
	var waits []string
	for i, s := range steps {
		verb := "waits"
		if name(s.Owner) == "you" {
			verb = "wait"
		}
		waits = append(waits, fmt.Sprintf("%s %s for %s, %s %s", name(s.Owner), verb, w.Lock(s.Wait), w.How(s), name(steps[(i+1)%len(steps)].Owner)))
	}
	if more := len(c.Owners) - len(steps); more > 0 {
		waits = append(waits, fmt.Sprintf("%d more wait in cycles with these", more))
	}
	d := Deadlock{Cycle: strings.Join(waits, "; ")}
	d.End = w.end(c, self, called, end)
	if c.Rest {
		d.End += ". One victim is not enough: then run holdfast graph"
	}
	if len(c.Threads) > 0 {
		d.End += ". The cycle may end by itself: " + name(c.Threads[0]) + " has several threads in queues"
	}
	return d
}

// ByLock returns the deadlocks of the graph by the path of each lock that an owner in a cycle holds or waits for. Of
// several cycles of a lock, it is the one that has lasted longest.
func (w Words) ByLock() map[string]*Deadlock {
	all := make(map[string]*Deadlock)
	for i := range w.Cycles {
		d := w.Of(&w.Cycles[i], -1, "", "")
		for _, o := range w.Cycles[i].Owners {
			for _, r := range slices.Concat(w.Owners[o].Holds, w.Owners[o].Waits) {
				if path := w.Locks[r.Lock].Path; all[path] == nil {
					all[path] = &d
				}
			}
		}
	}
	return all
}

// Lines returns the deadlock for people.
func (d *Deadlock) Lines() []string { return []string{"deadlock: " + d.Cycle, d.End} }

// End says what to type to end a cycle.
func (w Words) End(c *waitgraph.Cycle) string { return w.end(c, -1, "", "") }

// end says how to end the victim.
func (w Words) end(c *waitgraph.Cycle, self int, called, end string) string {
	if c.Yielder != nil { // nobody else need do anything
		name := called
		if o, ok := w.OwnerOfSession(c.Yielder.Session); ok && o != self {
			name = w.Owner(o)
		}
		return name + " gives up its wait (--on-deadlock fail)"
	}
	if c.Victim == self {
		return fmt.Sprintf("to end it: %s (stops %s, which holds the fewest locks)", end, called)
	}
	held := w.heldByVictim(c)
	lock, place := w.Locks[held.Lock], w.Place(held)
	if lock.Counted {
		return fmt.Sprintf("to end it: holdfast sessions end %s (takes all locks from %s)", locks.SessionText(place.Session), w.Owner(c.Victim))
	}
	return fmt.Sprintf("to end it: holdfast break --token %d %s (takes it from %s)", place.Zxid, shellWord(w.LockName(lock.Path)), w.Owner(c.Victim))
}

// heldByVictim returns the place of the victim that the last owner of the steps waits for.
func (w Words) heldByVictim(c *waitgraph.Cycle) waitgraph.Ref {
	for i, s := range c.Steps {
		if c.Steps[(i+1)%len(c.Steps)].Owner == c.Victim {
			return s.For
		}
	}
	return c.Steps[0].For // not reached: the steps begin with the victim
}

// shellWord quotes a name for a shell, if that is needed.
func shellWord(name string) string {
	name = term.Escape(name)
	if strings.ContainsFunc(name, func(r rune) bool {
		return r > 0x7e || r < '+' && r != '%' || strings.ContainsRune(";<=>?[\\]^`{|}~", r)
	}) {
		return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	return name
}
