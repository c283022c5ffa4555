package deed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"holdfast"
	"holdfast/internal/locks"
	"holdfast/zk"
)

// A SessionPlan is to take all places of one session away.
type SessionPlan struct {
	Session int64
	Places  []SessionPlace
}

// A SessionPlace is a place in the queue of a lock.
type SessionPlace struct {
	Lock   string // its path
	Member bool   // a candidate or a worker that holds nothing: its program does not wait
	Gone   bool   // its process has ended, see locks.Gone
	holdfast.Entry
}

// Gone reports whether the process of a place has ended, although the session lasts.
func (p *SessionPlan) Gone() bool {
	return slices.ContainsFunc(p.Places, func(at SessionPlace) bool { return at.Gone })
}

// Held returns how many of the places hold their lock.
func (p *SessionPlan) Held() (n int) {
	for _, at := range p.Places {
		if at.Held {
			n++
		}
	}
	return n
}

// Sessions returns the plans to take away all places of each session that has some, by session.
func Sessions(found []locks.Lock) (all []SessionPlan) {
	index := make(map[int64]int)
	for _, l := range found {
		if l.Kind == locks.Shards { // its workers have places in the queues below it
			continue
		}
		for _, at := range l.Queue {
			if at.Session == 0 {
				continue
			}
			i, ok := index[at.Session]
			if !ok {
				i = len(all)
				index[at.Session] = i
				all = append(all, SessionPlan{Session: at.Session})
			}
			all[i].Places = append(all[i].Places, SessionPlace{l.Path, at.Member, at.ProcessGone(), at.Entry})
		}
	}
	slices.SortFunc(all, func(a, b SessionPlan) int { return cmp.Compare(uint64(a.Session), uint64(b.Session)) })
	return all
}

// LookSession returns the plan to take away all places of a session whose locks begin with prefix, in all layouts. The
// error is holdfast.ErrNotHeld if it has none, and zk.ErrNoAuth if some nodes cannot be read: a plan that may be
// incomplete is none. LookSession changes nothing.
func LookSession(ctx context.Context, c *zk.Client, prefix string, session int64) (*SessionPlan, error) {
	found, err := locks.Read(ctx, c, locks.Query{Prefix: prefix})
	if err != nil {
		return nil, err
	}
	if len(found.Denied) > 0 {
		return nil, fmt.Errorf("%w: the node %s", zk.ErrNoAuth, found.Denied[0])
	}
	p := &SessionPlan{Session: session}
	for _, all := range Sessions(found.Locks) {
		if all.Session == session {
			p = &all
		}
	}
	if len(p.Places) == 0 {
		return nil, fmt.Errorf("%w: session %s has no lock below %s, and waits for none", holdfast.ErrNotHeld, locks.SessionText(session), cut(prefix, MaxText))
	}
	return p, nil
}

// Do takes the places away and leaves the audit line. It returns how many were still there. Nodes that no longer
// belong to the session stay. The error is a *PartlyError if some were taken and a later transaction failed.
func (p *SessionPlan) Do(ctx context.Context, c *zk.Client, by By) (taken int, _ Record, _ error) {
	line := Entry{Action: "sessions end", Session: locks.SessionText(p.Session)}
	for _, at := range p.Places {
		line = line.Of(at.Lock, at.Entry)
	}
	r, err := Audited(ctx, c, line, by, func() (err error) {
		if taken, err = takeAway(ctx, c, p.Session, p.Places); err != nil && taken > 0 {
			err = &PartlyError{fmt.Sprintf("took %d of %d places from session %s", taken, len(p.Places), locks.SessionText(p.Session)), err}
		}
		return err
	})
	return taken, r, err
}

// oneTransaction is how many nodes sessions end removes at a time. Servers refuse requests of 1 MiB. A test changes it.
var oneTransaction = 2000

// takeAway removes the nodes of places, and returns how many were still there.
func takeAway(ctx context.Context, c *zk.Client, session int64, places []SessionPlace) (all int, err error) {
	for some := range slices.Chunk(places, oneTransaction) {
		n, err := takeAwayTogether(ctx, c, session, some)
		if all += n; err != nil {
			return all, err
		}
	}
	return all, nil
}

// takeAwayTogether is takeAway in one transaction. Nodes that no longer belong to the session stay: names of single
// nodes and of slots come back.
func takeAwayTogether(ctx context.Context, c *zk.Client, session int64, places []SessionPlace) (int, error) {
	removed := 0 // by the latest transaction that was executed, or that may have been
	again := func(err error) bool {
		return zk.SafeToRetry(err) || errors.Is(err, zk.ErrConnectionLoss) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion)
	}
	err := zk.RetryIf(ctx, again, func() error {
		ops, err := removals(ctx, c, session, places)
		if err != nil || len(ops) == 0 {
			return err
		}
		_, err = c.Multi(ctx, ops...)
		if err == nil || errors.Is(err, zk.ErrConnectionLoss) {
			removed = len(ops)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}

// removals returns the operations that remove those of the places that still belong to the session.
func removals(ctx context.Context, c *zk.Client, session int64, places []SessionPlace) (ops []zk.Op, _ error) {
	for _, p := range places {
		_, stat, err := c.Get(ctx, p.Path)
		switch {
		case errors.Is(err, zk.ErrNoNode), err == nil && stat.EphemeralOwner != session:
		case err != nil:
			return nil, err
		default:
			ops = append(ops, zk.DeleteOp(p.Path, stat.Version))
		}
	}
	return ops, nil
}
