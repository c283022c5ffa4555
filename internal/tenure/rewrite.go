package tenure

import (
	"context"
	"errors"
	"sync"
	"time"

	"holdfast/internal/queue"
	"holdfast/zk"
)

// rewrites serializes changes to the data of a tenure's nodes and remembers the intended data. There are
// four kinds of change: the caller proclaims another value; the goroutine that watches a node restores
// the data that a request has replaced; sayHeld writes since when the lock is held; mark writes whether the
// client only keeps it. Every change names the version that it replaces, so it never undoes a write of
// somebody else.
type rewrites struct {
	once     sync.Once
	busy     chan struct{}           // full while somebody changes data; guards intended
	intended map[*queue.Place][]byte // what was last written, or is being written, where that is not Place.Data
}

// begin waits for its turn, until ctx ends. The caller must call end.
func (r *rewrites) begin(ctx context.Context) (end func(), err error) {
	r.once.Do(func() {
		r.busy = make(chan struct{}, 1)
		r.intended = make(map[*queue.Place][]byte)
	})
	select {
	case r.busy <- struct{}{}:
		return func() { <-r.busy }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// data returns the intended data of p's node. The caller must have its turn, see begin.
func (r *rewrites) data(p *queue.Place) []byte {
	if data, ok := r.intended[p]; ok {
		return data
	}
	return p.Data
}

// Rewriting waits for the turn to change the data of the tenure's nodes, until ctx ends. The caller must call end.
func (t *Tenure) Rewriting(ctx context.Context) (end func(), err error) { return t.rewrites.begin(ctx) }

// restore replaces a request, which has the given version, with p's data. If the request has gone
// meanwhile, there is nothing to restore. If we may not write our own node, the request stays.
func (t *Tenure) restore(p *queue.Place, version int32) {
	end, err := t.rewrites.begin(t.ctx)
	if err != nil {
		return
	}
	defer end()
	data := t.rewrites.data(p)
	zk.Repeat(t.ctx, func() error { // done already: another version
		_, err := p.Session.Set(t.ctx, p.Path(), data, version)
		return err
	})
}

// A restorer restores a place's data beside the watch of its node. The watch must not wait for that: a
// server that throttles writes would delay the news of a loss. One goroutine does it, and at most one
// request waits behind the one under way. The restorer is not safe for concurrent use.
type restorer struct {
	tenure   *Tenure
	place    *queue.Place
	versions chan int32 // nil before the first request; holds the latest one
}

// take queues the removal of a request of this version.
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

// Replace changes the data of the tenure's only node to the result of change. commit executes the write as a transaction
// of the Holder. over returns why the Holder is over, or nil; Replace fails with that error.
func (t *Tenure) Replace(ctx context.Context, over func() error, commit func(...zk.Op) error, change func(present []byte) ([]byte, error)) error {
	end, err := t.rewrites.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	p := t.Places[0]
	for {
		if err := over(); err != nil {
			return err
		}
		var present []byte
		var stat zk.Stat
		err := zk.Retry(ctx, func() (err error) {
			present, stat, err = p.Session.Get(ctx, p.Path())
			return err
		})
		version := stat.Version
		switch {
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrSessionExpired):
			version = zk.AnyVersion // the transaction finds out that the lock is lost
		case err != nil:
			return err
		case queue.ReadNote(present).Revoke:
			t.revoke() // our write may replace the request
		}
		if err != nil || queue.IsRequest(present) {
			present = t.rewrites.data(p)
		}
		data, err := change(present)
		if err != nil {
			return err
		}
		err = commit(zk.SetOp(p.Path(), data, version))
		switch {
		case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrConnectionLoss):
			continue // somebody has written meanwhile; perhaps we have
		case err == nil:
			t.rewrites.intended[p] = data
		}
		return err
	}
}

// heldAfter is how long a tenure lasts before its nodes say since when, and how long a Holder has a kept lock before its
// mark is removed. Shorter tenures do not matter when somebody has to decide which holder is stuck, and each would cost a
// write.
const heldAfter = time.Second

// saysSince reports whether holders write since when they hold the lock. Data that the caller has chosen
// have no room for it. A turnstile is held for moments. A NodeLock or a slot is held since its node exists. The
// next holder's node has the same name and the same version, so a late write of ours could hit it. That is also so
// with a reader under a writer if no id is in its name.
func (t *Tenure) saysSince() bool {
	p := t.Places[0]
	return !t.OwnData && t.Kind != queue.Turnstile && (p.Unique || !p.Exact)
}

// sayHeld writes since when the tenure lasts into the notes of its nodes, in one transaction. first is
// what the watch of the first node has read. sayHeld returns when that is done, or cannot be done: the
// data are not ours to change, or the tenure is over.
func (t *Tenure) sayHeld(first zk.Result) {
	end, err := t.rewrites.begin(t.ctx)
	if err != nil {
		return
	}
	defer end()
	present := []zk.Result{first}
	if len(t.Places) > 1 {
		present = nil // the others have not been read
	}
	for {
		if present == nil {
			if present, err = t.present(); err != nil {
				return
			}
		}
		var ops []zk.Op
		for i, p := range t.Places {
			data := present[i].Data
			if queue.ReadNote(data).Revoke {
				t.revoke() // our write may replace the request
			}
			if queue.IsRequest(data) {
				data = t.rewrites.data(p)
			}
			n, ok := queue.ParseNote(data)
			if !ok && len(data) > 0 || n.Since != 0 || n.Kept { // not ours to change, or said already, or left to mark
				return
			}
			n.Since = p.At(t.began)
			if data, err = n.Encode(); err != nil {
				return
			}
			ops = append(ops, zk.SetOp(p.Path(), data, present[i].Stat.Version))
			t.rewrites.intended[p] = data
		}
		err := zk.Retry(t.ctx, func() error {
			_, err := t.Places[0].Session.Multi(t.ctx, ops...)
			return err
		})
		if !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrConnectionLoss) {
			return
		}
		present = nil // somebody has written meanwhile; perhaps we have
	}
}

// present reads all nodes of the tenure.
func (t *Tenure) present() (present []zk.Result, err error) {
	var gets []zk.Op
	for _, p := range t.Places {
		gets = append(gets, zk.GetOp(p.Path()))
	}
	err = zk.Retry(t.ctx, func() (err error) {
		present, err = t.Places[0].Session.Pipeline(t.ctx, gets...)
		return err
	})
	return present, err
}
