package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"holdfast/internal/queue"
	"holdfast/zk"
)

// A tenure is what several Holds of one lock share: the lock's nodes and the proof that their session
// lives. There is one node, or one for each permit of a semaphore. More than one Hold share a tenure if
// the lock is re-entrant.
type tenure struct {
	lock   *lock
	places []*queue.Place
	leases []*zk.Lease
	began  time.Time
	ctx    context.Context // ends with the last Unlock, not with a loss; watch goroutines end with it
	cancel context.CancelFunc
	unhook func() bool // from the session, which tells when it ends
	young  *time.Timer // starts the watching

	mu      sync.Mutex // guards the fields below; Hold.mu may be locked under it
	holds   []*Hold    // not unlocked yet
	loss    error      // why the lock is lost; nil while it is not
	revoked bool
	local   *localQueue // that hands it on; nil if it is not handed on
	stepped bool        // a reader may take the writer's place when the writer's node is gone
	down    *downgrade  // of a writer that has stepped, see reentry.go
	keep    *keeping    // see keep.go; nil if the lock is not to be kept

	rewrites rewrites
}

// newTenure begins the tenure of places that nobody is ahead of. Two things must be true at this moment.
// Our nodes are known to exist: the list that showed nobody ahead showed them, or the events did (see
// await.go). The session is proven: the wait may have outlasted an earlier proof. From now on the leases
// keep the session proven.
func newTenure(ctx context.Context, l *lock, places []*queue.Place) (*tenure, error) {
	t := &tenure{lock: l, places: places, began: time.Now()}
	for _, p := range places {
		lease, err := p.Prove(ctx)
		if err != nil {
			t.release()
			return nil, err
		}
		t.leases = append(t.leases, lease)
	}
	switch {
	case !t.proven():
		t.release()
		return nil, zk.ErrSessionExpired
	case ctx.Err() != nil: // a caller that has given up gets no lock (etcd #10111)
		t.release()
		return nil, context.Cause(ctx)
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	for _, p := range places {
		p.PrepareWatermark()
		if queue.ReadNote(p.OwnData()).Revoke { // it was asked while it waited
			t.revoked = true
		}
	}
	session := places[0].Session
	t.unhook = context.AfterFunc(session.Context(), func() { t.lose(context.Cause(session.Context())) })
	t.young = time.AfterFunc(gracePeriod, t.startWatching)
	return t, nil
}

// gracePeriod is how long a tenure lasts before it watches its nodes. A watch costs a request, an
// answer and at Unlock an event, which is as much as the lock itself but for the two commits. Shorter
// tenures save that. Nothing is missed: the watch is set by a read, which shows what has happened to
// the node by then. A removal within the first 5 ms is reported when they are over.
const gracePeriod = 5 * time.Millisecond

// startWatching begins to watch the nodes, at the end of the grace period.
func (t *tenure) startWatching() {
	if t.ctx.Err() != nil {
		return
	}
	for i, p := range t.places {
		go t.watch(p, t.leases[i])
	}
}

// end stops the watching. It comes before the removal of the nodes.
func (t *tenure) end() {
	t.unhook()
	t.young.Stop()
	t.cancel()
	t.endKeeping()
}

func (t *tenure) release() {
	for _, l := range t.leases {
		l.Release()
	}
}

// proven reports whether the session is proven at this moment.
func (t *tenure) proven() bool {
	session := t.places[0].Session
	return session.Context().Err() == nil && time.Now().Before(session.Deadline())
}

// isOver reports whether the tenure has ended or is lost. t.mu must be held.
func (t *tenure) isOver() bool { return t.loss != nil || t.ctx.Err() != nil }

// lasts reports whether the tenure is not over at this moment.
func (t *tenure) lasts() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.isOver()
}

// shareOf says as what several callers can hold the lock at a time.
func (t *tenure) shareOf() string {
	switch t.lock.Kind {
	case queue.Semaphore:
		return "a permit"
	case queue.Slots:
		return "a slot"
	}
	return "a reader"
}

// isShared reports whether more than one Hold have the tenure at this moment.
func (t *tenure) isShared() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.holds) > 1
}

// add makes h share the tenure. It returns false if the tenure is over.
func (t *tenure) add(h *Hold) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isOver() {
		return false
	}
	t.admit(h)
	return true
}

// admit is add for a tenure that is not over. t.mu must be held.
func (t *tenure) admit(h *Hold) {
	t.holds = append(t.holds, h)
	if t.revoked {
		h.revoke()
	}
}

// forget removes h from the tenure. The nodes stay with the other Holds.
func (t *tenure) forget(h *Hold) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holds = slices.DeleteFunc(t.holds, func(o *Hold) bool { return o == h })
}

// A fate says what becomes of a tenure when a Hold is unlocked.
type fate int

const (
	shared   fate = iota // other Holds have it
	handedOn             // to a waiter of the local queue
	kept                 // by the client, see keep.go
	removed
)

// drop removes h from the tenure, and removes the nodes if h was the last. The error says that the nodes
// were lost before, or could not be removed.
func (t *tenure) drop(h *Hold) (fate, error) {
	switch f, loss := t.leave(h); f {
	case kept:
		return t.settle()
	case removed:
		return f, t.dropped(loss, t.removeNodes())
	default:
		return f, loss
	}
}

// startDrop is drop that does not wait for the server. wait returns the results of drop.
func (t *tenure) startDrop(h *Hold) (wait func() (fate, error)) {
	f, loss := t.leave(h)
	switch f {
	case kept:
		var err error
		settled := make(chan struct{})
		go func() {
			defer close(settled)
			f, err = t.settle()
		}()
		return func() (fate, error) {
			<-settled
			return f, err
		}
	case removed:
	default:
		return func() (fate, error) { return f, loss }
	}
	waits := make([]func() error, len(t.places))
	for i, p := range t.places {
		waits[i] = p.StartRemove()
	}
	return func() (fate, error) {
		errs := make([]error, len(waits))
		for i, wait := range waits {
			errs[i] = wait()
		}
		return removed, t.dropped(loss, errors.Join(errs...))
	}
}

// leave removes h from the tenure. If h was the last, the tenure ends, and the caller removes the nodes;
// or it is handed on to a waiter of the local queue; or it is kept, and the caller calls settle. loss is why
// the tenure was lost before.
func (t *tenure) leave(h *Hold) (_ fate, loss error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holds = slices.DeleteFunc(t.holds, func(o *Hold) bool { return o == h })
	switch {
	case len(t.holds) > 0:
		return shared, t.loss
	case t.handOn():
		return handedOn, nil
	case t.stay():
		return kept, nil
	}
	t.leaveLocal()
	t.end()
	if t.stepped {
		t.places[0].NoWatermark()
	}
	t.release()
	if t.keep != nil {
		close(t.keep.gone)
	}
	return removed, t.loss
}

// removeNodes removes the nodes of a tenure that has ended.
func (t *tenure) removeNodes() error {
	if len(t.places) == 1 {
		return t.places[0].Remove()
	}
	errs := make([]error, len(t.places))
	var wg sync.WaitGroup
	for i, p := range t.places {
		if i > 0 {
			wg.Go(func() { errs[i] = p.Remove() })
		}
	}
	errs[0] = t.places[0].Remove()
	wg.Wait()
	return errors.Join(errs...)
}

// dropped returns the error of drop. err is that of the removal.
func (t *tenure) dropped(loss, err error) error {
	switch {
	case loss != nil:
		return loss
	case errors.Is(err, queue.ErrGone): // it ended before we did
		return fmt.Errorf("%w: %w", ErrLost, queue.ErrGone)
	case err != nil && t.places[0].Session.Context().Err() == nil:
		return err
	}
	return nil // removed, or the session is over, and the nodes with it
}

// lose ends the tenure for all of its Holds, unless the last Unlock was first.
func (t *tenure) lose(why error) {
	t.mu.Lock()
	if t.isOver() {
		t.mu.Unlock()
		return
	}
	loss := fmt.Errorf("%w: %w", ErrLost, why)
	t.loss = loss
	t.leaveLocal()
	if t.keep != nil && len(t.holds) == 0 {
		t.end()
		t.release()
		go t.clear()
	}
	for _, h := range t.holds {
		h.lose(loss)
	}
	holds := slices.Clone(t.holds)
	t.mu.Unlock()
	for _, h := range holds {
		h.observed(t).reportLoss(loss)
	}
}

// step notes that the writer takes the read side as well, for a Hold that ctx descends from. It returns
// false if that Hold is over. From now on the node is not handed on in memory: the next writer in the
// local queue would hold the lock beside this reader.
func (t *tenure) step(ctx context.Context) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	h, _ := ctx.Value(holdKey{}).(*Hold)
	if t.isOver() || t.local != nil && !t.heldBy(h) {
		return false
	}
	t.leaveLocal()
	t.stepped = true
	return true
}

// downgrade returns what the callers share that take the read side under the writer.
func (t *tenure) downgrade() *downgrade {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.down == nil {
		t.down = &downgrade{busy: make(chan struct{}, 1)}
	}
	return t.down
}

// revoke tells all Holds of the tenure that somebody has asked for the lock.
func (t *tenure) revoke() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.revoked {
		return
	}
	t.revoked = true
	if t.keep != nil && len(t.holds) == 0 {
		go t.giveBack()
	}
	for _, h := range t.holds {
		h.revoke()
	}
}

// watch waits for the removal of p's node by somebody else, which ends the tenure. It also sees a
// request to release the lock, which is written into the node.
func (t *tenure) watch(p *queue.Place, lease *zk.Lease) {
	session := p.Session
	defer lease.Release()
	var due <-chan time.Time // fires when sayHeld is due; nil: it is not
	if p == t.places[0] && t.saysSince() {
		timer := time.NewTimer(time.Until(t.began.Add(heldAfter)))
		defer timer.Stop()
		due = timer.C
	}
	requests := restorer{tenure: t, place: p}
	defer requests.close()
	again := time.NewTimer(queue.LookAgain())
	defer again.Stop()
	// An early Unlock does not withdraw the first read: removing the watch would cost the server
	// more than the delete that fires it.
	for {
		watch, data, stat := p.TakeWatch()
		var err error
		if watch == nil { // else the place set it while it waited
			err = queue.Retry(t.ctx, func() (err error) {
				if t.ctx.Err() != nil { // it backed off, and the tenure has ended meanwhile
					return t.ctx.Err()
				}
				data, stat, watch, err = session.GetW(session.Context(), p.Path())
				return err
			})
		}
		switch {
		case errors.Is(err, zk.ErrNoNode), err == nil && !p.Unique && stat.Czxid != p.Czxid(): // gone, or another of its name
			if watch != nil {
				watch.Stop()
			}
			t.lose(queue.ErrGone)
			return
		case session.Context().Err() != nil, err != nil && t.ctx.Err() != nil:
			return
		case err != nil:
			// We may not read our own node. The session's end is still seen, and from time to time whether the node is there.
			again.Reset(queue.LookAgain())
			select {
			case <-again.C:
				continue
			case <-session.Context().Done():
			case <-lease.Gone():
				t.lose(queue.ErrGone)
			case <-t.ctx.Done():
			}
			return
		}
		if queue.ReadNote(data).Revoke {
			t.revoke()
		}
		if queue.IsRequest(data) {
			requests.take(stat.Version)
		}
		again.Reset(queue.LookAgain())
		for changed := false; !changed; {
			select {
			case <-again.C: // the event may have been lost
				now, err := p.LookAtOwn(t.ctx)
				switch {
				case errors.Is(err, queue.ErrGone):
					t.lose(queue.ErrGone)
					return
				case err == nil && now.Mzxid == stat.Mzxid:
					again.Reset(queue.LookAgain())
				default:
					watch.Stop()
					changed = true
				}
			case ev := <-watch.C:
				switch {
				case ev.Err != nil:
					t.lose(ev.Err)
					return
				case ev.Type == zk.EventNodeDeleted:
					t.lose(queue.ErrGone) // unless it was us
					return
				}
				changed = true
			case <-due:
				due = nil
				go t.sayHeld(zk.Result{Data: data, Stat: stat})
			case <-session.Context().Done():
				return
			case <-lease.Gone(): // our server may be cut off and never tell us
				t.lose(queue.ErrGone)
				return
			case <-t.ctx.Done():
				return
			}
		}
	}
}

// heldBy reports whether the tenure still belongs to h, or to a Hold that h's context descends from. If
// not, it was handed on. t.mu must be held.
func (t *tenure) heldBy(h *Hold) bool {
	for ; h != nil; h = h.outer {
		if slices.Contains(t.holds, h) {
			return true
		}
	}
	return false
}
