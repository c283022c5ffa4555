// Package see reads locks, and lists and describes them as ls and status print them.
package see

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/show"
	"holdfast/internal/locks"
	"holdfast/internal/waitgraph"
	"holdfast/once"
	"holdfast/reserve"
	"holdfast/zk"
)

// Lock is a lock as the command shows it.
type Lock struct {
	Path       string // as its users name it
	Dir        string // the node that has its queue, or has it below
	Kind       string
	Layout     string
	Queue      []locks.Place
	Permits    *Permits // of a semaphore or slots; nil otherwise
	Unreadable bool     // there is no permission to read the node or a place in its queue. There may be locks below it
	// Reserved is what --min-hold keeps.
	Reserved *reserve.Reservation
	Foreign  []locks.ForeignNode
	LastRun  *once.Result // of --once-per; only status reads it
	// Deadlock says that the lock is in one, in lines; only status looks for it.
	Deadlock []string

	whole *locks.Lock
}

// New returns a lock as the command shows it at the time.
func New(l locks.Lock, now time.Time) Lock {
	shown := Lock{
		Path: l.Path, Dir: l.Dirs[0], Kind: l.Use(), Layout: l.Layout, Queue: l.Queue, Unreadable: l.Unreadable, Reserved: l.Rests(now), Foreign: l.Foreign,
		whole: &l,
	}
	if l.Counted() {
		shown.Permits = &Permits{l.Holders(), l.Limit}
	}
	return shown
}

// lock is the reverse of New, as far as states need it.
func (l Lock) lock() *locks.Lock {
	return &locks.Lock{Queue: l.Queue, Reserved: l.Reserved, Foreign: l.Foreign, Unreadable: l.Unreadable}
}

// Graph returns locks for the wait-for graph.
func Graph(all []Lock) []waitgraph.Lock {
	whole := make([]locks.Lock, 0, len(all))
	for _, l := range all {
		if l.whole != nil {
			whole = append(whole, *l.whole)
		}
	}
	return locks.Graph(whole)
}

// Key tells the lock from others of its path.
func (l Lock) Key() string { return l.Path + "\x00" + l.Layout }

// State returns the name of the state.
func (l Lock) State() string { return string(l.lock().State(time.Time{})) }

// holder returns the owner of the first place, and how many others hold the lock. It says whose processes are gone.
func (l Lock) holder() string {
	switch {
	case len(l.Queue) == 0 && l.Reserved != nil:
		return l.Reserved.Owner
	case len(l.Queue) == 0:
		return ""
	}
	owner, more := l.Queue[0].Owner, l.lock().Tenures()-1
	if more <= 0 {
		return owner + show.Gone(l.Queue[0])
	}
	owner += fmt.Sprintf(" +%d", more)
	if gone := l.gone(); gone > 0 {
		owner += fmt.Sprintf("%s: %d", show.ProcessGone, gone)
	}
	return owner
}

// gone returns how many holders have no process any more.
func (l Lock) gone() int {
	dead := &locks.Lock{}
	for _, p := range l.Queue {
		if p.Held && p.ProcessGone() {
			dead.Queue = append(dead.Queue, p)
		}
	}
	return dead.Tenures()
}

// Holders returns how many places hold the lock.
func (l Lock) Holders() int { return l.lock().Holders() }

// Waiters returns how many places wait. Candidates and workers do not.
func (l Lock) Waiters() int { return l.lock().Waiters() }

// preference returns the preference of a candidate for a table.
func preference(p locks.Place) string {
	if n, ok := p.Preference(); ok {
		return strconv.Itoa(n)
	}
	return ""
}

// preferred reports whether a place is one of a candidate that is preferred to others.
func preferred(p locks.Place) bool {
	n, _ := p.Preference()
	return n > 0
}

// Permits are those of a semaphore, or the slots of a set.
type Permits struct {
	InUse int
	Limit int // 0 if it is not known
}

// String returns the permits for a table.
func (p *Permits) String() string {
	switch {
	case p == nil:
		return ""
	case p.Limit == 0:
		return fmt.Sprintf("%d/?", p.InUse)
	}
	return fmt.Sprintf("%d/%d", p.InUse, p.Limit)
}

// A Query says which locks a command lists.
type Query struct {
	Prefix    string // of their paths
	Namespace string // a free lock is listed here, and below the directory that Prefix names
	Layout    *locks.Layout
}

// freeLocks returns a function that reports whether a free lock at a path is listed. Elsewhere on the server, nobody can tell
// the empty node that a lock has left from one of another program.
func (q Query) freeLocks() func(path string) bool {
	below := strings.TrimSuffix(q.Namespace, "/") + "/"
	named := strings.TrimSuffix(conn.Parent(q.Prefix), "/") + "/"
	return func(path string) bool {
		return strings.HasPrefix(path, below) || named != "/" && strings.HasPrefix(path, named)
	}
}

// Read returns the locks of the query, by path.
func (q Query) Read(ctx context.Context, c *zk.Client) ([]Lock, error) {
	s, err := locks.Read(ctx, c, locks.Query{Prefix: q.Prefix, Layout: q.Layout, Free: q.freeLocks()})
	if err != nil {
		return nil, err
	}
	now := time.Now()
	found := make([]Lock, 0, len(s.Locks))
	for _, l := range s.Locks {
		found = append(found, New(l, now))
	}
	return found, nil
}

// Unreadable is the state of a lock that nobody may read.
const Unreadable = "unreadable"
