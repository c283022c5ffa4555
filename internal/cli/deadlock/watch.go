// Package deadlock tells a client that waits for a lock that it waits in a cycle: who waits for whom, whom to end, and
// what to type.
package deadlock

import (
	"context"
	"strings"
	"time"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cyclewatch"
	"holdfast/internal/locks"
	"holdfast/zk"
)

// A Watch looks for a cycle through a client's own wait, and says in words what it has found.
type Watch struct {
	Client   *zk.Client
	Prefixes []string // of the paths of the locks that are read; each ends with /
	LockName func(path string) string
	Yield    bool // the wait gives up if it is the victim; its places say so
	// Called is what to call the owner, and End what to type to end it.
	Called, End string
}

// Run looks for a cycle until ctx ends, and calls tell with each new one, and with nil when it is gone. If the locks are
// too many to be read, or cannot be read, it returns.
func (w *Watch) Run(ctx context.Context, tell func(*Deadlock)) {
	watch := cyclewatch.Watch{Client: w.Client, Prefixes: w.Prefixes, Yield: w.Yield}
	watch.Run(ctx, func(f *cyclewatch.Found) { tell(w.inWords(f)) })
}

// inWords returns what people are told, or nil.
func (w *Watch) inWords(f *cyclewatch.Found) *Deadlock {
	if f == nil {
		return nil
	}
	words := Words{f.Graph, w.LockName}
	d := words.Of(f.Cycle, f.Self, w.Called, w.End)
	before := f.Before()
	d.Victim, d.Release, d.Waiter, d.Token = f.Victim, words.Lock(before.For), words.Owner(before.Owner), f.Place(before.For).Zxid
	return &d
}

// patience limits a reading.
const patience = 10 * time.Second

// At returns the deadlock that a lock is in, or nil. It reads all locks of the namespace and beside the lock.
func At(ctx context.Context, c *zk.Client, g *conn.Flags, path string) (*Deadlock, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := cyclewatch.Read(ctx, c, Prefixes(g, []string{path}))
	if err != nil {
		return nil, err
	}
	graph, err := locks.Confirmed(ctx, c, found, nil)
	if err != nil {
		return nil, err
	}
	return Words{graph, g.LockName}.ByLock()[path], nil
}

// Prefixes returns the prefixes below which the locks at the paths are, and those of the namespace.
func Prefixes(g *conn.Flags, paths []string) []string {
	prefixes := []string{strings.TrimSuffix(g.Namespace, "/") + "/"}
	for _, p := range paths {
		prefixes = append(prefixes, strings.TrimSuffix(conn.Parent(p), "/")+"/")
	}
	return cyclewatch.Above(prefixes)
}
