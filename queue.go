package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"holdfast/zk"
)

// A queue is the children of one node, in the order of their numbers.
type queue struct {
	client *zk.Client
	path   string
	note   note
}

// A place is our node in a queue. It belongs to one session and never to another.
type place struct {
	queue   *queue
	session *zk.Session
	prefix  string // the name without its number: unique to this place
	name    string // "" until it is known
	doubt   bool   // a create was sent, and whether it happened is not known
	token   int64  // czxid of the node
}

// errPlaceGone: our node is not there any more. Somebody has removed it, or the server
// has ended our session and has not come to tell us yet.
var errPlaceGone = errors.New("its node is gone")

// enter is the way from Lock to a Hold. Without wait, it fails with ErrLocked where
// it would have to wait.
func (q *queue) enter(ctx context.Context, wait bool) (_ *Hold, err error) {
	if err := validatePath(q.path); err != nil {
		return nil, err
	}
	if held(ctx, q) {
		return nil, ErrDeadlock
	}
	s, err := q.client.Session(ctx) // the life that this place will belong to
	if err != nil {
		return nil, err
	}
	p := &place{queue: q, session: s, prefix: protectedName()}
	names, err := p.join(ctx) // 1. our node, at the back
	defer func() {
		if err != nil {
			p.leave(ctx) // or everyone behind us waits for a ghost
		}
	}()
	for err == nil {
		ahead, present := mutexAhead(names, p.name) // 2. whom must we wait for?
		switch {
		case !present:
			return nil, errPlaceGone
		case ahead == "":
			return p.hold(ctx) // 4. nobody: it is ours, see hold.go
		case !wait:
			return nil, ErrLocked
		}
		if err = p.await(ctx, ahead); err == nil { // 3. watch it go, and look again
			names, err = p.siblings(ctx)
		}
	}
	return nil, err
}

func validatePath(path string) error {
	if path == "/" {
		return fmt.Errorf("%w %q: the root cannot be a lock", zk.ErrInvalidPath, path)
	}
	return zk.ValidatePath(path)
}

// join makes our node and lists its siblings in one round trip: the server answers
// in order, so the list is from after the create, and shows everybody ahead of us.
// A server that lags shows too many, never too few.
func (p *place) join(ctx context.Context) ([]string, error) {
	data, err := p.queue.note.encode()
	if err != nil {
		return nil, err
	}
	create := zk.CreateOp(p.node(p.prefix), data, zk.EphemeralSequential)
	for {
		res, err := p.session.Pipeline(ctx, create, zk.ChildrenOp(p.queue.path))
		if res == nil {
			return nil, err
		}
		made, list := res[0], res[1]
		p.doubt = zk.MayHaveHappened(made.Err)
		switch {
		case made.Err == nil:
			p.name, p.token = strings.TrimPrefix(made.Path, p.queue.path+"/"), made.Stat.Czxid
			if list.Err == nil {
				return list.Children, nil
			}
			return p.siblings(ctx)
		case errors.Is(made.Err, zk.ErrNoNode):
			if err := p.ensureParent(ctx, p.queue.path); err != nil {
				return nil, err
			}
		case errors.Is(made.Err, zk.ErrConnectionLoss):
			// Was it made? The answer is lost, the node perhaps not.
			if names, err := p.find(ctx); err != nil || p.name != "" {
				return names, err
			}
		default:
			return nil, made.Err
		}
	}
}

// ensureParent makes the nodes down to path. They are containers, so that the server
// tidies up what locks leave behind; one that goes while we come is made again.
func (p *place) ensureParent(ctx context.Context, path string) error {
	for {
		_, _, err := p.session.Create(ctx, path, []byte{}, zk.Container)
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists):
			return nil
		case errors.Is(err, zk.ErrConnectionLoss): // made or not: ask again
		case errors.Is(err, zk.ErrNoNode) && strings.LastIndexByte(path, '/') > 0:
			if err := p.ensureParent(ctx, path[:strings.LastIndexByte(path, '/')]); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// find looks for the node of a create whose answer was lost. The sync makes the
// server that we reach now show all that the old one had carried through; what the
// old one has not, it can no longer (session moved). The name was never used before
// nor in another session, so what is found is ours.
func (p *place) find(ctx context.Context) ([]string, error) {
	for {
		if err := p.session.Sync(ctx, p.queue.path); err != nil {
			if errors.Is(err, zk.ErrConnectionLoss) {
				continue
			}
			return nil, err
		}
		names, err := p.siblings(ctx)
		if errors.Is(err, errPlaceGone) { // not even its parent is there
			p.doubt = false
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, p.prefix) })
		if i < 0 {
			p.doubt = false
			return nil, nil
		}
		stat, ok, err := p.session.Exists(ctx, p.node(names[i]))
		switch {
		case errors.Is(err, zk.ErrConnectionLoss):
			continue
		case err != nil:
			return nil, err
		case !ok:
			return nil, errPlaceGone
		}
		p.name, p.token, p.doubt = names[i], stat.Czxid, false
		return names, nil
	}
}

// siblings lists the queue.
func (p *place) siblings(ctx context.Context) ([]string, error) {
	for {
		names, _, err := p.session.Children(ctx, p.queue.path)
		switch {
		case errors.Is(err, zk.ErrConnectionLoss): // reading twice harms nobody
		case errors.Is(err, zk.ErrNoNode):
			return nil, errPlaceGone
		default:
			return names, err
		}
	}
}

// await returns when the node ahead has gone, or has changed in any other way. It
// watches that node alone: a release wakes one waiter, not the crowd.
func (p *place) await(ctx context.Context, ahead string) error {
	_, _, watch, err := p.session.GetW(ctx, p.node(ahead))
	switch {
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrConnectionLoss):
		return nil // gone before we could look, or worth another look
	case err != nil:
		return err
	}
	defer watch.Stop()
	select {
	case ev := <-watch.C:
		return ev.Err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave gives the place up. It waits for that while ctx lives; the node is removed in
// any case, or its session ends.
func (p *place) leave(ctx context.Context) {
	if p.name == "" && !p.doubt {
		return
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		p.remove()
	}()
	select {
	case <-gone:
	case <-ctx.Done():
	}
}

// remove deletes our node, and does not rest before it is gone or the session is
// over: a node that stays in the queue blocks everybody (CURATOR-486). It has the
// session's context, since the caller's may be what ended (vitess #15756). The name
// is ours alone, so it never hits a successor's node.
//
// errPlaceGone: the node was not there any more, and it was not us.
func (p *place) remove() error {
	ctx := p.session.Context()
	doubt := false // an earlier delete may have happened
	for {
		if p.name == "" {
			if _, err := p.find(ctx); err != nil && !errors.Is(err, errPlaceGone) {
				return err
			}
			if p.name == "" {
				return nil
			}
		}
		err := p.session.Delete(ctx, p.node(p.name), zk.AnyVersion)
		switch {
		case err == nil, doubt && errors.Is(err, zk.ErrNoNode):
			return nil
		case errors.Is(err, zk.ErrNoNode):
			return errPlaceGone
		case !errors.Is(err, zk.ErrConnectionLoss):
			return err
		}
		doubt = true
	}
}

func (p *place) node(name string) string { return p.queue.path + "/" + name }
