package holdfast

import (
	"context"
	"errors"
	"time"

	"holdfast/zk"
)

// Waiting, and how the lock comes to us when the node ahead goes, without another look at
// the queue. That takes three things:
//
//   - The node that went was the last one ahead. What we know of those ahead (see ahead)
//     goes out of date in one direction only: they grow fewer. While we are third or
//     later, we watch the second nearest, and when that goes, find out whether the
//     nearest is the only one left. So this is known before it lets go.
//   - Our own node stood when it went. We watch our own node, too, since before we watched
//     the nearest or in the same flush; the events of one session come in the order of
//     the zxids, over one connection; so had our node been removed before, its event would
//     have come first. Not so the events of a catch-up after a reconnect: then we list.
//     (Who removes both nodes by hand in one transaction gives us a lock that is lost in
//     the same moment: within one transaction there is no before.)
//   - The session is proven. The next in line takes a lease while it waits, so that the
//     proof is there when its turn comes. newTenure makes sure of it.
//
// Where one of them is missing, the queue is listed again, and the list decides.

// A lookout is what a place that waits has in view: who is ahead, and its watches.
type lookout struct {
	ahead   ahead
	own     *zk.Watch // on our own node; the tenure goes on with it
	ownData []byte    // of our node when own was set
	ownStat zk.Stat   // and its Stat
	near    *zk.Watch // on the nearest node ahead; never without own, if we may read our node
	name    string    // of that
	czxid   int64     // of that
	far     int64     // the czxid of the second nearest, when that is what we wait for
}

// await waits for a change, and takes note of what is ahead then. It sets a watch, waits for
// the event, and goes by that. What sets the watch has returned before the wait, and what
// goes by the event is called after it, so neither is on the stack meanwhile: thousands
// may wait, and the collector takes half of a stack back only if there is next to nothing
// on it.
func (p *place) await(ctx context.Context) error {
	watch, err := p.watchAhead(ctx)
	if watch == nil {
		return err
	}
	if err := p.prepare(ctx); err != nil {
		return err
	}
	select {
	case ev := <-watch.C:
		return p.happened(ctx, ev)
	case ev := <-p.ownEvent():
		err = p.changed(ev)
		watch.Stop()
		return err
	case <-ctx.Done():
		watch.Stop()
		return context.Cause(ctx)
	}
}

// watchAhead returns the watch to wait for. There is none if what it would tell of has
// happened; then it has taken note of what is ahead now.
func (p *place) watchAhead(ctx context.Context) (_ *zk.Watch, err error) {
	a := p.watch.ahead
	if p.looksAhead(a) {
		return p.watchFar(ctx, a)
	}
	if p.watch.near == nil || p.watch.name != a.near {
		_, err := p.lookOut(ctx, a.near)
		switch {
		case err != nil:
			return nil, err
		case p.watch.near == nil: // it went before we could look
			p.watch.ahead, err = p.settle(ctx, a, a.last())
			return nil, err
		}
	}
	return p.watch.near, nil
}

// prepare proves the session of a place that is next in line, and keeps it proven. Then the
// lock needs no round trip when the turn comes. Only the next in line does so: a proof costs
// the ensemble transactions. A reader does not, since there may be many of them behind one
// writer.
func (p *place) prepare(ctx context.Context) error {
	if p.shared || p.watch.ahead.far != "" {
		return nil
	}
	return p.prove(ctx)
}

// prove takes a lease, unless the place has one.
func (p *place) prove(ctx context.Context) (err error) {
	if p.lease != nil {
		return nil
	}
	err = retry(ctx, func() (err error) {
		p.lease, err = p.session.Lease(ctx, p.path())
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return errPlaceGone
	}
	return err
}

// unprove gives the lease up that no tenure has taken over.
func (p *place) unprove() {
	if p.lease != nil {
		p.lease.Release()
		p.lease = nil
	}
}

// watchFar is watchAhead for who looks ahead.
func (p *place) watchFar(ctx context.Context, a ahead) (*zk.Watch, error) {
	var stat zk.Stat
	var far *zk.Watch
	err := retry(ctx, func() (err error) {
		_, stat, far, err = p.session.GetW(ctx, p.node(a.far))
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		p.watch.ahead, err = p.look(ctx)
		return nil, err
	case err != nil:
		return nil, err
	}
	p.watch.far = stat.Czxid
	return far, nil
}

// looksAhead reports whether to wait for the second nearest first. Of readers there may be
// many behind one writer, who can as well be woken once.
func (p *place) looksAhead(a ahead) bool { return a.far != "" && !p.shared }

// happened returns what is ahead after the event of the watch that was waited for.
func (p *place) happened(ctx context.Context, ev zk.Event) (err error) {
	a := p.watch.ahead
	far := p.looksAhead(a)
	if !far {
		p.watch.near = nil // it has fired
	}
	switch {
	case ev.Err != nil:
		return ev.Err
	case ev.Type != zk.EventNodeDeleted: // it changed: watch again
	case far:
		p.watch.ahead, err = p.farGone(ctx, a)
	default:
		p.watch.ahead, err = p.settle(ctx, a, a.last() && !ev.CatchUp)
	}
	return err
}

// settle returns what is ahead when the nearest has gone: nobody, if that is certain, or
// what the queue says.
func (p *place) settle(ctx context.Context, a ahead, certain bool) (ahead, error) {
	if !certain && p.mayBeLong() {
		// The answer comes behind all events, those of a catch-up too.
		data, stat, err := p.session.Get(ctx, p.dir)
		p.sized(stat)
		certain = err == nil && p.watch.name == a.near && readMark(data) >= p.watch.czxid
	}
	if !certain {
		return p.look(ctx)
	}
	stands, err := p.stands()
	switch {
	case err != nil:
		return ahead{}, err
	case !stands:
		return p.look(ctx)
	}
	return ahead{}, nil
}

// farGone finds out, when the second nearest has gone, whether the nearest is the only one
// left, and watches that and our own node in the same flush.
func (p *place) farGone(ctx context.Context, a ahead) (ahead, error) {
	mark := p.mayBeLong()
	evidence := zk.ChildrenOp(p.dir)
	if mark {
		evidence = zk.GetOp(p.dir)
	}
	found, err := p.lookOut(ctx, a.near, evidence)
	switch {
	case err != nil:
		return ahead{}, err
	case found.Err != nil:
		return p.look(ctx)
	case !mark:
		return p.ahead(ctx, found.Children)
	}
	p.sized(found.Stat)
	if readMark(found.Data) >= p.watch.far {
		return a.beforeGone(), nil
	}
	return p.look(ctx)
}

// mayBeLong reports whether to ask for a mark before the whole list. The queue was short
// when we joined it, perhaps, and has grown since: who has waited for some time can afford
// a round trip to see.
func (p *place) mayBeLong() bool {
	return p.queue.grammar.marks && (p.long || time.Since(p.joined) > 100*time.Millisecond)
}

// sized takes note of how long the queue is, by the Stat of its directory.
func (p *place) sized(dir zk.Stat) {
	if p.queue.grammar.marks && dir.NumChildren > longQueue {
		p.long = true
	}
}

// lookOut watches the nearest node, and our own, and reads something besides, in one
// flush. The nearest may be gone: then it is not watched.
func (p *place) lookOut(ctx context.Context, near string, also ...zk.Op) (found zk.Result, err error) {
	err = retry(ctx, func() (err error) {
		found, err = p.lookOutOnce(ctx, near, also...)
		return err
	})
	return found, err
}

func (p *place) lookOutOnce(ctx context.Context, near string, also ...zk.Op) (zk.Result, error) {
	p.unwatch()
	w := &p.watch
	var ops []zk.Op
	if w.own == nil {
		ops = append(ops, zk.GetWOp(p.path()))
	}
	watchNear := zk.GetWOp
	if p.shared {
		// A change of the data is no news, and all the readers behind a writer would be woken
		// by it. The other waiters are few, and so they show as watches of the data, for which
		// servers can be asked (wchp).
		watchNear = zk.ChildrenWOp
	}
	ops = append(append(ops, watchNear(p.node(near))), also...)
	res, err := p.session.Pipeline(ctx, ops...)
	if res == nil {
		return zk.Result{}, err
	}
	var fault error
	if w.own == nil {
		own := res[0]
		res = res[1:]
		switch {
		case own.Err == nil && own.Stat.Czxid == p.czxid:
			w.own, w.ownData, w.ownStat = own.Watch, own.Data, own.Stat
		case own.Err == nil: // another node of our name
			own.Watch.Stop()
			fault = errPlaceGone
		case errors.Is(own.Err, zk.ErrNoNode):
			fault = errPlaceGone
		case !errors.Is(own.Err, zk.ErrNoAuth): // who may not read its own node has to list
			fault = own.Err
		}
	}
	switch ahead := res[0]; {
	case ahead.Err == nil:
		w.near, w.name, w.czxid = ahead.Watch, near, ahead.Stat.Czxid
	case !errors.Is(ahead.Err, zk.ErrNoNode) && fault == nil:
		fault = ahead.Err
	}
	if fault != nil {
		return zk.Result{}, fault
	}
	if len(also) == 0 {
		return zk.Result{}, nil
	}
	return res[1], nil
}

// ownEvent is where the event of our own node comes; nowhere if that is not watched.
func (p *place) ownEvent() <-chan zk.Event {
	if p.watch.own == nil {
		return nil
	}
	return p.watch.own.C
}

// changed deals with the event of our own node. If it was not the end of it, the watch on
// the nearest is no good any more: it has to be set in one flush with ours, or behind it.
func (p *place) changed(ev zk.Event) error {
	p.watch.own = nil
	p.unwatch()
	switch {
	case ev.Err != nil:
		return ev.Err
	case ev.Type == zk.EventNodeDeleted:
		return errPlaceGone
	}
	return nil
}

// stands reports whether it is certain that our node stands, as far as we have been told
// what happened.
func (p *place) stands() (bool, error) {
	if p.watch.own == nil {
		return false, nil
	}
	select {
	case ev := <-p.watch.own.C:
		return false, p.changed(ev)
	default:
		return true, nil
	}
}

// unwatch gives up the watch on the nearest node.
func (p *place) unwatch() {
	if p.watch.near != nil {
		p.watch.near.Stop()
	}
	p.watch.near = nil
}
