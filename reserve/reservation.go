package reserve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"holdfast"
	"holdfast/internal/lend"
	"holdfast/internal/queue"
	"holdfast/zk"
)

// A Reservation keeps a lock for some time, also after its holder has released it or has crashed. See [For]. As an
// error, it wraps holdfast.ErrLocked.
type Reservation struct {
	Path  string // of the lock
	Owner string // of the Hold that made it, see holdfast.WithOwner
	Token int64  // the fencing token of that Hold
	// From is when the server recorded it, by the server's clock, and Until is its end. If that clock has gone back,
	// both change when a client looks (see For).
	From, Until time.Time

	node string
}

// Error says until when the lock is reserved, and for whom.
func (r *Reservation) Error() string {
	by := r.Owner
	if by == "" {
		by = fmt.Sprintf("the holder with the token %d", r.Token)
	}
	return fmt.Sprintf("reserved by %s until %s", by, r.Until.UTC().Format(time.RFC3339))
}

// Unwrap returns holdfast.ErrLocked.
func (r *Reservation) Unwrap() error { return holdfast.ErrLocked }

// Of returns the last reservation of the lock at path, or nil if there is none. It may be over. Give the layout of a
// lock with [holdfast/layout.Named]; others make no difference.
func Of(ctx context.Context, c *zk.Client, path string, layout ...holdfast.Layout) (*Reservation, error) {
	name, err := lend.LayoutName(layout)
	if err == nil {
		err = queue.ValidatePath(path)
	}
	var r *Reservation
	if err == nil {
		r, _, err = read(ctx, c, path, node(path, name))
	}
	if err != nil {
		return nil, &holdfast.Error{Op: "read the reservation of", Path: path, Err: err}
	}
	return r, nil
}

// End ends the reservation, whoever holds the lock. Then a waiter acquires the lock within 2 seconds. The error is
// holdfast.ErrNotHeld if there is no such reservation any more. If another Hold has replaced it, End does nothing. (If
// the node is removed and made again between the two requests of End, End removes the new one.)
func (r *Reservation) End(ctx context.Context, c *zk.Client) error {
	for doubt := false; ; { // an earlier delete may have happened
		now, version, err := read(ctx, c, r.Path, r.node)
		gone := err == nil && (now == nil || now.Token != r.Token)
		switch {
		case gone && doubt:
			return nil
		case gone:
			err = fmt.Errorf("%w: there is no reservation with the token %d", holdfast.ErrNotHeld, r.Token)
		case err == nil:
			err = zk.Retry(ctx, func() error { return c.Delete(ctx, r.node, version) })
			switch {
			case err == nil:
				return nil
			case errors.Is(err, zk.ErrConnectionLoss):
				doubt = true
				continue
			case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion): // removed or replaced just now
				continue
			}
		}
		return &holdfast.Error{Op: "end the reservation of", Path: r.Path, Err: err}
	}
}

// read reads the reservation at node, and the node's version.
func read(ctx context.Context, c *zk.Client, path, node string) (*Reservation, int32, error) {
	var data []byte
	var stat zk.Stat
	err := queue.BehindWrite(ctx, c, path, func() error {
		return zk.Retry(ctx, func() (err error) {
			data, stat, err = c.Get(ctx, node)
			return err
		})
	})
	r, err := reservationIn(path, node, zk.Result{Data: data, Stat: stat, Err: err})
	return r, stat.Version, err
}

// ownDirectory is the name of a directory below a lock's path, for what outlasts the holders. It is no lock.
const ownDirectory = ".holdfast"

// directory returns the directory for what outlasts the holders of the lock at path. The locks of layout.Named share a
// path, so each of them has its own.
func directory(path, layout string) string {
	path += "/" + ownDirectory
	if strings.HasPrefix(layout, "named:") {
		path += "/" + layout
	}
	return path
}

// node returns the path of the node of a reservation.
func node(path, layout string) string { return directory(path, layout) + "/reserved" }

// A content is what the node of a reservation contains. The server's time of the write is its beginning.
type content struct {
	Owner string `json:"owner,omitempty"`
	Token int64  `json:"token"`
	MS    int64  `json:"ms"` // how long it lasts
}

// reservationIn returns the reservation in an answer, or nil if there is none.
func reservationIn(path, node string, r zk.Result) (*Reservation, error) {
	switch {
	case errors.Is(r.Err, zk.ErrNoNode):
		return nil, nil
	case r.Err != nil:
		return nil, r.Err
	}
	var d content
	if json.Unmarshal(r.Data, &d) != nil || d.MS <= 0 || d.MS > longest.Milliseconds() {
		return nil, fmt.Errorf("%w: the node %s is not a reservation: remove it if nobody needs it", holdfast.ErrKind, node)
	}
	from := time.UnixMilli(r.Stat.Mtime)
	return &Reservation{Path: path, Owner: d.Owner, Token: d.Token, From: from, Until: from.Add(time.Duration(d.MS) * time.Millisecond), node: node}, nil
}

// longest bounds a reservation. A longer one is a mistake.
const longest = 366 * 24 * time.Hour

func init() {
	lend.Reservation = func(path, node string, r zk.Result) (any, error) { return reservationIn(path, node, r) }
}
