package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// errPanic is the error of a function that makes a node until it returns. So its deferred cleanup also runs if it does
// not return: a hook of the program has panicked, see [zk.Trace].
var errPanic = errors.New("a hook has panicked")

// arrive makes our node and notes who is ahead of it. A place that shares its lists waits here for the first one: join has
// asked for it, and p.answer is where it comes (see shared_list.go).
func (p *Place) arrive(ctx context.Context, patience bool) (err error) {
	err = errPanic
	defer func() {
		if err == errPanic {
			p.unshare()
			p.Leave(ctx)
		}
	}()
	if patience {
		p.enroll() // see shared_list.go
	}
	p.ahead, err = p.join(ctx)
	if p.answer != nil {
		return p.share(ctx)
	}
	return err
}

// join makes our node and lists its siblings in one round trip. The server answers in order, so the
// list is younger than the create, and shows everybody ahead of us. A server that lags shows too
// many, never too few. A place that shares its lists asks for a shared one instead, and returns nobody.
// It learns who is ahead when that list arrives (see share).
func (p *Place) join(ctx context.Context) (names.Ahead, error) {
	create := zk.CreateOp(p.node(p.Prefix), p.Data, zk.EphemeralSequential, p.Queue.ACL...)
	alone := !p.shares()
	for {
		ops, around := []zk.Op{create}, (*Around)(nil)
		if alone {
			ops, around = p.Queue.looks(p.Session, append(ops, zk.ChildrenOp(p.Dir)))
		}
		beside := len(ops) // the results from here on are of Queue.Beside
		if alone {
			ops = append(ops, p.Queue.Beside...)
		}
		var res []zk.Result
		err := zk.Retry(ctx, func() (err error) {
			p.Sending()
			if res, err = p.Session.Pipeline(ctx, ops...); res != nil {
				err = res[0].Err // the outcome of the list is another matter
				if alone {
					around.take(res[2:beside])
				}
			}
			return err
		})
		p.Sent(zk.MayHaveHappened(err))
		switch {
		case err == nil:
			made := res[0]
			p.Created(made.Path, made.Stat)
			switch {
			case len(res) == 1:
				p.group.ask(p, true)
				return names.Ahead{}, nil
			case res[1].Err == nil:
				a, err := p.position(ctx, res[1].Children, around)
				if err == nil && a.Nobody() {
					p.seen = res[beside:]
				}
				return a, err
			}
			return p.look(ctx)
		case errors.Is(err, zk.ErrNoNode):
			if err := p.Ensure(ctx, p.Dir); err != nil {
				return names.Ahead{}, err
			}
		case errors.Is(err, zk.ErrConnectionLoss):
			// The answer is lost. The node may exist all the same.
			listed, err := p.find(ctx)
			switch {
			case err != nil:
				return names.Ahead{}, err
			case p.path != "": // rare: the answer to a create is lost, and the node exists
				return p.position(ctx, listed, nil)
			}
			if err := p.missed(ctx); err != nil {
				return names.Ahead{}, err
			}
		default:
			return names.Ahead{}, p.Queue.underNode(p.node(p.Prefix), err)
		}
	}
}

// CreateAround makes our node, which has a name of its own, and reads what is around it in the same flush, for
// CheckAround.
func (p *Place) CreateAround(ctx context.Context) (*Around, error) {
	ops, around := p.Queue.looks(p.Session, []zk.Op{zk.CreateOp(p.node(p.Prefix), p.Data, zk.Ephemeral, p.Queue.ACL...)})
	var res []zk.Result
	err := zk.Retry(ctx, func() (err error) {
		p.Sending()
		if res, err = p.Session.Pipeline(ctx, ops...); res != nil {
			err = res[0].Err
			around.take(res[1:])
		}
		return err
	})
	p.Sent(zk.MayHaveHappened(err))
	if err != nil {
		return nil, err
	}
	p.Created(p.node(p.Prefix), res[0].Stat)
	return around, nil
}

// look lists the queue again and returns who is ahead.
func (p *Place) look(ctx context.Context) (names.Ahead, error) {
	if p.shares() {
		p.group.ask(p, false)
		err := p.share(ctx)
		return p.ahead, err
	}
	return p.lookAlone(ctx)
}

// Ensure makes the nodes down to path. In most layouts they are containers, so that the server
// removes what locks leave behind. A container that is removed meanwhile is made again. On a server without containers,
// the nodes are persistent, and stay.
func (p *Place) Ensure(ctx context.Context, path string) error {
	for {
		mode := p.Queue.parentMode()
		err := zk.Repeat(ctx, func() error {
			_, _, err := p.Session.Create(ctx, path, []byte{}, mode, p.Queue.directoryACL(path)...)
			return err
		})
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists):
			return nil
		case mode == zk.Container && (errors.Is(err, zk.ErrUnimplemented) || errors.Is(err, zk.ErrBadArguments)):
			noContainers.Of(p.Queue.Client).Store(true)
		case errors.Is(err, zk.ErrNoNode) && strings.LastIndexByte(path, '/') > 0:
			if err := p.Ensure(ctx, path[:strings.LastIndexByte(path, '/')]); err != nil {
				return err
			}
		case errors.Is(err, zk.ErrNoNode):
			return fmt.Errorf("%w: the client's chroot does not exist: create it, for example with zk.Config.CreateChroot", err)
		default:
			return p.Queue.underNode(path, err)
		}
	}
}

// missed is for a place without a node. The error is a Yielded if a newer one has removed a node of our arrival, and the
// answer to its create was lost, so that the arrival does not know of it. A new node would be newer than that newer one.
func (p *Place) missed(ctx context.Context) error {
	a := p.arrival
	if a == nil || a.First != 0 || len(a.tried) == 0 || a.Sort() == "" {
		return nil
	}
	err := p.barrier(ctx)
	var data []byte
	if err == nil {
		err = zk.Retry(ctx, func() (err error) {
			data, _, err = p.Session.Get(ctx, p.Dir)
			return err
		})
	}
	if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth) {
		return err
	}
	o := readRecord(data)[a.Sort()]
	if slices.ContainsFunc(a.tried, func(id uint32) bool { return slices.Contains(o.Gone, id) }) {
		return a.yielded(o)
	}
	return nil
}
