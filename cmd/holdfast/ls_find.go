package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"holdfast/internal/cli/conn"
	"holdfast/internal/locks"
	"holdfast/once"
	"holdfast/reserve"
	"holdfast/zk"
)

// located is a lock as the command shows it.
type located struct {
	path       string // as its users name it
	dir        string // the node that has its queue, or has it below
	kind       string
	layout     string
	queue      []locks.Place
	permits    *permits // of a semaphore or slots; nil otherwise
	unreadable bool     // there is no permission to read the node or a place in its queue. There may be locks below it
	// reserved is what --min-hold keeps.
	reserved *reserve.Reservation
	foreign  []locks.ForeignNode
	lastRun  *once.Result // of --once-per; only status reads it
}

// locate returns a lock as the command shows it at the time.
func locate(l locks.Lock, now time.Time) located {
	shown := located{
		path: l.Path, dir: l.Dirs[0], kind: l.Use(), layout: l.Layout, queue: l.Queue, unreadable: l.Unreadable, reserved: l.Rests(now), foreign: l.Foreign,
	}
	if l.Counted() {
		shown.permits = &permits{l.Holders(), l.Limit}
	}
	return shown
}

// lock is the reverse of locate, as far as states need it.
func (l located) lock() *locks.Lock {
	return &locks.Lock{Queue: l.queue, Reserved: l.reserved, Foreign: l.foreign, Unreadable: l.unreadable}
}

// key tells the lock from others of its path.
func (l located) key() string { return l.path + "\x00" + l.layout }

func (l located) state() string { return string(l.lock().State(time.Time{})) }

// holder returns the owner of the first place, and how many other places hold the lock.
func (l located) holder() string {
	switch {
	case len(l.queue) == 0 && l.reserved != nil:
		return l.reserved.Owner
	case len(l.queue) == 0:
		return ""
	}
	owner := l.queue[0].Owner
	if more := l.holders() - 1; more > 0 {
		owner += fmt.Sprintf(" +%d", more)
	}
	return owner
}

// holders returns how many places hold the lock.
func (l located) holders() int { return l.lock().Holders() }

// waiters returns how many places wait. Candidates and workers do not.
func (l located) waiters() int { return l.lock().Waiters() }

// permits are those of a semaphore, or the slots of a set.
type permits struct {
	inUse int
	limit int // 0 if it is not known
}

// String returns the permits for a table.
func (p *permits) String() string {
	switch {
	case p == nil:
		return ""
	case p.limit == 0:
		return fmt.Sprintf("%d/?", p.inUse)
	}
	return fmt.Sprintf("%d/%d", p.inUse, p.limit)
}

// A lockQuery says which locks a command lists.
type lockQuery struct {
	prefix    string // of their paths
	namespace string // a free lock is listed here, and below the directory that prefix names
	layout    *locks.Layout
}

// freeLocks returns a function that reports whether a free lock at a path is listed. Elsewhere on the server, nobody can tell
// the empty node that a lock has left from one of another program.
func (q lockQuery) freeLocks() func(path string) bool {
	below := strings.TrimSuffix(q.namespace, "/") + "/"
	named := strings.TrimSuffix(conn.Parent(q.prefix), "/") + "/"
	return func(path string) bool {
		return strings.HasPrefix(path, below) || named != "/" && strings.HasPrefix(path, named)
	}
}

// read returns the locks of the query, by path.
func (q lockQuery) read(ctx context.Context, c *zk.Client) ([]located, error) {
	s, err := locks.Read(ctx, c, locks.Query{Prefix: q.prefix, Layout: q.layout, Free: q.freeLocks()})
	if err != nil {
		return nil, err
	}
	now := time.Now()
	found := make([]located, 0, len(s.Locks))
	for _, l := range s.Locks {
		found = append(found, locate(l, now))
	}
	return found, nil
}

// unreadableState is the state of a lock that nobody may read.
const unreadableState = "unreadable"
