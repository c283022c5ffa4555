package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"holdfast/internal/lend"
	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/internal/tenure"
	"holdfast/zk"
)

// A Locker is a lock of some kind. Both methods can be called from any number of
// goroutines; each call that succeeds has a place in the queue of its own.
type Locker interface {
	// Lock waits until the caller holds the lock. The context bounds the wait, never the hold.
	Lock(ctx context.Context) (*Hold, error)
	// TryLock fails with ErrLocked if somebody is ahead. It does not wait for the lock, only for the
	// server's answer, until ctx ends, and up to a second for a client that only keeps the lock (see
	// WithKeep). If somebody removes its node meanwhile, it tries again. If the session ends meanwhile, the
	// error can be zk.ErrSessionExpired.
	TryLock(ctx context.Context) (*Hold, error)
}

// Do locks l, calls f and unlocks. The context of f ends when the caller's does, or when
// the lock is lost; then f should stop at once. Do returns what f returns, joined in one line
// with an error that is ErrLost if the lock did not last to the end. If Do cannot acquire the
// lock, it does not call f.
func Do(ctx context.Context, l Locker, f func(context.Context) error) error {
	h, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	return h.during(ctx, f)
}

// during calls f while the lock is held, and then unlocks.
func (h *Hold) during(ctx context.Context, f func(context.Context) error) error {
	held, cancel := context.WithCancelCause(h.Context())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	// Deferred, so that a panic in f does not keep the lock.
	defer func() {
		stop()
		cancel(nil)
		h.Unlock()
	}()
	err := f(held)
	return lend.Joined(err, h.Unlock())
}

// A lock is what the kinds of lock have in common: a queue, and the caller's options.
type lock struct {
	*queue.Queue
	options
	line tenure.Key // of its line, without the side; none without WithLocalHandoff and WithKeep
	term bool       // its Holds are terms of an Election
	// arrival is that of the call, see calling; nil for most locks.
	arrival *queue.Arrival
}

func newLock(c *zk.Client, path string, kind queue.Kind, o options) lock {
	l := lock{Queue: &queue.Queue{Client: c, Path: path, Kind: kind, Grammar: o.grammar, ACL: o.acl, Prefers: o.prefers, Preference: o.preferred}, options: o}
	if o.value != nil {
		l.Queue.Process = o.note.Process // the nodes have no note
	}
	if o.handoffs > 0 || o.keep > 0 {
		l.line = tenure.NewKey(c, o.line(path))
	}
	if p := o.part; p != nil {
		l.surround(p.outer, p.kind)
	} else {
		l.Surround(path, nil)
	}
	return l
}

// newPart names a queue that is a part of the lock at outer. If kind is not "", the queue's places look for other
// kinds of lock there.
func newPart(c *zk.Client, path, outer string, kind queue.Kind, o options) lock {
	o.part = &partOf{outer, kind}
	return newLock(c, path, queue.Lock, o)
}

// surround makes the queue a part of the lock at outer.
func (l *lock) surround(outer string, kind queue.Kind) {
	var whole *queue.Queue
	if kind != "" {
		whole = &queue.Queue{Client: l.Client, Path: outer, Kind: kind, Grammar: l.Grammar}
	}
	l.Surround(outer, whole)
}

// valid returns why no call on the lock can succeed, or nil: its path, or an option.
func (l *lock) valid() error {
	if err := queue.ValidatePath(l.Path); err != nil {
		return err
	}
	return cmp.Or(l.refused, l.Grammar.Invalid())
}

// wait implements Lock: it queues and blocks until the lock is held. Its loop is that of outlive, whose closure would be
// on waiters' stacks.
func (l *lock) wait(ctx context.Context, op string, s names.Side) (h *Hold, err error) {
	l = l.calling(s)
	switch {
	case len(l.observers) > 0:
		return l.waitObserved(ctx, op, s)
	case l.handsOff(s):
		h, err = l.waitInLine(ctx, s) // behind one place in the queue
	default:
		for turn := queue.Pace(1); turn > 0; turn, err = turn.Outlived(ctx, err) {
			h, err = l.enter(ctx, s, true)
		}
	}
	if err != nil {
		return nil, &Error{Op: op, Path: l.Path, Err: err}
	}
	return h, nil
}

// enter acquires the lock in one session. Without patience, it fails with ErrLocked where it would have to wait. If the
// context descends from a Hold of the lock, enter returns another Hold of that tenure, or an error.
func (l *lock) enter(ctx context.Context, s names.Side, patience bool) (*Hold, error) {
	if err := l.valid(); err != nil {
		return nil, err
	}
	if held := l.held(ctx); len(held) > 0 {
		return l.again(ctx, held, s)
	}
	if l.arrival != nil {
		return l.enterAs(ctx, s, patience)
	}
	if l.prefers {
		return l.stand(ctx, s, patience)
	}
	p, err := l.Enter(ctx, s, l.data)
	if err != nil {
		return nil, err
	}
	if l.detect != nil {
		return l.finish(ctx, p, l.waitWatched(ctx, p, patience))
	}
	return l.finish(ctx, p, p.Wait(ctx, patience))
}

// waitWatched is p.Wait. If the lock looks for deadlocks, and the wait is the victim of one, it gives up.
func (l *lock) waitWatched(ctx context.Context, p *queue.Place, patience bool) error {
	if patience {
		var stop func()
		ctx, stop = l.watched(ctx, p)
		defer stop()
	}
	if l.arrival != nil {
		return p.WaitAs(ctx, l.arrival, patience)
	}
	return p.Wait(ctx, patience)
}

// watched returns a context for a wait with p. It ends with the error of the detection, if the lock has one.
func (l *lock) watched(ctx context.Context, p *queue.Place) (_ context.Context, stop func()) {
	if l.detect == nil {
		return ctx, func() {}
	}
	wait := lend.Wait{Client: l.Client, Place: p.Dir + "/" + p.Prefix, Locks: []string{l.Path}}
	if l.Kind == queue.Turnstile { // its path is in that of the semaphore
		wait.Locks[0] = strings.TrimSuffix(l.Path, l.Grammar.Semaphore.Turnstile)
	}
	for t := range beneath(ctx, l.Client) {
		wait.Locks = append(wait.Locks, t.Path)
		for _, p := range t.Places {
			wait.Held = append(wait.Held, p.Path())
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		if err := l.detect(ctx, wait); err != nil {
			cancel(err)
		}
	}()
	return ctx, func() { cancel(nil) }
}

// calling returns the lock for one call for side s. With WithSupersede or WithQueueMax, it is a copy with the call's
// arrival, which outlasts its nodes. It is not a part of wait, to keep waiters' stacks small.
//
//go:noinline
func (l *lock) calling(s names.Side) *lock {
	if l.given&(setSupersede|setQueueMax) == 0 || s == names.Read {
		return l
	}
	call := *l
	if call.arrival = l.lent; call.arrival == nil {
		a := l.room
		call.arrival = &a
	}
	*call.arrival = queue.Arrival{
		Supersedes: l.room.Supersedes, Max: l.room.Max, Oldest: l.room.Oldest, Layout: l.Grammar.Apart(), First: call.arrival.First, Owner: l.note.Owner, Reason: l.note.Reason,
	}
	return &call
}

// dated returns what makes the data of the nodes of l's arrival. A call without patience does not wait, so it is of no
// sort.
func (l *lock) dated(patience bool) func(names.Attempt) ([]byte, error) {
	o := l.options
	if patience {
		o.note.Sort, o.note.Arrived = l.arrival.Sort(), l.arrival.First
	}
	return o.data
}

// enterAs is enter for a place of l's arrival. It is split from enter to keep waiters' stacks small.
//
//go:noinline
func (l *lock) enterAs(ctx context.Context, s names.Side, patience bool) (*Hold, error) {
	p, err := l.Enter(ctx, s, l.dated(patience))
	if err != nil {
		return nil, err
	}
	return l.finish(ctx, p, l.waitWatched(ctx, p, patience))
}

// stand implements enter for a candidate with a preference. While a preferred candidate is behind it, it takes a new place
// at the back. That ends: every such step puts the candidate behind all preferred ones, which only their own steps and new
// candidates undo, and the most preferred one never steps. So at most all candidates ahead of that one step once.
func (l *lock) stand(ctx context.Context, s names.Side, patience bool) (*Hold, error) {
	if l.preferred > 0 && !l.Grammar.Mutex.Unique() {
		return nil, fmt.Errorf("%w %s: its names have no {uuid} or {hex}, so WithPreference can only be 0", ErrLayout, l.Grammar.Name)
	}
	for {
		p, err := l.Enter(ctx, s, l.data)
		if err != nil {
			return nil, err
		}
		c := newCandidacy(l, p)
		h, err := l.finish(ctx, p, c.wait(ctx, patience))
		switch {
		case err == nil:
			go c.lead(h)
			return h, nil
		case !errors.Is(err, errPreferred):
			return nil, err
		}
	}
}

// finish returns the Hold of a place that has waited. If the wait has failed, or the Hold cannot begin, finish gives the
// place up. It is split from enter to keep waiters' stacks small.
func (l *lock) finish(ctx context.Context, p *queue.Place, waited error) (_ *Hold, err error) {
	err = errPanic
	defer func() {
		p.Stop()
		if err != nil {
			p.Leave(ctx) // or all that are behind us wait for nobody
		}
	}()
	if waited != nil {
		return nil, waited
	}
	return newHold(ctx, l, p)
}

// outlive calls enter until it succeeds. It calls enter again if the session has ended or the node was removed meanwhile,
// while ctx lives.
func outlive(ctx context.Context, enter func() (*Hold, error)) (h *Hold, err error) {
	for turn := queue.Pace(1); turn > 0; turn, err = turn.Outlived(ctx, err) {
		h, err = enter()
	}
	return h, err
}

// waitObserved is wait with observers. It is split from wait to keep waiters' stacks small.
func (l *lock) waitObserved(ctx context.Context, op string, s names.Side) (*Hold, error) {
	return l.attempt(ctx, op, 0, func(ctx context.Context) (h *Hold, err error) {
		if l.handsOff(s) {
			return l.waitInLine(ctx, s)
		}
		for turn := queue.Pace(1); turn > 0; turn, err = turn.Outlived(ctx, err) {
			h, err = l.enter(ctx, s, true)
		}
		return h, err
	})
}

// handsOff reports whether calls for side s stand in a line of the client, for WithLocalHandoff or WithKeep. Readers do
// not: they hold the lock together.
func (l *lock) handsOff(s names.Side) bool { return (l.handoffs > 0 || l.keep > 0) && s != names.Read }

// waitInLine implements Lock with WithLocalHandoff or WithKeep.
func (l *lock) waitInLine(ctx context.Context, s names.Side) (*Hold, error) {
	if err := l.valid(); err != nil {
		return nil, err
	}
	if held := l.held(ctx); len(held) > 0 {
		return l.again(ctx, held, s)
	}
	o, err := tenure.Wait(ctx, l.key(s), (*inLine)(l))
	h := holdIn(o)
	if h != nil && err != nil {
		h.letGo(ctx)
		h = nil
	}
	return h, err
}

// key names the line of the calls for side s.
func (l *lock) key(s names.Side) tenure.Key {
	k := l.line
	k.Side = s
	return k
}

// An inLine is a lock as its line sees it, see tenure.Locker.
type inLine lock

// Enter acquires the lock from the ensemble. The caller's own Hold takes the place of the one that is made here.
func (i *inLine) Enter(ctx context.Context, s names.Side) (*tenure.Tenure, error) {
	h, err := outlive(ctx, func() (*Hold, error) { return (*lock)(i).enter(ctx, s, true) })
	if err != nil {
		return nil, err
	}
	t := h.tenures[0]
	t.Forget((*holder)(h))
	return t, nil
}

// Grant makes the caller's Hold.
func (i *inLine) Grant(ctx context.Context, t *tenure.Tenure) tenure.Holder {
	return (*holder)(holdOf(ctx, t))
}

// holdIn returns the Hold of a holder, or nil.
func holdIn(o tenure.Holder) *Hold {
	if o == nil {
		return nil
	}
	return (*Hold)(o.(*holder))
}

// try implements TryLock.
func (l *lock) try(ctx context.Context, op string, s names.Side) (*Hold, error) {
	return l.attempt(ctx, op, 0, func(ctx context.Context) (*Hold, error) {
		if !l.handsOff(s) || len(l.held(ctx)) > 0 {
			return l.calling(s).enter(ctx, s, false)
		}
		if err := l.valid(); err != nil {
			return nil, err
		}
		o, err := tenure.Try(ctx, l.key(s), (*inLine)(l))
		h := holdIn(o)
		if h == nil && err == nil { // the client does not have the lock
			if h, err = l.enter(ctx, s, false); err == nil && l.keep > 0 {
				tenure.Adopt(l.key(s), h.tenures[0])
			}
		}
		return h, err
	})
}

// attempt calls acquire, and reports the attempt to the observers. Its error says which operation has
// failed.
func (l *lock) attempt(ctx context.Context, op string, permits int, acquire func(context.Context) (*Hold, error)) (h *Hold, err error) {
	var seen *observation
	if len(l.observers) > 0 {
		ctx, seen = l.queued(ctx, op, permits)
	}
	h, err = despiteRemoval(ctx, func() (*Hold, error) { return acquire(ctx) })
	if err != nil {
		h, err = nil, &Error{Op: op, Path: l.Path, Err: err}
	}
	if seen != nil {
		reported := false
		defer func() {
			if !reported && h != nil { // a hook has panicked, and the caller does not get the Hold
				h.Unlock()
			}
		}()
		seen.ended(h, err)
		reported = true
	}
	return h, err
}

// despiteRemoval calls enter again while ctx lives, if somebody has removed the node of the attempt. For TryLock, such a
// removal is no answer: it says nothing about who is ahead. (Lock has its own loop, see outlive.)
func despiteRemoval(ctx context.Context, enter func() (*Hold, error)) (*Hold, error) {
	for turn := queue.Pace(1); ; {
		h, err := enter()
		if !errors.Is(err, queue.ErrGone) {
			return h, err
		}
		if turn, err = turn.Outlived(ctx, err); turn == 0 {
			return nil, err
		}
	}
}

// terms returns what a tenure knows of the lock.
func (l *lock) terms() tenure.Terms {
	return tenure.Terms{Queue: l.Queue, Lock: l, Handoffs: l.handoffs, Keep: l.keep, OwnData: l.value != nil}
}
