package holdfast

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"holdfast/zk"
)

// An Entry is one place in a lock's queue.
type Entry struct {
	Name    string    // of the node, below the lock's path; of a semaphore's, with the directory between; a NodeLock's own
	Path    string    // of the node
	Held    bool      // nobody keeps it waiting: it holds the lock
	Shared  bool      // it is a reader, beside which other readers can hold the lock
	Token   int64     // its fencing token
	Session int64     // the session that owns it; the server removes the node when that ends
	Since   time.Time // when it joined the queue, by the server's clock
	Owner   string    // who, as the program chose to say
	Reason  string    // what for

	// HeldSince is when it came to hold the lock, by the server's clock and to within a
	// round trip. Holders of this package say it when they have held for a second, unless
	// WithValue or a candidate's value takes the room. Zero: not known; then it is not
	// before Since. The holder of a NodeLock holds since its node is there.
	HeldSince time.Time
}

// List is the queue of the lock at path, the holder first. A lock that nobody holds,
// or that never existed, has an empty queue. It shows what was so at some moment
// after the call. Of a semaphore, it shows those who have permits, each permit for itself,
// and then those who wait. Of the options, only WithLayout counts. Children whose names are not in
// the layout's forms are left out.
func List(ctx context.Context, c *zk.Client, path string, opts ...Option) ([]Entry, error) {
	o := newOptions(opts)
	entries, err := list(ctx, c, path, o.grammar)
	if err != nil {
		return nil, &Error{Op: "list", Path: path, Err: err}
	}
	return entries, nil
}

func list(ctx context.Context, c *zk.Client, path string, g *grammar) ([]Entry, error) {
	if err := validatePath(path); err != nil {
		return nil, err
	}
	// The server that we read from may be behind the one that granted the lock.
	if err := retry(ctx, func() error { return c.Sync(ctx, path) }); err != nil {
		return nil, err
	}
	entries, subdirs, err := listDir(ctx, c, path, g)
	if err != nil {
		return nil, err
	}
	// A semaphore's queue is one level down: those who have permits, and those who wait.
	for i, sub := range []string{g.semaphore.leases, g.semaphore.turnstile} {
		name, below := strings.CutPrefix(sub, "/")
		if !below || !slices.Contains(subdirs, name) {
			continue
		}
		forms := g
		if i == 0 {
			forms = g.semaphore.queue
		}
		more, _, err := listDir(ctx, c, path+sub, forms)
		if err != nil {
			return nil, err
		}
		for _, e := range more {
			if e.Held = i == 0; !e.Held {
				e.HeldSince = time.Time{}
			}
			e.Name = name + "/" + e.Name
			entries = append(entries, e)
		}
	}
	if len(entries) > 0 {
		return entries, nil
	}
	// A NodeLock is the node itself.
	var data []byte
	var stat zk.Stat
	err = retry(ctx, func() (err error) {
		data, stat, err = c.Get(ctx, path)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil || stat.EphemeralOwner == 0 {
		return nil, err
	}
	self := contender{name: path[strings.LastIndexByte(path, '/')+1:]}
	e := entryOf(path, self, zk.Result{Data: data, Stat: stat}, true)
	e.HeldSince = e.Since // it was made to hold the lock
	return []Entry{e}, nil
}

// listDir lists the queue in one directory, and what else is there.
func listDir(ctx context.Context, c *zk.Client, path string, g *grammar) (entries []Entry, others []string, err error) {
	names, err := children(ctx, c, path)
	if err != nil {
		return nil, nil, err
	}
	queue := g.inQueue(names)
	if len(queue) < len(names) {
		others = slices.DeleteFunc(names, func(n string) bool { _, ok := g.parse(n); return ok })
	}
	results, err := read(ctx, c, path, queue)
	if err != nil {
		return nil, nil, err
	}
	var present []contender
	for i, r := range results {
		if r.Err != nil {
			continue // it left between the two reads
		}
		held := !slices.ContainsFunc(present, queue[i].waitsFor)
		entries = append(entries, entryOf(path+"/"+queue[i].name, queue[i], r, held))
		present = append(present, queue[i])
	}
	return entries, others, nil
}

// children are the names of a directory's children; it has none if it does not exist.
func children(ctx context.Context, c *zk.Client, path string) (names []string, err error) {
	err = retry(ctx, func() (err error) {
		names, _, err = c.Children(ctx, path)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		err = nil
	}
	return names, err
}

func entryOf(path string, c contender, r zk.Result, held bool) Entry {
	n := readNote(r.Data)
	e := Entry{
		Name: c.name, Path: path, Held: held, Shared: c.shared,
		Token: r.Stat.Czxid, Session: r.Stat.EphemeralOwner, Since: time.UnixMilli(r.Stat.Ctime),
		Owner: n.Owner, Reason: n.Reason,
	}
	if held && n.Since >= r.Stat.Ctime {
		e.HeldSince = time.UnixMilli(n.Since)
	}
	if n.Token != 0 && e.Shared { // see stepDown
		e.Token = n.Token
	}
	return e
}

// readsInFlight is how many nodes are read in one go.
const readsInFlight = 256

// read reads the nodes of a queue. The only error that a result can have is ErrNoNode.
func read(ctx context.Context, c *zk.Client, dir string, queue []contender) ([]zk.Result, error) {
	var all []zk.Result
	for places := range slices.Chunk(queue, readsInFlight) {
		gets := make([]zk.Op, len(places))
		for i, p := range places {
			gets[i] = zk.GetOp(dir + "/" + p.name)
		}
		var results []zk.Result
		err := retry(ctx, func() (err error) {
			if results, err = c.Pipeline(ctx, gets...); results == nil {
				return err
			}
			for _, r := range results {
				if r.Err != nil && !errors.Is(r.Err, zk.ErrNoNode) {
					return r.Err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		all = append(all, results...)
	}
	return all, nil
}
