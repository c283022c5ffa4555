package holdfast

import (
	"context"
	"errors"
	"sync"
	"time"

	"holdfast/zk"
)

// rewrites serializes changes to the data of a tenure's nodes and remembers the intended
// data. Three have a reason to change them: the caller, who proclaims
// another value; the goroutine that watches a node, which restores what a request to let
// go has replaced; and one that says since when the lock is held. Every change names the
// version that it replaces, so that it undoes nothing that somebody else has written.
type rewrites struct {
	once sync.Once
	busy chan struct{}     // full while somebody changes data; guards kept
	kept map[*place][]byte // what was last written, or is being written, where that is not place.data
}

// begin waits for its turn, until ctx ends. Call end afterwards.
func (r *rewrites) begin(ctx context.Context) (end func(), err error) {
	r.once.Do(func() {
		r.busy = make(chan struct{}, 1)
		r.kept = make(map[*place][]byte)
	})
	select {
	case r.busy <- struct{}{}:
		return func() { <-r.busy }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// data are what p's node is to hold. It is our turn.
func (r *rewrites) data(p *place) []byte {
	if data, ok := r.kept[p]; ok {
		return data
	}
	return p.data
}

// restore replaces a request to let go, which has the given version, with p's data. If that has gone meanwhile, there is nothing to restore; if we may not write our
// own node, the request stays.
func (t *tenure) restore(p *place, version int32) {
	end, err := t.rewrites.begin(t.ctx)
	if err != nil {
		return
	}
	defer end()
	data := t.rewrites.data(p)
	repeat(t.ctx, func() error { // done already: another version
		_, err := p.session.Set(t.ctx, p.path(), data, version)
		return err
	})
}

// A restorer restores a place's data beside the watch of its node. The watch must not wait for
// that: a server that throttles writes would delay the news of a loss. One goroutine does it,
// and at most one request is in line behind the one that it works on. It is used by one
// goroutine.
type restorer struct {
	tenure   *tenure
	place    *place
	versions chan int32 // nil before the first request; holds the latest one
}

// take asks for a request of this version to be taken out.
func (r *restorer) take(version int32) {
	if r.versions == nil {
		versions := make(chan int32, 1)
		r.versions = versions
		go func() {
			for v := range versions {
				r.tenure.restore(r.place, v)
			}
		}()
	}
	select {
	case <-r.versions: // out of date
	default:
	}
	r.versions <- version
}

// close ends the goroutine. A restore that is under way ends with the tenure.
func (r *restorer) close() {
	if r.versions != nil {
		close(r.versions)
	}
}

// replace changes the data of the tenure's only node to what change makes of them. It is
// for the Hold h, and fails with ErrLost or ErrNotHeld when that is over.
func (t *tenure) replace(ctx context.Context, h *Hold, change func(present []byte) ([]byte, error)) error {
	end, err := t.rewrites.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	p := t.places[0]
	for {
		if err := h.over(); err != nil {
			return err
		}
		var present []byte
		var stat zk.Stat
		err := retry(ctx, func() (err error) {
			present, stat, err = p.session.Get(ctx, p.path())
			return err
		})
		version := stat.Version
		switch {
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrSessionExpired):
			version = zk.AnyVersion // the transaction finds out that the lock is lost
		case err != nil:
			return err
		case readNote(present).Revoke:
			t.revoke() // what we write may take the place of the request
		}
		if err != nil || isRequest(present) {
			present = t.rewrites.data(p)
		}
		data, err := change(present)
		if err != nil {
			return err
		}
		_, err = h.commit(ctx, []zk.Op{zk.SetOp(p.path(), data, version)})
		switch {
		case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrConnectionLoss):
			continue // somebody else has written meanwhile, or perhaps we have
		case err == nil:
			t.rewrites.kept[p] = data
		}
		return err
	}
}

// heldAfter is how long a tenure lasts before its nodes say since when. For those who have to
// decide which holder is stuck, shorter tenures are no matter, and they would cost a write
// each.
const heldAfter = time.Second

// saysSince reports whether holders say since when they hold. Where the caller has chosen the
// data there is no room. A turnstile is held for moments. A NodeLock is held since its node
// is there; and the next holder's node would have the same name and the same version, so
// that a late write of ours could hit it.
func (q *queue) saysSince() bool {
	return q.value == nil && q.kind != kindTurnstile && q.kind != kindNode
}

// sayHeld writes into the notes of the tenure's nodes since when it lasts, all in one
// transaction. first is what the watch of the first node has read. It ends when that is
// done, or cannot be done: the data are not ours to change, or the tenure is over.
func (t *tenure) sayHeld(first zk.Result) {
	end, err := t.rewrites.begin(t.ctx)
	if err != nil {
		return
	}
	defer end()
	present := []zk.Result{first}
	if len(t.places) > 1 {
		present = nil // of the others we know nothing
	}
	for {
		if present == nil {
			if present, err = t.present(); err != nil {
				return
			}
		}
		var ops []zk.Op
		for i, p := range t.places {
			data := present[i].Data
			if readNote(data).Revoke {
				t.revoke() // what we write may take the place of the request
			}
			if isRequest(data) {
				data = t.rewrites.data(p)
			}
			n, ok := parseNote(data)
			if !ok && len(data) > 0 || n.Since != 0 { // somebody else's, or written already
				return
			}
			n.Since = p.at(t.began)
			if data, err = n.encode(); err != nil {
				return
			}
			ops = append(ops, zk.SetOp(p.path(), data, present[i].Stat.Version))
			t.rewrites.kept[p] = data
		}
		err := retry(t.ctx, func() error {
			_, err := t.places[0].session.Multi(t.ctx, ops...)
			return err
		})
		if !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrConnectionLoss) {
			return
		}
		present = nil // somebody else has written meanwhile, or perhaps we have
	}
}

// present reads all nodes of the tenure.
func (t *tenure) present() (present []zk.Result, err error) {
	var gets []zk.Op
	for _, p := range t.places {
		gets = append(gets, zk.GetOp(p.path()))
	}
	err = retry(t.ctx, func() (err error) {
		present, err = t.places[0].session.Pipeline(t.ctx, gets...)
		return err
	})
	return present, err
}
