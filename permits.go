package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/zk"
)

// enter is the way from Acquire to a Hold in one session: through the turnstile, one at
// a time and in order, so that who counts the permits is the only one who can take some.
func (s *Semaphore) enter(ctx context.Context, n int, wait bool) (_ *Hold, err error) {
	if err := validatePath(s.queue.path); err != nil {
		return nil, err
	}
	switch {
	case n < 1:
		return nil, fmt.Errorf("%w: %d permits asked for", ErrLimit, n)
	case s.queue.grammar.semaphore.lease == "":
		return nil, fmt.Errorf("%w %s: it has no semaphore", ErrLayout, s.queue.grammar.name)
	case wait && slices.ContainsFunc(lineage(ctx, s.queue.client, s.queue.path), s.ours):
		return nil, ErrDeadlock
	}
	turn, err := s.turnstile.enter(ctx, sideMutex, wait)
	if err != nil {
		return nil, err
	}
	defer turn.letGo(ctx)
	before := turn.first().waitedFor()
	for patient := false; ; patient = wait {
		v, err := s.look(ctx, turn.first().session, patient, before)
		for errors.Is(err, errBehind) {
			if err = s.catchUp(ctx, turn); err == nil {
				v, err = s.look(ctx, turn.first().session, patient, before)
			}
		}
		if err != nil {
			return nil, err
		}
		known, err := s.agree(ctx, turn.first(), v)
		switch {
		case err != nil:
			v.stop()
			return nil, err
		case !known: // it is stored now: look again
		case n > v.limit:
			v.stop()
			return nil, fmt.Errorf("%w: %d permits asked for, there are %d", ErrLimit, n, v.limit)
		case v.used+n <= v.limit:
			v.stop()
			h, err := s.admit(ctx, turn.first(), v.version, n)
			if h != nil || err != nil {
				return h, err
			}
		case !wait:
			return nil, ErrLocked
		case patient:
			if err := v.await(ctx, turn); err != nil {
				v.stop() // or the server keeps watches that nobody waits for
				return nil, err
			}
		}
		v.stop()
	}
}

// ours reports whether a tenure is one of permits, and not of another lock on the path.
func (s *Semaphore) ours(t *tenure) bool {
	return t.places[0].dir == s.queue.path+s.queue.grammar.semaphore.leases
}

// A view is what a semaphore looks like at some moment.
type view struct {
	exists       bool // the node that has the limit
	limit        int  // 0: none is stored
	version      int32
	used         int
	data, leases *zk.Watch // nil if nobody is to wait for changes
}

// errBehind: the server has not applied yet what has brought us our turn.
var errBehind = errors.New("the server is behind the one that told us of our turn")

// waitedFor is the node that the place has waited for last, "" if it has waited for none.
func (p *place) waitedFor() string {
	if p.watch.name == "" {
		return ""
	}
	return p.node(p.watch.name)
}

// catchUp lets the server catch up, and pauses. The turn must still be ours afterwards. A sync
// alone is not enough: Apache's leader answers it at once (see settled in place.go).
func (s *Semaphore) catchUp(ctx context.Context, turn *Hold) error {
	session := turn.first().session
	if err := retry(ctx, func() error { return session.Sync(ctx, s.queue.path) }); err != nil {
		return err
	}
	pause := time.NewTimer(5 * firstPause)
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-turn.Lost():
		return errPlaceGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// look reads limit and permits. The server must show all permits that were given before our
// turn. before is the node that we have waited for at the turnstile. Its holder took the
// permits first, and removed the node then, so a server without the node shows the permits.
// The event that told us of the removal may have come from another server, and the session
// may have gone on at one that is behind: an event does not move the zxid that a session asks
// a server for. Then the error is errBehind.
//
// Without a watch, it also makes sure that no other kind of lock has the name. With one,
// before is not looked at: an earlier look has shown that it is gone, and no server that is
// behind the answer to that look accepts the session.
func (s *Semaphore) look(ctx context.Context, session *zk.Session, watch bool, before string) (v view, err error) {
	err = retry(ctx, func() (err error) {
		v, err = s.lookOnce(ctx, session, watch, before)
		return err
	})
	return v, err
}

func (s *Semaphore) lookOnce(ctx context.Context, session *zk.Session, watch bool, before string) (v view, err error) {
	dir := s.queue.path + s.queue.grammar.semaphore.leases
	var data []byte
	var names, beside []string
	var dataErr, namesErr, besideErr error
	var stat zk.Stat
	if watch {
		data, stat, v.data, dataErr = session.GetW(ctx, s.queue.path)
		names, _, v.leases, namesErr = session.ChildrenW(ctx, dir)
	} else {
		ops := []zk.Op{zk.GetOp(s.queue.path), zk.ChildrenOp(dir), zk.ChildrenOp(s.queue.path)}
		if before != "" { // ahead of the others: they show at least as much
			ops = append([]zk.Op{zk.ExistsOp(before)}, ops...)
		}
		res, err := session.Pipeline(ctx, ops...)
		if res == nil {
			return view{}, err
		}
		if before != "" {
			switch err := res[0].Err; {
			case err == nil:
				return view{}, errBehind
			case !errors.Is(err, zk.ErrNoNode):
				return view{}, err
			}
			res = res[1:]
		}
		data, stat, dataErr = res[0].Data, res[0].Stat, res[0].Err
		names, namesErr = res[1].Children, res[1].Err
		beside, besideErr = res[2].Children, res[2].Err
	}
	for _, err := range []error{dataErr, namesErr, besideErr} {
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			v.stop()
			return view{}, err
		}
	}
	err = s.queue.checkKind(ctx, beside)
	if err == nil && stat.EphemeralOwner != 0 {
		err = s.queue.otherKind(s.queue.path, "a "+string(kindNode))
	}
	if err != nil {
		v.stop()
		return view{}, err
	}
	v.exists, v.version = dataErr == nil, stat.Version
	v.used = s.queue.grammar.semaphore.permits(names)
	if !isMark(data) {
		limit, err := strconv.Atoi(string(data))
		if err != nil || limit < 1 {
			v.stop()
			return view{}, fmt.Errorf("%w: the node's data are %q", ErrLimit, data)
		}
		v.limit = limit
	}
	return v, nil
}

// await returns when the limit or the permits have changed. The turnstile is ours
// meanwhile; if it is lost, so is our place.
func (v view) await(ctx context.Context, turn *Hold) error {
	var data, leases <-chan zk.Event // nil: the node is not there
	if v.data != nil {
		data = v.data.C
	}
	if v.leases != nil {
		leases = v.leases.C
	}
	select {
	case ev := <-data:
		return ev.Err
	case ev := <-leases:
		return ev.Err
	case <-turn.Lost():
		return errPlaceGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (v view) stop() {
	for _, w := range []*zk.Watch{v.data, v.leases} {
		if w != nil {
			w.Stop()
		}
	}
}

// agree compares the limit that is stored with the one that is claimed. False says that
// there was none and that the claim is stored now. p is our place at the turnstile.
func (s *Semaphore) agree(ctx context.Context, p *place, v view) (bool, error) {
	switch {
	case v.limit != 0 && s.limit != 0 && v.limit != s.limit:
		return false, fmt.Errorf("%w: it is %d, not %d", ErrLimit, v.limit, s.limit)
	case v.limit != 0:
		return true, nil
	case s.limit < 1:
		return false, fmt.Errorf("%w: none is stored, and %d is none", ErrLimit, s.limit)
	case !v.exists:
		return false, p.ensure(ctx, s.queue.path)
	}
	err := retry(ctx, func() error {
		_, err := p.session.Set(ctx, s.queue.path, []byte(strconv.Itoa(s.limit)), v.version)
		return err
	})
	if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrConnectionLoss) {
		err = nil // look again
	}
	return false, err
}

// admit takes n permits, all or none, if the turnstile is still ours and the limit still
// what we have seen: a holder of the turnstile that slept must not add to what others have
// taken meanwhile. There is neither a Hold nor an error if it has to look again.
func (s *Semaphore) admit(ctx context.Context, turn *place, version int32, n int) (_ *Hold, err error) {
	nodes := &s.queue.grammar.semaphore
	dir, mode := s.queue.path+nodes.leases, zk.Ephemeral
	if nodes.numbered {
		mode = zk.EphemeralSequential
	}
	places := make([]*place, n)
	ops := []zk.Op{zk.CheckOp(turn.path(), zk.AnyVersion), zk.CheckOp(s.queue.path, version)}
	for i := range places {
		a := newAttempt(nodes.lease, turn.session.ID())
		data, err := s.queue.data(a)
		if err != nil {
			return nil, err
		}
		p := &place{queue: &s.queue, session: turn.session, dir: dir, attempt: a, exact: !nodes.numbered, shared: true, data: data}
		places[i] = p
		ops = append(ops, zk.CreateOp(p.node(p.prefix), data, mode, s.queue.acl...))
	}
	defer func() {
		if err != nil {
			for _, p := range places {
				p.leave(ctx)
			}
		}
	}()
	for {
		var res []zk.Result
		err := retry(ctx, func() (err error) {
			for _, p := range places {
				p.asked = time.Now()
			}
			res, err = turn.session.Multi(ctx, ops...)
			return err
		})
		for _, p := range places {
			p.doubt = err == nil || zk.MayHaveHappened(err)
		}
		switch {
		case err == nil:
			for i, p := range places {
				p.name = strings.TrimPrefix(res[2+i].Path, dir+"/")
			}
			if err := stamp(ctx, places); err != nil {
				return nil, err
			}
			return s.admitted(ctx, places)
		case errors.Is(err, zk.ErrConnectionLoss):
			found := 0
			for _, p := range places {
				if _, err := p.find(ctx); err != nil {
					return nil, err
				}
				if p.name != "" {
					found++
				}
			}
			switch found {
			case n:
				return s.admitted(ctx, places)
			case 0: // not made
			default:
				return nil, errPlaceGone // somebody has removed some
			}
		case errors.Is(err, zk.ErrBadVersion):
			return nil, nil // the limit was changed just now
		case errors.Is(err, zk.ErrNoNode) && len(res) > 0 && errors.Is(res[0].Err, zk.ErrNoNode):
			return nil, errPlaceGone
		case errors.Is(err, zk.ErrNoNode):
			if err := turn.ensure(ctx, dir); err != nil {
				return nil, err
			}
			return nil, nil
		default:
			return nil, err
		}
	}
}

// admitted begins the tenure of permits that are there. Where the turnstile is not below
// the semaphore's path, a lock of another kind has not seen us before, so we look again.
func (s *Semaphore) admitted(ctx context.Context, places []*place) (*Hold, error) {
	if s.queue.grammar.semaphore.leases == "" {
		names, err := children(ctx, s.queue.client, s.queue.path)
		if err == nil {
			err = s.queue.checkKind(ctx, names)
		}
		if err != nil {
			return nil, err
		}
	}
	return newHold(ctx, &s.queue, places...)
}

// stamp notes the zxid of nodes that one transaction has made: Apache's servers do not
// tell it in the answer to that.
func stamp(ctx context.Context, places []*place) error {
	var stat zk.Stat
	var ok bool
	err := retry(ctx, func() (err error) {
		stat, ok, err = places[0].session.Exists(ctx, places[0].path())
		return err
	})
	switch {
	case err != nil:
		return err
	case !ok:
		return errPlaceGone
	}
	for _, p := range places {
		p.made(p.name, stat)
	}
	return nil
}
