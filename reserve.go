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
	"holdfast/internal/tenure"
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
	// From is when the server recorded it, by the server's clock, and Until is its end. If that clock has gone back,
	// both change when a client looks (see Hold.Reserve).
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
// clock is ahead, the reservation ends earlier by the difference.
//
// If that clock is set back, or a new leader's clock is behind, the reservation never ends earlier, and every step
// can make it longer by at most d. A client that acquires the lock through a Reservable Locker and finds the
// reservation in the future does not know how old it is. It writes the reservation again, so d begins anew for all
// clients. So a reservation ends at the latest d after the first Lock or TryLock that follows the last step. A waiter
// that has seen the reservation waits no longer than d, whatever the clock does. A client that may not write
// the node (see WithACL) counts d by itself while it waits. Its TryLock is refused until the clock has made up for the
// step.
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

// reserves is what Reserve and Unreserve need of the Hold.
var reserves = demand{by: "a reservation", queued: true}

// Unreserve removes the reservations of the locks of h, whoever made them. It is no error if there are none. It fails
// for the same Holds as Reserve.
func (h *Hold) Unreserve(ctx context.Context) error {
	if err := h.meets(reserves); err != nil {
		return h.fail("unreserve", err)
	}
	for _, t := range h.tenures {
		err := queue.Repeat(ctx, func() error {
			_, err := h.commit(ctx, []zk.Op{zk.DeleteOp(reservedNodeOf(t), zk.AnyVersion)})
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
	for turn := queue.Pace(1); ; {
		h, err := r.inner.Lock(ctx)
		if err == nil {
			err = h.restOrLetGo(ctx, true)
		}
		if h == nil || err == nil {
			return h, err
		}
		if errors.Is(err, ErrLost) || errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, queue.ErrGone) {
			if turn = turn.Next(ctx); turn > 0 { // a wait goes on
				continue
			}
			err = context.Cause(ctx) // the caller has given up, whatever came first
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
	if err = h.restOrLetGo(ctx, false); err != nil {
		return nil, h.fail("try lock", err)
	}
	return h, nil
}

// restOrLetGo is rest, and unlocks h after an error.
func (h *Hold) restOrLetGo(ctx context.Context, patience bool) (err error) {
	err = errPanic
	defer func() {
		if err != nil {
			h.letGo(ctx)
		}
	}()
	return h.rest(ctx, patience)
}

// Reserved returns the last reservation of the lock at path, or nil if there is none. It may be over. Give the
// layout of a lock with [LayoutNamed]; others make no difference.
func Reserved(ctx context.Context, c *zk.Client, path string, layout ...Layout) (*Reservation, error) {
	g, err := grammarOf(layout)
	if err == nil {
		err = queue.ValidatePath(path)
	}
	var r *Reservation
	if err == nil {
		r, _, err = reserved(ctx, c, path, reservedNode(path, g))
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
		gone := err == nil && (now == nil || now.Token != r.Token)
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
	var data []byte
	var stat zk.Stat
	err := queue.BehindWrite(ctx, c, path, func() error {
		return queue.Retry(ctx, func() (err error) {
			data, stat, err = c.Get(ctx, node)
			return err
		})
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

func reservedNodeOf(t *tenure.Tenure) string { return reservedNode(t.Path, t.Grammar) }

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
	if err := h.meets(reserves); err != nil {
		return err
	}
	exists := make([]bool, len(h.tenures)) // as far as we know
	for {
		var ops []zk.Op
		for i, t := range h.tenures {
			data, err := json.Marshal(reservationData{lockOf(t).note.Owner, t.Places[0].Token, d.Milliseconds()})
			if err != nil {
				return err
			}
			if node := reservedNodeOf(t); exists[i] {
				ops = append(ops, zk.SetOp(node, data, zk.AnyVersion))
			} else {
				ops = append(ops, zk.CreateOp(node, data, zk.Persistent, lockOf(t).acl...))
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
				if err := h.ensure(ctx, t, lastingDirectory(t.Path, t.Grammar)); err != nil {
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
		if t.Kind != queue.Lock {
			continue
		}
		var seen *Reservation
		now := moment{t.Places[0].Czxid(), t.Places[0].Ctime(), t.Places[0].Joined()}
		for {
			r, left, err := leftOf(t, ctx, &now)
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

// A moment is a time by the server's clock, and one by ours. A transaction with the zxid was executed at the first and
// before the second.
type moment struct {
	zxid   int64
	server int64 // in milliseconds
	local  time.Time
}

// left returns the reservation of t's lock, and how much of it is left. It returns nil if there is none, or if it is the
// tenure's own. now is the latest moment that we know, and left replaces it.
//
// The server's clock can be set between two transactions, and another leader has another clock. So left compares the
// reservation only with a later transaction, and counts from there by our own clock. If the later transaction has
// the earlier time, the clock has gone back, and nobody knows the age of the reservation. Then left writes it again,
// so its time begins anew. Otherwise callers of TryLock, which have no clock of their own, would be refused until the
// server's clock has made up for the step.
func leftOf(t *tenure.Tenure, ctx context.Context, now *moment) (*Reservation, time.Duration, error) {
	p := t.Places[0]
	for {
		found, err := readReservedOf(t, ctx)
		if err != nil {
			return nil, 0, err
		}
		r, err := reservationIn(t.Path, reservedNodeOf(t), found)
		if r == nil || err != nil || r.Token == p.Token {
			return nil, 0, err
		}
		if found.Stat.Mzxid > now.zxid {
			seen := time.Now()
			switch *now, err = touchOf(t, ctx); {
			case errors.Is(err, zk.ErrNoAuth):
				*now = moment{found.Stat.Mzxid, found.Stat.Mtime, seen} // it is as old at least
			case err != nil:
				return nil, 0, err
			}
		}
		if now.server < found.Stat.Mtime {
			stat, err := renewOf(t, ctx, found)
			switch {
			case err == nil:
				found.Stat = stat
				r, _ = reservationIn(t.Path, reservedNodeOf(t), found)
			case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode): // perhaps by us
				continue
			case !errors.Is(err, zk.ErrNoAuth):
				return nil, 0, err
			}
			// Our clock goes on: the reservation is older than now.local in any case.
			now.zxid, now.server = found.Stat.Mzxid, found.Stat.Mtime
		}
		// The server's times are cut to a millisecond, so the reservation may be a millisecond younger.
		age := time.Duration(max(now.server-found.Stat.Mtime-1, 0))*time.Millisecond + time.Since(now.local)
		return r, r.Until.Sub(r.From) - age, nil
	}
}

// renew writes a reservation again as it is, if we still hold the lock. The error is zk.ErrBadVersion or zk.ErrNoNode if
// the reservation has changed.
func renewOf(t *tenure.Tenure, ctx context.Context, found zk.Result) (zk.Stat, error) {
	p := t.Places[0]
	var res []zk.Result
	err := queue.Repeat(ctx, func() (err error) {
		res, err = p.Session.Multi(ctx, zk.CheckOp(p.Path(), zk.AnyVersion), zk.SetOp(reservedNodeOf(t), found.Data, found.Stat.Version))
		return err
	})
	switch {
	case err == nil:
		return res[1].Stat, nil
	case len(res) > 0 && errors.Is(res[0].Err, zk.ErrNoNode):
		return zk.Stat{}, goneOf(t)
	}
	return zk.Stat{}, err
}

// touch writes the data of our own node again, and returns the moment of that.
func touchOf(t *tenure.Tenure, ctx context.Context) (moment, error) {
	end, err := t.Rewriting(ctx)
	if err != nil {
		return moment{}, err
	}
	defer end()
	p := t.Places[0]
	for {
		var data []byte
		var stat zk.Stat
		err := queue.Retry(ctx, func() (err error) {
			data, stat, err = p.Session.Get(ctx, p.Path())
			return err
		})
		if err == nil {
			err = queue.Retry(ctx, func() (err error) {
				stat, err = p.Session.Set(ctx, p.Path(), data, stat.Version)
				return err
			})
		}
		switch {
		case err == nil:
			return moment{stat.Mzxid, stat.Mtime, time.Now()}, nil
		case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrConnectionLoss): // perhaps by us
			continue
		case errors.Is(err, zk.ErrNoNode):
			err = goneOf(t)
		}
		return moment{}, err
	}
}

// gone ends the tenure, whose node is gone.
func goneOf(t *tenure.Tenure) error {
	t.Lose(queue.ErrGone)
	return fmt.Errorf("%w: %w", ErrLost, queue.ErrGone)
}

// readReserved reads the node of the reservation. The server that we read from may be behind the one that told us of our
// turn, see job.look.
func readReservedOf(t *tenure.Tenure, ctx context.Context) (zk.Result, error) {
	p := t.Places[0]
	get := zk.GetOp(reservedNodeOf(t))
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
			return zk.Result{}, err
		}
		if len(ops) == 1 || res[0].Err != nil && !errors.Is(res[0].Err, zk.ErrNoAuth) {
			return res[len(res)-1], nil
		}
		if err := barrier(p); err != nil { // it still shows the node that we have waited for
			return zk.Result{}, err
		}
		ops = ops[1:]
	}
}
