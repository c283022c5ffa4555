package terraform

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"holdfast"
	"holdfast/zk"
)

// serveLock answers LOCK. The first request of an id that meets a held lock is answered at once: most clients ask once
// and give up. Later ones wait for their turn, for Config.Poll at most.
func (b *Backend) serveLock(w http.ResponseWriter, r *http.Request, ws Workspace) error {
	bounded, end := within(w, r, b.cfg.Poll+patience)
	defer end()
	info, err := readLockInfo(bounded, w, r)
	if err != nil {
		return err
	}
	if info.ID == "" {
		return &refusal{status: http.StatusBadRequest, text: "the LockInfo has no ID"}
	}
	ctx, cancel := context.WithCancelCause(bounded)
	defer cancel(nil)
	path := b.LockPath(ws)
	req, first := b.lines.arrive(path, info.ID, cancel)
	err = b.lock(ctx, ws, path, info, req, first)
	b.lines.depart(path, req, err == nil)
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func readLockInfo(ctx context.Context, w http.ResponseWriter, r *http.Request) (LockInfo, error) {
	body, err := readBody(ctx, w, r, maxLockInfo, func(int64) bool { return true })
	if err != nil || len(body) == 0 {
		return LockInfo{}, err
	}
	info, err := parseLockInfo(body)
	if err != nil {
		return LockInfo{}, &refusal{status: http.StatusBadRequest, text: err.Error()}
	}
	return info, nil
}

// lock returns nil when the lock is held with the id of info.
func (b *Backend) lock(ctx context.Context, ws Workspace, path string, info LockInfo, req *request, first bool) error {
	if err := b.open(ctx, ws, info); err != nil {
		return err
	}
	h, err := b.holder(ctx, ws)
	switch {
	case err != nil:
		return err
	case h != nil && h.info.ID == info.ID && b.granting(path, h):
		return nil // the answer was lost, and the client asks again
	case h != nil && first && !h.expires():
		return b.held(ctx, ws, h, info.ID, http.StatusLocked)
	}
	take := func(ctx context.Context, try bool) error { return b.take(ctx, ws, path, info, req, try) }
	if h == nil || h.expires() {
		err := take(ctx, true)
		if !errors.Is(err, holdfast.ErrLocked) {
			return err
		}
	}
	if !first {
		poll, stop := context.WithTimeoutCause(ctx, b.cfg.Poll, errPollOver)
		closing := context.AfterFunc(b.alive, stop)
		use := b.waiters.Enter(stop, clientOf(ctx)...)
		if err = error(errPollOver); use.Grow(1) {
			err = b.lines.wait(poll, path, req, func(stand context.Context) error { return take(stand, false) })
		}
		use.Leave()
		over := poll.Err() != nil || errors.Is(err, errPollOver) || errors.Is(err, errSuperseded)
		stop()
		closing()
		if no, ok := errors.AsType[*refusal](err); ok {
			return no
		}
		if err == nil || !over {
			return err
		}
	}
	// The answer tells who holds the lock. ctx can have ended because of a newer request.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if h, err = b.holder(ctx, ws); err != nil {
		return err
	}
	return b.held(ctx, ws, h, info.ID, http.StatusLocked)
}

// granting reports whether the first in the queue has the lock, and not just its turn to take it: take may still give
// the lock up.
func (b *Backend) granting(path string, h *holder) bool {
	key := path + " " + h.info.ID
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taking[key] == 0 && (b.holds[key] != nil || !b.cfg.Ephemeral && h.entry.Detached)
}

// take acquires the lock, and gives it up again if this client may not have it. A lock is granted only while the
// request lives: nobody would unlock that of a client that has died.
func (b *Backend) take(ctx context.Context, ws Workspace, path string, info LockInfo, req *request, try bool) error {
	key := path + " " + info.ID
	b.mu.Lock()
	b.taking[key]++
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		if b.taking[key]--; b.taking[key] == 0 {
			delete(b.taking, key)
		}
		b.mu.Unlock()
	}()
	release, err := b.acquire(ctx, ws, info, try, 0)
	if err != nil {
		return err
	}
	// Somebody may have frozen it, or left it dirty, during the wait. The lock is ours already, but not granted.
	err = b.thawed(ctx, ws, http.StatusLocked, "")
	if err == nil {
		err = b.open(ctx, ws, info)
	}
	if err == nil && !b.lines.current(req) {
		err = errSuperseded
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		release()
		return err
	}
	b.mu.Lock()
	b.granted.add(key, info.Who)
	b.released.remove(key)
	b.mu.Unlock()
	return nil
}

// acquire acquires the lock, by a persistent node or for this session. The persistent node expires, unless expires is 0.
func (b *Backend) acquire(ctx context.Context, ws Workspace, info LockInfo, try bool, expires time.Duration) (release func(), err error) {
	path := b.LockPath(ws)
	if b.cfg.Ephemeral {
		return b.acquireEphemeral(ctx, ws, info, try)
	}
	d := holdfast.NewDetached(b.cfg.Client, path, expires, info.options()...)
	lock := d.Lock
	if try {
		lock = d.TryLock
	}
	claim, err := lock(ctx)
	if err != nil {
		return nil, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		if err := d.Unlock(ctx, claim.ID); err != nil && !errors.Is(err, holdfast.ErrNotHeld) {
			b.cfg.Logger.Warn("terraform: the lock stays held for a client that has gone", "path", path, "id", info.ID, "err", err)
		}
	}, nil
}

// briefly is how long a lock lasts at most that this process holds for a moment. If the process is killed in that moment,
// nobody would unlock it.
const briefly = 2 * patience

// hold acquires the lock for this process, briefly, or fails with holdfast.ErrLocked.
func (b *Backend) hold(ctx context.Context, ws Workspace, info LockInfo) (h *holder, release func(), err error) {
	if release, err = b.acquire(ctx, ws, info, true, briefly); err != nil {
		return nil, nil, err
	}
	if h, err = b.holder(ctx, ws); err == nil && (h == nil || h.info.ID != info.ID) {
		err = errFenced
	}
	if err != nil {
		release()
	}
	return h, release, err
}

// borrow acquires the lock for a request that has none, for the moment in which its state is stored. So nobody takes
// the lock in the middle of it.
func (b *Backend) borrow(ctx context.Context, ws Workspace) (h *holder, release func(), err error) {
	info := LockInfo{ID: crand.Text(), Operation: withoutLock, Who: "a client without a lock", Created: time.Now().UTC()}
	h, release, err = b.hold(ctx, ws, info)
	if errors.Is(err, holdfast.ErrLocked) {
		if h, err = b.holder(ctx, ws); err == nil {
			err = b.held(ctx, ws, h, "", http.StatusLocked)
		}
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, err
	}
	if err = b.open(ctx, ws, LockInfo{}); err != nil { // a run has left it dirty since, or somebody has frozen it
		release()
		return nil, nil, err
	}
	return h, release, nil
}

// A holder is the present holder of a lock.
type holder struct {
	entry holdfast.Entry
	info  LockInfo
}

// expires reports whether the lock ends by itself. It may have ended: the attempt to acquire it tells.
func (h *holder) expires() bool { return !h.entry.Expires.IsZero() }

// holder returns the holder of a lock, or nil.
func (b *Backend) holder(ctx context.Context, ws Workspace) (*holder, error) {
	queue, err := holdfast.List(ctx, b.cfg.Client, b.LockPath(ws))
	if err != nil || len(queue) == 0 || !queue[0].Held {
		return nil, err
	}
	return &holder{queue[0], infoOf(queue[0])}, nil
}

// held is the answer to a client that does not hold the lock. Its Info is all that the client shows to the user. h is nil
// if the lock was given away since.
func (b *Backend) held(ctx context.Context, ws Workspace, h *holder, asker string, status int) error {
	if h == nil {
		h = &holder{info: LockInfo{ID: "holdfast-next", Who: "the next client in the queue", Created: time.Now()}}
	}
	i := h.info
	since := h.entry.HeldSince
	if since.IsZero() {
		since = cmp.Or(h.entry.Since, i.Created)
	}
	text := "held for " + age(since)
	if !b.cfg.LocksOnly {
		if at, err := b.lastWrite(ctx, ws); err == nil && !at.IsZero() {
			text += ", last write " + age(at) + " ago"
		}
	}
	text += fmt.Sprintf(", %d waiting; to look at it: holdfast status %s", b.lines.waiting(b.LockPath(ws), asker), b.LockPath(ws))
	if i.Info != "" {
		text = i.Info + "; " + text
	}
	i.Info = text
	return &refusal{status: status, holder: &i}
}

// age is a time in words. Clocks differ, so it is never negative.
func age(since time.Time) string {
	return max(time.Since(since), 0).Round(time.Second).String()
}

// serveUnlock answers UNLOCK. Nobody holding the lock is a success: the client's first request may have been answered
// in vain.
func (b *Backend) serveUnlock(w http.ResponseWriter, r *http.Request, ws Workspace) error {
	ctx, cancel := within(w, r, patience)
	defer cancel()
	info, err := readLockInfo(ctx, w, r)
	if err != nil {
		return err
	}
	id := cmp.Or(info.ID, r.URL.Query().Get("ID"))
	// OpenTofu's force-unlock sends nothing but the id. Terraform's sends nothing at all.
	forced := info.Operation == "" && info.Who == "" && info.Version == ""
	h, err := b.holder(ctx, ws)
	if err != nil {
		return err
	}
	path := b.LockPath(ws)
	switch {
	case h == nil:
		w.WriteHeader(http.StatusOK)
		return nil
	case id == "" && b.cfg.RefuseForceUnlock:
		i := h.info
		i.Info = "terraform force-unlock does not send the id of the lock, and this server demands it: set TF_HTTP_UNLOCK_ADDRESS to …/lock?ID=ID"
		return &refusal{status: http.StatusConflict, holder: &i}
	case id != "" && id != h.info.ID:
		b.mu.Lock()
		ours := b.released.has(path + " " + id)
		b.mu.Unlock()
		if ours && !forced { // the answer was lost, and somebody else has the lock now
			w.WriteHeader(http.StatusOK)
			return nil
		}
		return b.held(ctx, ws, h, id, http.StatusConflict)
	}
	if err := b.settleUnstored(ctx, ws, h.info); err != nil {
		return err
	}
	err = b.release(ctx, path, h)
	if forced && b.cfg.Audit != nil {
		b.cfg.Audit(context.WithoutCancel(ctx), Event{Workspace: ws, Path: path, Entry: h.entry, From: r.RemoteAddr, Err: err})
	}
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.released.add(path+" "+h.info.ID, "")
	b.mu.Unlock()
	w.WriteHeader(http.StatusOK)
	return nil
}

// release takes the lock away from one tenure, and from no later one.
func (b *Backend) release(ctx context.Context, path string, h *holder) error {
	if ours := b.ours(path, h.info.ID); ours != nil {
		ours.unlock()
		return nil
	}
	err := holdfast.Break(ctx, b.cfg.Client, path, h.entry.Token)
	if errors.Is(err, holdfast.ErrNotHeld) {
		return nil
	}
	return err
}

// check is the operation that fails a transaction unless this tenure holds the lock. The name of its node is never
// used again.
func (h *holder) check() zk.Op { return zk.CheckOp(h.entry.Path, zk.AnyVersion) }
