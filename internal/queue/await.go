package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// Waiting: how a waiter acquires the lock when the node ahead is removed, without another list of the queue.
// Three things must be true:
//
//   - That node was the last one ahead. The set of nodes ahead (names.Ahead) only shrinks. From third
//     place on, a waiter watches the node two ahead. When that node is removed, the waiter finds out
//     whether the nearest is the only one left. So it knows this before the nearest is removed.
//   - Our own node still existed then. We watch our own node since before we watched the nearest, or
//     in the same flush. The events of one session arrive in zxid order over one connection, so an
//     earlier removal of our node would have been reported first. The events of a catch-up after a
//     reconnect have no such order: then we list. (If somebody removes both nodes in one transaction,
//     we acquire a lock that is lost in the same moment: one transaction has no order.)
//   - The session is proven. The next in line takes a lease while it waits, so the proof is there
//     when its turn comes. Prove makes sure of it.
//
// Where one of them is uncertain, we list the queue again, and the list decides.
//
// No wait depends on one event alone. Servers report no event of a node that we may not read, and somebody can
// take the permission away meanwhile (since 3.8.4 and 3.9.2, and in distributions' 3.8.0). So a waiter looks again from
// time to time (LookAgain). If it may not read the node ahead, the list of the queue tells whether the node is
// there (awaitHidden).

// watches are those of a place that waits.
type watches struct {
	own        *zk.Watch // on our own node; the tenure takes it over
	ownData    []byte    // of our node when own was set
	ownMzxid   int64     // likewise
	ownVersion int32     // likewise
	hidden     bool      // we may not read the node that we wait for, so there is no watch
	near       *zk.Watch // on the nearest node ahead; never without own, if we may read our node
	name       string    // of the nearest node ahead
	czxid      int64     // of the nearest node ahead
	far        int64     // the czxid of the second nearest, while we wait for its removal
	mzxid      int64     // of the node that we wait for, when the watch was set
	resumed    *zk.Watch // to go on with after lookAgain
}

// await waits for a change, and notes in p.ahead who is ahead then. beginAwait sets the watch, and another function handles
// the event. So neither is on the stack during the wait: thousands may wait, and the collector shrinks a stack only if
// next to nothing is on it.
func (p *Place) await(ctx context.Context) error {
	watch, err := p.beginAwait(ctx)
	if watch == nil {
		return err
	}
	again := alarms.In(p.Session).after(LookAgain())
	select {
	case ev := <-watch.C:
		return p.aheadFired(ctx, ev)
	case ev := <-p.ownEvent():
		watch.Stop()
		return p.ownFired(ev)
	case <-ctx.Done():
		watch.Stop()
		return context.Cause(ctx)
	case <-again:
		return p.lookAgain(ctx, watch)
	}
}

// beginAwait sets a watch and returns it. If it returns none, await is done: beginAwait has noted who is ahead, or has
// waited itself, which only the rare cases below do (awaitHidden, awaitDetached, awaitUnwatched).
func (p *Place) beginAwait(ctx context.Context) (*zk.Watch, error) {
	watch, err := p.watchAhead(ctx)
	if watch == nil && !p.watches.hidden {
		return nil, err
	}
	if err := p.prepare(ctx); err != nil {
		return nil, err
	}
	switch {
	case p.watches.hidden:
		return nil, p.awaitHidden(ctx)
	case names.IsDetached(p.awaited()):
		return nil, p.awaitDetached(ctx, watch)
	case p.watches.own == nil && p.lease != nil:
		return nil, p.awaitUnwatched(ctx, watch)
	}
	return watch, nil
}

// watchAhead watches the node that we wait for: the second nearest if awaitsFar, otherwise the nearest. It returns no
// watch if that node is gone already, and has noted who is ahead now; or if we may not read the node (watches.hidden).
func (p *Place) watchAhead(ctx context.Context) (_ *zk.Watch, err error) {
	a := p.ahead
	p.watches.hidden = false
	if watch := p.watches.resumed; watch != nil {
		p.watches.resumed = nil
		return watch, nil
	}
	if p.awaitsFar(a) {
		return p.watchFar(ctx, a)
	}
	if p.watches.near == nil || p.watches.name != a.Near {
		_, err := p.watchNear(ctx, a.Near)
		switch {
		case err != nil || p.watches.hidden:
			return nil, err
		case p.watches.near == nil: // rare: the node ahead goes before it is watched
			p.ahead, err = p.nearGone(ctx, a, a.Last())
			return nil, err
		}
		p.ahead.Near = p.watches.name // a part of the watch's path, so the list's string can go
	}
	return p.watches.near, nil
}

// awaited returns the name of the node that we wait for, which watchAhead watches.
func (p *Place) awaited() string {
	if p.awaitsFar(p.ahead) {
		return p.ahead.Far
	}
	return p.ahead.Near
}

// awaitsFar reports whether to wait for the second nearest first. Readers do not: there may be many
// of them behind one writer, and each would wake twice.
func (p *Place) awaitsFar(a names.Ahead) bool { return a.Far != "" && !p.Shared }

// watchFar is watchAhead for a place that looks ahead. It does not see when the nearest goes first, which matters only
// if somebody wants to know when the place is next. Then the holder changes its node after it has seen that, and a change
// of the second nearest makes the place look.
func (p *Place) watchFar(ctx context.Context, a names.Ahead) (*zk.Watch, error) {
	var stat zk.Stat
	var far *zk.Watch
	err := zk.Retry(ctx, func() (err error) {
		_, stat, far, err = p.Session.GetW(ctx, p.node(a.Far))
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		p.ahead, err = p.look(ctx)
		return nil, err
	case errors.Is(err, zk.ErrNoAuth):
		p.watches.hidden = true
		return nil, nil
	case err != nil:
		return nil, err
	}
	p.watches.far = stat.Czxid
	p.watches.mzxid = stat.Mzxid
	if p.Next != nil {
		res, err := p.lookAt(ctx, p.node(a.Near))
		if err != nil || errors.Is(res[0].Err, zk.ErrNoNode) { // perhaps the holder has seen that before
			far.Stop()
			if err == nil {
				p.ahead, err = p.look(ctx)
			}
			return nil, err
		}
	}
	return far, nil
}

// watchNear watches the nearest node and our own, and reads something else, in one flush. If the nearest is gone,
// watches.near is nil.
func (p *Place) watchNear(ctx context.Context, near string, also ...zk.Op) (found zk.Result, err error) {
	err = zk.Retry(ctx, func() (err error) {
		found, err = p.watchNearOnce(ctx, near, also...)
		return err
	})
	return found, err
}

func (p *Place) watchNearOnce(ctx context.Context, near string, also ...zk.Op) (zk.Result, error) {
	p.unwatch()
	w := &p.watches
	path := p.node(near)
	near = path[len(path)-len(near):]
	var ops []zk.Op
	if w.own == nil {
		ops = append(ops, zk.GetWOp(p.Path()))
	}
	nearOp := zk.GetWOp
	if p.Shared {
		// A change of the data is no news, and would wake all the readers behind a writer. The other
		// waiters are few. Their watches are of the data, for which servers can be asked (wchp).
		nearOp = zk.ChildrenWOp
	}
	ops = append(append(ops, nearOp(path)), also...)
	res, err := p.Session.Pipeline(ctx, ops...)
	if res == nil {
		return zk.Result{}, err
	}
	var fault error
	if w.own == nil {
		own := res[0]
		res = res[1:]
		switch {
		case own.Err == nil && own.Stat.Czxid == p.czxid:
			w.own, w.ownData, w.ownMzxid, w.ownVersion = own.Watch, own.Data, own.Stat.Mzxid, own.Stat.Version
		case own.Err == nil: // another node of our name
			own.Watch.Stop()
			fault = ErrGone
		case errors.Is(own.Err, zk.ErrNoNode): // rare: our own node goes before it is watched
			fault = ErrGone
		case !errors.Is(own.Err, zk.ErrNoAuth): // a place that may not read its own node has to list
			fault = own.Err
		}
	}
	switch ahead := res[0]; {
	case ahead.Err == nil:
		w.near, w.name, w.czxid = ahead.Watch, near, ahead.Stat.Czxid
		w.mzxid = ahead.Stat.Mzxid
	case errors.Is(ahead.Err, zk.ErrNoAuth):
		w.name, w.czxid, w.hidden = near, 0, true
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

// prepare proves the session of a place that is next in line, and keeps it proven. Then acquiring
// needs no round trip when the turn comes. Only the next in line does so: a proof costs the ensemble
// transactions. A reader does not, since there may be many readers behind one writer.
func (p *Place) prepare(ctx context.Context) error {
	if p.Shared || p.ahead.Far != "" {
		return nil
	}
	return p.prove(ctx)
}

// prove takes a lease, unless the place has one.
func (p *Place) prove(ctx context.Context) (err error) {
	if p.lease != nil {
		return nil
	}
	err = zk.Retry(ctx, func() (err error) {
		p.lease, err = p.Session.Lease(ctx, p.Path())
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return ErrGone
	}
	return err
}

// aheadFired notes who is ahead after the event of the node that we waited for.
func (p *Place) aheadFired(ctx context.Context, ev zk.Event) (err error) {
	a := p.ahead
	far := p.awaitsFar(a)
	if !far {
		p.watches.near = nil // it has fired
	}
	switch {
	case ev.Err != nil:
		return ev.Err
	case ev.Type != zk.EventNodeDeleted: // it changed: watch again
		if far && p.Next != nil {
			p.ahead, err = p.look(ctx)
		}
	case far:
		p.ahead, err = p.farGone(ctx, a)
	default:
		p.ahead, err = p.nearGone(ctx, a, a.Last() && !ev.CatchUp)
	}
	return err
}

// farGone returns who is ahead when the second nearest is removed: is the nearest the only one left? It watches the
// nearest and our own node in the same flush.
func (p *Place) farGone(ctx context.Context, a names.Ahead) (names.Ahead, error) {
	watermark := p.mayBeLong()
	evidence := zk.ChildrenOp(p.Dir)
	if watermark {
		evidence = zk.GetOp(p.Dir)
	}
	found, err := p.watchNear(ctx, a.Near, evidence)
	switch {
	case err != nil:
		return names.Ahead{}, err
	case found.Err != nil:
		return p.look(ctx)
	case !watermark:
		return p.position(ctx, found.Children, nil)
	}
	p.sawDirectory(found.Stat)
	if readWatermark(found.Data) >= p.watches.far {
		return a.FarGone(), nil
	}
	return p.look(ctx)
}

// nearGone returns who is ahead when the nearest is removed. If it was certainly the last, that is nobody. Otherwise the
// list or the watermark decides.
func (p *Place) nearGone(ctx context.Context, a names.Ahead, certain bool) (names.Ahead, error) {
	if !certain && p.mayBeLong() {
		// The answer comes behind all events, those of a catch-up too.
		data, stat, err := p.Session.Get(ctx, p.Dir)
		p.sawDirectory(stat)
		certain = err == nil && p.watches.name == a.Near && readWatermark(data) >= p.watches.czxid
	}
	if !certain {
		return p.look(ctx)
	}
	exists, err := p.ownExists()
	switch {
	case err != nil:
		return names.Ahead{}, err
	case !exists:
		return p.look(ctx)
	}
	return names.Ahead{}, nil
}

// ownExists reports whether our node certainly exists, by the events so far.
func (p *Place) ownExists() (bool, error) {
	if p.watches.own == nil {
		return false, nil
	}
	select {
	case ev := <-p.watches.own.C: // rare: our own node goes or changes before the node ahead goes
		return false, p.ownFired(ev)
	default:
		return true, nil
	}
}

// ownEvent is the channel of our own node's event. It is nil if the node is not watched.
func (p *Place) ownEvent() <-chan zk.Event {
	if p.watches.own == nil {
		return nil
	}
	return p.watches.own.C
}

// ownFired handles the event of our own node. If the node still exists, only its data have changed. Then we give up the
// watch on the nearest, too, since it must be set in one flush with that on our node, or after it.
func (p *Place) ownFired(ev zk.Event) error {
	p.watches.own = nil
	p.unwatch()
	switch {
	case ev.Err != nil:
		return ev.Err
	case ev.Type == zk.EventNodeDeleted:
		return ErrGone
	}
	return nil
}

// unwatch gives up the watch on the nearest node, and keeps that on our own.
func (p *Place) unwatch() {
	if p.watches.near != nil {
		p.watches.near.Stop()
	}
	p.watches.near = nil
}

// awaitUnwatched is the end of await if we are next in line, and may not read our own node, so it has no watch. Only a
// probe of the session (zk.Lease) tells that the node is gone, and a single server is not probed. It is split from await
// to keep waiters' stacks small.
//
//go:noinline
func (p *Place) awaitUnwatched(ctx context.Context, watch *zk.Watch) (err error) {
	again := time.NewTimer(LookAgain())
	defer again.Stop()
	select {
	case ev := <-watch.C:
		return p.aheadFired(ctx, ev)
	case <-p.lease.Gone():
		err = ErrGone
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-again.C:
		return p.lookAgain(ctx, watch)
	}
	watch.Stop()
	return err
}

// awaitHidden waits behind a node that we may not read. The names of the queue tell when it is gone. It is split from
// await to keep waiters' stacks small.
func (p *Place) awaitHidden(ctx context.Context) (err error) {
	pause := hiddenAgain
	if p.Shared {
		pause = hiddenAgainReaders
	}
	timer := time.NewTimer(pause + rand.N(pause))
	defer timer.Stop()
	select {
	case <-timer.C:
		p.ahead, err = p.look(ctx)
	case ev := <-p.ownEvent():
		err = p.ownFired(ev)
	case <-p.leaseGone():
		err = ErrGone
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return err
}

// awaitDetached is the end of await if the node that we wait for is a detached lock, which no session owns. When it
// expires, we remove it: nobody else may be there to do so. It is split from await to keep waiters' stacks small.
func (p *Place) awaitDetached(ctx context.Context, watch *zk.Watch) error {
	for denied := false; ; {
		e, err := p.expiryOf(ctx, p.awaited())
		if err != nil {
			watch.Stop()
			return err
		}
		if denied {
			e.stop()
			e.due = nil
		}
		again := time.NewTimer(LookAgain())
		select {
		case ev := <-watch.C:
			again.Stop()
			e.stop()
			return p.aheadFired(ctx, ev)
		case ev := <-p.ownEvent():
			err = p.ownFired(ev)
		case <-p.leaseGone():
			err = ErrGone
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-e.due:
			err = p.removeExpired(ctx, e)
			denied = errors.Is(err, ErrLocked)
			if err == nil || denied {
				again.Stop()
				continue // the watch tells that it is gone
			}
		case <-again.C:
			e.stop()
			err = p.lookAgain(ctx, watch)
			if p.watches.resumed == nil {
				return err
			}
			p.watches.resumed = nil
			continue
		}
		again.Stop()
		e.stop()
		watch.Stop()
		return err
	}
}

// leaseGone returns the channel of the lease that reports the removal of our node. It is nil if the node is watched, or
// there is no lease.
func (p *Place) leaseGone() <-chan struct{} {
	if p.watches.own != nil || p.lease == nil {
		return nil
	}
	return p.lease.Gone()
}

const (
	// hiddenAgain is the pause between two lists of a waiter behind a node that it may not read. Of readers, there may be many
	// behind one writer.
	hiddenAgain        = time.Second
	hiddenAgainReaders = 10 * time.Second
)

// lookAgain checks that the node that we wait for is there, unchanged. If so, await resumes with the same watch. If not,
// the event was lost, or has come now; then lookAgain notes who is ahead, or lets await set the watches anew.
//
//go:noinline
func (p *Place) lookAgain(ctx context.Context, watch *zk.Watch) error {
	same := false
	nodes := []string{p.node(p.awaited())}
	if p.watches.own != nil || p.lease != nil { // else we wait far behind, and look at our own node before our turn
		nodes = append(nodes, p.Path())
	}
	res, err := p.lookAt(ctx, nodes...)
	if err == nil {
		czxid := p.watches.czxid
		if p.awaitsFar(p.ahead) {
			czxid = p.watches.far
		}
		now := res[0]
		same = now.Err == nil && now.Stat.Czxid == czxid && (p.Shared || now.Stat.Mzxid == p.watches.mzxid)
	}
	if p.Next != nil && same {
		var near []zk.Result
		near, err = p.lookAt(ctx, p.node(p.ahead.Near))
		same = err == nil && !errors.Is(near[0].Err, zk.ErrNoNode)
	}
	if len(res) > 1 {
		switch own := res[1]; {
		case errors.Is(own.Err, zk.ErrNoNode), own.Err == nil && own.Stat.Czxid != p.czxid:
			err = ErrGone
		case p.watches.own == nil:
		case own.Err != nil || own.Stat.Mzxid != p.watches.ownMzxid: // its watch tells nothing any more
			same = false
			p.watches.own.Stop()
			p.watches.own = nil
		}
	}
	if same && err == nil {
		p.watches.resumed = watch
		return nil
	}
	select {
	case ev := <-watch.C: // it has come now
		if err == nil {
			return p.aheadFired(ctx, ev)
		}
	default:
	}
	watch.Stop()
	p.unwatch()
	if err == nil && (p.Next != nil || errors.Is(res[0].Err, zk.ErrNoNode)) {
		p.ahead, err = p.look(ctx)
	}
	return err
}

// lookAt reads the Stats of nodes, by listing their children: a list needs the same permission as an event, and these
// lists are short. The errors of a result can be ErrNoNode and ErrNoAuth.
func (p *Place) lookAt(ctx context.Context, nodes ...string) (res []zk.Result, err error) {
	ops := make([]zk.Op, len(nodes))
	for i, node := range nodes {
		ops[i] = zk.ChildrenOp(node)
	}
	err = zk.Retry(ctx, func() (err error) {
		if res, err = p.Session.Pipeline(ctx, ops...); res == nil {
			return err
		}
		for _, r := range res {
			if r.Err != nil && !errors.Is(r.Err, zk.ErrNoNode) && !errors.Is(r.Err, zk.ErrNoAuth) {
				return r.Err
			}
		}
		return nil
	})
	return res, err
}

// LookAtOwn returns the present Stat of our node. The error is ErrGone if it is gone, and zk.ErrNoAuth if we may not read
// it.
func (p *Place) LookAtOwn(ctx context.Context) (zk.Stat, error) {
	res, err := p.lookAt(ctx, p.Path())
	switch {
	case err != nil:
		return zk.Stat{}, err
	case errors.Is(res[0].Err, zk.ErrNoNode), res[0].Err == nil && res[0].Stat.Czxid != p.czxid:
		return zk.Stat{}, ErrGone
	}
	return res[0].Stat, res[0].Err
}

// AwaitEvent waits for an event, at most for as long as again says.
func AwaitEvent(ctx context.Context, event <-chan zk.Event, again time.Duration) (changed bool, _ error) {
	timer := time.NewTimer(again)
	defer timer.Stop()
	select {
	case ev := <-event:
		return true, ev.Err
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// Prove returns a lease for our node: the one that the place took while it waited, or a new one. The
// caller releases it. The error is ErrGone if our node is gone.
func (p *Place) Prove(ctx context.Context) (*zk.Lease, error) {
	if err := p.prove(ctx); err != nil {
		return nil, err
	}
	lease := p.lease
	p.lease = nil
	return lease, nil
}

// OwnData are the data of our node when the place set the watch on it; nil if it has set none.
func (p *Place) OwnData() []byte { return p.watches.ownData }

// TakeWatch hands the watch on our own node over to the caller, with what the node contained when it
// was set. Of its Stat, only the zxids of the node and of its data and the version are there: thousands of places may wait.
// The watch is nil if the place has set none.
func (p *Place) TakeWatch() (*zk.Watch, []byte, zk.Stat) {
	w := &p.watches // another goroutine may give up the watch on the nearest node meanwhile
	own := w.own
	w.own = nil
	return own, w.ownData, zk.Stat{Czxid: p.czxid, Mzxid: w.ownMzxid, Version: w.ownVersion}
}
