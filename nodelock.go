package holdfast

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// A NodeLock is one ephemeral node, at the lock's path itself: the client that makes it holds the lock. There is no
// queue. Waiters are not served in order, and every release wakes all of them. So a NodeLock is for locks that are
// tried more than waited for. See Names that come back.
//
// The node's data identify its maker, so that the maker recognises it after a lost answer. A node of an earlier
// session of ours, which the server has not removed yet, is like any other: Lock waits for it.
type NodeLock struct {
	lock lock
}

// nodeGrammar reads no names: the node is the lock.
var nodeGrammar = &names.Grammar{Name: "node", Label: "node", Container: true}

// NewNodeLock names the lock at path. Lock makes the nodes above it when they are missing, as containers.
// Lock fails with ErrKind if the node is the
// directory of a lock with a queue, or is not ephemeral for another reason.
func NewNodeLock(c *zk.Client, path string, opts ...Option) *NodeLock {
	o := newOptions("a NodeLock", opts)
	o.grammar = nodeGrammar
	return &NodeLock{newLock(c, path, queue.Node, o)}
}

// Path is the path of the lock.
func (l *NodeLock) Path() string { return l.lock.Path }

// Lock waits until it has made the node. See [Mutex.Lock] for ctx.
func (l *NodeLock) Lock(ctx context.Context) (*Hold, error) {
	return l.lock.attempt(ctx, "lock", 0, func(ctx context.Context) (*Hold, error) {
		return outlive(ctx, func() (*Hold, error) { return l.enter(ctx, true) })
	})
}

// TryLock makes the node, or fails with ErrLocked if the node exists.
func (l *NodeLock) TryLock(ctx context.Context) (*Hold, error) {
	return l.lock.attempt(ctx, "try lock", 0, func(ctx context.Context) (*Hold, error) { return l.enter(ctx, false) })
}

func (l *NodeLock) enter(ctx context.Context, wait bool) (_ *Hold, err error) {
	q := &l.lock
	if err := q.valid(); err != nil {
		return nil, err
	}
	if held := q.heldNode(ctx); len(held) > 0 {
		if !q.reentrant {
			return nil, ErrDeadlock
		}
		return q.join(ctx, held[0])
	}
	session, err := q.Client.Session(ctx)
	if err != nil {
		return nil, err
	}
	cut := strings.LastIndexByte(q.Path, '/')
	a := names.Attempt{Prefix: q.Path[cut+1:], ID: names.NewID()} // not unique: the name is everybody's
	data, err := q.data(a)
	if err != nil {
		return nil, err
	}
	p := &queue.Place{Queue: q.Queue, Session: session, Dir: q.Path[:cut], Attempt: a, Exact: true, Data: data}
	err = errPanic
	defer func() {
		if err != nil {
			p.Leave(ctx)
		}
	}()
	for {
		around, err := p.CreateAround(ctx)
		switch {
		case err == nil:
			return l.begin(ctx, p, around)
		case errors.Is(err, zk.ErrNoNode):
			if err := p.Ensure(ctx, p.Dir); err != nil {
				return nil, err
			}
		case errors.Is(err, zk.ErrConnectionLoss):
			// The node tells whether it is ours, another's, or does not exist.
			if err := p.Find(ctx); err != nil {
				return nil, err
			}
			if p.Name() != "" {
				return l.begin(ctx, p, nil)
			}
		case !errors.Is(err, zk.ErrNodeExists):
			return nil, err
		default:
			if err := l.await(ctx, session, wait); err != nil {
				return nil, err
			}
		}
	}
}

// begin begins a tenure, unless a lock of another kind is around the node that we have made.
func (l *NodeLock) begin(ctx context.Context, p *queue.Place, around *queue.Around) (*Hold, error) {
	if err := l.lock.CheckAround(ctx, p.Session, around); err != nil {
		return nil, err
	}
	return newHold(ctx, &l.lock, p)
}

// occupied is the error for a node that is not ephemeral: it would never go.
func (l *NodeLock) occupied(ctx context.Context, listed []string) error {
	err := l.lock.CheckKind(ctx, listed)
	if err == nil {
		err = fmt.Errorf("%w: the node %s is not ephemeral, so it is no NodeLock: a lock with a queue may have left it, or it is something else: use another name, or remove the node if nobody needs it",
			ErrKind, l.lock.Path)
	}
	return fmt.Errorf("%w (%w)", err, zk.ErrNodeExists)
}

// hiddenNodeAgain is the pause between two attempts to make a node that we may not read.
const hiddenNodeAgain = 5 * time.Second

// await waits until the node is gone or has changed. If we may not read it, await waits for some time: the next
// attempt to make the node tells whether it is there.
func (l *NodeLock) await(ctx context.Context, session *zk.Session, wait bool) error {
	for {
		// We watch the children, not the data. A change of the data is no news, and would wake all waiters.
		var listed []string
		var stat zk.Stat
		var watch *zk.Watch
		err := zk.Retry(ctx, func() (err error) {
			listed, stat, watch, err = session.ChildrenW(ctx, l.lock.Path)
			return err
		})
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return nil
		case errors.Is(err, zk.ErrNoAuth) && !wait:
			return ErrLocked
		case errors.Is(err, zk.ErrNoAuth):
			_, err := queue.AwaitEvent(ctx, nil, hiddenNodeAgain+rand.N(hiddenNodeAgain))
			return err
		case err != nil:
			return err
		}
		changed := true
		switch {
		case stat.EphemeralOwner == 0:
			err = l.occupied(ctx, listed)
		case !wait:
			err = ErrLocked
		default:
			changed, err = queue.AwaitEvent(ctx, watch.C, queue.LookAgain())
		}
		watch.Stop()
		if changed || err != nil {
			return err
		}
	}
}
