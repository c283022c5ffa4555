package tenure

import (
	fifo "container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/internal/queue"
	"holdfast/zk"
)

// maxKept is how many idle locks a client keeps.
const maxKept = 64

// A keeping is the part of a tenure that may outlast its Holders (WithKeep). Tenure.mu guards the fields from listed
// to timer.
//
// The tenure watches the children of the queue's directory from its beginning. An event means that somebody has
// joined: when the watch was set, nobody else was in the queue. So the event needs no second look.
type keeping struct {
	known chan struct{} // closed once listed is true
	gone  chan struct{} // closed when the tenure is over; if nobody held the lock then, the node is removed as well
	err   error         // of that removal; set before gone is closed

	// Somebody has joined, or we cannot tell. It is no field under Tenure.mu: callers that take the lock all the time
	// would delay the news by a millisecond, see sync.Mutex.
	wanted atomic.Bool

	listed bool        // the queue has been listed; before that, wanted says nothing
	since  time.Time   // when the last Holder left, or when a Holder took the kept lock
	marked bool        // the node's data say Kept, or a request is under way that makes them
	timer  *time.Timer // calls timerFired

	version int32         // of the node's data, as far as we know; guarded by rewrites
	element *fifo.Element // in keptLocks, while it is idle; guarded by the mutex of these
}

// keptLocks are the idle tenures of each client.
var keptLocks zk.Shared[idleLocks]

type idleLocks struct {
	sync.Mutex           // guards all; Tenure.mu may be held around it, and no other is locked under it
	all        fifo.List // the longest idle first
}

// beginKeeping makes t a tenure that may be kept, if its lock says so. t.mu must be held.
func (t *Tenure) beginKeeping() {
	if t.Keep == 0 {
		return
	}
	k := &keeping{known: make(chan struct{}), gone: make(chan struct{})}
	k.timer = time.AfterFunc(t.Keep, t.timerFired)
	t.keep = k
	go t.watchJoins(k)
}

// watchJoins finds out whether somebody else is in the queue, and waits for the first one that joins.
func (t *Tenure) watchJoins(k *keeping) {
	watch, others := t.watchOthers()
	k.wanted.Store(others)
	t.mu.Lock()
	k.listed = true
	close(k.known)
	t.mu.Unlock()
	if others {
		t.giveBack()
		return
	}
	t.serve() // a waiter that came before we knew
	for !others {
		changed, err := queue.AwaitEvent(t.ctx, watch.C, queue.LookAgain())
		switch {
		case changed:
			others = true
		case err != nil: // the removal of our node fires the watch
			return
		default: // the event may have been lost
			before := watch
			watch, others = t.watchOthers()
			before.Stop()
		}
	}
	k.wanted.Store(true)
	t.mu.Lock()
	if k.marked && len(t.holds) > 0 {
		k.timer.Reset(GracePeriod) // others that only try should hear that it is held
	}
	t.mu.Unlock()
	t.giveBack()
}

// watchOthers reports whether somebody else is in the queue, or may be there. If not, watch tells of the first one that joins.
func (t *Tenure) watchOthers() (watch *zk.Watch, others bool) {
	p := t.Places[0]
	ctx := p.Session.Context()
	var listed []string
	err := zk.Retry(ctx, func() (err error) {
		listed, _, watch, err = p.Session.ChildrenW(ctx, p.Dir)
		return err
	})
	inQueue := p.Queue.Grammar.InQueue(listed)
	others = err != nil || len(inQueue) != 1 || inQueue[0].Name != p.Name()
	if watch != nil && (others || t.ctx.Err() != nil) {
		watch.Stop()
	}
	return watch, others
}

// stay keeps the lock when its last Holder has left. It returns false if the lock has to go back to the ensemble.
// Callers may wait in the line: handOn has a bound, and settle serves them without one. t.mu must be held.
func (t *Tenure) stay() bool {
	k := t.keep
	if k == nil || t.line == nil || t.isOver() || t.revoked || t.commits > 0 || k.wanted.Load() || !t.proven() {
		return false
	}
	k.since = time.Now()
	k.timer.Reset(t.Keep)
	idle := keptLocks.Of(t.Client)
	idle.Lock()
	defer idle.Unlock()
	k.element = idle.all.PushBack(t)
	if idle.all.Len() > maxKept {
		oldest := idle.all.Front().Value.(*Tenure)
		oldest.keep.element = nil
		idle.all.Remove(idle.all.Front())
		go oldest.giveBack()
	}
	return true
}

// settle completes stay, without t.mu: first the queue must be listed, and then the node marked. It returns when others
// can see that the lock is kept, or when the next Holder has it, or when the node is removed after all.
func (t *Tenure) settle() (Fate, error) {
	k := t.keep
	select {
	case <-k.known:
	case <-k.gone:
	}
	if t.serve() {
		return HandedOn, nil
	}
	t.mu.Lock()
	mark := len(t.holds) == 0 && !k.marked
	t.mu.Unlock()
	if mark && !t.mark(true) {
		t.giveBack()
	}
	t.mu.Lock()
	over := t.isOver() && len(t.holds) == 0
	t.mu.Unlock()
	if !over { // or lost by the next Hold, which tells its own caller
		return Kept, nil
	}
	<-k.gone
	return Removed, k.err
}

// serve gives the lock to the first waiter of q if the client keeps it.
func (q *line) serve() {
	q.mu.Lock()
	t := q.tenure
	q.mu.Unlock()
	if t != nil {
		t.serve()
	}
}

// serve gives a kept lock to the first waiter of the line. It returns false if there is none.
func (t *Tenure) serve() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if usable, _ := t.usable(); !usable {
		return false
	}
	q := t.line
	q.mu.Lock()
	w := q.next()
	q.handoffs = 0
	q.mu.Unlock()
	if w == nil {
		return false
	}
	w.turn <- turn{hold: t.take(w.ctx, w.lock)}
	return true
}

// usable reports whether a caller can take the kept lock now. If not, wait is closed when it makes sense to ask
// again; it is nil if somebody holds the lock. t.mu must be held.
func (t *Tenure) usable() (_ bool, wait <-chan struct{}) {
	k := t.keep
	switch {
	case k == nil || len(t.holds) > 0:
		return false, nil
	case t.isOver():
		return false, k.gone
	case !k.listed:
		return false, k.known
	case k.wanted.Load() || t.revoked || !t.proven():
		go t.giveBack()
		return false, k.gone
	}
	return true, nil
}

// take returns a Holder of a kept lock that is usable, for a caller with ctx. t.mu must be held.
func (t *Tenure) take(ctx context.Context, l Locker) Holder {
	t.endIdle()
	k := t.keep
	if k.marked {
		k.timer.Reset(heldAfter)
	} else {
		k.timer.Stop()
	}
	h := l.Grant(ctx, t)
	t.admit(h)
	return h
}

// endIdle takes the tenure off the client's idle locks, where stay has put it, and notes the time. t.mu must be held.
func (t *Tenure) endIdle() {
	k := t.keep
	k.since = time.Now()
	idle := keptLocks.Of(t.Client)
	idle.Lock()
	defer idle.Unlock()
	if k.element == nil {
		return
	}
	idle.all.Remove(k.element)
	k.element = nil
}

// Try is Wait for TryLock. It fails with queue.ErrLocked if the client holds the lock. It returns neither a Holder nor an
// error if the lock is free as far as the client knows. Then the caller asks the ensemble, and calls Adopt.
func Try(ctx context.Context, k Key, l Locker) (Holder, error) {
	for {
		if ctx.Err() != nil { // a caller that has given up gets no lock
			return nil, context.Cause(ctx)
		}
		all := k.all
		all.Lock()
		q := all.m[k]
		all.Unlock()
		if q == nil {
			return nil, nil
		}
		h, wait, free := q.take(ctx, l)
		switch {
		case h != nil || free:
			return h, nil
		case wait == nil:
			return nil, queue.ErrLocked
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// take returns a Holder of the lock that q keeps, if nobody waits for it here. Otherwise wait is as in usable. free:
// the line is empty, and about to be dropped.
func (q *line) take(ctx context.Context, l Locker) (h Holder, wait <-chan struct{}, free bool) {
	q.mu.Lock()
	t, waited := q.tenure, q.waiting.Len() > 0 || q.contending
	q.mu.Unlock()
	if t == nil || waited {
		return nil, nil, !waited
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	usable, wait := t.usable()
	if usable {
		h = t.take(ctx, l)
	}
	return h, wait, false
}

// Adopt lets the client keep a lock that TryLock has acquired, unless goroutines of the client wait in the line already.
func Adopt(k Key, t *Tenure) {
	all := k.all
	all.Lock()
	if all.m[k] != nil {
		all.Unlock()
		return
	}
	q := &line{key: k, tenure: t}
	all.add(q)
	all.Unlock()
	t.mu.Lock()
	over := t.isOver() || t.line != nil
	if !over {
		t.line = q
		t.beginKeeping()
	}
	t.mu.Unlock()
	if over {
		q.mu.Lock()
		q.tenure = nil
		q.move()
		q.mu.Unlock()
		q.tidy()
	}
}

// timerFired gives a lock back that was idle for its time. If a Holder has the lock, it removes the mark: some time has
// passed since the Holder took the lock, or somebody has joined.
func (t *Tenure) timerFired() {
	t.mu.Lock()
	k := t.keep
	late := time.Since(k.since)
	idle := len(t.holds) == 0
	switch {
	case t.isOver():
	case idle && late < t.Keep: // it was taken in this moment
		k.timer.Reset(t.Keep - late)
	case idle:
		t.mu.Unlock()
		t.giveBack()
		return
	case !k.marked:
	case !k.wanted.Load() && late < heldAfter:
		k.timer.Reset(heldAfter - late)
	default:
		t.mu.Unlock()
		t.mark(false)
		return
	}
	t.mu.Unlock()
}

// giveBack ends the tenure of a kept lock and removes its node. It does nothing if somebody holds the lock: then Unlock
// does it, since stay sees wanted or revoked.
func (t *Tenure) giveBack() {
	t.mu.Lock()
	if len(t.holds) > 0 || t.isOver() {
		t.mu.Unlock()
		return
	}
	t.end()
	t.release()
	t.mu.Unlock()
	t.clear()
}

// clear removes the node of a kept lock whose tenure has ended. Only then the line contends again, and TryLock asks the
// ensemble: before that, this node would make TryLock fail.
func (t *Tenure) clear() {
	t.keep.err = t.dropped(nil, t.RemoveNodes())
	t.mu.Lock()
	t.leaveLine()
	t.mu.Unlock()
	close(t.keep.gone)
}

// endKeeping stops the timer of a tenure that ends, and takes the tenure off the client's idle locks. t.mu must be held.
func (t *Tenure) endKeeping() {
	if t.keep != nil {
		t.keep.timer.Stop()
		t.endIdle()
	}
}
