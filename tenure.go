package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"holdfast/zk"
)

// A tenure is what the Holds of one lock have in common: the nodes that stand for it,
// which is one but for several permits of a semaphore, and the proof that their session
// lives. More than one Hold share it if the lock is re-entrant.
type tenure struct {
	queue  *queue
	places []*place
	leases []*zk.Lease
	began  time.Time
	ctx    context.Context // ends when the tenure does; watch goroutines end with it
	cancel context.CancelFunc
	unhook func() bool // from the session, which tells when it ends

	mu      sync.Mutex // guards the fields below; Hold.mu may be locked under it
	holds   []*Hold    // those that are not unlocked
	loss    error      // why the lock is lost; nil while it is not
	revoked bool
	line    *line // that hands it on; nil if it is not handed on
	stepped bool  // a reader may stand in the writer's place when that has gone

	rewrites rewrites
}

// newTenure begins the tenure of places that nobody is ahead of. Two things must be so at
// this moment: our nodes are known to stand (the list that showed nobody ahead showed
// them, or see await.go), and the session is proven, since the wait may have outlasted the proof. From now
// on the leases keep it so.
func newTenure(ctx context.Context, q *queue, places []*place) (*tenure, error) {
	t := &tenure{queue: q, places: places, began: time.Now()}
	session := places[0].session
	for _, p := range places {
		if err := p.prove(ctx); err != nil {
			t.release()
			return nil, err
		}
		t.leases, p.lease = append(t.leases, p.lease), nil
	}
	switch {
	case session.Context().Err() != nil || !time.Now().Before(session.Deadline()):
		t.release()
		return nil, zk.ErrSessionExpired
	case ctx.Err() != nil: // who has given up gets no lock (etcd #10111)
		t.release()
		return nil, context.Cause(ctx)
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	for _, p := range places {
		if p.long && !p.shared {
			p.directory = make(chan directory, 1)
			go p.prepareMark(p.directory)
		}
		if readNote(p.watch.ownData).Revoke { // it was asked while it waited
			t.revoked = true
		}
	}
	t.unhook = context.AfterFunc(session.Context(), func() { t.lose(context.Cause(session.Context())) })
	nurseryOf(session).add(t)
	return t, nil
}

// startWatching begins to watch the nodes. It is called once, after a while (see young.go).
func (t *tenure) startWatching() {
	for i, p := range t.places {
		go t.watch(p, t.leases[i])
	}
}

// end ends the watching, before the nodes are removed.
func (t *tenure) end() {
	t.unhook()
	t.cancel()
}

func (t *tenure) release() {
	for _, l := range t.leases {
		l.Release()
	}
}

// add makes h one of those that are told; false if the tenure is over.
func (t *tenure) add(h *Hold) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.loss != nil || t.ctx.Err() != nil {
		return false
	}
	t.admit(h)
	return true
}

// admit is add for who has locked mu and knows that the tenure lasts.
func (t *tenure) admit(h *Hold) {
	t.holds = append(t.holds, h)
	if t.revoked {
		h.revoke()
	}
}

// forget takes h off, and leaves the nodes to the others.
func (t *tenure) forget(h *Hold) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holds = slices.DeleteFunc(t.holds, func(o *Hold) bool { return o == h })
}

// drop takes h off, and removes the nodes if it was the last. The error says that they
// were lost before, or could not be removed.
func (t *tenure) drop(h *Hold) error {
	t.mu.Lock()
	t.holds = slices.DeleteFunc(t.holds, func(o *Hold) bool { return o == h })
	loss, last := t.loss, len(t.holds) == 0
	if last && t.handOn() {
		t.mu.Unlock()
		return nil
	}
	if last {
		t.leaveLine()
		t.end()
		if t.stepped {
			t.places[0].directory = nil
		}
	}
	t.mu.Unlock()
	if !last {
		return loss
	}
	t.release()

	session := t.places[0].session.Context()
	errs := make([]error, len(t.places))
	var wg sync.WaitGroup
	for i, p := range t.places {
		if i > 0 {
			wg.Go(func() { errs[i] = p.remove() })
		}
	}
	errs[0] = t.places[0].remove()
	wg.Wait()
	err := errors.Join(errs...)
	switch {
	case loss != nil:
		return loss
	case errors.Is(err, errPlaceGone): // it ended before we did
		return fmt.Errorf("%w: %w", ErrLost, errPlaceGone)
	case err != nil && session.Err() == nil:
		return err
	}
	return nil // removed, or the session is over, and the nodes with it
}

// lose ends the tenure for all who share it, unless the last Unlock was first.
func (t *tenure) lose(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.loss != nil || t.ctx.Err() != nil {
		return
	}
	t.loss = fmt.Errorf("%w: %w", ErrLost, why)
	t.leaveLine()
	for _, h := range t.holds {
		h.lose(t.loss)
	}
}

// step says that the writer takes the read side as well, on behalf of a Hold that ctx
// descends from; false if that is over. From here on the node is not handed on in memory
// any more: the next writer in line would hold the lock beside this reader.
func (t *tenure) step(ctx context.Context) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	h, _ := ctx.Value(holdKey{}).(*Hold)
	if t.loss != nil || t.ctx.Err() != nil || t.line != nil && !t.heldBy(h) {
		return false
	}
	t.leaveLine()
	t.stepped = true
	return true
}

// revoke tells all who share the tenure that somebody has asked for the lock.
func (t *tenure) revoke() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.revoked {
		return
	}
	t.revoked = true
	for _, h := range t.holds {
		h.revoke()
	}
}

// watch waits for what can end the tenure other than Unlock and the end of the session:
// the removal of p's node by somebody else. It also sees the request to let go that is
// written into the node.
func (t *tenure) watch(p *place, lease *zk.Lease) {
	session := p.session
	defer lease.Release()
	var due <-chan time.Time // when the nodes are to say since when we hold; nil: no more
	if p == t.places[0] && t.queue.saysSince() {
		timer := time.NewTimer(time.Until(t.began.Add(heldAfter)))
		defer timer.Stop()
		due = timer.C
	}
	requests := restorer{tenure: t, place: p}
	defer requests.close()
	// The first look is not withdrawn by an early Unlock: taking the watch back would
	// cost the server more than letting the delete fire it.
	for {
		data, watch, stat, err := p.watch.ownData, p.watch.own, p.watch.ownStat, error(nil)
		if p.watch.own = nil; watch == nil { // or it was set while we waited
			err = retry(t.ctx, func() (err error) {
				if t.ctx.Err() != nil { // it backed off, and the tenure has ended meanwhile
					return t.ctx.Err()
				}
				data, stat, watch, err = session.GetW(session.Context(), p.path())
				return err
			})
		}
		switch {
		case errors.Is(err, zk.ErrNoNode), err == nil && !p.unique && stat.Czxid != p.czxid: // gone, or another of its name
			if watch != nil {
				watch.Stop()
			}
			t.lose(errPlaceGone)
			return
		case session.Context().Err() != nil, err != nil && t.ctx.Err() != nil:
			return
		case err != nil:
			// We may not read our own node. The session's end is still seen.
			select {
			case <-session.Context().Done():
			case <-lease.Gone():
				t.lose(errPlaceGone)
			case <-t.ctx.Done():
			}
			return
		}
		if readNote(data).Revoke {
			t.revoke()
		}
		if isRequest(data) {
			requests.take(stat.Version)
		}
		for changed := false; !changed; {
			select {
			case ev := <-watch.C:
				switch {
				case ev.Err != nil:
					t.lose(ev.Err)
					return
				case ev.Type == zk.EventNodeDeleted:
					t.lose(errPlaceGone) // unless it was us
					return
				}
				changed = true
			case <-due:
				due = nil
				go t.sayHeld(zk.Result{Data: data, Stat: stat})
			case <-session.Context().Done():
				return
			case <-lease.Gone(): // our server may be cut off, and never tell
				t.lose(errPlaceGone)
				return
			case <-t.ctx.Done():
				return
			}
		}
	}
}
