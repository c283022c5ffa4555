package holdfast

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"holdfast/zk"
)

// A NodeLock is the simplest lock there is: one ephemeral node, at the lock's path itself,
// and whoever makes it has the lock. There is no queue: who waits is not served in order,
// and every release wakes all who wait, so it is for locks that are tried more than
// waited for. It has no state of its own and is safe for concurrent use.
//
// The node's data say whose it is, so that after a lost answer its maker knows it again.
// The node of an earlier session of ours, which the server has not removed yet, is as good
// as another's: it is waited for.
//
// Unlock looks whether the node is still its own before it deletes it. If somebody removes
// the node by hand right then, and another makes it again before the delete arrives, the
// delete meets that one, whose holder is told: the server compares versions, and those are
// alike. In a queue no name comes back, unless all of it is removed with its directory.
type NodeLock struct {
	queue queue
}

// nodeGrammar has no names: the node is the lock.
var nodeGrammar = &grammar{name: "node", label: "node", parent: zk.Container}

// NewNodeLock names the lock at path. The nodes above it are made when needed, as
// containers. WithLayout has no effect, and WithValue is refused, since the data have to
// tell one attempt from another. ErrKind: the node is the directory of a lock with a queue, or
// otherwise not ephemeral.
func NewNodeLock(c *zk.Client, path string, opts ...Option) *NodeLock {
	o := newOptions(opts)
	o.grammar = nodeGrammar
	return &NodeLock{queue{client: c, path: path, kind: kindNode, options: o}}
}

// Lock waits until it has made the node. See [Mutex.Lock] for ctx.
func (l *NodeLock) Lock(ctx context.Context) (*Hold, error) {
	h, err := outlive(ctx, func() (*Hold, error) { return l.enter(ctx, true) })
	if err != nil {
		return nil, &Error{Op: "lock", Path: l.queue.path, Err: err}
	}
	return h, nil
}

// TryLock makes the node, or fails with ErrLocked if it is there.
func (l *NodeLock) TryLock(ctx context.Context) (*Hold, error) {
	h, err := l.enter(ctx, false)
	if err != nil {
		return nil, &Error{Op: "try lock", Path: l.queue.path, Err: err}
	}
	return h, nil
}

func (l *NodeLock) enter(ctx context.Context, wait bool) (_ *Hold, err error) {
	q := &l.queue
	if err := validatePath(q.path); err != nil {
		return nil, err
	}
	if held := lineage(ctx, q.client, q.path); len(held) > 0 {
		if !q.reentrant {
			return nil, ErrDeadlock
		}
		return held[0].again(ctx)
	}
	session, err := q.client.Session(ctx)
	if err != nil {
		return nil, err
	}
	cut := strings.LastIndexByte(q.path, '/')
	a := attempt{prefix: q.path[cut+1:], id: newUUID()} // not unique: the name is everybody's
	data, err := q.data(a)
	if err != nil {
		return nil, err
	}
	p := &place{queue: q, session: session, dir: q.path[:cut], attempt: a, exact: true, data: data}
	defer func() {
		if err != nil {
			p.leave(ctx)
		}
	}()
	for {
		var stat zk.Stat
		err := retry(ctx, func() (err error) {
			p.asked = time.Now()
			_, stat, err = session.Create(ctx, q.path, data, zk.Ephemeral, q.acl...)
			return err
		})
		p.doubt = zk.MayHaveHappened(err)
		switch {
		case err == nil:
			p.made(p.prefix, stat)
			return newHold(ctx, q, p)
		case errors.Is(err, zk.ErrNoNode):
			if err := p.ensure(ctx, p.dir); err != nil {
				return nil, err
			}
		case errors.Is(err, zk.ErrConnectionLoss):
			// Ours, another's, or nobody's? The node tells.
			if _, err := p.find(ctx); err != nil {
				return nil, err
			}
			if p.name != "" {
				return newHold(ctx, q, p)
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

// occupied says why a node that is not ephemeral is no lock of ours: it would never go.
func (l *NodeLock) occupied(ctx context.Context, names []string) error {
	err := l.queue.checkKind(ctx, names)
	if err == nil {
		err = fmt.Errorf("%w: the node %s is not ephemeral, so it is no NodeLock: a lock with a queue may have left it, or it is something else: use another name, or remove the node if nobody needs it",
			ErrKind, l.queue.path)
	}
	return fmt.Errorf("%w (%w)", err, zk.ErrNodeExists)
}

// await waits until the node has gone or changed.
func (l *NodeLock) await(ctx context.Context, session *zk.Session, wait bool) error {
	// Not of the data: a change of those is no news, and would wake all who wait.
	var names []string
	var stat zk.Stat
	var watch *zk.Watch
	err := retry(ctx, func() (err error) {
		names, stat, watch, err = session.ChildrenW(ctx, l.queue.path)
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case err != nil:
		return err
	}
	defer watch.Stop()
	switch {
	case stat.EphemeralOwner == 0:
		return l.occupied(ctx, names)
	case !wait:
		return ErrLocked
	}
	select {
	case ev := <-watch.C:
		return ev.Err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
