package deed

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"holdfast"
	"holdfast/internal/locks"
	"holdfast/reserve"
	"holdfast/zk"
)

// An Action is something that is done to a tenure of somebody else.
type Action struct {
	Name  string // of the subcommand
	Does  string // in words, what it does
	Done  string // in words, what it has done
	apply func(ctx context.Context, c *zk.Client, path string, token int64) error
	Ends  bool // also what outlasts a holder: --min-hold, and the record of a job
}

// Breaking and Revoking are the actions.
var (
	Breaking = Action{"break", "It takes the lock away at once. The holder is told, but the next client does not wait for it to stop.", "broke", holdfast.Break, true}
	Revoking = Action{"revoke", "It asks the holder to release the lock. The holder decides.", "asked for", holdfast.Revoke, false}
)

// A Plan is an action on one tenure of one lock. Look makes it. A Plan is not changed by its methods.
type Plan struct {
	Action   Action
	Path     string // of the lock
	Dir      string // the node with its queue
	Token    int64
	Queue    []locks.Place        // of the lock, when it was looked at
	Places   []holdfast.Entry     // those with the token, and the candidate that is to lead next
	Reserved *reserve.Reservation // what the action ends besides; or nil
}

// Look returns the plan to do a to the tenure with the token. The error is a *ChangedError if nobody has the token.
// The lock is the one at the path that has the token, in whatever layout; with a layout, it is one of that layout.
// Look changes nothing.
func Look(ctx context.Context, c *zk.Client, a Action, path string, layout *locks.Layout, token int64) (*Plan, error) {
	spot, err := locks.At(ctx, c, path)
	if err != nil {
		return nil, err
	}
	now := spot.Lock(layout, time.Now())
	for _, l := range append([]locks.Lock{now}, spot.Locks...) {
		p := &Plan{Action: a, Path: path, Dir: l.Dirs[0], Token: token, Queue: l.Queue}
		for _, at := range l.Queue {
			if at.Token == token {
				p.Places = append(p.Places, at.Entry)
			}
		}
		if a.Ends && l.Reserved != nil && l.Reserved.Token == token {
			p.Reserved = l.Reserved
		}
		if l.Kind != locks.Shards && len(p.Places) > 0 || p.Reserved != nil {
			return p, nil
		}
	}
	if now.Unreadable {
		return nil, fmt.Errorf("%w: the lock %s", zk.ErrNoAuth, path)
	}
	return nil, &ChangedError{path, token, now.Queue, now.Reserved}
}

// Waiting returns how many others wait for the lock, and the first of them. It counts places, not sessions. Next is nil
// if nobody waits.
func (p *Plan) Waiting() (n int, next *holdfast.Entry) {
	for i, q := range p.Queue {
		if q.Held || q.Token == p.Token {
			continue
		}
		if n++; next == nil {
			next = &p.Queue[i].Entry
		}
	}
	return n, next
}

// Do carries the plan out and leaves the audit line. It touches nobody but the tenure with the token: if that has ended
// since the plan was made, the error is a *ChangedError with the present queue. The error is a *PartlyError if the
// holder was removed, but not what keeps the lock after it. If ctx ends, the action may have
// happened all the same.
func (p *Plan) Do(ctx context.Context, c *zk.Client, by By) (Record, error) {
	line := Entry{Action: p.Action.Name}.Of(p.Path, p.Places...)
	if len(p.Places) == 0 {
		line.Places = []Place{{Path: cut(p.Path, MaxText), Owner: cut(p.Reserved.Owner, MaxText), Why: "--min-hold", Token: strconv.FormatInt(p.Token, 10)}}
	}
	return Audited(ctx, c, line, by, func() error {
		err := fmt.Errorf("%w with the token %d", holdfast.ErrNotHeld, p.Token)
		if len(p.Places) > 0 {
			err = p.Action.apply(ctx, c, p.Dir, p.Token)
		}
		if gone := errors.Is(err, holdfast.ErrNotHeld); p.Reserved != nil && (gone || err == nil) {
			switch end := p.Reserved.End(ctx, c); {
			case gone:
				err = end
			case end != nil && !errors.Is(end, holdfast.ErrNotHeld):
				err = &PartlyError{fmt.Sprintf("%s %s, token %d", p.Action.Done, cut(p.Path, MaxText), p.Token), fmt.Errorf("--min-hold still keeps the lock: %w", end)}
			}
		}
		if errors.Is(err, holdfast.ErrNotHeld) {
			spot, lerr := locks.At(ctx, c, p.Path)
			if lerr != nil {
				return err
			}
			now := spot.Lock(nil, time.Now())
			return &ChangedError{p.Path, p.Token, now.Queue, nil}
		}
		return err
	})
}

// A PartlyError says that a part of a deed was done, and why the rest failed. The rest may have been done as well.
type PartlyError struct {
	Done string // in words
	Err  error
}

func (e *PartlyError) Error() string { return e.Done + "; then: " + e.Err.Error() }

// Unwrap returns why the rest failed.
func (e *PartlyError) Unwrap() error { return e.Err }

// A ChangedError says that nobody has the token any more, or never had. Nothing was done. It wraps holdfast.ErrNotHeld.
type ChangedError struct {
	Path     string
	Token    int64
	Queue    []locks.Place        // now
	Reserved *reserve.Reservation // what keeps the lock after its last holder; or nil
}

// Holder returns the present holder, or the first in the queue, or nil if there is none.
func (e *ChangedError) Holder() *holdfast.Entry {
	if len(e.Queue) == 0 {
		return nil
	}
	return &e.Queue[0].Entry
}

// Kept returns the reservation that keeps the lock now, or nil.
func (e *ChangedError) Kept() *reserve.Reservation {
	if len(e.Queue) > 0 || e.Reserved == nil || !time.Now().Before(e.Reserved.Until) {
		return nil
	}
	return e.Reserved
}

func (e *ChangedError) Error() string {
	if h := e.Holder(); h != nil {
		return fmt.Sprintf("%s: nobody has the token %d any more; the holder has the token %d; nothing was done", e.Path, e.Token, h.Token)
	}
	if r := e.Kept(); r != nil {
		return fmt.Sprintf("%s: nobody in the queue has the token %d; the lock is kept by the token %d; nothing was done", e.Path, e.Token, r.Token)
	}
	return fmt.Sprintf("%s is free: nobody has the token %d", e.Path, e.Token)
}

// Unwrap returns holdfast.ErrNotHeld.
func (e *ChangedError) Unwrap() error { return holdfast.ErrNotHeld }
