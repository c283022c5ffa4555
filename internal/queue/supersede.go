package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// Places that make room for each other: a newcomer removes older places of its sort that wait. The sort is in the data
// of the node from its beginning, so no other place is ever removed.
//
// A waiter is removed by one transaction, which checks that the first node of the queue exists. While it does, no place
// behind it holds the lock. So the transaction fails if the waiter has become the holder. The transaction also writes a
// record into the data of the directory: which arrivals are over, and for whom. A waiter whose node is gone reads there
// whether it was removed by a newer place, or by somebody else. In the second case, it queues again.
//
// The order is that of the arrivals, not of the nodes: a waiter that has lost its session queues again at the back, and
// is not newer for that. When its turn comes, the newest place records its arrival before it holds the lock. So no older
// arrival acquires the lock afterwards.

// WaitAs is Wait for a place of the arrival. The error can be a Yielded: then our node is gone, or Leave removes it.
func (p *Place) WaitAs(ctx context.Context, a *Arrival, patience bool) error {
	p.arrival = a
	if err := p.missed(ctx); err != nil {
		return err
	}
	a.tried = latest([]uint32{placeID(p.Prefix)}, a.tried)
	err := p.arrive(ctx, false) // shared lists can be late, and we need one now
	a.First = cmp.Or(a.First, p.czxid)
	if err == nil && patience && !p.ahead.Nobody() {
		err = p.makeRoom(ctx, false)
	}
	for err == nil && !p.ahead.Nobody() {
		if !patience {
			err = p.awaitKept(ctx)
			continue
		}
		if err = p.watchOwn(ctx); err == nil {
			err = p.await(ctx)
		}
	}
	if err == nil {
		err = p.Yield(ctx)
	}
	if errors.Is(err, names.ErrSameNumber) {
		err = p.twinned(ctx)
	}
	if !errors.Is(err, ErrGone) || a.First == 0 {
		return err
	}
	data, _, readErr := p.Session.Get(ctx, p.Dir)
	if o, ok := readRecord(data)[a.Sort()]; readErr == nil && ok && o.Through >= a.First {
		return a.yielded(o)
	}
	return err // it queues again
}

// watchOwn watches our own node wherever we stand, so that we learn at once that a newer place has removed it.
func (p *Place) watchOwn(ctx context.Context) error {
	w := &p.watches
	if w.own != nil {
		return nil
	}
	var data []byte
	var stat zk.Stat
	err := zk.Retry(ctx, func() (err error) {
		data, stat, w.own, err = p.Session.GetW(ctx, p.Path())
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode), err == nil && stat.Czxid != p.czxid:
		return ErrGone
	case errors.Is(err, zk.ErrNoAuth): // then only our turn tells, or a look from time to time
		return nil
	case err != nil:
		return err
	}
	w.ownData, w.ownMzxid, w.ownVersion = data, stat.Mzxid, stat.Version
	return nil
}

// Yield makes room for a newer place of the same sort, if there is one: the error is a Yielded, and our node is gone.
// Otherwise it records that older ones are over. It is for a place that nobody is ahead of, and does nothing for places
// that are not superseded.
func (p *Place) Yield(ctx context.Context) error {
	if p.arrival == nil || !p.arrival.Supersedes {
		return nil
	}
	return p.makeRoom(ctx, true)
}

// makeRoom removes the older places that our arrival takes the place of, or our own. turn: nobody is ahead of us.
func (p *Place) makeRoom(ctx context.Context, turn bool) error {
	for removed := false; ; {
		c, err := p.survey(ctx)
		if err != nil {
			return err
		}
		ops, yields, err := c.plan(turn)
		if err != nil {
			return err
		}
		if len(ops) == 0 {
			if removed {
				p.ahead, err = p.look(ctx)
			}
			return err
		}
		err = zk.Retry(ctx, func() error {
			_, err := p.Session.Multi(ctx, ops...)
			return err
		})
		switch {
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrConnectionLoss):
			// Something has changed, or nobody knows. The next look shows it.
		case err != nil:
			return err
		case yields != nil:
			return yields
		case turn:
			return nil
		default:
			removed = true
		}
	}
}

// A crowd is a queue as one of its places has read it.
type crowd struct {
	*Place
	record  map[string]over
	version int32      // of the directory's data
	queue   []neighbor // the first place first
	me      int        // our index in it
}

// A neighbor is a place in a crowd.
type neighbor struct {
	names.Contender
	waits   bool  // for a place ahead of it
	arrived int64 // of our sort: the czxid of the first node of its arrival; 0: it is of another sort
	version int32 // of its data
	note    Note
}

// survey reads the queue, and the data of the nodes that can be of our sort.
func (p *Place) survey(ctx context.Context) (*crowd, error) {
	read, err := p.flush(ctx, zk.GetOp(p.Dir), zk.ChildrenOp(p.Dir))
	if err != nil {
		return nil, err
	}
	dir, list := read[0], read[1]
	switch err := cmp.Or(dir.Err, list.Err); {
	case errors.Is(err, zk.ErrNoNode):
		return nil, ErrGone
	case err != nil:
		return nil, err
	}
	c := &crowd{Place: p, record: readRecord(dir.Data), version: dir.Stat.Version, me: -1}
	if p.arrival.Sort() != "" && !Unclaimed(dir.Data) {
		return nil, fmt.Errorf("%w: the node %s has data of another program, where a lock that supersedes or removes waiters keeps its record: choose another name for the lock",
			zk.ErrBadArguments, p.Dir)
	}
	// The arrivals of a record are older than the record. Others come from another ensemble.
	maps.DeleteFunc(c.record, func(_ string, o over) bool { return o.Through >= dir.Stat.Mzxid })
	if p.Queue.Grammar.Bare() {
		if list.Children, err = p.withoutDirectories(ctx, list.Children); err != nil {
			return nil, err
		}
	}
	exclusive := false // a place that others cannot share the lock with
	for i, o := range p.Queue.Grammar.InQueue(list.Children) {
		second := o.Shared && i > 0 && c.queue[i-1].Seq == o.Seq // of a writer that has taken the read side: see InQueue
		c.queue = append(c.queue, neighbor{Contender: o, waits: !second && (exclusive || i > 0 && !o.Shared)})
		exclusive = exclusive || !o.Shared
		if o.Name == p.Name() {
			c.me = i
		}
	}
	if c.me < 0 {
		return nil, ErrGone
	}
	return c, c.learnSorts(ctx)
}

// learnSorts reads which places are of our sort.
func (c *crowd) learnSorts(ctx context.Context) error {
	sort := c.arrival.Sort()
	if sort == "" {
		return nil
	}
	var others []*neighbor
	for i := range c.queue {
		if o := &c.queue[i]; i != c.me && !o.Shared {
			others = append(others, o)
		}
	}
	for some := range slices.Chunk(others, readsInFlight) {
		gets := make([]zk.Op, len(some))
		for i, o := range some {
			gets[i] = zk.GetOp(c.node(o.Name))
		}
		read, err := c.flush(ctx, gets...)
		if err != nil {
			return err
		}
		for i, r := range read { // a place that we cannot read, or that is gone, is of no sort
			if n, ok := ParseNote(r.Data); ok && r.Err == nil && n.Sort == sort {
				some[i].note, some[i].version, some[i].arrived = n, r.Stat.Version, cmp.Or(n.Arrived, r.Stat.Czxid)
			}
		}
	}
	return nil
}

// flush reads in one flush. Each result can have an error of its own.
func (p *Place) flush(ctx context.Context, ops ...zk.Op) (read []zk.Result, err error) {
	err = zk.Retry(ctx, func() (err error) {
		read, err = p.Session.Pipeline(ctx, ops...)
		if read == nil {
			return err
		}
		for _, r := range read {
			if r.Err != nil && !errors.Is(r.Err, zk.ErrNoNode) && !errors.Is(r.Err, zk.ErrNoAuth) {
				return r.Err
			}
		}
		return nil
	})
	return read, err
}

// mostRemoved is how many places one transaction removes at most: a request has a limited size.
const mostRemoved = 512

// plan returns the transaction that makes room, if one is needed. yields: it removes our own node. The error is a Yielded
// if our arrival is over.
func (c *crowd) plan(turn bool) (ops []zk.Op, yields error, err error) {
	a := c.arrival
	if o, ok := c.record[a.Sort()]; ok && o.Through >= a.First {
		return nil, nil, a.yielded(o)
	}
	var older []*neighbor
	through := a.First - 1
	if a.Supersedes {
		if o := c.newer(); o != nil {
			by := over{Through: o.arrived - 1, Token: o.arrived, Owner: cut(o.note.Owner), Reason: cut(o.note.Reason)}
			ops, err = c.transaction(by, nil, zk.CheckOp(c.node(o.Name), zk.AnyVersion), zk.DeleteOp(c.Path(), zk.AnyVersion))
			return ops, a.yielded(by), err
		}
		older = c.older()
	} else if older, err = c.excess(); err != nil {
		return nil, nil, err
	} else if len(older) > 0 {
		through = max(older[len(older)-1].arrived, c.record[a.Sort()].Through)
	}
	if turn {
		if o := c.record[a.Sort()]; o.Through == through && o.Token == a.First {
			return nil, nil, nil // our turn lasts, as under a reservation
		}
		ops, err = c.transaction(a.over(through), nil, zk.CheckOp(c.Path(), zk.AnyVersion))
		return ops, nil, err
	}
	if len(older) == 0 {
		return nil, nil, nil
	}
	// While the first place exists, none of those behind it holds the lock.
	ops = []zk.Op{zk.CheckOp(c.node(c.queue[0].Name), zk.AnyVersion), zk.CheckOp(c.Path(), zk.AnyVersion)}
	for _, o := range older {
		ops = append(ops, zk.DeleteOp(c.node(o.Name), o.version))
	}
	ops, err = c.transaction(a.over(through), older, ops...)
	return ops, nil, err
}

// transaction returns ops with the record of o. gone are the places that it removes, apart from our own.
func (c *crowd) transaction(o over, gone []*neighbor, ops ...zk.Op) ([]zk.Op, error) {
	var ids []uint32
	for _, n := range gone {
		ids = append(ids, placeID(n.Form))
	}
	o.Gone = latest(ids, c.record[c.arrival.Sort()].Gone)
	data, err := writeRecord(c.record, c.arrival.Sort(), o)
	return append(ops, zk.SetOp(c.Dir, data, c.version)), err
}

// newer returns the newest place of our sort that is newer than ours, wherever it stands, or nil.
func (c *crowd) newer() (last *neighbor) {
	for i := range c.queue {
		if o := &c.queue[i]; o.arrived > c.arrival.First && (last == nil || o.arrived > last.arrived) {
			last = o
		}
	}
	return last
}

// older returns the places of our sort that wait ahead of us, the oldest first. All are older, see newer.
func (c *crowd) older() (all []*neighbor) {
	for i := range c.queue[:c.me] {
		o := &c.queue[i]
		if o.arrived != 0 && o.waits {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b *neighbor) int { return cmp.Compare(a.arrived, b.arrived) })
	return all[:min(len(all), mostRemoved)]
}

// excess returns the places that have to go so that we can stay, the oldest first. The error is a Yielded if we have to
// go. A waiter that has lost its session and queues again is no newcomer: its former node can still be there.
func (c *crowd) excess() ([]*neighbor, error) {
	a, waiting := c.arrival, 0
	if a.First != c.czxid {
		return nil, nil
	}
	for _, o := range c.queue[:c.me] {
		if o.waits {
			waiting++
		}
	}
	n := waiting + 1 - a.Max
	if n <= 0 {
		return nil, nil
	}
	older := c.older()
	if !a.Oldest || len(older) < n || older[n-1].arrived > a.First {
		return nil, a.yielded(over{})
	}
	return older[:n], nil
}
