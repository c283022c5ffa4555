package holdfast

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/budget"
	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// An Entry is one place in a lock's queue.
type Entry struct {
	Name    string            // of the node, below the lock's path; of a semaphore's or a slot's, with its directory; a NodeLock's own
	Path    string            // of the node
	Held    bool              // it holds the lock: it waits for nobody
	Kept    bool              // Held, and unlocked, perhaps taken again within the last second: its client gives it up when somebody else joins the queue (see WithKeep)
	Shared  bool              // it is a reader: other readers can hold the lock with it
	Token   int64             // its fencing token
	Session int64             // the session that owns it; the server removes the node when that ends
	Since   time.Time         // when it joined the queue, by the server's clock
	Owner   string            // see WithOwner; the first 4 KiB
	Reason  string            // see WithReason; the first 4 KiB
	Labels  map[string]string // see WithLabels; nil if they are longer than 4 KiB together

	// Detached: no session owns the lock; Session is 0. See [Detached].
	Detached bool
	ID       string    // of a detached lock
	Expires  time.Time // of a detached lock; zero: never

	// HeldSince is when the holder acquired the lock, by the server's clock and to within a round trip. A
	// holder of this package writes the time when it has held the lock for a second, unless the node's
	// data are the program's own (WithValue, the value of a candidate). HeldSince is zero if the time is
	// not known. For a NodeLock or a slot, it is when the node was made.
	HeldSince time.Time
}

// List returns the queue of the lock at path, the holder first, at some moment after the call. A lock that nobody
// holds, or that never existed, has an empty queue. For a semaphore, it returns the permits in use, one entry each,
// and then the waiters; for a Slots, the slots in use by their numbers, in every layout, and then the waiters. The
// layout is that of the lock; without one, it is the default. Children whose names are not in its forms are left out.
// List costs the ensemble a transaction, since a server may be behind the one that granted the lock.
func List(ctx context.Context, c *zk.Client, path string, layout ...Layout) ([]Entry, error) {
	g, err := grammarOf(layout)
	var entries []Entry
	if err == nil {
		entries, err = list(ctx, c, path, g)
	}
	if err != nil {
		return nil, &Error{Op: "list", Path: path, Err: err}
	}
	return entries, nil
}

func list(ctx context.Context, c *zk.Client, path string, g *names.Grammar) (entries []Entry, err error) {
	if err := queue.ValidatePath(path); err != nil {
		return nil, err
	}
	err = queue.BehindWrite(ctx, c, path, func() (err error) {
		entries, err = listNow(ctx, c, path, g)
		return err
	})
	return entries, err
}

// listNow is list for what the server shows.
func listNow(ctx context.Context, c *zk.Client, path string, g *names.Grammar) ([]Entry, error) {
	entries, subdirs, err := listDir(ctx, c, path, g)
	if err != nil {
		return nil, err
	}
	for _, g := range []*names.Grammar{g, names.Slots} {
		more, err := listPermits(ctx, c, path, subdirs, g)
		if err != nil {
			return nil, err
		}
		entries = append(entries, more...)
	}
	if len(entries) > 0 {
		return entries, nil
	}
	// A NodeLock is the node itself.
	var data []byte
	var stat zk.Stat
	err = zk.Retry(ctx, func() (err error) {
		data, stat, err = c.Get(ctx, path)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil || stat.EphemeralOwner == 0 {
		return nil, err
	}
	self := names.Contender{Name: path[strings.LastIndexByte(path, '/')+1:]}
	e := entryOf(path, self, zk.Result{Data: data, Stat: stat}, true)
	e.HeldSince = e.Since // it was made to hold the lock
	return []Entry{e}, nil
}

// listPermits lists the queue of a semaphore, which is one level down: the permits, and then the waiters.
func listPermits(ctx context.Context, c *zk.Client, path string, subdirs []string, g *names.Grammar) (entries []Entry, err error) {
	if g.Semaphore.Lease != "" && !g.Semaphore.Numbered {
		return listBarePermits(ctx, c, path, subdirs, g)
	}
	for i, sub := range []string{g.Semaphore.Leases, g.Semaphore.Turnstile} {
		name, below := strings.CutPrefix(sub, "/")
		if !below || !slices.Contains(subdirs, name) {
			continue
		}
		forms := g
		if i == 0 {
			forms = g.Semaphore.Queue
		}
		more, _, err := listDir(ctx, c, path+sub, forms)
		if err != nil {
			return nil, err
		}
		for _, e := range more {
			switch e.Held = i == 0; {
			case !e.Held:
				e.HeldSince = time.Time{}
			case g.Semaphore.Slots:
				e.HeldSince = e.Since // it was made to hold the slot
			}
			e.Name = name + "/" + e.Name
			entries = append(entries, e)
		}
	}
	if g.Semaphore.Slots {
		return entries, nil
	}
	return withoutPending(ctx, c, path, entries)
}

// withoutPending returns the places of a semaphore without a permit that its waiter does not hold yet.
func withoutPending(ctx context.Context, c *zk.Client, path string, entries []Entry) ([]Entry, error) {
	held := slices.IndexFunc(entries, func(e Entry) bool { return !e.Held })
	if held < 0 {
		return entries, nil
	}
	stats := make([]zk.Stat, len(entries))
	for i, e := range entries {
		stats[i] = zk.Stat{Czxid: e.Token, EphemeralOwner: e.Session}
	}
	first, permits := stats[held], stats[:held]
	if queue.Pending(0, first, permits) < 0 {
		return entries, nil
	}
	var data []byte
	err := zk.Retry(ctx, func() (err error) {
		data, _, err = c.Get(ctx, path)
		return err
	})
	if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth) {
		return nil, err
	}
	limit, _ := strconv.Atoi(string(data)) // Curator stores none
	if i := queue.Pending(limit, first, permits); i >= 0 {
		entries = slices.Delete(entries, i, i+1)
	}
	return entries, nil
}

// listBarePermits lists the queue of kazoo's semaphore. Its permits are children of the path, in the order
// in which they were taken. Its turnstile is a directory beside the path.
func listBarePermits(ctx context.Context, c *zk.Client, path string, children []string, g *names.Grammar) (entries []Entry, err error) {
	permits, results, err := queue.BarePermits(ctx, c, path, children)
	if err != nil {
		return nil, err
	}
	for i, r := range results {
		entries = append(entries, entryOf(path+"/"+permits[i], names.Contender{Name: permits[i], Shared: true}, r, true))
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Token, b.Token) })
	turnstile := path + g.Semaphore.Turnstile
	waiters, _, err := listDir(ctx, c, turnstile, g)
	if err != nil {
		return nil, err
	}
	for _, w := range waiters {
		w.Held, w.HeldSince = false, time.Time{}
		w.Name = turnstile[strings.LastIndexByte(turnstile, '/')+1:] + "/" + w.Name
		entries = append(entries, w)
	}
	return entries, nil
}

// listDir lists the queue in one directory, and the other children.
func listDir(ctx context.Context, c *zk.Client, path string, g *names.Grammar) (entries []Entry, others []string, err error) {
	listed, err := queue.Children(ctx, c, path)
	if err != nil {
		return nil, nil, err
	}
	places := g.InQueue(listed)
	if len(places) < len(listed) {
		others = slices.DeleteFunc(listed, func(n string) bool { _, ok := g.Parse(n); return ok })
	}
	places = budget.Most(ctx, places)
	nodes := make([]string, len(places))
	for i, c := range places {
		nodes[i] = c.Name
	}
	var first, exclusive *names.Contender // of those that are there
	err = queue.ReadEach(ctx, c, path, nodes, func(i int, r zk.Result) {
		if r.Err != nil || g.Bare() && r.Stat.EphemeralOwner == 0 {
			return // it left between the two reads, or is the directory of another lock
		}
		place := places[i]
		waits := first != nil && place.WaitsFor(*first) || exclusive != nil && place.WaitsFor(*exclusive)
		entries = append(entries, entryOf(path+"/"+place.Name, place, r, !waits))
		if first == nil {
			first = &place
		}
		if exclusive == nil && !place.Shared {
			exclusive = &place
		}
	})
	if err != nil {
		return nil, nil, err
	}
	return entries, others, nil
}

func entryOf(path string, c names.Contender, r zk.Result, held bool) Entry {
	n := queue.ReadNote(r.Data)
	e := Entry{
		Name: c.Name, Path: path, Held: held, Kept: held && n.Kept, Shared: c.Shared,
		Token: r.Stat.Czxid, Session: r.Stat.EphemeralOwner, Since: time.UnixMilli(r.Stat.Ctime),
		Owner: budget.Text(n.Owner), Reason: budget.Text(n.Reason), Labels: budget.Labels(n.Labels),
	}
	if held {
		e.HeldSince = n.HeldSince(r.Stat)
	}
	if names.IsDetached(c.Name) && r.Stat.EphemeralOwner == 0 {
		e.Detached, e.ID, e.HeldSince = true, budget.Text(n.ID), e.Since
		if n.Expires != 0 {
			e.Expires = queue.TimeIn(n.Expires)
		}
	}
	if n.Token != 0 && (e.Shared || e.Detached) { // see stepDown and Detached
		e.Token = n.Token
	}
	return e
}

// A ForeignNode is a child of a lock's path that looks like a place in a queue, but is not in this lock's queue, or
// it is a place of a [Tree] above the path.
type ForeignNode struct {
	Path string
	// Kind says in words what lock it is of: "a lock with a queue, layout kazoo". It is ""
	// if the name is in no form that this package knows.
	Kind string
}

// Foreign lists what [List] leaves out of a lock's directory, though it looks like somebody's place: nodes of other
// kinds of lock and of other layouts, beside which Lock fails with ErrKind, and ephemeral nodes with a number in no
// known form, which Lock ignores. Their makers may not respect the lock.
func Foreign(ctx context.Context, c *zk.Client, path string, layout ...Layout) ([]ForeignNode, error) {
	g, err := grammarOf(layout)
	var found []ForeignNode
	if err == nil {
		found, err = foreign(ctx, c, path, g)
	}
	if err != nil {
		return nil, &Error{Op: "list foreign nodes of", Path: path, Err: err}
	}
	return found, nil
}

func foreign(ctx context.Context, c *zk.Client, path string, g *names.Grammar) (found []ForeignNode, err error) {
	if err := queue.ValidatePath(path); err != nil {
		return nil, err
	}
	// A node that comes after the look is not seen either, so this is worth no write.
	if err := zk.Retry(ctx, func() error { return c.Sync(ctx, path) }); err != nil {
		return nil, err
	}
	strangers, err := queue.Strangers(ctx, c, path, g)
	for _, s := range strangers {
		found = append(found, ForeignNode{Path: s.Node, Kind: s.Kind})
	}
	return found, err
}
