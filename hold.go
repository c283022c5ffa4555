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

// A Hold is one tenure of a lock, from Lock to Unlock or to the loss. A lost Hold
// stays lost. It is safe for concurrent use; any goroutine may unlock it.
type Hold struct {
	tenures []*tenure // one; of a MultiLock one per lock, in the order they were taken
	ctx     context.Context
	cancel  context.CancelCauseFunc
	lost    chan struct{}
	revoked chan struct{}
	outer   *Hold // the Hold that the context of Lock descended from

	mu        sync.Mutex // guards the fields below
	loss      error      // why the lock is lost; nil while it is not
	unlocked  bool
	isRevoked bool
}

// newHold begins a tenure of places, and makes its first Hold.
func newHold(ctx context.Context, q *queue, places ...*place) (*Hold, error) {
	t, err := newTenure(ctx, q, places)
	if err != nil {
		return nil, err
	}
	h := holdOf(ctx, t)
	if !t.add(h) { // lost in this very moment
		h.lose(t.loss)
	}
	return h, nil
}

func holdOf(ctx context.Context, tenures ...*tenure) *Hold {
	h := &Hold{tenures: tenures, lost: make(chan struct{}), revoked: make(chan struct{})}
	h.outer, _ = ctx.Value(holdKey{}).(*Hold)
	// The deadline of the wait must not end the work; its values go on.
	h.ctx, h.cancel = context.WithCancelCause(context.WithValue(context.WithoutCancel(ctx), holdKey{}, h))
	return h
}

// Context ends when the lock is no longer ours: by Unlock, with ErrNotHeld as its
// cause, or by the loss, with an error that is ErrLost. It has the values of the
// context that was given to Lock, not its deadline. A Lock of the same lock with a
// context that descends from it fails with ErrDeadlock, or joins (see Reentrant).
func (h *Hold) Context() context.Context { return h.ctx }

// Lost is closed when the lock is lost, for those who must not be cancelled. Unlock
// does not close it.
func (h *Hold) Lost() <-chan struct{} { return h.lost }

// Revoked is closed when somebody has asked for the lock (see Revoke; Curator's Revoker
// does the same). Nothing else happens: whether to let go, and when, is up to the holder.
func (h *Hold) Revoked() <-chan struct{} { return h.revoked }

// Deadline is the moment until which the lock is proven ours. It moves on while the
// server answers; when it passes, the lock is lost.
func (h *Hold) Deadline() time.Time {
	deadline := h.first().session.Deadline()
	for _, t := range h.tenures[1:] {
		if d := t.places[0].session.Deadline(); d.Before(deadline) {
			deadline = d
		}
	}
	return deadline
}

// Token is the fencing token: the zxid of the creation of our node. It is larger
// than that of every earlier holder who kept us out. Of a MultiLock it is the first
// lock's; see Tokens.
func (h *Hold) Token() int64 { return h.first().token }

// A LockToken is the fencing token of one lock.
type LockToken struct {
	Path string // of the lock
	// Layout names the lock's layout by its forms, since locks of different forms can have
	// one path: curator, kazoo or another of this package's, as ParseLayout takes them;
	// named:NAME for one of several in a directory; form:… for a program's own, with its
	// forms. Only those of the last two kinds share a directory, and only their names
	// contain a colon. A NodeLock's is node.
	Layout string
	Token  int64
}

// Tokens are the fencing tokens in the order in which the locks were taken. Only a
// MultiLock has more than one. Each guards what its own lock guards: no function of
// several grows with every tenure.
func (h *Hold) Tokens() []LockToken {
	tokens := make([]LockToken, len(h.tenures))
	for i, t := range h.tenures {
		tokens[i] = LockToken{Path: t.queue.path, Layout: t.queue.grammar.label, Token: t.places[0].token}
	}
	return tokens
}

// Path is the path of our node; of several, that of the first.
func (h *Hold) Path() string { return h.first().path() }

// Session is the id of the session that holds the lock.
func (h *Hold) Session() int64 { return h.first().session.ID() }

func (h *Hold) first() *place { return h.tenures[0].places[0] }

// Commit executes ops as one transaction that succeeds only while the lock is held: it
// begins with checks that our nodes exist. That is exact and needs no clock, so it is the
// way to write what is kept in ZooKeeper itself. The results are those of ops. It uses
// the session that holds the lock.
//
// ErrLost: the lock is gone, and nothing was done. After a lost connection it may have
// been done all the same ([zk.MayHaveHappened]). Where another node can have the name of
// ours, a NodeLock's or one of a [Layout] without {uuid} or {hex} in its names, it is only as
// exact as nobody removes nodes by hand: the server compares names.
func (h *Hold) Commit(ctx context.Context, ops ...zk.Op) ([]zk.Result, error) {
	results, err := h.commit(ctx, ops)
	if err != nil {
		return results, h.fail("commit", err)
	}
	return results, nil
}

func (h *Hold) commit(ctx context.Context, ops []zk.Op) ([]zk.Result, error) {
	if err := h.over(); err != nil {
		return nil, err
	}
	var checks []zk.Op
	for _, t := range h.tenures {
		if t.queue.client != h.tenures[0].queue.client {
			return nil, fmt.Errorf("%w: the locks belong to more than one client", zk.ErrBadArguments)
		}
		for _, p := range t.places {
			checks = append(checks, zk.CheckOp(p.path(), zk.AnyVersion))
		}
	}
	session := h.first().session
	var results []zk.Result
	err := retry(ctx, func() (err error) {
		results, err = session.Multi(ctx, slices.Concat(checks, ops)...)
		return err
	})
	if len(results) < len(checks) {
		// It can also be why ctx has ended: that of another lock, which this Commit is part of.
		if errors.Is(err, zk.ErrSessionExpired) && (ctx.Err() == nil || session.Context().Err() != nil) {
			err = fmt.Errorf("%w: %w", ErrLost, err)
		}
		return nil, err
	}
	for i, check := range results[:len(checks)] {
		if errors.Is(check.Err, zk.ErrNoNode) {
			h.tenureOf(i).lose(errPlaceGone) // its watch will be told, too, but later
			return results[len(checks):], fmt.Errorf("%w: %w", ErrLost, errPlaceGone)
		}
	}
	return results[len(checks):], err
}

// tenureOf is the tenure that the i-th of all the nodes belongs to.
func (h *Hold) tenureOf(i int) *tenure {
	for _, t := range h.tenures {
		if i < len(t.places) {
			return t
		}
		i -= len(t.places)
	}
	panic("holdfast: more results than nodes")
}

// over says why the Hold is over, or nil.
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

// lose ends the Hold, unless Unlock was first.
func (h *Hold) lose(loss error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unlocked || h.loss != nil {
		return
	}
	h.loss = loss
	h.cancel(loss)
	close(h.lost)
}

func (h *Hold) revoke() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.isRevoked {
		h.isRevoked = true
		close(h.revoked)
	}
}

// Unlock ends the Context, then removes our node, and returns when that is certain.
// It takes no context: it waits through lost connections for as long as the session
// lives, that is, at most until Deadline; after that the server has removed the node
// itself. So it is right to defer it also where the work's context has ended.
//
// ErrLost: the lock was lost before. ErrNotHeld: Unlock was called before.
func (h *Hold) Unlock() error {
	h.mu.Lock()
	if h.unlocked {
		h.mu.Unlock()
		return h.fail("unlock", ErrNotHeld)
	}
	h.unlocked = true
	h.cancel(ErrNotHeld)
	loss := h.loss
	h.mu.Unlock()

	for _, t := range slices.Backward(h.tenures) {
		if err := t.drop(h); err != nil && loss == nil {
			loss = err
		}
	}
	if loss != nil {
		return h.fail("unlock", loss)
	}
	return nil
}

// supersede ends a Hold whose tenures another has joined.
func (h *Hold) supersede() {
	h.mu.Lock()
	h.unlocked = true
	h.cancel(ErrNotHeld)
	h.mu.Unlock()
	for _, t := range h.tenures {
		t.forget(h)
	}
}

// letGo is Unlock on the way out of a Lock that must not outlast ctx: what is left to do
// then is done in the background.
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
	return &Error{Op: op, Path: h.tenures[0].queue.path, Err: err}
}
