package queue

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// EnterDetached is Enter for a lock that no session is to own.
func (q *Queue) EnterDetached(ctx context.Context, data func(names.Attempt) ([]byte, error)) (*Place, error) {
	session, err := q.Client.Session(ctx)
	if err != nil {
		return nil, err
	}
	a, err := q.Grammar.DetachingAttempt(session.ID())
	if err != nil {
		return nil, err
	}
	d, err := data(a)
	if err != nil {
		return nil, err
	}
	return &Place{Queue: q, Session: session, Dir: q.Path, Attempt: a, Data: d}, nil
}

// A Change is the transaction of Detach.
type Change struct {
	Doubt bool    // its outcome is not known
	Stat  zk.Stat // of the node that it has made; zero if the node is gone already, or if nobody has asked

	sent time.Time // when the first request was sent that may have been executed
}

// Left is how long, in milliseconds, a lock lasts at least that ends at expires by the server's clock. Both clocks
// know a moment of the change: the server's says when it made the node, and ours when we sent the request, which was
// before. So Left depends neither on how the two clocks compare nor on how long ago the place was made.
func (c *Change) Left(expires int64) int64 {
	if c.Stat.Czxid == 0 {
		return 0
	}
	now := time.Now()
	// Go's monotonic clock stands still while the machine sleeps, and the wall clock does not.
	elapsed := max(now.Sub(c.sent), now.Round(0).Sub(c.sent.Round(0)))
	return expires - c.Stat.Ctime - elapsed.Milliseconds() - 1 // Ctime is cut to a millisecond
}

// Detach replaces our ephemeral node, which nobody is ahead of, by a persistent one with the same number. Both
// happen in one transaction, which fails if our node is gone. So the persistent node is first in the queue,
// too, and nobody passes it. data returns the data of the new node, right before each request. If lasts is above
// zero, the lock ends after this time. Then Detach reads the Stat of the new node in the same round trip, and the server
// removes the node some time later, if it can.
//
// Detach does not end with the caller's context: it is one round trip, and its outcome must be known. If it is in
// doubt, the caller calls Settle.
func (p *Place) Detach(data func() ([]byte, error), lasts time.Duration) (c Change, err error) {
	session := p.Session.Context()
	made := p.DetachedPath()
	ttl := time.Duration(0)
	if lasts > 0 && lasts <= longestTTL {
		ttl = lasts + ttlMargin
	}
	lost := 0
	for {
		var sent time.Time
		var read error
		err := zk.Retry(session, func() error {
			sent = time.Now()
			d, err := data()
			if err != nil {
				return err
			}
			create := zk.CreateOp(made, d, zk.Persistent, p.Queue.ACL...)
			if ttl > 0 {
				create = zk.CreateTTLOp(made, d, zk.Persistent, ttl, p.Queue.ACL...)
			}
			answer := p.Session.StartMulti(zk.DeleteOp(p.Path(), zk.AnyVersion), create)
			if lasts > 0 { // behind the transaction, whose answer has no Stat
				c.Stat, _, read = p.Session.Exists(session, made)
			}
			_, err = answer()
			return err
		})
		if !c.Doubt || err == nil {
			c.sent = sent
		}
		switch {
		case err == nil:
			p.path = "" // there is nothing for Leave to remove
			if read != nil {
				read = zk.Retry(session, func() (err error) {
					c.Stat, _, err = p.Session.Exists(session, made)
					return err
				})
			}
			c.Doubt = read != nil
			return c, read
		case ttl > 0 && (errors.Is(err, zk.ErrUnimplemented) || errors.Is(err, zk.ErrBadArguments)):
			ttl = 0 // the server has no such nodes; nothing was done
		case errors.Is(err, zk.ErrUnimplemented): // no transactions at all
			c.Doubt = c.Doubt || zk.MayHaveHappened(err)
			return c, err
		case zk.MayHaveHappened(err): // rare: the answer to the transaction that detaches a lock is lost
			c.Doubt = true
			if lost++; lost >= unknownAfter {
				ttl = 0
			}
			if session.Err() != nil { // the caller enters again; a lost connection alone would end its Lock
				return c, context.Cause(session)
			}
		case c.Doubt && session.Err() != nil:
			return c, context.Cause(session)
		case errors.Is(err, zk.ErrNoNode): // somebody has removed our node; or, in doubt, an earlier attempt was executed
			return c, ErrGone
		default:
			return c, err
		}
	}
}

// ttlMargin is how much longer the server keeps an expired lock: clients are quicker and more exact.
const ttlMargin = time.Minute

// unknownAfter is how many lost answers in a row mean that the server does not know nodes with a time to live: such a
// server may close the connection.
const unknownAfter = 3

// longestTTL is less than servers accept, which is about 34 years.
const longestTTL = 30 * 365 * 24 * time.Hour

// DetachedPath returns the path of the node that replaces ours.
func (p *Place) DetachedPath() string { return p.node(names.Detached(p.Name())) }

// Settle finds out whether a transaction of Detach was executed, in whichever session the client has now. It
// removes the waiter's node first: after that, the transaction can no longer be executed. It returns the data and
// the Stat of the lock's node; ok is false if there is none.
func (q *Queue) Settle(ctx context.Context, detached string) (data []byte, stat zk.Stat, ok bool, err error) {
	cut := strings.LastIndexByte(detached, '/') + 1
	for {
		s, err := q.Client.Session(ctx)
		if err != nil {
			return nil, zk.Stat{}, false, err
		}
		err = zk.Repeat(ctx, func() error {
			return s.Delete(ctx, detached[:cut]+names.Detaching(detached[cut:]), zk.AnyVersion)
		})
		if err == nil || errors.Is(err, zk.ErrNoNode) { // a transaction all the same
			err = zk.Retry(ctx, func() (err error) { // the same session: another one may read at a server that is behind
				data, stat, err = s.Get(ctx, detached)
				return err
			})
			if errors.Is(err, zk.ErrNoNode) {
				return nil, zk.Stat{}, false, nil
			}
		}
		if err == nil || !errors.Is(err, zk.ErrSessionExpired) || ctx.Err() != nil {
			return data, stat, err == nil, err
		}
	}
}

// An expiry is the end of a lock that no session owns.
type expiry struct {
	node    string
	version int32     // of its data
	gone    bool      // there is no such node
	at      time.Time // by our clock; zero: never, or we may not know
	due     <-chan time.Time
	timer   *time.Timer
}

func (e *expiry) stop() {
	if e.timer != nil {
		e.timer.Stop()
	}
}

// over reports whether the lock has expired.
func (e *expiry) over() bool { return !e.at.IsZero() && !time.Now().Before(e.at) }

// A moment compares the clocks: the server's said ms, in milliseconds, before ours said at.
type moment struct {
	ms int64
	at time.Time
}

// hear returns the latest moment that the place knows. ms is a time that the server has just told us. If it is later
// than our own node, the clocks are compared anew, since they may run at different rates. The same ms does not count again.
func (p *Place) hear(ms int64) moment {
	if p.heard == nil {
		p.heard = &moment{p.ctime, p.Joined()}
	}
	if ms > p.heard.ms {
		*p.heard = moment{ms, time.Now()}
	}
	return *p.heard
}

// expiryOf reads when the lock of a node expires. The time is by the server's clock. That clock had reached the time of
// the last change before we had the answer. So we are never too early. Any client with permission can write the time
// of expiry. One that is before everything else, such as a negative one, is over.
func (p *Place) expiryOf(ctx context.Context, name string) (*expiry, error) {
	var data []byte
	var stat zk.Stat
	err := zk.Retry(ctx, func() (err error) {
		data, stat, err = p.Session.Get(ctx, p.node(name))
		return err
	})
	e := &expiry{node: p.node(name), version: stat.Version}
	switch {
	case errors.Is(err, zk.ErrNoNode):
		e.gone = true
		return e, nil
	case errors.Is(err, zk.ErrNoAuth):
		return e, nil
	case err != nil:
		return nil, err
	}
	if n := ReadNote(data); n.Expires != 0 {
		if again, err := p.countAnew(ctx, e.node, data, stat); again || err != nil {
			if err != nil {
				return nil, err
			}
			return p.expiryOf(ctx, name)
		}
		now := p.hear(stat.Mtime)
		left := max(n.Expires, now.ms) - now.ms
		if left >= math.MaxInt64/int64(time.Millisecond) { // 292 years: nobody waits that long
			return e, nil
		}
		e.at = now.at.Add(time.Duration(left) * time.Millisecond)
		e.timer = time.NewTimer(time.Until(e.at))
		e.due = e.timer.C
	}
	return e, nil
}

// countAnew looks whether the server's clock has gone back since it has made or changed the node of a lock that
// expires: our own node is younger and has the earlier time. Then nobody knows how old the lock is, and it would last
// until the clock has made up for the step. So countAnew writes a time of expiry that is as far away as the former
// one was at first, and returns true: the caller reads it. If we may not write the node, the time stays.
func (p *Place) countAnew(ctx context.Context, node string, data []byte, stat zk.Stat) (again bool, _ error) {
	n, ok := ParseNote(data)
	lasts := n.Expires - stat.Mtime
	if !ok || stat.Mzxid > p.czxid || stat.Mtime <= p.ctime || lasts <= 0 || lasts > math.MaxInt64/2 {
		return false, nil
	}
	n.Expires = p.At(time.Now()) + lasts
	data, err := n.Encode()
	if err != nil {
		return false, nil
	}
	err = zk.Repeat(ctx, func() error {
		_, err := p.Session.Set(ctx, node, data, stat.Version)
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		return false, nil
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion): // somebody else has, or we have
		return true, nil
	}
	return true, err
}

// removeExpired removes the node of an expired lock, unless its data have changed. The error is nil if the node is
// gone or has changed, and ErrLocked if we may not remove it.
func (p *Place) removeExpired(ctx context.Context, e *expiry) error {
	err := zk.Repeat(ctx, func() error { return p.Session.Delete(ctx, e.node, e.version) })
	switch {
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion):
		return nil
	case errors.Is(err, zk.ErrNoAuth):
		return ErrLocked
	}
	return err
}
