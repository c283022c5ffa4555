package holdfast

// Admission through a turnstile, for Semaphore and Slots.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// A choice returns the places of n permits to be made. turn is the place at the turnstile, and v shows that
// n permits are free.
type choice func(turn *queue.Place, v view, n int) ([]*queue.Place, error)

// enter acquires n permits in one session. Callers pass the turnstile one at a time and in order. So the
// caller that counts the permits is the only one that can take some.
func (s *Semaphore) enter(ctx context.Context, n int, choose choice, wait bool) (_ *Hold, err error) {
	if err := s.lock.valid(); err != nil {
		return nil, err
	}
	switch {
	case n < 1:
		return nil, fmt.Errorf("%w: %d permits asked for: want 1 or more", ErrLimit, n)
	case s.limit < 0:
		return nil, fmt.Errorf("%w: the claim is %d: want 1 or more, or 0 for whatever is stored", ErrLimit, s.limit)
	case s.lock.Grammar.Semaphore.Lease == "":
		return nil, fmt.Errorf("%w %s: it has no semaphore: curator and kazoo have one", ErrLayout, s.lock.Grammar.Name)
	case wait && s.lock.heldPermit(ctx):
		return nil, ErrDeadlock
	}
	turn, err := s.waiter(n).enter(ctx, names.Mutex, wait)
	if err != nil {
		return nil, err
	}
	over := false // the turn, and its node
	defer func() {
		if over {
			turn.concluded()
		} else {
			turn.letGo(ctx)
		}
	}()
	if wait {
		var stop func()
		ctx, stop = s.turnstile.watched(ctx, turn.first())
		defer stop()
	}
	before := turn.first().WaitedFor()
	seen := turn.first().Seen()
	for patient := false; ; patient = wait {
		v, err := s.look(ctx, turn.first().Session, patient, before, seen)
		for seen = nil; errors.Is(err, errBehind); {
			if err = s.catchUp(ctx, turn); err == nil {
				v, err = s.look(ctx, turn.first().Session, patient, before, nil)
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
		case s.used(v)+n <= v.limit:
			v.stop()
			places, err := choose(turn.first(), v, n)
			if err != nil {
				return nil, err
			}
			var h *Hold
			h, over, err = s.admit(ctx, turn.first(), v.version, places)
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

// waiter returns the turnstile for a caller that needs n permits. Its node says so, for those who look for deadlocks.
func (s *Semaphore) waiter(n int) *lock {
	if n == 1 {
		return &s.turnstile
	}
	l := s.turnstile
	l.note.Needs = n
	return &l
}

// A view is the state of a semaphore at some moment.
type view struct {
	exists       bool // the node that has the limit
	limit        int  // 0: none is stored
	version      int32
	changed      int64     // when it was stored, as a zxid
	listed       []string  // the names in the directory of the permits
	data, leases *zk.Watch // nil if the caller does not wait for changes
}

// used counts the permits that are in use.
func (s *Semaphore) used(v view) int { return s.lock.Grammar.Semaphore.Permits(v.listed, v.limit) }

// errBehind means that the server has not yet applied the removal that brought us our turn.
var errBehind = errors.New("the server is behind the one that told us of our turn")

// catchUp lets the server catch up, and pauses. The turn must still be ours afterwards. A sync
// alone is not enough: Apache's leader answers it at once (see barrier in internal/queue).
func (s *Semaphore) catchUp(ctx context.Context, turn *Hold) error {
	session := turn.first().Session
	if err := zk.Retry(ctx, func() error { return session.Sync(ctx, s.lock.Path) }); err != nil {
		return err
	}
	pause := time.NewTimer(5 * queue.FirstPause)
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-turn.Lost():
		return queue.ErrGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// look reads the limit and the permits. The server must show all permits that were granted before our
// turn. before is the node that we have waited for at the turnstile. Its holder took its permits before it
// removed the node, or with it, so a server without the node shows the permits. The event of the removal may
// have come from another server, and the session may since have moved to a server that is behind: an
// event does not raise the zxid that a session demands of a server. Then the error is errBehind.
//
// seen are results of looks that are from our turn already, or nil.
//
// Without watch, look also makes sure that no other kind of lock has the name. With watch, it does not
// read before: an earlier look has shown that the node is gone, and a server that is behind that answer
// does not accept the session.
func (s *Semaphore) look(ctx context.Context, session *zk.Session, watch bool, before string, seen []zk.Result) (v view, err error) {
	err = zk.Retry(ctx, func() (err error) {
		v, err = s.lookOnce(ctx, session, watch, before, seen)
		seen = nil
		return err
	})
	return v, err
}

// looks are the reads of the limit, of the permits, and of what else has the name.
func (s *Semaphore) looks() []zk.Op {
	return []zk.Op{zk.GetOp(s.lock.Path), zk.ChildrenOp(s.permitDir()), zk.ChildrenOp(s.lock.Path)}
}

func (s *Semaphore) permitDir() string { return s.lock.Path + s.lock.Grammar.Semaphore.Leases }

func (s *Semaphore) lookOnce(ctx context.Context, session *zk.Session, watch bool, before string, seen []zk.Result) (v view, err error) {
	var data []byte
	var listed, beside []string
	var dataErr, namesErr, besideErr error
	var stat zk.Stat
	if watch {
		data, stat, v.data, dataErr = session.GetW(ctx, s.lock.Path)
		listed, _, v.leases, namesErr = session.ChildrenW(ctx, s.permitDir())
	} else {
		res := seen
		if res == nil {
			ops := s.looks()
			if before != "" { // ahead of the others: they show at least as much
				ops = append([]zk.Op{zk.ExistsOp(before)}, ops...)
			}
			if res, err = session.Pipeline(ctx, ops...); res == nil {
				return view{}, err
			}
		}
		if before != "" {
			switch err := res[0].Err; {
			case err == nil, errors.Is(err, zk.ErrNoAuth): // it is there, whether we may read it or not
				return view{}, errBehind
			case !errors.Is(err, zk.ErrNoNode):
				return view{}, err
			}
			res = res[1:]
		}
		data, stat, dataErr = res[0].Data, res[0].Stat, res[0].Err
		listed, namesErr = res[1].Children, res[1].Err
		beside, besideErr = res[2].Children, res[2].Err
	}
	for _, err := range []error{dataErr, namesErr, besideErr} {
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			v.stop()
			return view{}, err
		}
	}
	err = s.lock.CheckKind(ctx, beside)
	if err == nil && stat.EphemeralOwner != 0 {
		err = s.lock.HasNodeLock()
	}
	if err != nil {
		v.stop()
		return view{}, err
	}
	v.exists, v.version, v.changed, v.listed = dataErr == nil, stat.Version, stat.Mzxid, listed
	if !queue.Unclaimed(data) && !queue.HasPlan(data) { // a plan that is left of shards counts no more than nothing
		limit, err := strconv.Atoi(string(data))
		if err != nil || limit < 1 {
			v.stop()
			return view{}, fmt.Errorf("%w: the data of %s are %.40q, which is no number: choose another name, or remove the data if nobody needs them", ErrLimit, s.lock.Path, data)
		}
		v.limit = limit
	}
	return v, nil
}

// await returns when the limit or the permits have changed, or after some time (queue.LookAgain). We hold the
// turnstile meanwhile. If it is lost, so is our place.
func (v view) await(ctx context.Context, turn *Hold) error {
	var data, leases <-chan zk.Event // nil: the node is not there
	if v.data != nil {
		data = v.data.C
	}
	if v.leases != nil {
		leases = v.leases.C
	}
	again := time.NewTimer(queue.LookAgain())
	defer again.Stop()
	select {
	case ev := <-data:
		return ev.Err
	case ev := <-leases:
		return ev.Err
	case <-again.C:
		return nil
	case <-turn.Lost():
		return queue.ErrGone
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

// agree compares the stored limit with the claim. It returns false if none was stored, or if nobody uses the
// stored one; then the claim is stored now. p is our place at the turnstile.
func (s *Semaphore) agree(ctx context.Context, p *queue.Place, v view) (bool, error) {
	switch {
	case v.limit != 0 && s.limit != 0 && v.limit != s.limit:
		return false, s.replace(ctx, p, v)
	case v.limit != 0:
		return true, nil
	case s.limit == 0:
		return false, fmt.Errorf("%w: none is stored, and this caller claims none: claim one, or store one with SetLimit", ErrLimit)
	case !v.exists:
		return false, p.Ensure(ctx, s.lock.Path)
	}
	err := zk.Retry(ctx, func() error {
		_, err := p.Session.Set(ctx, s.lock.Path, []byte(strconv.Itoa(s.limit)), v.version)
		return err
	})
	if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrConnectionLoss) {
		err = nil // look again
	}
	return false, err
}

// replace stores the claim in place of another limit, unless somebody uses that one: a holder of permits, or a
// waiter. As long as we have the turn, nobody else can take a permit, so the transaction checks the turn. A limit
// that was stored after we have joined is younger than our claim, and stays. A nil error means to look again.
func (s *Semaphore) replace(ctx context.Context, p *queue.Place, v view) error {
	user, err := s.user(ctx, p, v)
	switch {
	case err != nil:
		return err
	case user != "":
		return fmt.Errorf("%w: it is %d, not %d, and %s uses it: claim %d, or change the limit", ErrLimit, v.limit, s.limit, user, v.limit)
	case v.changed > p.Czxid():
		return fmt.Errorf("%w: it is %d, not %d, since somebody has changed it just now: claim %d, or change the limit", ErrLimit, v.limit, s.limit, v.limit)
	}
	var results []zk.Result
	err = zk.Retry(ctx, func() (err error) {
		results, err = p.Session.Multi(ctx, zk.CheckOp(p.Path(), zk.AnyVersion), zk.SetOp(s.lock.Path, []byte(strconv.Itoa(s.limit)), v.version))
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode) && len(results) > 0 && errors.Is(results[0].Err, zk.ErrNoNode):
		return queue.ErrGone
	case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrConnectionLoss):
		return nil
	}
	return err
}

// user describes a holder of permits, or a waiter behind us at the turnstile that may claim another limit than we do.
// It is "" if there is neither.
func (s *Semaphore) user(ctx context.Context, p *queue.Place, v view) (string, error) {
	nodes := &s.lock.Grammar.Semaphore
	var permits []string
	if nodes.Numbered {
		for _, permit := range nodes.Queue.InQueue(v.listed) {
			permits = append(permits, permit.Name)
		}
	} else {
		var err error
		if permits, _, err = queue.BarePermits(ctx, s.lock.Client, s.lock.Path, v.listed); err != nil {
			return "", err
		}
	}
	listed, err := queue.Children(ctx, s.lock.Client, s.turnstile.Path)
	if err != nil {
		return "", err
	}
	var waiters []string
	for _, w := range s.turnstile.Grammar.InQueue(listed) {
		if w.Name != p.Name() {
			waiters = append(waiters, w.Name)
		}
	}
	for _, in := range []struct {
		dir   string
		nodes []string
	}{{s.permitDir(), permits}, {s.turnstile.Path, waiters}} {
		found, err := queue.Read(ctx, s.lock.Client, in.dir, in.nodes)
		switch {
		case errors.Is(err, zk.ErrNoAuth):
			return fmt.Sprintf("somebody (in %s, whose data this client may not read)", in.dir), nil
		case err != nil:
			return "", err
		}
		for i, r := range found {
			n := queue.ReadNote(r.Data)
			if r.Err != nil || in.dir == s.turnstile.Path && n.Of == s.limit {
				continue
			}
			owner := n.Owner
			if owner == "" {
				owner = "somebody"
			}
			return fmt.Sprintf("%.100s (session 0x%x, node %s/%s)", owner, r.Stat.EphemeralOwner, in.dir, in.nodes[i]), nil
		}
	}
	return "", nil
}

// admit makes the nodes of permits, all or none, if we still hold the turnstile and the limit has not
// changed: a holder of the turnstile that slept must not add to permits that others have taken meanwhile.
// The same transaction removes our node from the turnstile. over reports whether it did. admit returns
// neither a Hold nor an error if the caller has to look again.
func (s *Semaphore) admit(ctx context.Context, turn *queue.Place, version int32, places []*queue.Place) (_ *Hold, over bool, err error) {
	dir := places[0].Dir
	ops := []zk.Op{zk.DeleteOp(turn.Path(), zk.AnyVersion), zk.CheckOp(s.lock.Path, version)}
	for _, p := range places {
		mode := zk.Ephemeral
		if !p.Exact {
			mode = zk.EphemeralSequential
		}
		ops = append(ops, zk.CreateOp(dir+"/"+p.Prefix, p.Data, mode, s.lock.ACL...))
	}
	watermark := turn.WatermarkOp()
	err = errPanic
	defer func() {
		if err != nil {
			for _, p := range places {
				p.Leave(ctx)
			}
		}
	}()
	for {
		var res []zk.Result
		err := zk.Retry(ctx, func() (err error) {
			for _, p := range places {
				p.Sending()
			}
			res, err = turn.Session.Multi(ctx, slices.Concat(ops, watermark)...)
			return err
		})
		for _, p := range places {
			p.Sent(err == nil || zk.MayHaveHappened(err))
		}
		switch {
		case err == nil:
			if places[0].Unique {
				for i, p := range places {
					p.Named(res[2+i].Path)
				}
				err = stamp(ctx, places)
			} else {
				err = queue.Confirm(ctx, places) // slots: the name does not tell whose a node is
			}
			if err != nil {
				return nil, true, err
			}
			h, err := s.admitted(ctx, places)
			return h, true, err
		case errors.Is(err, zk.ErrConnectionLoss):
			found := 0
			for _, p := range places {
				if err := p.Find(ctx); err != nil {
					return nil, false, err
				}
				if p.Name() != "" {
					found++
				}
			}
			switch found {
			case len(places): // rare: the answer to an admission is lost, and the permits exist
				h, err := s.admitted(ctx, places)
				return h, true, err
			case 0: // not made
			default:
				return nil, false, queue.ErrGone // somebody has removed some of them
			}
		case len(watermark) > 0: // perhaps because of it
			watermark = nil
		case errors.Is(err, zk.ErrBadVersion):
			return nil, false, nil // rare: the limit changes before the admission
		case errors.Is(err, zk.ErrNodeExists):
			return nil, false, nil // the server that we have read from did not know that the slot was taken
		case errors.Is(err, zk.ErrNoNode) && len(res) > 0 && errors.Is(res[0].Err, zk.ErrNoNode):
			return nil, false, queue.ErrGone
		case errors.Is(err, zk.ErrNoNode):
			if err := turn.Ensure(ctx, dir); err != nil {
				return nil, false, err
			}
			return nil, false, nil
		default:
			return nil, false, err
		}
	}
}

// admitted begins the tenure of permits that exist. If the turnstile is not below the semaphore's path, a
// lock of another kind could not see us before. So we look for one again.
func (s *Semaphore) admitted(ctx context.Context, places []*queue.Place) (*Hold, error) {
	if s.lock.Grammar.Semaphore.Leases == "" {
		listed, err := queue.Children(ctx, s.lock.Client, s.lock.Path)
		if err == nil {
			err = s.lock.CheckKind(ctx, listed)
		}
		if err != nil {
			return nil, err
		}
	}
	return newHold(ctx, &s.lock, places...)
}

// stamp notes the zxid of nodes that one transaction has made. Apache's servers do not return it in the
// answer to a transaction.
func stamp(ctx context.Context, places []*queue.Place) error {
	var stat zk.Stat
	var ok bool
	err := zk.Retry(ctx, func() (err error) {
		stat, ok, err = places[0].Session.Exists(ctx, places[0].Path())
		return err
	})
	switch {
	case err != nil:
		return err
	case !ok:
		return queue.ErrGone
	}
	for _, p := range places {
		p.Created(p.Path(), stat)
	}
	return nil
}
