package terraform

import (
	"context"
	"time"

	"holdfast"
)

// A held lock of Config.Ephemeral belongs to this process.
type held struct {
	hold  *holdfast.Hold
	ended chan struct{}
	b     *Backend
	key   string
	ws    Workspace
	info  LockInfo
}

func (b *Backend) acquireEphemeral(ctx context.Context, ws Workspace, info LockInfo, try bool) (release func(), err error) {
	path := b.LockPath(ws)
	m := holdfast.NewMutex(b.cfg.Client, path, info.options()...)
	lock := m.Lock
	if try {
		lock = m.TryLock
	}
	hold, err := lock(ctx)
	if err != nil {
		return nil, err
	}
	h := &held{hold, make(chan struct{}), b, path + " " + info.ID, ws, info}
	b.mu.Lock()
	closed := b.closed
	if !closed {
		b.holds[h.key] = h
		go h.watch()
	}
	b.mu.Unlock()
	if closed {
		hold.Unlock()
		return nil, context.Canceled
	}
	return h.unlock, nil
}

// watch ends with the lock.
func (h *held) watch() {
	select {
	case <-h.ended:
	case <-h.hold.Lost():
		h.b.mu.Lock()
		if !h.b.isLost {
			h.b.isLost = true
			close(h.b.lost)
		}
		h.b.mu.Unlock()
	}
}

func (h *held) unlock() {
	h.b.mu.Lock()
	_, present := h.b.holds[h.key]
	delete(h.b.holds, h.key)
	h.b.mu.Unlock()
	if present {
		close(h.ended)
		h.hold.Unlock() // its error is a loss, of which the client hears when it stores its state
	}
}

func (b *Backend) ours(path, id string) *held {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.holds[path+" "+id]
}

// Lost is closed when a lock of Config.Ephemeral was lost before its client unlocked it.
func (b *Backend) Lost() <-chan struct{} { return b.lost }

// farAway is the deadline while no lock is held.
const farAway = 365 * 24 * time.Hour

// Deadline returns the moment until which all locks of Config.Ephemeral are proven to be held. It is far away while
// none is.
func (b *Backend) Deadline() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := time.Now().Add(farAway)
	for _, h := range b.holds {
		if d := h.hold.Deadline(); d.Before(first) {
			first = d
		}
	}
	return first
}

// diedWithIt is why a run that did not unlock may have changes that no state has.
const diedWithIt = "the run ended without an unlock"

// Close ends the requests that wait for a lock, and unlocks the locks of Config.Ephemeral. Persistent locks stay. If a
// client has not unlocked its lock, nobody knows what it has done: the workspace stays locked for others until the
// state is pushed or forgiven, as after a state that was not stored.
func (b *Backend) Close() {
	b.stop()
	b.mu.Lock()
	b.closed = true
	var all []*held
	for _, h := range b.holds {
		all = append(all, h)
	}
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, h := range all {
		if !b.cfg.LocksOnly && h.info.Operation != statePlan && h.info.Operation != withoutLock {
			if err := b.markUnstored(ctx, h.ws, newUnstored(h.info, diedWithIt)); err != nil {
				b.cfg.Logger.Warn("terraform: cannot note that a run ended without an unlock", "workspace", h.ws.String(), "id", h.info.ID, "err", err)
			}
		}
		h.unlock()
	}
}
