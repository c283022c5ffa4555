package holdfast

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"holdfast/zk"
)

// A place is our node in a queue, or what stands for it in a lock of another kind. It
// belongs to one session and never to another.
type place struct {
	queue   *queue
	session *zk.Session
	dir     string // the node above; "" is the root
	attempt
	exact  bool // the prefix is the whole name
	shared bool
	data   []byte    // of the node, when it is made
	name   string    // "" until it is known
	doubt  bool      // a create was sent, and whether it happened is not known
	asked  time.Time // when the create was sent that has made it, or may have
	ctime  int64     // of the node, by the server's clock, in milliseconds
	czxid  int64     // of the node; tells it from another of the same name
	token  int64     // the fencing token: the czxid, unless the tenure is older than the node
	joined time.Time
	known  bool // its first list has shown that no other kind of lock has the name
	long   bool // the queue was seen to be long, and those who pass it leave marks
	watch  lookout
	lease  *zk.Lease // of the next in line, see prepare; the tenure takes it over
	// Of a holder that is to leave a mark: where. It holds one answer, once that is there.
	directory chan directory

	waits    bool   // it is counted among musters
	crowd    *crowd // that it shares lists with; nil: with nobody. That guards the fields below:
	seq      int32  // its number
	urgent   bool   // it cannot wait for a list until others need one
	standing bool   // it is counted as one that waits for somebody

	answer <-chan *roll // the list that it has asked for; nil: none
}

// A directory is the node above a queue, as somebody who wants to write a mark finds it.
type directory struct {
	version int32
	free    bool // its data may be written over
}

// errPlaceGone: our node is not there any more. Somebody has removed it, or the server
// has ended our session and has not come to tell us yet.
var errPlaceGone = errors.New("its node is gone")

func (p *place) node(name string) string { return p.dir + "/" + name }

// path is that of our node.
func (p *place) path() string { return p.node(p.name) }

// made notes what our node has become.
func (p *place) made(name string, stat zk.Stat) {
	p.name, p.czxid, p.token, p.doubt = name, stat.Czxid, stat.Czxid, false
	p.ctime, p.joined = stat.Ctime, time.Now()
}

// at is a moment since we asked for our node, by the server's clock.
func (p *place) at(t time.Time) int64 { return p.ctime + t.Sub(p.asked).Milliseconds() }

// join makes our node and lists its siblings in one round trip: the server answers
// in order, so the list is from after the create, and shows everybody ahead of us.
// A server that lags shows too many, never too few. In a crowd, it asks for a list that it
// shares with others instead, and who is ahead is not known before that comes (see share).
func (p *place) join(ctx context.Context) (ahead, error) {
	create := zk.CreateOp(p.node(p.prefix), p.data, zk.EphemeralSequential, p.queue.acl...)
	ops := []zk.Op{create, zk.ChildrenOp(p.dir)}
	if p.inCrowd() {
		ops = ops[:1]
	}
	for {
		var res []zk.Result
		err := retry(ctx, func() (err error) {
			p.asked = time.Now()
			if res, err = p.session.Pipeline(ctx, ops...); res != nil {
				err = res[0].Err // what became of the list is another matter
			}
			return err
		})
		p.doubt = zk.MayHaveHappened(err)
		switch {
		case err == nil:
			made := res[0]
			p.made(strings.TrimPrefix(made.Path, p.dir+"/"), made.Stat)
			switch {
			case len(res) == 1:
				p.crowd.ask(p, true)
				return ahead{}, nil
			case res[1].Err == nil:
				return p.ahead(ctx, res[1].Children)
			}
			return p.look(ctx)
		case errors.Is(err, zk.ErrNoNode):
			if err := p.ensure(ctx, p.dir); err != nil {
				return ahead{}, err
			}
		case errors.Is(err, zk.ErrConnectionLoss):
			// Was it made? The answer is lost, the node perhaps not.
			names, err := p.find(ctx)
			switch {
			case err != nil:
				return ahead{}, err
			case p.name != "":
				return p.ahead(ctx, names)
			}
		default:
			return ahead{}, p.queue.underNode(p.path(), err)
		}
	}
}

// ahead is what the names of the queue say. The first time, they also have to say that the
// queue is the only lock of this name.
func (p *place) ahead(ctx context.Context, names []string) (ahead, error) {
	p.seen(names)
	a, err := p.queue.grammar.ahead(names, p.name)
	if err != nil || p.known {
		return a, err
	}
	if a.others > 0 {
		if err := p.queue.checkKind(ctx, names); err != nil {
			return ahead{}, err
		}
	}
	p.known = true
	return a, nil
}

// twinned says why a place finds its own number twice. If names can come back, its node may
// have been removed with the directory, and a writer with its name has stepped down since.
func (p *place) twinned(ctx context.Context) error {
	if p.unique {
		return errSameNumber
	}
	if _, err := p.stat(ctx); err != nil {
		return err
	}
	return errSameNumber
}

// stat describes our node. Another node of the same name is not ours: then, and if there is
// none, the error is errPlaceGone.
func (p *place) stat(ctx context.Context) (zk.Stat, error) {
	var stat zk.Stat
	var ok bool
	err := retry(ctx, func() (err error) {
		stat, ok, err = p.session.Exists(ctx, p.path())
		return err
	})
	if err == nil && (!ok || stat.Czxid != p.czxid) {
		err = errPlaceGone
	}
	return stat, err
}

// seen takes note of how long the queue is.
func (p *place) seen(names []string) {
	if p.queue.grammar.marks && len(names) > longQueue {
		p.long = true
	}
}

// look lists the queue again.
func (p *place) look(ctx context.Context) (ahead, error) {
	if p.inCrowd() {
		return p.lookTogether(ctx)
	}
	return p.lookAlone(ctx)
}

func (p *place) lookAlone(ctx context.Context) (ahead, error) {
	names, err := p.siblings(ctx)
	if err != nil {
		return ahead{}, err
	}
	return p.ahead(ctx, names)
}

// ensure makes the nodes down to path. In most layouts they are containers, so that the
// server tidies up what locks leave behind; one that goes while we come is made again.
func (p *place) ensure(ctx context.Context, path string) error {
	for {
		err := repeat(ctx, func() error {
			_, _, err := p.session.Create(ctx, path, []byte{}, p.queue.grammar.parent, p.queue.acl...)
			return err
		})
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists):
			return nil
		case errors.Is(err, zk.ErrNoNode) && strings.LastIndexByte(path, '/') > 0:
			if err := p.ensure(ctx, path[:strings.LastIndexByte(path, '/')]); err != nil {
				return err
			}
		default:
			return p.queue.underNode(path, err)
		}
	}
}

// find looks for the node of a create whose answer was lost, and lists its siblings on
// the way unless the name is known. The id was never used before, and the node of an older
// session of ours that has not gone yet is not ours (CURATOR-498, CURATOR-604).
func (p *place) find(ctx context.Context) (names []string, err error) {
	if err := p.settled(ctx); err != nil {
		return nil, err
	}
	candidates := []string{p.prefix}
	if !p.exact {
		names, err = p.siblings(ctx)
		// Not even the node above may be there. But that the place is gone can also be why
		// ctx has ended: that of another lock, which holds this one up.
		if err != nil && (ctx.Err() != nil || !errors.Is(err, errPlaceGone)) {
			return nil, err
		}
		candidates = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasPrefix(n, p.prefix) })
	}
	err = p.recognise(ctx, candidates)
	p.doubt = err != nil
	return names, err
}

// settled returns when the server that we reach now shows all that the old one had carried
// through for us; what the old one has not, it can no longer (session moved). That takes a
// write, which all that was proposed before comes before: a sync does not reach so far on
// the server that leads, which answers it at once, though it may have applied less than
// others have (seen on 3.8.0 under load).
func (p *place) settled(ctx context.Context) error {
	err := repeat(ctx, func() error {
		_, err := p.session.Multi(ctx, zk.CheckOp(p.queue.path, zk.AnyVersion))
		return err
	})
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) { // a transaction all the same
		return nil
	}
	return err
}

// recognise takes the one of the candidates that is ours for our place, if there is one.
func (p *place) recognise(ctx context.Context, candidates []string) error {
	for _, name := range candidates {
		var data []byte
		var stat zk.Stat
		err := retry(ctx, func() (err error) {
			data, stat, err = p.session.Get(ctx, p.node(name))
			return err
		})
		switch {
		case errors.Is(err, zk.ErrNoNode):
		case err != nil:
			return err
		case stat.EphemeralOwner == p.session.ID() && (p.unique || readNote(data).ID == p.id):
			p.made(name, stat)
			return nil
		}
	}
	return nil
}

// siblings lists the queue.
func (p *place) siblings(ctx context.Context) (names []string, err error) {
	err = retry(ctx, func() (err error) {
		names, _, err = p.session.Children(ctx, p.dir)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		err = errPlaceGone
	}
	return names, err
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
// session's context, since the caller's may be what ended (vitess #15756).
//
// errPlaceGone: the node was not there any more, and it was not us.
func (p *place) remove() error {
	ctx := p.session.Context()
	doubt := false // an earlier delete may have happened
	gone := func() error {
		if doubt {
			return nil
		}
		return errPlaceGone
	}
	for {
		if p.name == "" {
			if _, err := p.find(ctx); err != nil {
				return err
			}
			if p.name == "" {
				return nil
			}
		}
		version := int32(zk.AnyVersion)
		if !p.unique {
			// The name can come back, and then the node is a successor's (zk-ruby #34).
			stat, err := p.stat(ctx)
			switch {
			case errors.Is(err, errPlaceGone):
				return gone()
			case err != nil:
				return err
			}
			version = stat.Version
		}
		err := retry(ctx, func() error { return p.delete(ctx, version) })
		switch {
		case err == nil:
			return nil
		case errors.Is(err, zk.ErrNoNode):
			return gone()
		case errors.Is(err, zk.ErrBadVersion): // its data were changed just now
		case errors.Is(err, zk.ErrConnectionLoss):
			doubt = true
		default:
			return err
		}
	}
}

// delete deletes our node. Who is to leave a mark does so in the same transaction, if it
// may write where it belongs.
func (p *place) delete(ctx context.Context, version int32) error {
	if p.directory == nil {
		return p.session.Delete(ctx, p.path(), version)
	}
	dir := <-p.directory
	if dir.free {
		_, err := p.session.Multi(ctx, zk.DeleteOp(p.path(), version), zk.SetOp(p.dir, mark(p.czxid), dir.version))
		if err == nil || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrConnectionLoss) || zk.SafeToRetry(err) {
			p.directory <- dir // for the next attempt
			return err
		}
	}
	p.directory = nil
	return p.session.Delete(ctx, p.path(), version)
}

// prepareMark reads what the directory has where the mark will go. Its version makes
// sure that the mark takes the place of another mark, or of nothing: the data may be
// somebody's.
func (p *place) prepareMark(answer chan<- directory) {
	data, stat, err := p.session.Get(p.session.Context(), p.dir)
	answer <- directory{version: stat.Version, free: err == nil && isMark(data)}
}
