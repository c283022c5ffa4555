package lockwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"holdfast/internal/budget"
	"holdfast/internal/queue"
	"holdfast/zk"
)

// A tree is what one walk has read, by path. The nodes are not of one moment, but each directory is.
type tree map[string]*node

// A node is one node of a tree.
type node struct {
	info     info
	children []string
}

// readsInFlight is how many nodes are read in one go.
const readsInFlight = 256

// read reads the nodes at the prefix of m and below it.
func (m *model) read(ctx context.Context, c *zk.Client) (tree, error) {
	if err := zk.Retry(ctx, func() error { return c.Sync(ctx, m.base) }); err != nil {
		return nil, err
	}
	t := make(tree)
	var kept budget.Budget
	for level := []string{m.base}; len(level) > 0; {
		var parents []string
		err := readsEach(ctx, c, level, zk.GetOp, func(i int, r zk.Result) error {
			switch {
			case errors.Is(r.Err, zk.ErrNoNode):
			case r.Err != nil && level[i] == m.base:
				return fmt.Errorf("read %s: %w", m.base, r.Err)
			case r.Err != nil: // no permission to read it
				t[level[i]] = &node{info: info{denied: true}}
			default:
				t[level[i]] = &node{info: infoOf(r)}
				parents = append(parents, level[i])
			}
			return kept.Keep(0, min(len(r.Data), budget.MaxData))
		})
		if err != nil {
			return nil, err
		}
		// Permits can come before the list, when a turn goes.
		parents = slices.DeleteFunc(parents, func(path string) bool {
			return t[path].info.stat.NumChildren == 0 && !m.hasPermits(path, t)
		})
		// A client changes a turn into a permit. If the turn is not listed, a later list has the permit.
		slices.SortStableFunc(parents, func(a, b string) int {
			_, x := m.permitsFor(a)
			_, y := m.permitsFor(b)
			switch {
			case x == y:
				return 0
			case x:
				return -1
			}
			return 1
		})
		level = nil
		err = readsEach(ctx, c, parents, zk.ChildrenOp, func(i int, r zk.Result) error {
			if errors.Is(r.Err, zk.ErrNoNode) {
				delete(t, parents[i])
				return nil
			}
			n := t[parents[i]]
			if r.Err != nil { // the permission has gone since
				n.info = info{denied: true}
				return nil
			}
			n.info.stat, n.children = r.Stat, r.Children
			for _, child := range r.Children {
				if path := join(parents[i], child); m.relevant(path) {
					level = append(level, path)
				}
			}
			return kept.KeepNames(parents[i], r.Children)
		})
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

// hasPermits reports whether a node of t may be the directory of the permits of a semaphore.
func (m *model) hasPermits(path string, t tree) bool {
	for _, pair := range m.turnstiles() {
		if of, ok := strings.CutSuffix(path, pair[1]); ok && t[of+pair[0]] != nil {
			return true
		}
	}
	return m.bare() != "" && t[path+m.bare()] != nil
}

// reads sends one read for each path. A result can have the errors ErrNoNode and ErrNoAuth.
func reads(ctx context.Context, c *zk.Client, paths []string, op func(string) zk.Op) (all []zk.Result, err error) {
	err = readsEach(ctx, c, paths, op, func(_ int, r zk.Result) error {
		all = append(all, r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// readsEach is reads for many paths: it calls take with the results as they come, in order.
func readsEach(ctx context.Context, c *zk.Client, paths []string, op func(string) zk.Op, take func(i int, r zk.Result) error) error {
	next := 0
	var send func(some []string) error
	send = func(some []string) error {
		ops := make([]zk.Op, len(some))
		for i, path := range some {
			ops[i] = op(path)
		}
		var results []zk.Result
		err := zk.Retry(ctx, func() (err error) {
			if results, err = c.Pipeline(ctx, ops...); results == nil {
				return err
			}
			for _, r := range results {
				if unanswered(r) {
					return r.Err
				}
			}
			return nil
		})
		if n := len(some) / 2; n > 0 && errors.Is(err, zk.ErrTooLarge) { // together; they may fit one by one
			if err = send(some[:n]); err == nil {
				err = send(some[n:])
			}
			return err
		}
		if err != nil {
			return err
		}
		for _, r := range results {
			if err := take(next, r); err != nil {
				return err
			}
			next++
		}
		return nil
	}
	for some := range slices.Chunk(paths, readsInFlight) {
		if err := send(some); err != nil {
			return err
		}
	}
	return nil
}

func infoOf(r zk.Result) info {
	r.Data = r.Data[:min(len(r.Data), budget.MaxData)]
	_, ours := queue.ParseNote(r.Data)
	return info{known: true, ours: ours || len(r.Data) == 0, note: queue.ReadNote(r.Data), stat: r.Stat}
}

// load makes t the model's tree. It reports a Gap for each directory that it may not read, and nothing else.
func (m *model) load(t tree, at time.Time) {
	emit := m.emit
	m.emit = func(e Event) {
		e.At = at
		emit(e)
	}
	m.loading = true
	m.dirs, m.locks = make(map[string]*dir), make(map[lockKey]*lock)
	m.announce(t, m.add(t, t.paths(), time.Time{}), time.Time{})
	m.emit, m.loading = emit, false
}

// paths returns the paths in the order in which they can be added: parents first, and the permits of a
// semaphore before its turns.
func (t tree) paths() []string {
	paths := make([]string, 0, len(t))
	for path := range t {
		paths = append(paths, path)
	}
	depth := func(path string) int { return strings.Count(path, "/") }
	slices.SortFunc(paths, func(a, b string) int {
		return cmp.Or(cmp.Compare(depth(a), depth(b)), cmp.Compare(a, b))
	})
	return paths
}

// add adds the nodes of t with the given paths, and returns the places in the queues of locks.
func (m *model) add(t tree, paths []string, at time.Time) (places []*place) {
	permits := make(map[*lock][]*place)
	for _, path := range paths {
		m.created(path, t[path].info, at, 0, false, false)
		parent, name := split(path)
		if d := m.dirs[parent]; d != nil && path != m.base {
			if p := d.children[name]; p.role != other {
				places = append(places, p)
				if p.role == permit {
					permits[p.lock] = append(permits[p.lock], p)
				}
			}
		}
	}
	for _, p := range places {
		p.lock.order()
	}
	for l, fresh := range permits {
		l.pend(fresh)
	}
	return places
}

// announce reports which of the new places hold their locks, and which of them wait.
func (m *model) announce(t tree, places []*place, at time.Time) {
	m.tallies = make(map[*lock]*tally)
	defer func() { m.tallies = nil }()
	for _, p := range places {
		if p.role == permit && p.awaits == nil {
			m.hold(p, p.since)
			m.report(Acquired, p, at, 0)
		}
	}
	m.settleAll(places, at)
	for _, p := range places {
		if p.role != permit && p.waits() {
			m.report(Queued, p, at, 0)
		}
	}
	m.count(t)
}

// settleAll settles the locks of places, each once.
func (m *model) settleAll(places []*place, at time.Time) {
	done := make(map[*lock]bool)
	for _, p := range places {
		if p.role != other && !done[p.lock] {
			done[p.lock] = true
			m.settle(p.lock, at)
		}
	}
}

// count takes the counts of changes from t, after everything else.
func (m *model) count(t tree) {
	for path, d := range m.dirs {
		n := t[path]
		if n == nil {
			continue
		}
		d.czxid, d.cversion = n.info.stat.Czxid, n.info.stat.Cversion
		for _, child := range n.children {
			switch _, ok := d.children[child]; {
			case ok:
			case m.relevant(join(path, child)):
				d.cversion++ // it was deleted after it was listed
			default:
				d.children[child] = nil
			}
		}
	}
}

// update makes t the model's tree, and reports what is different. Of changes that have left no trace, only the
// number is known: update reports a Gap where a server has counted more changes than there are differences. gaps
// has the reasons of more Gaps, by lock.
func (m *model) update(t tree, at time.Time, gaps map[string]string) {
	for path, d := range m.dirs {
		if n := t[path]; n != nil && n.info.denied {
			gaps[m.owner(path, t)] = noPermission
			m.dropDir(path, d)
			parent, name := split(path)
			if above := m.dirs[parent]; above != nil && above.children[name] != nil {
				above.children[name].info = n.info
			}
		}
	}
	var removed []*place
	lost := make(map[string]bool) // directories that are gone, or are others now
	for path, d := range m.dirs {
		n := t[path]
		if n == nil || n.info.stat.EphemeralOwner != 0 || d.czxid != 0 && n.info.stat.Czxid != 0 && d.czxid != n.info.stat.Czxid {
			lost[path] = true
			for _, p := range d.children {
				removed = append(removed, p)
			}
			gaps[m.owner(path, t)] = "it was removed meanwhile"
			continue
		}
		changes := int32(0)
		present := make(map[string]bool, len(n.children))
		for _, child := range n.children {
			present[child] = true
			if p, ok := d.children[child]; !ok {
				changes++
				if t[join(path, child)] == nil && m.relevant(join(path, child)) {
					gaps[m.owner(path, t)] = "a node came and went before it could be read"
				}
			} else if p.replaced(t[join(path, child)]) {
				changes += 2
			}
		}
		for child, p := range d.children {
			if p != nil && p.role == other && p.info.denied && t[join(path, child)] != nil && t[join(path, child)].info.known {
				delete(d.children, child) // there is a permission now: add it
				continue
			}
			if !present[child] {
				changes++
				removed = append(removed, p)
			} else if p.replaced(t[join(path, child)]) {
				removed = append(removed, p)
			}
		}
		if missed := n.info.stat.Cversion - d.cversion - changes; missed != 0 {
			gaps[m.owner(path, t)] = "clients came and went meanwhile"
		}
	}
	for path, n := range t {
		if m.knows(path) || n.info.stat.EphemeralOwner != 0 {
			continue
		}
		unread := slices.ContainsFunc(n.children, func(child string) bool {
			return t[join(path, child)] == nil && m.relevant(join(path, child))
		})
		if unread || n.info.stat.Cversion != int32(len(n.children)) {
			gaps[m.owner(path, t)] = "clients came and went meanwhile"
		}
	}
	removed = slices.DeleteFunc(removed, func(p *place) bool { return p == nil })
	slices.SortFunc(removed, func(a, b *place) int { return cmp.Compare(a.path, b.path) })
	touched := make(map[*lock]bool)
	for _, p := range removed {
		parent, name := split(p.path)
		delete(m.dirs[parent].children, name)
		p.gone = true
		if p.role != other {
			touched[p.lock] = true
		}
	}
	for l := range touched {
		is := func(p *place) bool { return p.gone }
		l.queue, l.permits = slices.DeleteFunc(l.queue, is), slices.DeleteFunc(l.permits, is)
	}
	type end struct {
		t Type
		p *place
	}
	var ends []end
	for _, p := range removed {
		switch {
		case p.role == other:
		case p.held:
			ends = append(ends, end{Released, p})
		case p.role == permit && m.has(p.awaits): // the client has given up
			p.awaits.admitted = false
		case p.role == permit:
			gaps[p.lock.path] = "a waiter is gone, and may have held the lock"
		case p.admitted:
		case m.neverHeld(p, t, gaps):
			ends = append(ends, end{Left, p})
		case gaps[p.lock.path] == "" && !m.admittedIn(p, t):
			gaps[p.lock.path] = "a waiter is gone, and may have held the lock"
		}
	}
	for path := range lost {
		delete(m.dirs, path)
	}
	for _, path := range slices.Sorted(maps.Keys(gaps)) {
		m.gap(path, at, gaps[path])
	}
	type tenureOf struct {
		lock *lock
		tenureID
	}
	m.tallies = make(map[*lock]*tally)
	released := make(map[tenureOf]bool) // the permits of one tenure are one event
	for _, e := range ends {
		of := tenureOf{e.p.lock, e.p.tenure()}
		if e.t == Released && e.p.info.known && released[of] {
			continue
		}
		released[of] = e.t == Released
		m.report(e.t, e.p, at, e.p.lasted(at))
	}
	for _, p := range removed {
		if p.role != other {
			m.grant(p, at)
		}
	}
	m.settleAll(removed, at)
	for _, p := range removed {
		if p.role != other {
			m.forget(p.lock)
		}
	}
	m.tallies = nil
	added := m.add(t, slices.DeleteFunc(t.paths(), m.knows), at)
	m.admitTorn(removed, added)
	m.announce(t, added, at)
}

// admitTorn finds turns whose client had its permit when the permits were listed, after the turns. removed are the
// places that were gone, and added those that are new.
func (m *model) admitTorn(removed, added []*place) {
	for _, p := range added {
		if p.role != permit || p.awaits != nil || !p.info.known {
			continue
		}
		i := slices.IndexFunc(p.lock.queue, func(q *place) bool { return q.role == turn })
		if i < 0 {
			continue
		}
		session := p.info.stat.EphemeralOwner
		t := p.lock.queue[i]
		of := func(q *place) bool {
			return q.role == turn && q.lock == p.lock && (!q.info.known || q.info.stat.EphemeralOwner == session)
		}
		if of(t) && t.info.known && t.info.stat.Czxid < p.info.stat.Czxid && !slices.ContainsFunc(removed, of) {
			t.admitted = true
		}
	}
}

// unseen returns the reasons of Gaps for nodes with several events during the read of t: t cannot show what happened
// between them. It can if a name is given once and t has its node: the node was created, and deleted later.
func (m *model) unseen(t tree, events map[string]int) map[string]string {
	gaps := make(map[string]string)
	for path, n := range events {
		if n < 2 || !m.relevant(path) || t[path] != nil && !m.reusable(path) {
			continue
		}
		if m.nameTells(path) {
			path, _ = split(path)
		}
		gaps[m.owner(path, t)] = "clients came and went meanwhile"
	}
	return gaps
}

// has reports whether the model still has the place.
func (m *model) has(p *place) bool {
	parent, name := split(p.path)
	return m.dirs[parent] != nil && m.dirs[parent].children[name] == p
}

// replaced reports whether the node of a place is another one now, of the same name.
func (p *place) replaced(n *node) bool {
	return p != nil && n != nil && p.info.known && n.info.known && p.info.stat.Czxid != 0 && p.info.stat.Czxid != n.info.stat.Czxid
}

// owner returns the lock that a directory belongs to, or the directory itself.
func (m *model) owner(path string, t tree) string {
	exists := func(path string) bool { return m.dirs[path] != nil || t[path] != nil }
	for _, pair := range m.turnstiles() {
		for i := range pair {
			if of, ok := strings.CutSuffix(path, pair[i]); ok && of != "" && exists(of+pair[1-i]) {
				return of
			}
		}
	}
	if of, ok := m.cutBare(path); ok && exists(of) {
		return of
	}
	return path
}

// neverHeld reports whether a waiter that is gone certainly never held the lock: somebody ahead is still
// there, or nobody got a permit.
func (m *model) neverHeld(p *place, t tree, gaps map[string]string) bool {
	if p.role == turn {
		return gaps[p.lock.path] == "" && !m.admittedIn(p, t)
	}
	return slices.ContainsFunc(p.lock.queue, func(q *place) bool { return p.name.WaitsFor(q.name) })
}

// admittedIn reports whether t has a permit that the model does not know, and that may be of the turn p.
func (m *model) admittedIn(p *place, t tree) bool {
	if p.role != turn {
		return false
	}
	parent, _ := split(p.path)
	permits, _ := m.permitsFor(parent)
	n := t[permits]
	if n == nil {
		return false
	}
	for _, child := range n.children {
		path := join(permits, child)
		if !m.knows(path) && t[path] != nil && (!p.info.known || t[path].info.stat.EphemeralOwner == p.info.stat.EphemeralOwner) {
			return true
		}
	}
	return false
}
