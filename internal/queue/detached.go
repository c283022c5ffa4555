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

// Detach replaces our ephemeral node, which nobody is ahead of, by a persistent one with the same number. Both
// happen in one transaction, which fails if our node is gone. So the persistent node is first in the queue,
// too, and nobody passes it. data returns the data of the new node. If ttl is above zero, the server removes the
// node after that time, if it can.
//
// Detach does not end with the caller's context: it is one round trip, and its outcome must be known. doubt means
// that it is not known. The session is over then, and the caller calls Settle in a later session.
func (p *Place) Detach(data func() ([]byte, error), ttl time.Duration) (doubt bool, err error) {
	session := p.Session.Context()
	if ttl > longestTTL {
		ttl = 0
	}
	lost := 0
	for {
		d, err := data()
		if err != nil {
			return false, err
		}
		create := zk.CreateOp(p.DetachedPath(), d, zk.Persistent, p.Queue.ACL...)
		if ttl > 0 {
			create = zk.CreateTTLOp(p.DetachedPath(), d, zk.Persistent, ttl, p.Queue.ACL...)
		}
		err = Retry(session, func() error {
			_, err := p.Session.Multi(session, zk.DeleteOp(p.Path(), zk.AnyVersion), create)
			return err
		})
		switch {
		case err == nil:
			p.name = "" // there is nothing for Leave to remove
			return false, nil
		case errors.Is(err, zk.ErrUnimplemented) && ttl > 0:
			ttl = 0 // the server has no such nodes; nothing was done
		case errors.Is(err, zk.ErrUnimplemented): // no transactions at all
			return doubt || zk.MayHaveHappened(err), err
		case zk.MayHaveHappened(err):
			doubt = true
			if lost++; lost >= unknownAfter {
				ttl = 0
			}
			if session.Err() != nil { // the caller enters again; a lost connection alone would end its Lock
				return true, context.Cause(session)
			}
		case doubt && session.Err() != nil:
			return true, context.Cause(session)
		case doubt && errors.Is(err, zk.ErrNoNode): // an earlier attempt was executed, or somebody has removed our node
			return true, ErrGone
		case errors.Is(err, zk.ErrNoNode):
			return false, ErrGone
		default:
			return doubt, err
		}
	}
}

// unknownAfter is how many lost answers in a row mean that the server does not know nodes with a time to live: such a
// server may close the connection.
const unknownAfter = 3

// longestTTL is less than servers accept, which is about 34 years.
const longestTTL = 30 * 365 * 24 * time.Hour

// DetachedPath returns the path of the node that replaces ours.
func (p *Place) DetachedPath() string { return p.node(names.Detached(p.name)) }

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
		err = Repeat(ctx, func() error {
			return s.Delete(ctx, detached[:cut]+names.Detaching(detached[cut:]), zk.AnyVersion)
		})
		if err == nil || errors.Is(err, zk.ErrNoNode) { // a transaction all the same
			err = Retry(ctx, func() (err error) { // the same session: another one may read at a server that is behind
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

// expiryOf reads when the lock of a node expires. The time is by the server's clock. Our own node says how that
// compares with ours: it was made before we had the answer. So we are never too early.
func (p *Place) expiryOf(ctx context.Context, name string) (*expiry, error) {
	var data []byte
	var stat zk.Stat
	err := Retry(ctx, func() (err error) {
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
	if n := ReadNote(data); n.Expires != 0 && n.Expires-p.ctime < math.MaxInt64/int64(time.Millisecond) {
		e.at = p.joined.Add(time.Duration(n.Expires-p.ctime) * time.Millisecond)
		e.timer = time.NewTimer(time.Until(e.at))
		e.due = e.timer.C
	}
	return e, nil
}

// removeExpired removes the node of an expired lock, unless its data have changed. The error is nil if the node is
// gone or has changed, and ErrLocked if we may not remove it.
func (p *Place) removeExpired(ctx context.Context, e *expiry) error {
	err := Repeat(ctx, func() error { return p.Session.Delete(ctx, e.node, e.version) })
	switch {
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion):
		return nil
	case errors.Is(err, zk.ErrNoAuth):
		return ErrLocked
	}
	return err
}
