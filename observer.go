package holdfast

import (
	"context"
	"errors"
	"time"

	"holdfast/internal/tenure"
	"holdfast/zk"
)

// An Observer is a set of hooks that report what happens to locks, for metrics and traces; see WithObserver. Any of
// them may be nil. The goroutine that causes an event calls the hook: the caller of Lock, of Unlock or
// CommitAndUnlock, or of a Commit that finds the lock lost. Any other loss, and the end of a Release, is told by a
// goroutine of this package. So hooks of different locks and Holds run at the same time. They must return soon. They
// may use the Hold, but must not wait for a lock or release it.
//
// A hook that panics, or ends its goroutine, ends the call that has called it. Nothing stays locked: if Acquired does
// so, the lock is released. In a goroutine of this package, a panic ends the program.
//
// For every Queued there is one Acquired. For every Acquired with a Hold there is at most one Lost and, once the
// program unlocks, one Released. Lost comes before Released, unless Unlock and the loss come together.
type Observer struct {
	// Queued: a call has begun that acquires the lock. The wait, and the Hold's Context, descend from
	// the context that Queued returns, which must descend from ctx; nil stands for ctx.
	Queued func(ctx context.Context, e Event) context.Context
	// Acquired: that call ends. Err is nil if it acquired the lock, and Took is how long it has waited.
	Acquired func(ctx context.Context, e Event)
	// Lost: the lock was lost, and Err says why. Took is how long it was held.
	Lost func(ctx context.Context, e Event)
	// Released: the Hold was unlocked, and the removal of its nodes has ended with Err, the error of
	// Unlock, or of CommitAndUnlock. Took is how long it was held, until that end. After Release, the end comes later.
	Released func(ctx context.Context, e Event)
}

// An Event is the argument of a hook of an Observer. The context beside it is the one that Queued returned, or
// one that descends from it. It may have ended, but its values are still there.
type Event struct {
	Op      string // of the call that acquires the lock, as in [Error]: "lock", "try lock", "read lock", "acquire", "campaign", …
	Path    string // of the lock
	Layout  string // of the lock, as in [LockToken]
	Permits int    // or slots asked for; else 0
	// Hold is nil until the lock is acquired. In a MultiLock, and so for a path of a Tree, each lock has events
	// and a Hold of its own. That Hold ends when all are acquired; the caller's Hold then stands for it.
	Hold     *Hold
	Took     time.Duration
	Err      error
	Outcome  string // of Acquired and of Lost: one of Outcomes, one of Losses; for labels of metrics and traces
	HandedOn bool   // of Released: the next goroutine of this client has the lock (see WithLocalHandoff)
	Kept     bool   // of Released: the client keeps the lock for its next caller (see WithKeep)
}

// Outcomes are the values of Event.Outcome for Acquired: the lock was acquired; somebody else has it (TryLock); the
// context of the call has timed out, or has ended otherwise; the call would have waited for itself; a newer
// one has its place; too many wait; another error.
func Outcomes() []string {
	return []string{"acquired", "locked", "timeout", "canceled", "deadlock", "superseded", "queue_full", "error"}
}

// Losses are the values of [Event].Outcome for Lost: a Hold is lost with its session, which has ended for one of three
// reasons, or with its node.
func Losses() []string {
	return []string{"session_expired", "client_closed", "auth_failed", "node_removed"}
}

// outcomeOf classifies the end of a call. A context can end with any cause, so ctx is asked and not err.
func outcomeOf(ctx context.Context, err error) string {
	switch {
	case err == nil:
		return "acquired"
	case errors.Is(err, ErrLocked):
		return "locked"
	case errors.Is(err, ErrDeadlock):
		return "deadlock"
	case errors.Is(err, ErrSuperseded):
		return "superseded"
	case errors.Is(err, ErrQueueFull):
		return "queue_full"
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "timeout"
	case ctx.Err() != nil:
		return "canceled"
	}
	return "error"
}

// lossOf classifies a loss.
func lossOf(err error) string {
	switch {
	case errors.Is(err, zk.ErrClosed):
		return "client_closed"
	case errors.Is(err, zk.ErrAuthFailed):
		return "auth_failed"
	case errors.Is(err, zk.ErrSessionExpired):
		return "session_expired"
	}
	return "node_removed"
}

// WithObserver reports what happens to the lock to o. The option can be given several times, for several
// observers, which are called in that order.
func WithObserver(o *Observer) Option {
	return func(os *options) {
		if o == nil {
			return
		}
		os.set(setObserver, true)
		os.observers = append(os.observers[:len(os.observers):len(os.observers)], o)
	}
}

// An observation is what observers know of one attempt, and of the Hold that it acquired. Without observers, it is nil.
type observation struct {
	lock    *lock
	ctx     context.Context // that the observers have returned
	op      string
	permits int
	since   time.Duration // when the attempt began; from its end on, when it ended (see tick)
	lost    bool          // was reported; guarded by Hold.mu
}

var origin = time.Now()

// tick reads the monotonic clock. time.Now takes longer, because it also reads the wall clock.
func tick() time.Duration { return time.Since(origin) }

// event makes an event. h is nil if the lock is not acquired. at is the time of the event.
func (s *observation) event(h *Hold, err error, at time.Duration) Event {
	return Event{Op: s.op, Path: s.lock.Path, Layout: s.lock.Grammar.Label, Permits: s.permits, Hold: h, Took: at - s.since, Err: err}
}

// queued reports an attempt. The attempt must use the context that queued returns.
func (l *lock) queued(ctx context.Context, op string, permits int) (context.Context, *observation) {
	s := &observation{lock: l, ctx: ctx, op: op, permits: permits, since: tick()}
	for _, o := range l.observers {
		if o.Queued == nil {
			continue
		}
		if ctx := o.Queued(s.ctx, s.event(nil, nil, s.since)); ctx != nil {
			s.ctx = ctx
		}
	}
	return s.ctx, s
}

// ended reports how the attempt has ended. From now on, losses and the release of h are reported, too.
func (s *observation) ended(h *Hold, err error) {
	now := tick()
	e := s.event(h, err, now)
	e.Outcome = outcomeOf(s.ctx, err)
	s.since = now
	for _, o := range s.lock.observers {
		if o.Acquired != nil {
			o.Acquired(s.ctx, e)
		}
	}
	if h == nil {
		return
	}
	h.mu.Lock()
	h.seen = s
	loss := h.loss
	h.mu.Unlock()
	if loss != nil { // before anybody could report it
		h.reportLoss(loss)
	}
}

// reportLoss reports that the lock of h was lost, once, if its acquisition was reported.
func (h *Hold) reportLoss(loss error) {
	h.mu.Lock()
	s := h.seen
	if s == nil || s.lost {
		h.mu.Unlock()
		return
	}
	s.lost = true
	h.mu.Unlock()
	e := s.event(h, loss, tick())
	e.Outcome = lossOf(loss)
	for _, o := range s.lock.observers {
		if o.Lost != nil {
			o.Lost(s.ctx, e)
		}
	}
}

// reportRelease reports that h was unlocked.
func (h *Hold) reportRelease(err error, f tenure.Fate) {
	h.mu.Lock()
	s := h.seen
	h.mu.Unlock()
	if s == nil {
		return
	}
	e := s.event(h, err, tick())
	e.HandedOn, e.Kept = f == tenure.HandedOn, f == tenure.Kept
	for _, o := range s.lock.observers {
		if o.Released != nil {
			o.Released(s.ctx, e)
		}
	}
}

// observed returns the Hold that observers know as that of t: h, or that of a MultiLock's part.
func (h *Hold) observed(t *tenure.Tenure) *Hold {
	for i, part := range h.parts {
		if h.tenures[i] == t {
			return part
		}
	}
	return h
}
