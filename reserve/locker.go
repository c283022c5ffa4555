package reserve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast"
	"holdfast/internal/lend"
	"holdfast/internal/queue"
	"holdfast/zk"
)

// Locker returns a Locker that acquires l and then waits until no reservation of the lock is left (see [For]). While it
// waits, it is at the head of the queue, and [holdfast.List] shows it as the holder. So the order of the waiters stays,
// and those behind it wait, too, whatever library they use. TryLock does not wait: the error wraps the
// *[Reservation]. If the context of Lock ends while the lock is reserved, the error wraps the cause and the *Reservation.
//
// It costs one read for each lock with a queue. Locks of other kinds have no reservations.
func Locker(l holdfast.Locker) holdfast.Locker { return locker{l} }

type locker struct{ inner holdfast.Locker }

// Lock implements holdfast.Locker.
func (l locker) Lock(ctx context.Context) (*holdfast.Hold, error) {
	for turn := queue.Pace(1); ; {
		h, err := l.inner.Lock(ctx)
		if err == nil {
			err = restOrLetGo(ctx, h, true)
		}
		if h == nil || err == nil {
			return h, err
		}
		if errors.Is(err, holdfast.ErrLost) || errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, queue.ErrGone) {
			if turn = turn.Next(ctx); turn > 0 { // a wait goes on
				continue
			}
			err = context.Cause(ctx) // the caller has given up, whatever came first
		}
		return nil, fail("lock", h, err)
	}
}

// TryLock implements holdfast.Locker.
func (l locker) TryLock(ctx context.Context) (*holdfast.Hold, error) {
	h, err := l.inner.TryLock(ctx)
	if err != nil {
		return nil, err
	}
	if err = restOrLetGo(ctx, h, false); err != nil {
		return nil, fail("try lock", h, err)
	}
	return h, nil
}

// restOrLetGo is rest, and unlocks h after an error, or if a hook of the program panics.
func restOrLetGo(ctx context.Context, h *holdfast.Hold, patience bool) error {
	rested := false
	defer func() {
		if !rested {
			lend.LetGo(ctx, h)
		}
	}()
	err := rest(ctx, h, patience)
	rested = err == nil
	return err
}

// restAgain is how long a waiter rests before it reads a reservation again: somebody may have removed it.
const restAgain = 2 * time.Second

// rest returns nil when no reservation of h's locks is left. Without patience, it returns a reservation that is.
func rest(ctx context.Context, h *holdfast.Hold, patience bool) error {
	for _, t := range lend.Tenures(h) {
		p := t.Place
		if p.Queue.Kind != queue.Lock {
			continue
		}
		var seen *Reservation
		now := moment{p.Czxid(), p.Ctime(), p.Joined()}
		for {
			r, left, err := left(ctx, t, &now)
			switch {
			case err != nil && ctx.Err() != nil && seen != nil:
				return fmt.Errorf("%w: %w", context.Cause(ctx), seen)
			case err != nil && h.Err() != nil:
				return h.Err()
			case err != nil:
				return err
			case left <= 0:
			case !patience:
				return r
			default:
				seen = r
				if err := lend.Yield(ctx, h); err != nil {
					return err
				}
				timer := time.NewTimer(min(left, restAgain))
				select {
				case <-timer.C:
					continue
				case <-ctx.Done():
					timer.Stop()
					return fmt.Errorf("%w: %w", context.Cause(ctx), r)
				case <-h.Lost(): // rare: the lock is lost while a reservation of it ends
					timer.Stop()
					if ctx.Err() != nil {
						return fmt.Errorf("%w: %w", context.Cause(ctx), r)
					}
					return h.Err()
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
func left(ctx context.Context, t lend.Tenure, now *moment) (*Reservation, time.Duration, error) {
	p := t.Place
	for {
		found, err := look(ctx, t)
		if err != nil {
			return nil, 0, err
		}
		r, err := reservationIn(p.Queue.Path, nodeOf(t), found)
		if r == nil || err != nil || r.Token == p.Token {
			return nil, 0, err
		}
		if found.Stat.Mzxid > now.zxid {
			seen := time.Now()
			switch *now, err = touch(ctx, t); {
			case errors.Is(err, zk.ErrNoAuth):
				*now = moment{found.Stat.Mzxid, found.Stat.Mtime, seen} // it is as old at least
			case err != nil:
				return nil, 0, err
			}
		}
		if now.server < found.Stat.Mtime {
			stat, err := renew(ctx, t, found)
			switch {
			case err == nil:
				found.Stat = stat
				r, _ = reservationIn(p.Queue.Path, nodeOf(t), found)
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
func renew(ctx context.Context, t lend.Tenure, found zk.Result) (zk.Stat, error) {
	p := t.Place
	var res []zk.Result
	err := zk.Repeat(ctx, func() (err error) {
		res, err = p.Session.Multi(ctx, zk.CheckOp(p.Path(), zk.AnyVersion), zk.SetOp(nodeOf(t), found.Data, found.Stat.Version))
		return err
	})
	switch {
	case err == nil:
		return res[1].Stat, nil
	case len(res) > 0 && errors.Is(res[0].Err, zk.ErrNoNode):
		return zk.Stat{}, t.Gone()
	}
	return zk.Stat{}, err
}

// touch writes the data of our own node again, and returns the moment of that.
func touch(ctx context.Context, t lend.Tenure) (moment, error) {
	end, err := t.Rewrite(ctx)
	if err != nil {
		return moment{}, err
	}
	defer end()
	p := t.Place
	for {
		var data []byte
		var stat zk.Stat
		err := zk.Retry(ctx, func() (err error) {
			data, stat, err = p.Session.Get(ctx, p.Path())
			return err
		})
		if err == nil {
			err = zk.Retry(ctx, func() (err error) {
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
			err = t.Gone()
		}
		return moment{}, err
	}
}

// look reads the node of the reservation. The server that we read from may be behind the one that told us of our turn. Then
// it still shows the node that we have waited for, and look reads again after a barrier.
func look(ctx context.Context, t lend.Tenure) (zk.Result, error) {
	p := t.Place
	get := zk.GetOp(nodeOf(t))
	ops := []zk.Op{get}
	if before := p.WaitedFor(); before != "" { // ahead of the other, which shows at least as much
		ops = []zk.Op{zk.ExistsOp(before), get}
	}
	var res []zk.Result
	for {
		err := zk.Retry(ctx, func() (err error) {
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
		if err := p.Barrier(); err != nil { // it still shows the node that we have waited for
			return zk.Result{}, err
		}
		ops = ops[1:]
	}
}
