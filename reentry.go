package holdfast

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"

	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/internal/tenure"
	"holdfast/zk"
)

// holdKey is the key of a context for the Hold that it descends from.
type holdKey struct{}

// lineage returns the tenures of the lock at path that ctx descends from and that still last, the
// innermost first.
func lineage(ctx context.Context, c *zk.Client, path string) []*tenure.Tenure {
	var live []*tenure.Tenure
	for h, _ := ctx.Value(holdKey{}).(*Hold); h != nil; h = h.outer {
		if h.ctx.Err() != nil {
			continue
		}
		for _, t := range h.tenures {
			if t.Client == c && t.Path == path {
				live = append(live, t)
			}
		}
	}
	return live
}

// taken is the key of a context for the earlier locks of a MultiLock that waits for the next one.
type taken struct{}

// beneath yields the tenures of the client whose holder waits with ctx.
func beneath(ctx context.Context, c *zk.Client) iter.Seq[*tenure.Tenure] {
	holds, _ := ctx.Value(taken{}).([]*Hold)
	for h, _ := ctx.Value(holdKey{}).(*Hold); h != nil; h = h.outer {
		holds = append(holds, h)
	}
	return func(yield func(*tenure.Tenure) bool) {
		for _, h := range holds {
			for _, t := range h.tenures {
				if h.ctx.Err() == nil && t.Client == c && !yield(t) {
					return
				}
			}
		}
	}
}

// held returns the tenures that ctx descends from and that are in l's queue. A caller with ctx would wait for itself.
func (l *lock) held(ctx context.Context) []*tenure.Tenure {
	var held []*tenure.Tenure
	for _, t := range lineage(ctx, l.Client, l.Path) {
		if _, ok := l.Grammar.Parse(t.Places[0].Name()); ok {
			held = append(held, t)
		}
	}
	return held
}

// heldNode returns the tenures of the lock's node that ctx descends from. Other kinds of locks at its path
// are not among them.
func (l *lock) heldNode(ctx context.Context) []*tenure.Tenure {
	return slices.DeleteFunc(lineage(ctx, l.Client, l.Path), func(t *tenure.Tenure) bool { return t.Kind != queue.Node })
}

// heldPermit reports whether ctx descends from a Hold of permits, and not of another lock at the path.
func (l *lock) heldPermit(ctx context.Context) bool {
	return slices.ContainsFunc(lineage(ctx, l.Client, l.Path), func(t *tenure.Tenure) bool {
		return t.Kind == l.Kind && t.Places[0].Dir == l.Path+l.Grammar.Semaphore.Leases
	})
}

// again acquires the lock for a context that descends from tenures of it. In the queue, the caller would
// wait for itself.
func (l *lock) again(ctx context.Context, held []*tenure.Tenure, s names.Side) (*Hold, error) {
	join := l.joins(held, s)
	switch {
	case join == nil:
		return nil, ErrDeadlock
	case s == names.Read && !join.Places[0].Shared:
		return l.takeReadSide(ctx, join)
	}
	return l.join(ctx, join)
}

// joins returns the tenure of held that a caller for side s joins, or whose read side it takes. It is nil if the error is
// ErrDeadlock. That is always so for a reader that asks for the write side: it would wait for all other readers. If one of
// them did the same, both would wait for ever, re-entrant or not.
func (l *lock) joins(held []*tenure.Tenure, s names.Side) *tenure.Tenure {
	join := held[0]
	if i := slices.IndexFunc(held, func(t *tenure.Tenure) bool { return !t.Places[0].Shared }); i >= 0 {
		join = held[i]
	}
	writes := !join.Places[0].Shared
	if writes && s == names.Read || l.reentrant && (writes || s == names.Read) {
		return join
	}
	return nil
}

// join returns one more Hold of the tenure.
func (l *lock) join(ctx context.Context, t *tenure.Tenure) (*Hold, error) {
	if err := l.sharesNode(lockOf(t)); err != nil {
		return nil, err
	}
	h := holdOf(ctx, t)
	if !t.Join((*holder)(h), h.outer.descends) {
		return nil, fmt.Errorf("%w: the tenure to join has ended", ErrLost)
	}
	return h, nil
}

// descends reports whether h is the Hold of o, or whether the context of h's Lock descends from it.
func (h *Hold) descends(o tenure.Holder) bool {
	for of := holdIn(o); h != nil; h = h.outer {
		if h == of {
			return true
		}
	}
	return false
}

// sharesNode returns why l cannot share the node that made has made, or nil; both are the same lock. A shared node would
// drop an ACL or a value that the caller has given.
func (l *lock) sharesNode(made *lock) error {
	option := ""
	switch {
	case l.acl != nil && !slices.Equal(l.acl, made.acl):
		option = "WithACL"
	case l.value != nil && (made.value == nil || !bytes.Equal(l.value, made.value)):
		option = "WithValue"
	default:
		return nil
	}
	return fmt.Errorf("%w: two locks share a node of %s, which cannot honour both of their %[3]s: give both locks the same %[3]s",
		zk.ErrBadArguments, l.Path, option)
}

// takeReadSide takes the read side for a writer. If the writer is a Mutex, the new Hold joins its tenure, and excludes
// readers, too: a waiter behind a Mutex's node relies on no other node taking its place (see names.Ahead.Replaced).
// Otherwise, stepDown makes a reader's node.
func (l *lock) takeReadSide(ctx context.Context, writer *tenure.Tenure) (*Hold, error) {
	if c, _ := l.Grammar.Parse(writer.Places[0].Name()); l.Grammar.Read == "" || !l.Grammar.StepsDown(c.Form) {
		return l.join(ctx, writer)
	}
	h, _ := ctx.Value(holdKey{}).(*Hold)
	if !writer.Step(h.descends) {
		return nil, fmt.Errorf("%w: the writer's tenure has ended", ErrLost)
	}
	if l.Grammar.Read.Unique() {
		return l.stepDown(ctx, writer)
	}
	return l.stepDownTogether(ctx, writer)
}

// stepDown gives a writer the read side as well, at its own place in the queue: a second node with the
// same number. When the writer unlocks, the readers behind it share the lock, and no writer gets it in
// between. The token is the writer's: the new node's would be larger than those of writers that wait
// already. (Curator does the same since 5.5.0. Before, a reader queued at the back, CURATOR-621.)
func (l *lock) stepDown(ctx context.Context, writer *tenure.Tenure) (_ *Hold, err error) {
	w := writer.Places[0]
	a, err := l.Grammar.Attempt(names.Read, w.Session.ID())
	if err != nil {
		return nil, err
	}
	c, ok := l.Grammar.Parse(w.Name())
	if !ok {
		return nil, fmt.Errorf("%w %s: %s is not in any of its forms", ErrLayout, l.Grammar.Name, w.Name())
	}
	a.Prefix += w.Name()[len(c.Form):]
	o := l.options
	o.note.Token = w.Token
	data, err := o.data(a)
	if err != nil {
		return nil, err
	}
	p := &queue.Place{Queue: l.Queue, Session: w.Session, Dir: w.Dir, Attempt: a, Exact: true, Shared: true, Data: data}
	err = errPanic
	defer func() {
		if err != nil {
			p.Leave(ctx)
		}
	}()
	for p.Name() == "" {
		err := zk.Retry(ctx, func() error {
			p.Sending()
			_, err := p.Session.Multi(ctx, zk.CheckOp(w.Path(), zk.AnyVersion), zk.CreateOp(p.Dir+"/"+p.Prefix, data, zk.Ephemeral, l.ACL...))
			return err
		})
		p.Sent(zk.MayHaveHappened(err))
		switch {
		case err == nil, errors.Is(err, zk.ErrConnectionLoss):
			// Apache's servers do not return the zxid of a node that a transaction made. Find reads it,
			// and sees whether the node was made at all.
			p.Sent(true)
			if err := p.Find(ctx); err != nil {
				return nil, err
			}
		case errors.Is(err, zk.ErrNodeExists) && !a.Unique: // an earlier reader is leaving
			if err := awaitRemoval(ctx, p.Session, p.Dir+"/"+p.Prefix); err != nil {
				return nil, err
			}
		case errors.Is(err, zk.ErrNoNode):
			writer.Lose(queue.ErrGone)
			return nil, fmt.Errorf("%w: the writer's node is gone", ErrLost) // to queue again would be no downgrade
		default:
			return nil, err
		}
	}
	p.Token = w.Token
	return newHold(ctx, l, p)
}

// awaitRemoval waits until the node is gone. If we may not read it, awaitRemoval waits for some time: the next attempt to
// make the node tells whether it is there.
func awaitRemoval(ctx context.Context, session *zk.Session, node string) error {
	for {
		var watch *zk.Watch
		err := zk.Retry(ctx, func() (err error) {
			_, _, watch, err = session.ChildrenW(ctx, node)
			return err
		})
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return nil
		case errors.Is(err, zk.ErrNoAuth):
			_, err := queue.AwaitEvent(ctx, nil, hiddenNodeAgain+rand.N(hiddenNodeAgain))
			return err
		case err != nil:
			return err
		}
		_, err = queue.AwaitEvent(ctx, watch.C, queue.LookAgain()) // the event may be lost
		watch.Stop()
		if err != nil {
			return err
		}
	}
}

// stepDownTogether is stepDown for a layout without {uuid} or {hex} in the names of its readers. The callers under one
// writer share a node, and so a tenure.
func (l *lock) stepDownTogether(ctx context.Context, writer *tenure.Tenure) (*Hold, error) {
	d := writer.Downgrade()
	select {
	case d.Busy <- struct{}{}:
		defer func() { <-d.Busy }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil { // a caller that has given up gets no lock
		return nil, context.Cause(ctx)
	}
	if d.Reader != nil && d.Reader.Lasts() {
		if err := l.sharesNode(lockOf(d.Reader)); err != nil {
			return nil, err
		}
		if h := holdOf(ctx, d.Reader); d.Reader.Add((*holder)(h)) {
			return h, nil
		}
	}
	h, err := l.stepDown(ctx, writer)
	if err == nil {
		d.Reader = h.tenures[0]
	}
	return h, err
}
