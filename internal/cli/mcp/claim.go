package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast"
	"holdfast/internal/budget"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/deadlock"
	"holdfast/internal/cli/outer"
	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
	"holdfast/internal/lend"
	"holdfast/layout"
	"holdfast/reserve"
	"holdfast/zk"
)

const (
	// agentLookPatience limits a read of the queue for a message, and agentLooksAt the places that it reads.
	agentLookPatience = 2 * time.Second
	agentLooksAt      = 1000
	// agentTries is how many times the patience for one answer an attempt without a wait lasts at most.
	agentTries = 3
)

// The causes of contexts that end a wait, and an attempt without one.
var (
	errAgentWaited    = errors.New("the wait timed out")
	errAgentUndecided = errors.New("the server has not decided it in time")
)

// A claim is the lock or the lease that a call is about.
type claim struct {
	*settings
	name    string // as its user gave it; for a lease with its tree
	path    string // of the queue
	isLease bool
	root    string   // of a lease: the path of the tree
	below   string   // of a lease: its path in the tree
	above   []string // of a lease: the queues of the paths above it, the nearest first
	shared  bool
	why     string
	wait    time.Duration
	labels  map[string]string
	stuck   stuck
}

func (s *settings) claimLock(name string) (*claim, error) {
	path, err := s.LockPath(name)
	if err != nil {
		return nil, err
	}
	return &claim{settings: s, name: name, path: path, labels: s.labels}, nil
}

// claimPath returns the lease of a path of files.
func (s *settings) claimPath(path string) (*claim, error) {
	below, err := s.leased(path)
	if err != nil {
		return nil, err
	}
	k, err := s.claimLock(s.tree)
	if err != nil {
		return nil, err
	}
	k.name = strings.TrimSuffix(s.tree+"/"+below, "/")
	k.inTree(below)
	_, err = s.LockPath(k.name) // refuses names that others would mistake
	return k, err
}

// inTree sets what a lease has and a lock has not.
func (k *claim) inTree(below string) {
	queue := func(name string) string { return k.root + "/" + name }
	k.isLease, k.root, k.below, k.path = true, k.path, below, k.path+"/"+zk.EscapeName("/")
	if below == "" {
		return
	}
	name := ""
	for part := range strings.SplitSeq(below, "/") {
		k.above = append([]string{k.path}, k.above...)
		name += zk.EscapeName("/" + part)
		k.path = queue(name)
	}
}

// queues returns the paths of the queues in which the claim waits.
func (k *claim) queues() []string { return append([]string{k.path}, k.above...) }

// called returns the name of one of the queues.
func (k *claim) called(path string) string {
	if path == k.path {
		return k.name
	}
	return k.nameOf(path)
}

// deadlock returns an error if the holdfast run around the agent holds the lock: it waits for the agent.
func (k *claim) deadlock() error {
	for _, path := range k.queues() {
		shared := k.shared || path != k.path
		for _, held := range outer.Locks() {
			if k.wait > 0 && held.Key == outer.Key(k.target.URL, path) && !(held.Shared && shared) {
				return &term.Fault{Code: term.ExitFailed, Err: fmt.Errorf("%s: would deadlock: the holdfast run around this agent holds it", k.called(path)), Hint: "do without the lock, or let wait_seconds be 0"}
			}
		}
	}
	return nil
}

func (k *claim) locker(c *zk.Client) holdfast.Locker {
	opts := []holdfast.Option{
		holdfast.WithOwner(k.owner), holdfast.WithReason(k.why), holdfast.WithLabels(k.labels),
		lend.WithinSession(outer.Session(k.target.URL)).(holdfast.Option),
	}
	if k.yields {
		opts = append(opts, lend.WithDetection(nil).(holdfast.Option))
	}
	switch {
	case k.isLease:
		return holdfast.NewTree(c, k.root, opts...).Path(k.below)
	case k.shared:
		return reserve.Locker(holdfast.NewRWMutex(c, k.path, opts...).RLocker())
	}
	return reserve.Locker(holdfast.NewMutex(c, k.path, opts...))
}

// acquire waits for the lock. If another client has it, the error is a fault with the code term.ExitBusy. If the session ends
// before the lock can be used, the wait goes on in the next session.
func (k *claim) acquire(ctx context.Context, c *conn.Connection) (*holdfast.Hold, error) {
	for until := time.Now().Add(k.wait); ; {
		h, err := k.acquireOnce(ctx, c, time.Until(until))
		over := errors.Is(err, holdfast.ErrLost) || errors.Is(err, zk.ErrSessionExpired)
		if !over || time.Until(until) <= 0 || ctx.Err() != nil {
			return h, err
		}
	}
}

// acquireOnce is acquire in one session.
func (k *claim) acquireOnce(ctx context.Context, c *conn.Connection, left time.Duration) (*holdfast.Hold, error) {
	if err := k.lonely(ctx, c.Client); err != nil {
		return nil, err
	}
	if left > 0 {
		return k.waitFor(ctx, c, left)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go c.Watch(ctx, k.Patience(), cancel)
	bounded, stop := context.WithTimeoutCause(ctx, agentTries*k.Patience(), errAgentUndecided)
	defer stop()
	h, err := k.locker(c.Client).TryLock(bounded)
	switch {
	case errors.Is(err, errAgentUndecided):
		return nil, k.unanswered(c, agentTries*k.Patience(), err)
	case errors.Is(err, holdfast.ErrLocked):
		return nil, k.busy(ctx, c, err)
	case errors.Is(err, zk.ErrSessionExpired) && c.Contact.Lost() > 0:
		return nil, k.lostContact(c)
	case err != nil:
		return nil, k.failed(err)
	}
	return h, nil
}

func (k *claim) waitFor(ctx context.Context, c *conn.Connection, left time.Duration) (*holdfast.Hold, error) {
	bounded, stop := context.WithTimeoutCause(ctx, left, errAgentWaited)
	defer stop()
	bounded, giveUp := context.WithCancelCause(bounded)
	defer giveUp(nil)
	go k.stuck.watch(bounded, k.cycles(c), k.name, giveUp)
	h, err := k.locker(c.Client).Lock(bounded)
	switch {
	case errors.Is(err, errAgentWaited):
		busy := k.busy(ctx, c, err)
		if c.Contact.Lost() > 0 { // nobody knows who holds the lock
			return nil, k.lostContact(c)
		}
		return nil, busy
	case err != nil:
		return nil, k.failed(err)
	}
	return h, nil
}

// cycles returns what looks for deadlocks of a wait.
func (k *claim) cycles(c *conn.Connection) deadlock.Watch {
	return deadlock.Watch{
		Client: c.Client, Prefixes: deadlock.Prefixes(k.Flags, append(outer.Paths(k.target.URL), k.queues()...)), LockName: k.nameOf,
		Yield: k.yields, Called: "you", End: "release what you hold",
	}
}

// lonely fails if a queue has nodes beside it that look like places, but have names of no layout: their owners may hold
// the lock at the same time.
func (k *claim) lonely(ctx context.Context, c *zk.Client) error {
	ctx, cancel := context.WithTimeout(ctx, agentLookPatience)
	defer cancel()
	for _, path := range k.queues() {
		nodes, err := holdfast.Foreign(ctx, c, path, layout.Curator)
		if err != nil {
			return nil // Lock itself looks for the most harmful ones
		}
		for _, node := range nodes {
			if node.Kind == "" {
				return term.Misconfigured("choose another name for the lock, or remove the node if it is unused",
					"%s: the node %s looks like a place in a queue, but its name fits no layout: its owner may hold the lock at the same time", k.name, node.Path)
			}
		}
	}
	return nil
}

// blocker says who holds the lock, or until when it is reserved. It returns "" if that cannot be read or if the agent holds
// the lock itself.
func (k *claim) blocker(ctx context.Context, c *zk.Client) (name, why string) {
	ctx, cancel := context.WithTimeout(ctx, agentLookPatience)
	defer cancel()
	session, err := c.Session(ctx)
	if err != nil {
		return "", ""
	}
	for _, path := range k.queues() {
		queue, err := holdfast.List(budget.WithMost(ctx, agentLooksAt), c, path, layout.Curator)
		if slices.Contains(k.above, path) { // a lease shares the paths above it with others below them
			queue = slices.DeleteFunc(queue, func(e holdfast.Entry) bool { return e.Shared })
		}
		if err == nil && len(queue) > 0 && queue[0].Session != session.ID() {
			return k.called(path), show.HeldBy(queue[0], time.Now())
		}
		if r, err := reserve.Of(ctx, c, path, layout.Curator); err == nil && r != nil {
			return k.called(path), show.Reservation(r)
		}
	}
	return "", ""
}

// busy is the error of a lock that another client has. err is that of the attempt.
func (k *claim) busy(ctx context.Context, c *conn.Connection, err error) error {
	name, why := k.blocker(ctx, c.Client)
	if r, ok := errors.AsType[*reserve.Reservation](err); ok {
		name, why = k.called(r.Path), show.Reservation(r)
	}
	if _, requested := errors.AsType[*zk.Error](err); why == "" && requested {
		return k.unanswered(c, k.wait, err)
	}
	if why == "" {
		name, why = k.name, "locked"
	}
	if k.wait > 0 {
		why = fmt.Sprintf("timed out after %v: %s", k.wait, why)
	}
	return &term.Fault{Code: term.ExitBusy, Err: fmt.Errorf("%s: %s", name, why)}
}

// unanswered is the error of a wait that ended during a request. So nobody is known to hold the lock.
func (k *claim) unanswered(c *conn.Connection, after time.Duration, err error) error {
	if e, ok := errors.AsType[*holdfast.Error](err); ok {
		err = e.Err
	}
	return &term.Fault{Code: term.ExitUnavailable, Err: fmt.Errorf("%s: timed out after %v, and nobody is known to hold it: %v%s", k.name, after, err, c.Contact.Trouble()), Hint: "holdfast doctor examines the server"}
}

// lostContact is the error of a wait that lost contact with all servers.
func (k *claim) lostContact(c *conn.Connection) error {
	return k.target.Explain(c.Contact.GaveUp(c.Contact.Lost().Round(time.Second)))
}

// failed is the error of a lock with its name.
func (k *claim) failed(err error) error {
	reason := err
	if lock, ok := errors.AsType[*holdfast.Error](err); ok {
		reason = lock.Err
	}
	switch {
	case errors.Is(err, holdfast.ErrKind):
		return term.Misconfigured("", "%s: %w", k.name, reason) // the error says what to do
	case errors.Is(err, holdfast.ErrLayout), errors.Is(err, zk.ErrBadArguments):
		return term.Usage("", "%s: %w", k.name, reason)
	}
	return k.target.Explain(err)
}
