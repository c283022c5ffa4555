package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast"
	"holdfast/chaos"
	"holdfast/internal/queue"
	layouts "holdfast/layout"
	"holdfast/zk"
)

const locksRoot, countersRoot = "/locks", "/counters"

// A lockSpec is one lock of a world, or several that are taken together or share a directory.
type lockSpec struct {
	ids     []lockID
	dirs    []string // directories whose nodes somebody may delete
	counted string   // the counter that exclusive holders increment, "" if there is none
	of      func(c *zk.Client) []locker

	// For faults that list the queue, and revoke or break the lock:
	path   string
	layout holdfast.Layout

	lasting bool // its directory is never deleted
	clashes bool // they refuse each other (holdfast.ErrKind), see strangers
	crowded bool // many workers of one client want it
	prompt  bool // a waiter acquires soon after its turn, as far as histories show (chaos.Overdue)
	limits  int  // a semaphore's initial and largest limit if it changes; else 0

	slots *slotWishes // of slots; else nil

	makesRoom bool // waiters can be superseded, or find too many waiters
}

// A lockID is the name of a lock in histories, and the node at or below which its nodes are.
type lockID struct{ id, node string }

// A locker is one way to take a lock.
type locker struct {
	parts     []chaos.Op
	tree      bool // the parts are those of one path of a Tree
	lock, try func(ctx context.Context) (*holdfast.Hold, error)
	// Re-entry by holders: inner gets the claim as the context's origin.
	inner     func(ctx context.Context) (*holdfast.Hold, error)
	innerOp   chaos.Op
	counted   string
	election  *holdfast.Election
	value     *string // an election candidate's next value
	semaphore limited
	crowded   bool
}

// A limited lock is a semaphore, or slots.
type limited interface {
	SetLimit(ctx context.Context, limit int) error
	Available(ctx context.Context) (free, limit int, err error)
}

// chooseLocks returns one kind of lock, or two.
func (w *world) chooseLocks() []lockSpec {
	if w.kind == slotsAlone {
		return w.chooseSlots()
	}
	if w.kind == newestAlone {
		return w.chooseNewest()
	}
	if w.seed%16 == 5 { // not by a draw: the other seeds stay as they are
		return []lockSpec{trees(w, locksRoot+"/a")}
	}
	if w.seed%16 == 9 {
		return []lockSpec{disputed(w, locksRoot+"/a")}
	}
	if w.seed%16 == 13 {
		return []lockSpec{rooted(w, locksRoot+"/a")}
	}
	if w.rng.IntN(64) == 0 { // it takes as long as many others
		return []lockSpec{crowds(w, locksRoot+"/a")}
	}
	kinds := []func(*world, string) lockSpec{mutexes, named, readWrites, semaphores, multis, nodes, elections, strangers}
	w.rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	var specs []lockSpec
	for i, kind := range kinds[:1+w.rng.IntN(2)] {
		specs = append(specs, kind(w, fmt.Sprintf("%s/%c", locksRoot, 'a'+i)))
	}
	return specs
}

// counter returns where the holders of the lock at path count. Where names of nodes come back,
// an admin may delete one, and Commit compares names. So holders do not count there.
func counter(path string, layout holdfast.Layout) string {
	if !strings.Contains(layout.Mutex, "{uuid}") && !strings.Contains(layout.Mutex, "{hex}") {
		return ""
	}
	return countersRoot + path[len(locksRoot):]
}

// oneOf is one of them.
func oneOf[T any](w *world, all ...T) T { return all[w.rng.IntN(len(all))] }

var ownLayout = holdfast.Layout{Name: "own", Mutex: "app-{hex}-", Exclusive: []string{"app-*-"}, Parent: zk.Container}

func mutexes(w *world, path string) lockSpec {
	layout := oneOf(w, layouts.Curator, layouts.Curator, layouts.Curator, layouts.Kazoo,
		layouts.WriteLock, layouts.SessionID, layouts.GoZookeeper, ownLayout)
	counted := counter(path, layout)
	handoffs := w.rng.IntN(3) // 0: no local handoff
	var who []holdfast.Option
	if w.login.acl != nil {
		who = append(who, holdfast.WithACL(w.login.acl...))
	}
	if w.rng.IntN(2) == 0 {
		who = append(who, holdfast.WithOwner("worker"), holdfast.WithReason("work"))
	}
	return lockSpec{
		ids: []lockID{{path, path}}, dirs: []string{path}, counted: counted, path: path, layout: layout, prompt: true,
		of: func(c *zk.Client) []locker {
			var ls []locker
			for i, n := range []int{0, handoffs, handoffs} { // in one queue, lockers with and without handoff
				opts := append(slices.Clip(who), holdfast.WithLayout(layout), holdfast.Reentrant(), holdfast.WithLocalHandoff(n))
				idle := w.idle()
				if i == 0 {
					idle = 0
				}
				opts = append(opts, holdfast.WithKeep(idle))
				m := holdfast.NewMutex(c, path, w.options(opts...)...)
				op := chaos.Op{Lock: path, Type: chaos.Mutex, Handoff: n, Keep: idle}
				ls = append(ls, locker{parts: []chaos.Op{op}, lock: m.Lock, try: m.TryLock, inner: m.Lock, innerOp: op, counted: counted})
			}
			return ls
		}}
}

// idle is how long clients keep a lock after Unlock, in a part of the worlds; else 0. It is not drawn, so the other
// worlds stay as they are.
func (w *world) idle() time.Duration {
	if w.seed%3 != 1 {
		return 0
	}
	return []time.Duration{10 * time.Millisecond, 300 * time.Millisecond, time.Minute}[w.seed/3%3]
}

// named returns locks that share a directory, told apart by the names of their nodes.
func named(w *world, path string) lockSpec {
	names := []string{"one", "two", "one-more"}[:2+w.rng.IntN(2)]
	handoffs := w.rng.IntN(2)
	spec := lockSpec{dirs: []string{path}, path: path, layout: layouts.Named(names[0]), prompt: true}
	for _, name := range names {
		spec.ids = append(spec.ids, lockID{path + "#" + name, path})
	}
	spec.of = func(c *zk.Client) []locker {
		var ls []locker
		for i, name := range names {
			m := holdfast.NewMutex(c, path, w.options(holdfast.WithLayout(layouts.Named(name)), holdfast.WithLocalHandoff(handoffs), holdfast.WithKeep(w.idle()))...)
			op := chaos.Op{Lock: spec.ids[i].id, Type: chaos.Mutex, Handoff: handoffs, Keep: w.idle()}
			ls = append(ls, locker{parts: []chaos.Op{op}, lock: m.Lock, try: m.TryLock})
		}
		return ls
	}
	return spec
}

// readWrites returns read-write locks, for which a Mutex is a writer.
func readWrites(w *world, path string) lockSpec {
	layout := oneOf(w, layouts.Curator, layouts.Curator, layouts.Kazoo, layouts.HostRW)
	counted := counter(path, layout)
	handoffs := w.rng.IntN(3)
	reentrant := w.rng.IntN(2) == 0
	mixed := layout.Name == layouts.Curator.Name && w.rng.IntN(2) == 0
	return lockSpec{
		ids: []lockID{{path, path}}, dirs: []string{path}, counted: counted, path: path, layout: layout, prompt: true,
		of: func(c *zk.Client) []locker {
			opts := []holdfast.Option{holdfast.WithLayout(layout), holdfast.WithLocalHandoff(handoffs), holdfast.WithKeep(w.idle())}
			if reentrant {
				opts = append(opts, holdfast.Reentrant())
			}
			m := holdfast.NewRWMutex(c, path, w.options(opts...)...)
			read := chaos.Op{Lock: path, Type: chaos.ReadWrite, Shared: true}
			write := chaos.Op{Lock: path, Type: chaos.ReadWrite, Handoff: handoffs, Keep: w.idle()}
			reader := locker{parts: []chaos.Op{read}, lock: m.RLock, try: m.TryRLock}
			if reentrant {
				reader.inner, reader.innerOp = m.RLock, read
			}
			ls := []locker{
				{parts: []chaos.Op{write}, lock: m.Lock, try: m.TryLock, inner: m.RLock, innerOp: read, counted: counted},
				reader, reader,
			}
			if mixed {
				x := holdfast.NewMutex(c, path, w.options()...)
				alone := chaos.Op{Lock: path, Type: chaos.ReadWrite}
				ls = append(ls, locker{parts: []chaos.Op{alone}, lock: x.Lock, try: x.TryLock, counted: counted})
			}
			return ls
		}}
}

// semaphores returns semaphores. In some, the limit changes, and no history claims one.
func semaphores(w *world, path string) lockSpec {
	limit, layout := 2+w.rng.IntN(2), oneOf(w, layouts.Curator, layouts.Curator, layouts.Kazoo)
	spec := lockSpec{ids: []lockID{{path, path}}, path: path, layout: layout, dirs: []string{path + "/locks", path + "/leases"}}
	if layout.Name == layouts.Kazoo.Name {
		spec.dirs = []string{path, path + "-__lock__"}
		spec.ids = append(spec.ids, lockID{path, path + "-__lock__"})
	}
	claimed := limit
	// A kazoo semaphore's limit is in the parent node of its permits, which an admin may delete.
	if layout.Name == layouts.Curator.Name && w.rng.IntN(2) == 0 {
		spec.limits, claimed = 4, 0
	}
	spec.of = func(c *zk.Client) []locker {
		var ls []locker
		s := holdfast.NewSemaphore(c, path, claimed, w.options(holdfast.WithLayout(layout))...)
		for n := 1; n <= 2; n++ {
			ls = append(ls, locker{
				parts: []chaos.Op{{Lock: path, Type: chaos.Semaphore, Limit: limit, Permits: n}}, semaphore: s,
				lock: func(ctx context.Context) (*holdfast.Hold, error) { return s.Acquire(ctx, n) },
				try:  func(ctx context.Context) (*holdfast.Hold, error) { return s.TryAcquire(ctx, n) },
			})
		}
		return ls
	}
	return spec
}

// multis returns two locks that some workers take together, and some alone: two mutexes; or the read side
// of one lock and a permit, or a node.
func multis(w *world, path string) lockSpec {
	one, two := path+"-1", path+"-2"
	spec := lockSpec{ids: []lockID{{one, one}, {two, two}}, dirs: []string{one, two}, path: one, layout: layouts.Curator}
	switch w.rng.IntN(3) {
	case 0:
		spec.counted = countersRoot + path[len(locksRoot):]
		spec.of = func(c *zk.Client) []locker {
			handoffs := int(w.seed % 3)
			opts := w.options(holdfast.WithLocalHandoff(handoffs), holdfast.WithKeep(w.idle()))
			a, b := holdfast.NewMutex(c, one, opts...), holdfast.NewMutex(c, two, opts...)
			return together(spec.counted, a, chaos.Op{Lock: one, Type: chaos.Mutex, Handoff: handoffs, Keep: w.idle()},
				b, chaos.Op{Lock: two, Type: chaos.Mutex, Handoff: handoffs, Keep: w.idle()})
		}
	case 1:
		spec.dirs = []string{one, two + "/locks", two + "/leases"}
		spec.of = func(c *zk.Client) []locker {
			a, b := holdfast.NewRWMutex(c, one, w.options()...), holdfast.NewSemaphore(c, two, 2, w.options()...)
			ls := together("", a.RLocker(), chaos.Op{Lock: one, Type: chaos.ReadWrite, Shared: true},
				b.Locker(1), chaos.Op{Lock: two, Type: chaos.Semaphore, Limit: 2})
			return append(ls, locker{parts: []chaos.Op{{Lock: one, Type: chaos.ReadWrite}}, lock: a.Lock, try: a.TryLock})
		}
	default:
		node := two + nodeLock
		spec.ids[1] = lockID{node, node}
		spec.of = func(c *zk.Client) []locker {
			a, b := holdfast.NewRWMutex(c, one, w.options()...), holdfast.NewNodeLock(c, node, w.options()...)
			return together("", a, chaos.Op{Lock: one, Type: chaos.ReadWrite}, b, chaos.Op{Lock: node, Type: chaos.Mutex})
		}
	}
	return spec
}

// together returns a MultiLock of two locks, and each of them alone.
func together(counted string, a holdfast.Locker, opA chaos.Op, b holdfast.Locker, opB chaos.Op) []locker {
	both := holdfast.NewMultiLock(b, a)
	return []locker{
		{parts: []chaos.Op{opA, opB}, lock: both.Lock, try: both.TryLock, counted: counted},
		{parts: []chaos.Op{opA}, lock: a.Lock, try: a.TryLock},
		{parts: []chaos.Op{opB}, lock: b.Lock, try: b.TryLock},
	}
}

// strangers returns locks of different kinds and layouts under one name, as if by mistake. They
// refuse each other instead of waiting. Their tokens grow only within each kind: between the
// creation of a holder's node and its look at the names, a stranger may acquire and release its
// lock. So the check covers only overlaps.
func strangers(w *world, path string) lockSpec {
	return lockSpec{
		ids: []lockID{{path, path}}, dirs: []string{path, path + "/locks", path + "/leases"}, path: path, layout: layouts.Curator,
		clashes: true,
		of: func(c *zk.Client) []locker {
			m, k := holdfast.NewMutex(c, path), holdfast.NewMutex(c, path, holdfast.WithLayout(layouts.Kazoo))
			s := holdfast.NewSemaphore(c, path, 16, w.options()...) // more than any worker wants: like readers
			writer := chaos.Op{Lock: path, Type: chaos.ReadWrite}
			reader := chaos.Op{Lock: path, Type: chaos.ReadWrite, Shared: true}
			return []locker{
				{parts: []chaos.Op{writer}, lock: m.Lock, try: m.TryLock},
				{parts: []chaos.Op{writer}, lock: k.Lock, try: k.TryLock},
				// No try: a client that is just being admitted makes it fail, which no reader does.
				{parts: []chaos.Op{reader}, lock: s.Locker(1).Lock},
			}
		}}
}

// disputed returns semaphores or slots whose callers claim different numbers. One number is 1 and the other more than any
// worker wants. A caller refuses the number of another while somebody uses it, and replaces it else. So the callers are
// like writers and readers, who refuse each other instead of waiting.
func disputed(w *world, path string) lockSpec {
	dirs := []string{path + "/locks", path + "/leases"}
	slots := w.seed/16%2 == 0
	if slots {
		dirs = []string{path + "/slots", path + "/slot-queue"}
	}
	return lockSpec{
		ids: []lockID{{path, path}}, dirs: dirs, path: path, layout: layouts.Curator, clashes: true,
		of: func(c *zk.Client) (ls []locker) {
			for _, claimed := range []int{1, 16} {
				op := chaos.Op{Lock: path, Type: chaos.ReadWrite, Shared: claimed > 1}
				s, n := holdfast.NewSemaphore(c, path, claimed, w.options()...), holdfast.NewSlots(c, path, claimed, w.options()...)
				l := locker{parts: []chaos.Op{op}, lock: s.Locker(1).Lock} // no try, as in strangers
				if slots {
					l.lock = func(ctx context.Context) (*holdfast.Hold, error) { return n.Acquire(ctx, 1) }
				}
				ls = append(ls, l)
			}
			return ls
		}}
}

const nodeLock = "/node" // ends the path of a NodeLock

func nodes(w *world, path string) lockSpec {
	lock := path + nodeLock
	return lockSpec{ids: []lockID{{lock, lock}}, dirs: []string{path}, path: lock, layout: layouts.Curator, prompt: true,
		of: func(c *zk.Client) []locker {
			op := chaos.Op{Lock: lock, Type: chaos.Mutex}
			l := locker{parts: []chaos.Op{op}}
			opts := w.options()
			if w.seed%4 < 2 {
				opts = append(opts, holdfast.Reentrant())
			}
			n := holdfast.NewNodeLock(c, lock, opts...)
			l.lock, l.try = n.Lock, n.TryLock
			if w.seed%4 < 2 {
				l.inner, l.innerOp = n.Lock, op
			}
			return []locker{l}
		}}
}

func elections(w *world, path string) lockSpec {
	layout := oneOf(w, layouts.Curator, layouts.LeaderLatch, layouts.Kazoo, layouts.WriteLock)
	counted := counter(path, layout)
	// If names come back with the directory, Leader may return another node of the name that was first
	// before.
	lasting := counted == ""
	return lockSpec{ids: []lockID{{path, path}}, dirs: []string{path}, counted: counted, path: path, layout: layout, prompt: true, lasting: lasting,
		of: func(c *zk.Client) []locker {
			e := holdfast.NewElection(c, path, w.options(holdfast.WithLayout(layout))...)
			value := new(string)
			campaign := func(ctx context.Context) (*holdfast.Hold, error) { return e.Campaign(ctx, []byte(*value)) }
			return []locker{{parts: []chaos.Op{{Lock: path, Type: chaos.Election}}, lock: campaign, election: e, value: value, counted: counted}}
		}}
}

func init() { queue.LongFrom = 32 } // otherwise crowds would leave no watermarks

// crowds returns locks that very many goroutines of one session want. So they share their lists of the
// queue, and holders leave watermarks in it.
func crowds(w *world, path string) lockSpec {
	spec := oneOf(w, mutexes, readWrites)(w, path)
	for spec.layout.Name != layouts.Curator.Name {
		spec = oneOf(w, mutexes, readWrites)(w, path)
	}
	spec.crowded = true
	lockers := spec.of
	spec.of = func(c *zk.Client) []locker {
		ls := lockers(c)
		for i := range ls {
			ls[i].crowded = true
		}
		return ls
	}
	return spec
}

// prepare makes the counters, and stores the limits.
func (w *world) prepare(locks []lockSpec) {
	ctx := context.Background()
	w.create(ctx, countersRoot)
	w.create(ctx, locksRoot)
	for _, l := range locks {
		if l.counted != "" {
			w.create(ctx, l.counted)
			w.counters[l.counted] = &counted{}
		}
		if l.limits > 0 {
			first := l.of(w.admin)[0]
			if err := first.semaphore.SetLimit(ctx, first.parts[0].Limit); err != nil {
				panic(err)
			}
		}
	}
}

func (w *world) create(ctx context.Context, path string) {
	for {
		if _, _, err := w.admin.Create(ctx, path, []byte("0"), zk.Persistent); err == nil || errors.Is(err, zk.ErrNodeExists) {
			return
		}
	}
}
