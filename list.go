package holdfast

import (
	"context"
	"errors"
	"slices"
	"time"

	"holdfast/zk"
)

// An Entry is one place in a lock's queue.
type Entry struct {
	Name    string    // of the node, below the lock's path
	Path    string    // of the node
	Held    bool      // it is the first: it holds the lock
	Token   int64     // its fencing token
	Session int64     // the session that owns it; the server removes the node when that ends
	Since   time.Time // when it joined the queue, by the server's clock
	Owner   string    // who, as the program chose to say
	Reason  string    // what for
}

// List is the queue of the lock at path, the holder first. A lock that nobody holds,
// or that never existed, has an empty queue. It shows what was so at some moment
// after the call. Children whose names are not a lock's are left out.
func List(ctx context.Context, c *zk.Client, path string) ([]Entry, error) {
	entries, err := list(ctx, c, path)
	if err != nil {
		return nil, &Error{Op: "list", Path: path, Err: err}
	}
	return entries, nil
}

func list(ctx context.Context, c *zk.Client, path string) ([]Entry, error) {
	if err := validatePath(path); err != nil {
		return nil, err
	}
	// The server that we read from may be behind the one that granted the lock.
	if err := c.Sync(ctx, path); err != nil {
		return nil, err
	}
	names, _, err := c.Children(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var entries []Entry
	const batch = 256 // reads in flight
	for places := range slices.Chunk(inQueue(names), batch) {
		gets := make([]zk.Op, len(places))
		for i, p := range places {
			gets[i] = zk.GetOp(path + "/" + p.name)
		}
		results, err := c.Pipeline(ctx, gets...)
		if results == nil {
			return nil, err
		}
		for i, r := range results {
			switch {
			case errors.Is(r.Err, zk.ErrNoNode):
				continue // it left between the two reads
			case r.Err != nil:
				return nil, r.Err
			}
			n := readNote(r.Data)
			entries = append(entries, Entry{
				Name: places[i].name, Path: path + "/" + places[i].name, Held: len(entries) == 0,
				Token: r.Stat.Czxid, Session: r.Stat.EphemeralOwner, Since: time.UnixMilli(r.Stat.Ctime),
				Owner: n.Owner, Reason: n.Reason,
			})
		}
	}
	return entries, nil
}
