package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/zk"
)

// holdKey is the key of the Hold that a context descends from.
type holdKey struct{}

// lineage are the tenures of the lock at path that ctx descends from and that still last,
// the innermost first.
func lineage(ctx context.Context, c *zk.Client, path string) []*tenure {
	var live []*tenure
	for h, _ := ctx.Value(holdKey{}).(*Hold); h != nil; h = h.outer {
		if h.ctx.Err() != nil {
			continue
		}
		for _, t := range h.tenures {
			if t.queue.client == c && t.queue.path == path {
				live = append(live, t)
			}
		}
	}
	return live
}

// held are the tenures that ctx descends from and that q would have to wait for.
func (q *queue) held(ctx context.Context) []*tenure {
	var held []*tenure
	for _, t := range lineage(ctx, q.client, q.path) {
		if _, ok := q.grammar.parse(t.places[0].name); ok {
			held = append(held, t)
		}
	}
	return held
}

// again takes the lock for a context that descends from tenures of it. To wait for it in
// the queue would be to wait for ourselves.
func (q *queue) again(ctx context.Context, held []*tenure, s side) (*Hold, error) {
	join := held[0]
	for _, t := range held {
		if !t.places[0].shared {
			if s == sideRead {
				return q.takeReadSide(ctx, t)
			}
			join = t
			break
		}
	}
	// A reader that asks for the write side waits for all other readers, and if one of
	// them does the same, for ever. That is so whether it is re-entrant or not.
	if !q.reentrant || s != sideRead && join.places[0].shared {
		return nil, ErrDeadlock
	}
	return join.again(ctx)
}

// again is one more Hold of the tenure.
func (t *tenure) again(ctx context.Context) (*Hold, error) {
	h := holdOf(ctx, t)
	t.mu.Lock()
	defer t.mu.Unlock()
	over := t.loss != nil || t.ctx.Err() != nil
	if over || t.line != nil && !t.heldBy(h.outer) { // or handed on in memory, see line.go
		return nil, fmt.Errorf("%w: the tenure to join has ended", ErrLost)
	}
	t.admit(h)
	return h, nil
}

// takeReadSide is the read side for a writer. A Mutex keeps everybody out until both are
// unlocked: whoever waits for its node relies on nothing standing in its place when it
// goes (see ahead.mayStepDown).
func (q *queue) takeReadSide(ctx context.Context, writer *tenure) (*Hold, error) {
	if c, _ := q.grammar.parse(writer.places[0].name); q.grammar.read == "" || !q.grammar.stepsDown(c.form) {
		return writer.again(ctx)
	}
	if !writer.step(ctx) {
		return nil, fmt.Errorf("%w: the writer's tenure has ended", ErrLost)
	}
	return q.stepDown(ctx, writer)
}

// stepDown gives a writer the read side as well, at its own place in the queue: a second
// node with the same number. When the writer unlocks, readers behind it come in, and no
// writer can have slipped in between. The token is the writer's: the new node's would
// be larger than those of writers that are waiting already. (Curator does the same since
// 5.5.0; before, a reader queued at the back, CURATOR-621.)
func (q *queue) stepDown(ctx context.Context, writer *tenure) (_ *Hold, err error) {
	w := writer.places[0]
	a, err := q.grammar.attempt(sideRead, w.session.ID())
	if err != nil {
		return nil, err
	}
	c, ok := q.grammar.parse(w.name)
	if !ok {
		return nil, fmt.Errorf("%w %s: %s is not in any of its forms", ErrLayout, q.grammar.name, w.name)
	}
	a.prefix += w.name[len(c.form):]
	o := q.options
	o.note.Token = w.token
	data, err := o.data(a)
	if err != nil {
		return nil, err
	}
	p := &place{queue: q, session: w.session, dir: w.dir, attempt: a, exact: true, shared: true, data: data}
	defer func() {
		if err != nil {
			p.leave(ctx)
		}
	}()
	for p.name == "" {
		err := retry(ctx, func() error {
			p.asked = time.Now()
			_, err := p.session.Multi(ctx, zk.CheckOp(w.path(), zk.AnyVersion), zk.CreateOp(p.node(p.prefix), data, zk.Ephemeral, q.acl...))
			return err
		})
		p.doubt = zk.MayHaveHappened(err)
		switch {
		case err == nil, errors.Is(err, zk.ErrConnectionLoss):
			// Made in a transaction: its zxid has to be asked for (Apache's servers do
			// not tell), as whether it was made at all.
			p.doubt = true
			if _, err := p.find(ctx); err != nil {
				return nil, err
			}
		case errors.Is(err, zk.ErrNoNode):
			writer.lose(errPlaceGone)
			return nil, fmt.Errorf("%w: the writer's node is gone", ErrLost) // to queue again would be no downgrade
		default:
			return nil, err
		}
	}
	p.token = w.token
	return newHold(ctx, q, p)
}
