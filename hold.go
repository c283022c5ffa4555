package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"holdfast/internal/queue"
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
	outer   *Hold // that the context of Lock descended from

	mu        sync.Mutex // guards the fields below
	loss      error      // why the lock is lost; nil while it is not
	unlocked  bool
	isRevoked bool
}

// newHold begins a tenure of places, and makes its first Hold.
func newHold(ctx context.Context, l *lock, places ...*queue.Place) (*Hold, error) {
	t, err := newTenure(ctx, l, places)
	if err != nil {
		return nil, err
	}
	h := holdOf(ctx, t)
	if !t.add(h) { // lost at this very moment
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

// Context ends when the lock is no longer held: by Unlock, with the cause ErrNotHeld, or by the loss,
// with a cause that is ErrLost. It has the values of the context that was given to Lock, not its
// deadline. A Lock of the same lock with a context that descends from it fails with ErrDeadlock, or
// joins (see Reentrant).
func (h *Hold) Context() context.Context { return h.ctx }

// Lost is closed when the lock is lost. It is for work that must not be cancelled. Unlock does not close
// it.
func (h *Hold) Lost() <-chan struct{} { return h.lost }

// Revoked is closed when somebody has asked for the lock (see Revoke; Curator's Revoker does the same).
// Nothing else happens: the holder decides whether to unlock, and when.
func (h *Hold) Revoked() <-chan struct{} { return h.revoked }

// Deadline is the moment until which the lock is proven to be held. It moves on while the server
// answers. When it passes, the lock is lost.
func (h *Hold) Deadline() time.Time {
	deadline := h.first().Session.Deadline()
	for _, t := range h.tenures[1:] {
		if d := t.places[0].Session.Deadline(); d.Before(deadline) {
			deadline = d
		}
	}
	return deadline
}

// Token is the fencing token: the zxid of the creation of our node. It is larger than the token of every
// earlier holder that excluded us. For a MultiLock it is the first lock's; see Tokens.
func (h *Hold) Token() int64 { return h.first().Token }

// A LockToken is the fencing token of one lock.
type LockToken struct {
	Path string // of the lock; of a Slots the node of the slot, whose tokens grow on their own
	// Layout names the lock's layout by its forms, since locks of different forms can have
	// one path: names.Default, kazoo or another of this package's, as ParseLayout takes them;
	// named:NAME for one of several in a directory; form:… for a program's own, with its
	// forms. Only those of the last two kinds share a directory, and only their names
	// contain a colon. A NodeLock's is node.
	Layout string
	Token  int64
}

// Tokens are the fencing tokens in the order in which the locks were acquired. Only a MultiLock has more
// than one. Each guards the resource of its own lock: no function of several tokens grows with every
// tenure.
func (h *Hold) Tokens() []LockToken {
	tokens := make([]LockToken, len(h.tenures))
	for i, t := range h.tenures {
		path := t.lock.Path
		if t.lock.Kind == queue.Slots {
			path = t.places[0].Path()
		}
		tokens[i] = LockToken{Path: path, Layout: t.lock.Grammar.Label, Token: t.places[0].Token}
	}
	return tokens
}

// Path is the path of our node. If there are several, it is that of the first.
func (h *Hold) Path() string { return h.first().Path() }

// Session is the id of the session that holds the lock.
func (h *Hold) Session() int64 { return h.first().Session.ID() }

func (h *Hold) first() *queue.Place { return h.tenures[0].places[0] }

// Commit executes ops as one transaction that succeeds only while the lock is held: it begins with
// checks that our nodes exist. That is exact and needs no clock, so use it for data that are kept in
// ZooKeeper itself. The results are those of ops. Commit uses the session that holds the lock.
//
// The error is ErrLost if the lock is gone; then nothing was done. After a lost connection, the
// transaction may have been done all the same ([zk.MayHaveHappened]). The server compares names. Another
// node can have the name of a NodeLock's or a slot's node, or of a node in a [Layout] without {uuid} or {hex}. There,
// Commit is exact only while nobody removes nodes by hand.
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
		if t.lock.Client != h.tenures[0].lock.Client {
			return nil, fmt.Errorf("%w: the locks belong to more than one client", zk.ErrBadArguments)
		}
		for _, p := range t.places {
			checks = append(checks, zk.CheckOp(p.Path(), zk.AnyVersion))
		}
	}
	session := h.first().Session
	var results []zk.Result
	err := queue.Retry(ctx, func() (err error) {
		results, err = session.Multi(ctx, slices.Concat(checks, ops)...)
		return err
	})
	if len(results) < len(checks) {
		// The error can also be the cause of ctx, which belongs to another lock.
		if errors.Is(err, zk.ErrSessionExpired) && (ctx.Err() == nil || session.Context().Err() != nil) {
			err = fmt.Errorf("%w: %w", ErrLost, err)
		}
		return nil, err
	}
	for i, check := range results[:len(checks)] {
		if errors.Is(check.Err, zk.ErrNoNode) {
			h.tenureOf(i).lose(queue.ErrGone) // its watch will fire, too, but later
			return results[len(checks):], fmt.Errorf("%w: %w", ErrLost, queue.ErrGone)
		}
	}
	return results[len(checks):], err
}

// tenureOf returns the tenure of the i-th of all the nodes.
func (h *Hold) tenureOf(i int) *tenure {
	for _, t := range h.tenures {
		if i < len(t.places) {
			return t
		}
		i -= len(t.places)
	}
	panic("holdfast: more results than nodes")
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

// Unlock ends the Context, then removes our node, and returns when that is certain. It takes no
// context. It waits through lost connections for as long as the session lives, which is at most until
// Deadline. After that the server has removed the node itself. So it is right to defer Unlock even if
// the work's context has ended.
//
// The error is ErrLost if the lock was lost before, and ErrNotHeld if Unlock was called before.
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

// supersede ends h after another Hold has joined its tenures.
func (h *Hold) supersede() {
	h.mu.Lock()
	h.unlocked = true
	h.cancel(ErrNotHeld)
	h.mu.Unlock()
	for _, t := range h.tenures {
		t.forget(h)
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
	return &Error{Op: op, Path: h.tenures[0].lock.Path, Err: err}
}
