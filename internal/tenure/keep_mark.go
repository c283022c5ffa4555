package tenure

import (
	"errors"

	"holdfast/internal/queue"
	"holdfast/zk"
)

// mark writes into the node whether the lock is kept, if that is still so when its turn comes. It returns false if the
// lock should be given up. Like all changes of the data it names the version that it replaces, so it undoes no request
// to release the lock.
func (t *Tenure) mark(is bool) bool {
	if !t.saysSince() {
		return true // the data are the program's own
	}
	end, err := t.rewrites.begin(t.ctx)
	if err != nil {
		return false
	}
	defer end()
	k, p := t.keep, t.Places[0]
	data := t.rewrites.data(p)
	for {
		t.mu.Lock()
		if t.isOver() || (len(t.holds) == 0) != is || k.marked == is {
			t.mu.Unlock()
			return true
		}
		if !is {
			k.marked = false // an Unlock from now on marks it again, after us
		}
		since := k.since
		t.mu.Unlock()
		n, ok := queue.ParseNote(data)
		if !ok && len(data) > 0 {
			return true // not ours to change
		}
		n.Kept, n.Since = is, 0
		if !is {
			n.Since = p.At(since)
		}
		next, err := n.Encode()
		if err != nil {
			return true
		}
		var stat zk.Stat
		err = zk.Retry(t.ctx, func() (err error) {
			stat, err = p.Session.Set(t.ctx, p.Path(), next, k.version)
			return err
		})
		switch {
		case err == nil:
			k.version = stat.Version
			t.rewrites.intended[p] = next
			t.mu.Lock()
			k.marked = is
			if is && len(t.holds) > 0 && !t.isOver() {
				k.timer.Reset(heldAfter)
			}
			t.mu.Unlock()
			return true
		case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrConnectionLoss): // somebody has written; perhaps we have
			if data, err = t.reread(k); err != nil {
				return false
			}
			if !is {
				t.mu.Lock()
				k.marked = queue.ReadNote(data).Kept
				t.mu.Unlock()
			}
		case errors.Is(err, zk.ErrNoAuth): // we may not write our own node
			return true
		default:
			return false
		}
	}
}

// reread reads what the node contains, for mark.
func (t *Tenure) reread(k *keeping) ([]byte, error) {
	present, err := t.present()
	if err != nil {
		return nil, err
	}
	data := present[0].Data
	k.version = present[0].Stat.Version
	if queue.ReadNote(data).Revoke {
		t.revoke()
	}
	if queue.IsRequest(data) {
		data = t.rewrites.data(t.Places[0])
	}
	return data, nil
}
