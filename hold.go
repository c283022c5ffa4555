package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"holdfast/internal/queue"
	"holdfast/internal/tenure"
	"holdfast/zk"
)

// A Hold is one tenure of a lock, from Lock to Unlock (or Release, or CommitAndUnlock) or to the loss. A lost
// Hold stays lost. Any goroutine may unlock it.
type Hold struct {
	tenures []*tenure.Tenure // one; of a MultiLock one per lock, in the order they were taken
	ctx     context.Context
	cancel  context.CancelCauseFunc
	lost    chan struct{}
	revoked chan struct{}
	outer   *Hold   // the Hold that the context of Lock descends from; nil if there is none
	parts   []*Hold // of a MultiLock: the Holds of its locks, which this one has superseded; one for each tenure

	mu        sync.Mutex // guards the fields below
	loss      error      // why the lock is lost; nil while it is not
	unlocked  bool
	isRevoked bool
	seen      *observation // nil if nobody observes it
}

// newHold begins a tenure of places, and returns its first Hold.
func newHold(ctx context.Context, l *lock, places ...*queue.Place) (*Hold, error) {
	t, err := tenure.New(ctx, l.terms(), places)
	if err != nil {
		return nil, err
	}
	h := holdOf(ctx, t)
	t.Add((*holder)(h)) // if the tenure is lost already, so is h
	return h, nil
}

// lockOf returns the lock that has begun the tenure.
func lockOf(t *tenure.Tenure) *lock { return t.Lock.(*lock) }

// holdOf returns a Hold of the tenures, for a caller of Lock with ctx. The tenures do not know it yet.
func holdOf(ctx context.Context, tenures ...*tenure.Tenure) *Hold {
	h := &Hold{tenures: tenures, lost: make(chan struct{}), revoked: make(chan struct{})}
	h.outer, _ = ctx.Value(holdKey{}).(*Hold)
	// The deadline of the wait must not end the work; its values go on.
	h.ctx, h.cancel = context.WithCancelCause(context.WithValue(context.WithoutCancel(ctx), holdKey{}, h))
	return h
}

// Context ends when the lock is no longer held: by Unlock, with the cause ErrNotHeld, or by the loss, with a cause
// that is ErrLost. It has the values of the context that was given to Lock, not its deadline. A Lock of the same lock
// with a context below it fails with ErrDeadlock, or joins (see [Reentrant]).
func (h *Hold) Context() context.Context { return h.ctx }

// Lost is closed when the lock is lost. It is for work that must not be cancelled. Unlock does not close
// it.
func (h *Hold) Lost() <-chan struct{} { return h.lost }

// Revoked is closed when somebody has asked for the lock (see Revoke), or a preferred candidate is to lead.
// Nothing else happens: the holder decides whether to unlock, and when.
func (h *Hold) Revoked() <-chan struct{} { return h.revoked }

// Deadline is the moment until which the lock is proven to be held. It moves on while the server
// answers. When it passes, the lock is lost.
func (h *Hold) Deadline() time.Time {
	deadline := h.first().Session.Deadline()
	for _, t := range h.tenures[1:] {
		if d := t.Places[0].Session.Deadline(); d.Before(deadline) {
			deadline = d
		}
	}
	return deadline
}

// Token is the fencing token: the zxid of the creation of our node. It is larger than the token of every
// earlier holder that excluded us. For a MultiLock it is the first lock's, and for a [Tree] the root's; see
// Tokens.
func (h *Hold) Token() int64 { return h.first().Token }

// A LockToken is the fencing token of one lock.
type LockToken struct {
	Path string // of the lock; of a Slots the node of one slot, whose tokens grow on their own
	// Layout names the lock's layout by its forms, since locks of different forms can have
	// one path: curator, kazoo or another of this package's, as ParseLayout takes them;
	// named:NAME for one of several in a directory; form:… for a program's own, with its
	// forms. Only those of the last two kinds share a directory, and only their names
	// contain a colon. A NodeLock's is node.
	Layout string
	Token  int64
}

// Tokens are the fencing tokens in the order in which the locks were acquired; of a [Tree] the root's comes first.
// Only a MultiLock, a Tree and several slots have more than one. Each guards the resource of its own lock: no function of several
// tokens grows with every tenure.
func (h *Hold) Tokens() []LockToken {
	tokens := make([]LockToken, 0, len(h.tenures))
	for _, t := range h.tenures {
		if t.Kind != queue.Slots {
			tokens = append(tokens, LockToken{Path: t.Path, Layout: t.Grammar.Label, Token: t.Places[0].Token})
			continue
		}
		for _, p := range t.Places {
			tokens = append(tokens, LockToken{Path: p.Path(), Layout: t.Grammar.Label, Token: p.Token})
		}
	}
	return tokens
}

// Path is the path of our node. If there are several, it is that of the first.
func (h *Hold) Path() string { return h.first().Path() }

// SessionID is the id of the session that holds the lock.
func (h *Hold) SessionID() int64 { return h.first().Session.ID() }

// Err is nil until the Hold ends: after Unlock it is ErrNotHeld, and after the loss it is ErrLost and wraps the
// reason. Like the Context, it is the client's view.
func (h *Hold) Err() error { return h.over() }

// FromContext returns the innermost Hold that ctx descends from, which may have ended (see [Hold.Err]). ok is false
// if there is none.
func FromContext(ctx context.Context) (h *Hold, ok bool) {
	h, ok = ctx.Value(holdKey{}).(*Hold)
	return h, ok
}

// first returns the place that stands for the Hold: its node, its token, its session.
func (h *Hold) first() *queue.Place { return h.tenures[0].Places[0] }

// Commit executes ops as one transaction that succeeds only while the lock is held: it begins with checks that our
// nodes exist. That is exact and needs no clock (but see Names that come back), so use it for data that are kept in
// ZooKeeper itself. The results are those of ops. Commit uses the session of the lock.
//
// The error is ErrLost if the lock is gone, and ErrNotHeld after Unlock; then nothing was done. It is
// zk.ErrBadArguments if the locks of a MultiLock belong to more than one client. After a lost connection, the
// transaction may have been done all the same ([zk.MayHaveHappened]).
func (h *Hold) Commit(ctx context.Context, ops ...zk.Op) ([]zk.Result, error) {
	results, err := h.commit(ctx, ops)
	if err != nil {
		return results, h.fail("commit", err)
	}
	return results, nil
}

func (h *Hold) commit(ctx context.Context, ops []zk.Op) (results []zk.Result, err error) {
	for _, t := range h.tenures {
		t.BeginCommit()
	}
	defer func() {
		for _, t := range h.tenures {
			t.EndCommit(!zk.MayHaveHappened(err))
		}
		if errors.Is(err, ErrLost) && errors.Is(h.over(), ErrNotHeld) {
			err = ErrNotHeld // it was unlocked meanwhile
		}
	}()
	if err := h.over(); err != nil {
		return nil, err
	}
	var checks []zk.Op
	for _, t := range h.tenures {
		if t.Client != h.tenures[0].Client {
			return nil, fmt.Errorf("%w: the locks belong to more than one client", zk.ErrBadArguments)
		}
		for _, p := range t.Places {
			checks = append(checks, zk.CheckOp(p.Path(), zk.AnyVersion))
		}
	}
	return h.transact(ctx, checks, ops)
}

// transact executes ops behind guards as one transaction, and returns the results of ops. The first guards
// are one for each of our nodes; if one of them finds no node, the lock is lost.
func (h *Hold) transact(ctx context.Context, guards, ops []zk.Op) ([]zk.Result, error) {
	session := h.first().Session
	var results []zk.Result
	err := zk.Retry(ctx, func() (err error) {
		results, err = session.Multi(ctx, slices.Concat(guards, ops)...)
		return err
	})
	if len(results) < len(guards) {
		// The error can also be the cause of ctx, which belongs to another lock.
		if errors.Is(err, zk.ErrSessionExpired) && (ctx.Err() == nil || session.Context().Err() != nil) {
			err = fmt.Errorf("%w: %w", ErrLost, err)
		}
		return nil, err
	}
	i := 0
	for _, t := range h.tenures {
		for range t.Places {
			if errors.Is(results[i].Err, zk.ErrNoNode) {
				t.Lose(queue.ErrGone) // its watch will fire, too, but later
				return results[len(guards):], fmt.Errorf("%w: %w", ErrLost, queue.ErrGone)
			}
			i++
		}
	}
	return results[len(guards):], err
}

// ensure makes a directory for the data of a lock, with the session that holds the lock.
func ensure(ctx context.Context, p *queue.Place, path string) error {
	err := p.Ensure(ctx, path)
	if errors.Is(err, zk.ErrSessionExpired) && (ctx.Err() == nil || p.Session.Context().Err() != nil) { // see transact
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	return err
}

// over returns why the Hold is over, or nil.
func (h *Hold) over() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.unlocked:
		return ErrNotHeld
	case h.loss != nil:
		return h.loss
	}
	return nil
}

// A holder is a Hold as its tenures see it, see tenure.Holder.
type holder Hold

// Lose ends the Hold, unless Unlock was first.
func (o *holder) Lose(loss error) {
	h := (*Hold)(o)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unlocked || h.loss != nil {
		return
	}
	h.loss = loss
	h.cancel(loss)
	close(h.lost)
}

// Report tells the observers.
func (o *holder) Report(t *tenure.Tenure, loss error) { (*Hold)(o).observed(t).reportLoss(loss) }

// Revoke says that somebody has asked for the lock.
func (o *holder) Revoke() {
	h := (*Hold)(o)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.isRevoked {
		h.isRevoked = true
		close(h.revoked)
	}
}

// Unlock ends the Context, then removes our node, and returns when that is certain. It waits through lost connections
// for as long as the session lives, which is at most until Deadline. After that the server has removed the node
// itself. So it is right to defer Unlock even if the work's context has ended. With [WithKeep], the node can stay.
// Unlock then returns when others can see that the lock is not in use.
//
// The errors are those of Release, or the server's refusal to remove our node, such as zk.ErrNoAuth. The node then
// stays until the session ends.
func (h *Hold) Unlock() error {
	loss, first := h.end()
	if !first {
		return h.fail("unlock", ErrNotHeld)
	}
	left := h.tenures
	defer func() { h.dropAll(left) }()
	var reports []func() // for when all nodes are removed
	for i, t := range slices.Backward(h.tenures) {
		left = h.tenures[:i]
		f, err := t.Drop((*holder)(h))
		if loss == nil {
			loss = err
		}
		part := h.observed(t)
		if i > 0 || len(reports) > 0 {
			reports = append(reports, func() { part.reportRelease(err, f) })
		} else {
			part.reportRelease(err, f)
		}
	}
	for _, report := range reports {
		report()
	}
	if loss != nil {
		return h.fail("unlock", loss)
	}
	return nil
}

// dropAll removes h from the tenures that are left. There are some only if a hook has panicked, see errPanic.
func (h *Hold) dropAll(left []*tenure.Tenure) {
	for _, t := range slices.Backward(left) {
		t.Drop((*holder)(h))
	}
}

// end ends the Hold and its Context. first is false if it was unlocked before. loss is why the lock was
// lost before.
func (h *Hold) end() (loss error, first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unlocked {
		return nil, false
	}
	h.unlocked = true
	h.cancel(ErrNotHeld)
	return h.loss, true
}

// Release is Unlock that does not wait for the server. When it returns, the Context has ended, and the removal of our
// node is queued: requests that the session makes later are sent after it. So a loop over many locks pays one round
// trip for each, not two. A goroutine completes the removal, as Unlock does, also if the connection is lost. It ends
// when the node is gone or the session is over; Client.Close ends the session. Where names come back, Release first
// reads the node and waits for the answer.
//
// The error is ErrLost if the lock was known to be lost, and ErrNotHeld if the Hold was unlocked before. Only an
// [Observer] hears of an error of the removal.
func (h *Hold) Release() error {
	loss, first := h.end()
	if !first {
		return h.fail("release", ErrNotHeld)
	}
	type removal struct {
		hold *Hold // that is observed
		wait func() (tenure.Fate, error)
	}
	var removals []removal
	left := h.tenures
	defer func() { h.dropAll(left) }()
	for i, t := range slices.Backward(h.tenures) {
		left = h.tenures[:i]
		removals = append(removals, removal{h.observed(t), t.StartDrop((*holder)(h))})
	}
	go func() {
		for _, r := range removals {
			f, err := r.wait()
			r.hold.reportRelease(err, f)
		}
	}()
	if loss != nil {
		return h.fail("release", loss)
	}
	return nil
}

// CommitAndUnlock is Commit and Unlock in one transaction, which removes our nodes and executes ops. It saves a round
// trip and a write. The lock is released whatever comes of the transaction: if the server refuses ops, nothing of
// them was done, and the nodes are removed alone. The Context ends before the transaction is sent. The results and
// the error are those of Commit; if the transaction succeeds, the error is nil. ctx bounds the transaction, not the
// release.
//
// Where the node can stay for the next caller ([WithLocalHandoff], [WithKeep]), and where names come back, there are
// two transactions, a Commit and then an Unlock. Then the Context ends between the two.
func (h *Hold) CommitAndUnlock(ctx context.Context, ops ...zk.Op) ([]zk.Result, error) {
	if !h.endsInOne() {
		results, err := h.commit(ctx, ops)
		if err != nil {
			err = h.fail("commit and unlock", err)
		}
		h.Unlock() // if it was lost in between, the transaction was done all the same
		return results, err
	}
	loss, first := h.end()
	if !first {
		return nil, h.fail("commit and unlock", ErrNotHeld)
	}
	var over []*tenure.Tenure // the tenures that end with this Hold
	var guards, watermarks []zk.Op
	for _, t := range h.tenures {
		f, _ := t.Leave((*holder)(h))
		last := f == tenure.Removed
		if last {
			over = append(over, t)
		}
		for _, p := range t.Places {
			if !last {
				guards = append(guards, zk.CheckOp(p.Path(), zk.AnyVersion))
				continue
			}
			guards = append(guards, zk.DeleteOp(p.Path(), zk.AnyVersion))
			watermarks = append(watermarks, p.WatermarkOp()...)
		}
	}
	var results []zk.Result
	err := errPanic
	defer func() {
		if errors.Is(err, errPanic) {
			for _, t := range slices.Backward(over) {
				t.RemoveNodes()
			}
		}
	}()
	if loss != nil {
		err = loss
	} else {
		results, err = h.transact(ctx, slices.Concat(guards, watermarks), ops)
		if err != nil && len(watermarks) > 0 && !zk.MayHaveHappened(err) { // perhaps because of them
			results, err = h.transact(ctx, guards, ops)
		}
	}
	if err != nil {
		err = h.fail("commit and unlock", err)
		for _, t := range slices.Backward(over) {
			t.RemoveNodes()
		}
	}
	for _, t := range slices.Backward(h.tenures) {
		h.observed(t).reportRelease(err, tenure.Removed)
	}
	return results, err
}

// endsInOne reports whether a transaction that removes the nodes can be the end of the Hold.
func (h *Hold) endsInOne() bool {
	for _, t := range h.tenures {
		if !t.EndsAlone() || t.Client != h.tenures[0].Client || !t.Places[0].Unique {
			return false
		}
	}
	return true
}

// supersede ends h after another Hold has joined its tenures: a MultiLock's Hold supersedes those of its locks.
func (h *Hold) supersede() {
	h.mu.Lock()
	h.unlocked = true
	h.cancel(ErrNotHeld)
	h.mu.Unlock()
	for _, t := range h.tenures {
		t.Forget((*holder)(h))
	}
}

// concluded ends h after a transaction of ours has removed the nodes.
func (h *Hold) concluded() {
	h.end()
	for _, t := range h.tenures {
		t.Leave((*holder)(h))
	}
}

// letGo is Unlock for a Lock that must not outlast ctx. When ctx ends, the rest happens in the
// background.
func (h *Hold) letGo(ctx context.Context) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		h.Unlock()
	}()
	select {
	case <-gone:
	case <-ctx.Done():
	}
}

func (h *Hold) fail(op string, err error) error {
	return &Error{Op: op, Path: h.tenures[0].Path, Err: err}
}

// A demand is what a function needs of a Hold that it is given. The lock must have one holder at a time, and a node
// that goes with its Hold.
type demand struct {
	by     string     // the function, as the subject of a sentence
	client *zk.Client // of the lock; nil: any
	one    bool       // one lock, and a Hold that nobody shares (see Reentrant)
	queued bool       // locks with a queue
	term   *lock      // of the Election that the Hold must be a term of; nil: none
}

// meets returns nil if h is what d demands and still lasts. Otherwise the error is zk.ErrBadArguments and says what to
// give, or it is ErrLost or ErrNotHeld. Every function that is given a Hold checks it with meets.
func (h *Hold) meets(d demand) error {
	if wrong := h.unfit(d); wrong != "" {
		return fmt.Errorf("%w: %s", zk.ErrBadArguments, wrong)
	}
	return h.over()
}

// unfit says why h is not what d demands, and what to give. It returns "" if h is.
func (h *Hold) unfit(d demand) string {
	switch {
	case h == nil || len(h.tenures) == 0:
		return d.by + " needs a Hold: give the one that Lock has returned"
	case d.one && len(h.tenures) > 1:
		return fmt.Sprintf("%s needs a Hold of one lock, and this one is of %d: lock one of them alone", d.by, len(h.tenures))
	}
	for _, t := range h.tenures {
		l := lockOf(t)
		switch {
		case d.term != nil && (!l.term || l.Client != d.term.Client || l.Path != d.term.Path || l.Grammar.Queue != d.term.Grammar.Queue):
			return fmt.Sprintf("%s needs a Hold of the election %s: give the one that Campaign has returned", d.by, d.term.Path)
		case l.Kind == queue.Semaphore || l.Kind == queue.Slots || t.Places[0].Shared:
			return fmt.Sprintf("%s needs a lock that one caller at a time can hold, and %s is held as %s: give a Hold of a Mutex or of a writer",
				d.by, l.Path, shareOf(t))
		case d.queued && l.Kind != queue.Lock:
			return fmt.Sprintf("%s needs a lock with a queue, and %s has none: give a Hold of a Mutex or of a writer", d.by, l.Path)
		case l.handoffs > 0 || l.keep > 0:
			return fmt.Sprintf("%s needs a lock whose holders have nodes of their own: make the lock without WithLocalHandoff and WithKeep", d.by)
		case d.client != nil && l.Client != d.client:
			return fmt.Sprintf("%s needs a Hold of the same client, and %s is locked with another one: make both with one client", d.by, l.Path)
		case d.one && t.IsShared():
			return fmt.Sprintf("%s needs a Hold that is alone, and another Hold has joined the lock %s (see Reentrant): unlock the others first", d.by, l.Path)
		}
	}
	return ""
}

// shareOf says as what several callers can hold the lock at a time.
func shareOf(t *tenure.Tenure) string {
	switch t.Kind {
	case queue.Semaphore:
		return "a permit"
	case queue.Slots:
		return "a slot"
	}
	return "a reader"
}
