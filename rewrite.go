package holdfast

import (
	"context"
	"errors"
	"sync"

	"holdfast/zk"
)

// rewrites lets one goroutine at a time change the data of a tenure's nodes, and remembers
// what they are to be. Two have a reason to change them: the caller, who proclaims another
// value, and the goroutine that watches a node, which restores what a request to let go
// has replaced. Every change names the version that it replaces, so that it undoes nothing
// that somebody else has written.
type rewrites struct {
	once sync.Once
	busy chan struct{}     // full while somebody changes data; guards kept
	kept map[*place][]byte // what was written last, where that is not place.data
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

// restore writes p's data back in the place of a request to let go, which has the version
// given. If that has gone meanwhile, there is nothing to restore; if we may not write our
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
