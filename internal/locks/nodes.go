package locks

import (
	"context"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast"
	"holdfast/internal/budget"
	"holdfast/internal/lend"
	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/reserve"
	"holdfast/zk"
)

// nodes reads the nodes of locks. Nodes that are gone are left out.
func (r *reader) nodes(ctx context.Context, all []*found) error {
	type job struct {
		f *found
		i int
	}
	var jobs []job
	for _, f := range all {
		f.places, f.stats = make([]Place, len(f.permits)+len(f.queue)), make([]zk.Stat, len(f.permits))
		for i := range f.size() {
			jobs = append(jobs, job{f, i})
		}
	}
	path := func(i int) string { return jobs[i].f.node(jobs[i].i) }
	return r.each(ctx, len(jobs), func(i int) zk.Op { return zk.GetOp(path(i)) }, func(i int, res zk.Result) error {
		f, at := jobs[i].f, jobs[i].i
		if res.Err != nil {
			f.denied = f.denied || at < len(f.places)
			r.denied = append(r.denied, path(i))
			return nil
		}
		f.take(at, path(i), res)
		if at >= len(f.places) {
			return nil
		}
		p := &f.places[at]
		return r.budget.Keep(0, len(p.Path)+len(p.Owner)+len(p.Reason))
	})
}

// copied is nodes for a copy of the tree.
func (r *reader) copied(f *found) {
	f.places, f.stats = make([]Place, len(f.permits)+len(f.queue)), make([]zk.Stat, len(f.permits))
	for i := range f.size() {
		path := f.node(i)
		n, ok := r.look(path)
		switch {
		case !ok:
		case n.Unknown && i < len(f.places):
			f.take(i, path, zk.Result{})
			f.denied = true
			f.places[i].Unknown, f.places[i].Since, f.places[i].HeldSince = true, time.Time{}, time.Time{}
		default:
			f.take(i, path, zk.Result{Data: n.Data, Stat: n.Stat})
		}
	}
}

// take notes what a node says.
func (f *found) take(i int, path string, res zk.Result) {
	switch {
	case i >= len(f.places):
		f.limit, f.plan = limitIn(res.Data), queue.HasPlan(res.Data)
	case f.bare && res.Stat.EphemeralOwner == 0: // the directory of another lock
	case i < len(f.permits):
		f.places[i], f.stats[i] = placeOf(path, f.permits[i], true, true, res), res.Stat
	default:
		c := f.queue[i-len(f.permits)]
		f.places[i] = placeOf(path, c.Name, false, c.Shared, res)
	}
}

// limitIn returns the number of permits that the data of a semaphore's node say, or 0.
func limitIn(data []byte) int {
	if len(data) > 20 {
		return 0
	}
	limit, err := strconv.Atoi(string(data))
	if err != nil {
		return 0
	}
	return max(limit, 0)
}

// placeOf reads a place's node, as holdfast.List does. held is known of permits alone: see holds.
func placeOf(path, name string, held, shared bool, res zk.Result) Place {
	note, ours := queue.ParseNote(res.Data)
	if !ours {
		note = queue.ReadNote(res.Data)
	}
	p := Place{Zxid: res.Stat.Czxid, Within: note.Within, Process: note.Process, Yields: note.Yields, Needs: note.Needs, Revoked: note.Revoke}
	p.Entry = holdfast.Entry{
		Name: path[len(path)-len(name):], Path: path, Held: held, Kept: note.Kept, Shared: shared, Token: res.Stat.Czxid,
		Session: res.Stat.EphemeralOwner, Since: time.UnixMilli(res.Stat.Ctime),
		Owner: budget.Text(note.Owner), Reason: budget.Text(note.Reason), Labels: budget.Labels(note.Labels), HeldSince: note.HeldSince(res.Stat),
	}
	if names.IsDetached(name) && p.Session == 0 {
		p.Detached, p.ID, p.HeldSince = true, budget.Text(note.ID), p.Since
		if note.Expires != 0 {
			p.Expires = queue.TimeIn(note.Expires)
		}
	}
	if note.Token != 0 && (shared || p.Detached) { // older than the node: a writer has taken the read side
		p.Token = note.Token
	}
	// An address alone is no value: Curator writes the client's.
	if _, err := netip.ParseAddr(note.Owner); err != nil && !ours && len(res.Data) > 0 && !queue.IsRequest(res.Data) {
		p.Value = true
	}
	p.Value = p.Value || len(note.Value) > 0
	if p.Process == nil {
		p.Process = names.ProcessIn(name)
	}
	return p
}

// complete makes the locks whose nodes have been read, by name.
func (r *reader) complete(all []*found, prefix string) (locks []Lock) {
	reserved := r.reservations()
	for i, f := range all {
		l, ok := f.complete()
		all[i] = nil // the lock has copies of its places
		if !ok {
			continue
		}
		l.Reserved = reserved.of(&l)
		locks = append(locks, l)
	}
	locks = append(locks, reserved.rest()...)
	locks = slices.DeleteFunc(locks, func(l Lock) bool { return !strings.HasPrefix(l.Path, prefix) })
	return byName(locks)
}

// complete returns the lock with its places, and whether there is one.
func (f *found) complete() (Lock, bool) {
	l := f.lock
	l.idle = f.idle
	whole := len(f.places) == 0
	l.Unreadable = l.Unreadable || f.denied
	if l.Counted() {
		l.Limit, whole = f.limit, true
	}
	var stats []zk.Stat
	for i := range f.permits {
		p := &f.places[i]
		if p.Path == "" {
			continue
		}
		number, slot := names.SlotOf(p.Name)
		p.Beyond = slot && l.Kind == Slots && l.Limit > 0 && number >= l.Limit
		if l.Kind == Slots {
			p.HeldSince = p.Since // it was made to hold the slot
		}
		l.Queue, stats = append(l.Queue, *p), append(stats, f.stats[i])
	}
	permits := len(l.Queue)
	f.wait(&l)
	if l.Kind == Semaphore && len(l.Queue) > permits {
		first := &l.Queue[permits]
		if i := queue.Pending(l.Limit, zk.Stat{Czxid: first.Zxid, EphemeralOwner: first.Session}, stats); i >= 0 {
			l.Queue = slices.Delete(l.Queue, i, i+1)
		}
	}
	for i := range l.Queue {
		l.Queue[i].name(&l)
	}
	return l, (whole || len(l.Queue) > 0 || l.Unreadable) && (l.Kind != Shards || f.plan && len(l.Queue) > 0)
}

// wait adds the places of the queue, and says who holds the lock.
func (f *found) wait(l *Lock) {
	var first, exclusive *names.Contender // of those that are there
	all := f.places[len(f.permits):]
	l.Queue = slices.Grow(l.Queue, len(all))
	start := len(l.Queue)
	for i := range all {
		p, c := &all[i], &f.queue[i]
		if p.Path == "" {
			continue
		}
		p.Second = c.Shared && exclusive != nil && exclusive.Seq == c.Seq
		waits := first != nil && c.WaitsFor(*first) || exclusive != nil && c.WaitsFor(*exclusive)
		switch {
		case l.Counted():
		case l.Kind == Shards: // each of the workers has its share
			p.Held, p.Shared = true, true
		default:
			p.Held = !waits
		}
		if l.Kind == Node {
			p.HeldSince = p.Since // it was made to hold the lock
		}
		if first == nil {
			first = c
		}
		if !c.Shared {
			exclusive = c
		}
		l.Queue = append(l.Queue, *p)
	}
	for i := start; i < len(l.Queue); i++ {
		p := &l.Queue[i]
		if !p.Held && !p.Detached {
			p.HeldSince = time.Time{}
		}
		p.Kept = p.Held && p.Kept
		p.Member = !p.Held && (f.idle || l.Kind == Queue && l.election(p))
	}
}

// name gives a place its name below the path of the lock.
func (p *Place) name(l *Lock) {
	switch {
	case !l.Counted() && l.Kind != Shards:
	case strings.HasPrefix(p.Path, l.Path+"/"):
		p.Name = p.Path[len(l.Path)+1:]
	default: // at kazoo's turnstile, beside the path
		p.Name = p.Path[strings.LastIndexByte(l.Path, '/')+1:]
	}
}

const (
	// ownDirectory is the name of a directory below a lock's path, for what outlasts the holders. It is no lock.
	ownDirectory = ".holdfast"
	reservation  = "reserved"
)

// reservations are those that were found, by the path of their lock and its layout, if that is one of several in a
// directory.
type reservations map[[2]string]*reserve.Reservation

// reservations returns those in the directories.
func (r *reader) reservations() reservations {
	all := make(reservations)
	for path, d := range r.dirs {
		if len(d.data) > 0 {
			if err := all.add(path, zk.Result{Data: d.data, Stat: d.stat}); err != nil {
				r.damaged = err
			}
		}
	}
	return all
}

// add adds the reservation in a node. The error says what else is in the node.
func (all reservations) add(node string, res zk.Result) error {
	path, layout, ok := strings.Cut(strings.TrimSuffix(node, "/"+reservation), "/"+ownDirectory)
	layout = strings.TrimPrefix(layout, "/")
	if !ok || strings.Contains(layout, "/") {
		return nil
	}
	one, err := lend.Reservation(path, node, res)
	if err != nil {
		return err
	}
	all[[2]string{path, layout}] = one.(*reserve.Reservation)
	return nil
}

// of returns the reservation of a lock, or nil, and takes it away.
func (all reservations) of(l *Lock) *reserve.Reservation {
	if len(all) == 0 || l.Kind == Node || l.Kind == Shards {
		return nil
	}
	key := [2]string{l.Dirs[0], ""}
	if strings.HasPrefix(l.Layout, several) {
		key[1] = l.Layout
	}
	r := all[key]
	delete(all, key)
	return r
}

// rest returns the locks that have nothing but a reservation.
func (all reservations) rest() (locks []Lock) {
	for key, r := range all {
		f := &found{lock: Lock{Path: key[0], Layout: key[1], label: key[1], Kind: Queue, Dirs: []string{key[0]}, Reserved: r}}
		f.inTree()
		locks = append(locks, f.lock)
	}
	return locks
}
