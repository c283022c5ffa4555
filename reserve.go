package holdfast

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// ownDirectory is the name of a directory below a lock's path, for what outlasts the holders. It is no lock.
const ownDirectory = ".holdfast"

// A Reservation keeps a lock for some time, also after its holder has released it or has crashed. See
// [Hold.Reserve]. As an error, it wraps ErrLocked.
type Reservation struct {
	Path  string // of the lock
	Owner string // of the Hold that made it, see WithOwner
	Token int64  // the fencing token of that Hold
	// From is when the server recorded it, by the server's clock, and Until is its end.
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

// Unwrap returns ErrLocked.
func (r *Reservation) Unwrap() error { return ErrLocked }

// Reserve reserves the lock for d, from the moment when the server records it. The reservation is a persistent
// node, so it outlasts Unlock, the session, the process and the machine. The next holder through a [Reservable]
// Locker gets the lock when d is over. A later Reserve replaces the reservation.
//
// Reserve is for a job that several hosts start at the same time by clocks that differ: the first host reserves
// the lock before it starts the job. However short the job is, and whatever happens to the first host, no other
// host runs the job within d. Only the server's clock counts. If that clock is set forward, or a new leader's
// clock is ahead, the reservation ends earlier by the difference. A clock that is set back makes no
// reservation longer than d from the moment when a waiter sees it.
//
// The reservation is not in the queue. Callers without Reservable do not see it, and nor do clients of other
// libraries and earlier versions of holdfast: they acquire the lock as soon as it is released.
//
// Only the exclusive holder of a lock with a queue can reserve it: Reserve fails with zk.ErrBadArguments for
// the other kinds of lock, for readers, for a [Tree], and with WithLocalHandoff and WithKeep. With a MultiLock, it
// reserves all locks or none. The error is ErrLost if the lock is lost. After another error, the lock may be
// reserved. The node is <path>/.holdfast/reserved, and with [LayoutNamed] <path>/.holdfast/named:<name>/reserved. It
// stays, and the next Reserve writes it again.
func (h *Hold) Reserve(ctx context.Context, d time.Duration) error {
	if err := h.reserve(ctx, d); err != nil {
		return h.fail("reserve", err)
	}
	return nil
}

// Unreserve removes the reservations of the locks of h, whoever made them. It is no error if there are none.
func (h *Hold) Unreserve(ctx context.Context) error {
	for _, t := range h.tenures {
		err := queue.Repeat(ctx, func() error {
			_, err := h.commit(ctx, []zk.Op{zk.DeleteOp(t.reservedNode(), zk.AnyVersion)})
			return err
		})
		if err != nil && (!errors.Is(err, zk.ErrNoNode) || errors.Is(err, ErrLost)) {
			return h.fail("unreserve", err)
		}
	}
	return nil
}

// Reservable returns a Locker that acquires l and then waits until no reservation of the lock is left (see
// [Hold.Reserve]). While it waits, it is at the head of the queue, and [List] shows it as the holder. So the order
// of the waiters stays, and those behind it wait, too, whatever library they use. TryLock does not wait: the error
// is a [Reservation]. If the context of Lock ends while the lock is reserved, the error wraps the cause
// and the Reservation.
//
// It costs one read for each lock with a queue. Locks of other kinds have no reservations.
func Reservable(l Locker) Locker { return reservable{l} }

type reservable struct{ inner Locker }

// Lock implements Locker.
func (r reservable) Lock(ctx context.Context) (*Hold, error) {
	for {
		h, err := r.inner.Lock(ctx)
		if err == nil {
			err = h.rest(ctx, true)
		}
		switch {
		case h == nil || err == nil:
			return h, err
		}
		h.letGo(ctx)
		over := errors.Is(err, ErrLost) || errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, queue.ErrGone)
		switch {
		case over && ctx.Err() == nil: // a wait goes on
			continue
		case over: // the caller has given up, whatever came first
			err = context.Cause(ctx)
		}
		return nil, h.fail("lock", err)
	}
}

// TryLock implements Locker.
func (r reservable) TryLock(ctx context.Context) (*Hold, error) {
	h, err := r.inner.TryLock(ctx)
	if err != nil {
		return nil, err
	}
	if err = h.rest(ctx, false); err != nil {
		h.letGo(ctx)
		return nil, h.fail("try lock", err)
	}
	return h, nil
}

// Reserved returns the last reservation of the lock at path, or nil if there is none. It may be over. Give the
// WithLayout of a lock with [LayoutNamed]; other layouts make no difference.
func Reserved(ctx context.Context, c *zk.Client, path string, opts ...Option) (*Reservation, error) {
	err := queue.ValidatePath(path)
	var r *Reservation
	if err == nil {
		r, _, err = reserved(ctx, c, path, reservedNode(path, newOptions(opts).grammar))
	}
	if err != nil {
		return nil, &Error{Op: "read the reservation of", Path: path, Err: err}
	}
	return r, nil
}

// End ends the reservation, whoever holds the lock. Then a waiter acquires the lock within 2 seconds. The error is
// ErrNotHeld if there is no such reservation any more. If another Hold has replaced it, End does nothing. (If
// the node is removed and made again between the two requests of End, End removes the new one.)
func (r *Reservation) End(ctx context.Context, c *zk.Client) error {
	for doubt := false; ; { // an earlier delete may have happened
		now, version, err := reserved(ctx, c, r.Path, r.node)
		replaced := func() bool { return err == nil && (now == nil || now.Token != r.Token) }
		if replaced() { // or the server is behind the one that we know r from
			err = queue.BehindWrite(ctx, c, r.Path, func() (err error) {
				now, version, err = reserved(ctx, c, r.Path, r.node)
				return err
			})
		}
		gone := replaced()
		switch {
		case gone && doubt:
			return nil
		case gone:
			err = fmt.Errorf("%w: there is no reservation with the token %d", ErrNotHeld, r.Token)
		case err == nil:
			err = queue.Retry(ctx, func() error { return c.Delete(ctx, r.node, version) })
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
		return &Error{Op: "end the reservation of", Path: r.Path, Err: err}
	}
}

// reserved reads the reservation at node, and the node's version.
func reserved(ctx context.Context, c *zk.Client, path, node string) (*Reservation, int32, error) {
	if err := queue.Retry(ctx, func() error { return c.Sync(ctx, path) }); err != nil {
		return nil, 0, err
	}
	var data []byte
	var stat zk.Stat
	err := queue.Retry(ctx, func() (err error) {
		data, stat, err = c.Get(ctx, node)
		return err
	})
	r, err := reservationIn(path, node, zk.Result{Data: data, Stat: stat, Err: err})
	return r, stat.Version, err
}

// lastingDirectory returns the directory for what outlasts the holders of the lock at path. The locks of
// LayoutNamed share a path, so each of them has its own.
func lastingDirectory(path string, g *names.Grammar) string {
	path += "/" + ownDirectory
	if strings.HasPrefix(g.Name, "named:") {
		path += "/" + g.Name
	}
	return path
}

func reservedNode(path string, g *names.Grammar) string {
	return lastingDirectory(path, g) + "/reserved"
}

func (t *tenure) reservedNode() string { return reservedNode(t.lock.Path, t.lock.grammar) }

// A reservationData is what the node of a reservation contains. The server's time of the write is its beginning.
type reservationData struct {
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
	var d reservationData
	if json.Unmarshal(r.Data, &d) != nil || d.MS <= 0 || d.MS > maxReservation.Milliseconds() {
		return nil, fmt.Errorf("%w: the node %s is not a reservation: remove it if nobody needs it", ErrKind, node)
	}
	from := time.UnixMilli(r.Stat.Mtime)
	return &Reservation{Path: path, Owner: d.Owner, Token: d.Token, From: from, Until: from.Add(time.Duration(d.MS) * time.Millisecond), node: node}, nil
}

// maxReservation bounds a reservation. A longer one is a mistake.
const maxReservation = 366 * 24 * time.Hour

func (h *Hold) reserve(ctx context.Context, d time.Duration) error {
	if d < time.Millisecond || d > maxReservation {
		return fmt.Errorf("%w: a reservation of %v: want 1ms to %v", zk.ErrBadArguments, d, maxReservation)
	}
	for _, t := range h.tenures {
		wrong := ""
		switch {
		case t.lock.Kind != queue.Lock || t.places[0].Shared:
			wrong = "only the exclusive holder of a lock with a queue can reserve it"
		case t.lock.handoffs > 0 || t.lock.keep > 0:
			wrong = "a lock with WithLocalHandoff or WithKeep cannot be reserved, since its holders share a node"
		}
		if wrong != "" {
			return fmt.Errorf("%w: %s", zk.ErrBadArguments, wrong)
		}
	}
	exists := make([]bool, len(h.tenures)) // as far as we know
	for {
		var ops []zk.Op
		for i, t := range h.tenures {
			data, err := json.Marshal(reservationData{t.lock.note.Owner, t.places[0].Token, d.Milliseconds()})
			if err != nil {
				return err
			}
			if node := t.reservedNode(); exists[i] {
				ops = append(ops, zk.SetOp(node, data, zk.AnyVersion))
			} else {
				ops = append(ops, zk.CreateOp(node, data, zk.Persistent, t.lock.acl...))
			}
		}
		var results []zk.Result
		err := queue.Repeat(ctx, func() (err error) {
			results, err = h.commit(ctx, ops)
			return err
		})
		if err == nil || errors.Is(err, ErrLost) || !errors.Is(err, zk.ErrNodeExists) && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		for i, r := range results {
			switch {
			case errors.Is(r.Err, zk.ErrNodeExists):
				exists[i] = true
			case errors.Is(r.Err, zk.ErrNoNode) && exists[i]: // somebody has removed it since
				exists[i] = false
			case errors.Is(r.Err, zk.ErrNoNode):
				t := h.tenures[i]
				if err := h.ensure(ctx, t, lastingDirectory(t.lock.Path, t.lock.grammar)); err != nil {
					return err
				}
			}
		}
	}
}

// restAgain is how long a waiter rests before it reads a reservation again: somebody may have removed it.
const restAgain = 2 * time.Second

// rest returns nil when no reservation of h's locks is left. Without patience, it returns a reservation that is.
func (h *Hold) rest(ctx context.Context, patience bool) error {
	for _, t := range h.tenures {
		if t.lock.Kind != queue.Lock {
			continue
		}
		var seen *Reservation
		for {
			r, left, err := t.reserved(ctx)
			switch {
			case err != nil && ctx.Err() != nil && seen != nil:
				return fmt.Errorf("%w: %w", context.Cause(ctx), seen)
			case err != nil && h.over() != nil:
				return h.over()
			case err != nil:
				return err
			case left <= 0:
			case !patience:
				return r
			default:
				seen = r
				timer := time.NewTimer(min(left, restAgain))
				select {
				case <-timer.C:
					continue
				case <-ctx.Done():
					timer.Stop()
					return fmt.Errorf("%w: %w", context.Cause(ctx), r)
				case <-h.lost:
					timer.Stop()
					if ctx.Err() != nil {
						return fmt.Errorf("%w: %w", context.Cause(ctx), r)
					}
					return h.over()
				}
			}
			break
		}
	}
	return nil
}

// reserved returns the reservation of the lock of t, and how much of it is left. It is not the tenure's own. The
// server that we read from may be behind the one that told us of our turn, see job.look.
func (t *tenure) reserved(ctx context.Context) (r *Reservation, left time.Duration, _ error) {
	p := t.places[0]
	get := zk.GetOp(t.reservedNode())
	ops := []zk.Op{get}
	if before := p.WaitedFor(); before != "" { // ahead of the other, which shows at least as much
		ops = []zk.Op{zk.ExistsOp(before), get}
	}
	var res []zk.Result
	for {
		err := queue.Retry(ctx, func() (err error) {
			if res, err = p.Session.Pipeline(ctx, ops...); res != nil {
				err = res[len(res)-1].Err
			}
			if errors.Is(err, zk.ErrNoNode) {
				err = nil
			}
			return err
		})
		if err != nil {
			return nil, 0, err
		}
		if len(ops) == 1 || res[0].Err != nil && !errors.Is(res[0].Err, zk.ErrNoAuth) {
			break
		}
		if err := barrier(p); err != nil { // it still shows the node that we have waited for
			return nil, 0, err
		}
		ops = ops[1:]
	}
	found := res[len(res)-1]
	r, err := reservationIn(t.lock.Path, t.reservedNode(), found)
	if r == nil || err != nil || r.Token == p.Token {
		return nil, 0, err
	}
	now := time.Now()
	age := p.AtLeast(now) - found.Stat.Mtime
	if found.Stat.Mzxid > p.Czxid() {
		age = min(age, p.At(now)-p.Ctime()) // it is younger than our place, whatever the clocks of two leaders say
	}
	return r, leftOf(r.Until.Sub(r.From), age), nil
}

// leftOf returns how much is left of a reservation that has lasted for age, in milliseconds. A negative age means
// that the server's clock has gone back.
func leftOf(d time.Duration, age int64) time.Duration {
	// The times that age comes from are cut to a millisecond, so the reservation may be a millisecond younger.
	return d - time.Duration(max(age-1, 0))*time.Millisecond
}
