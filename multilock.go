package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/internal/tenure"
	"holdfast/zk"
)

// A MultiLock is several locks held as one, all or none. It acquires them one after the other, in an order that is
// the same for everybody: by their paths as the server knows them (with the client's chroot), then by their kinds and
// the forms of their layouts. The locks of a [Tree] come last, from below upwards. So two MultiLocks with locks in
// common cannot wait for each other. The locks may be on several ensembles, through several clients, if their paths
// differ. Two locks that differ only in the client have no such order, and Lock refuses them.
type MultiLock struct {
	parts []part
	err   error
	tree  string // the path of the Tree, if this is one of its locks
}

// A part is one lock of a MultiLock.
type part struct {
	Locker
	lock     *lock
	strength int  // of two parts of one lock, the stronger can stand for the weaker
	tree     bool // of a Tree
}

// path is the lock's path as the server knows it.
func (p part) path() string { return p.lock.Client.Chroot() + p.lock.Path }

// compare orders locks. It is 0 for two locks of one client that are the same. Trees come last, and paths
// in a tree before those above them: the root's token must be younger than all others (see Tree).
func (p part) compare(o part) int {
	switch {
	case p.tree && o.tree:
		p, o = o, p
	case p.tree:
		return 1
	case o.tree:
		return -1
	}
	return cmp.Or(strings.Compare(p.path(), o.path()), cmp.Compare(p.lock.Kind, o.lock.Kind),
		strings.Compare(p.lock.Grammar.Queue, o.lock.Grammar.Queue))
}

// beside returns why the different locks p and o cannot be held together, or nil.
func (p part) beside(o part) error {
	for _, pair := range [][2]part{{p, o}, {o, p}} {
		if root, in := pair[0].treeOf(pair[1]); in {
			return fmt.Errorf("%w: %s is in the Tree %s, which refuses other locks at its path and below: take it as a path of that Tree",
				zk.ErrBadArguments, pair[1].path(), root)
		}
	}
	switch {
	case p.path() != o.path() || p.lock.Kind != o.lock.Kind:
		return nil
	case p.tree != o.tree:
		return fmt.Errorf("%w: %s is a node of a Tree and would be another lock at once: give one of them another path", zk.ErrBadArguments, p.path())
	case p.compare(o) == 0:
		return fmt.Errorf("%w: two clients have a lock at %s, and no order of the two is the same for everybody: give one of them another path, or take one after the other",
			zk.ErrBadArguments, p.path())
	case p.lock.Grammar.Sees(o.lock.Grammar): // also through two clients, which may be of one ensemble
		return fmt.Errorf("%w: %s is to be locked in the layouts %s and %s at once, and each would wait for the other: use one layout for one path",
			zk.ErrBadArguments, p.path(), p.lock.Grammar.Label, o.lock.Grammar.Label)
	}
	return nil
}

// treeOf returns the path of the Tree whose root p is. in: o is no lock of that Tree, and at its path or below.
func (p part) treeOf(o part) (root string, in bool) {
	root, ok := strings.CutSuffix(p.path(), "/"+queue.TreeRoot)
	in = p.tree && ok && strings.HasPrefix(o.path()+"/", root+"/") && !strings.HasPrefix(o.path(), root+"/"+queue.TreePart)
	return root, in
}

// deadlocks reports whether the part would wait for a Hold that ctx descends from.
func (p part) deadlocks(ctx context.Context, wait bool) bool {
	switch p.lock.Kind {
	case queue.Node:
		return len(p.lock.heldNode(ctx)) > 0 && !p.lock.reentrant
	case queue.Semaphore, queue.Slots:
		return wait && p.lock.heldPermit(ctx)
	}
	held := p.lock.held(ctx)
	side := names.Write
	if p.strength == readStrength {
		side = names.Read
	}
	return len(held) > 0 && (p.tree || p.lock.joins(held, side) == nil)
}

// The strengths of a read-write lock's sides; a Mutex is a writer. Of permits and slots it is their number.
const (
	readStrength = iota
	writeStrength
)

// NewMultiLock makes one lock of several locks of this package, in any order. An Election cannot be among them. The
// same lock may be named several times. It is acquired once, in its strongest form: as writer rather than as reader,
// and with the largest number of permits or slots. Lock fails with zk.ErrBadArguments if two locks cannot be ordered or would
// wait for each other, or if the same lock has two values of WithACL or WithValue.
func NewMultiLock(ls ...Locker) *MultiLock {
	m := &MultiLock{}
	if len(ls) == 0 {
		m.err = fmt.Errorf("%w: a MultiLock needs at least one lock", zk.ErrBadArguments)
	}
	for _, l := range ls {
		parts, err := partsOf(l)
		if err != nil {
			m.err = err
		}
		m.parts = append(m.parts, parts...)
	}
	slices.SortStableFunc(m.parts, func(a, b part) int {
		return cmp.Or(a.compare(b), cmp.Compare(b.strength, a.strength)) // the strongest is the one that stays
	})
	all := m.parts
	m.parts = nil
	for _, p := range all {
		same := slices.IndexFunc(m.parts, func(o part) bool { return p.compare(o) == 0 && p.lock.Client == o.lock.Client })
		if same >= 0 {
			m.err = cmp.Or(m.err, p.lock.sharesNode(m.parts[same].lock))
			continue
		}
		for _, o := range m.parts {
			m.err = cmp.Or(m.err, p.beside(o))
		}
		m.parts = append(m.parts, p)
	}
	return m
}

// partsOf returns what a MultiLock needs to order a lock.
func partsOf(l Locker) ([]part, error) {
	switch l := l.(type) {
	case *Mutex:
		return []part{{Locker: l, lock: &l.lock, strength: writeStrength}}, nil
	case *RWMutex:
		return []part{{Locker: l, lock: &l.lock, strength: writeStrength}}, nil
	case readSide:
		return []part{{Locker: l, lock: &l.m.lock, strength: readStrength}}, nil
	case permits:
		return []part{{Locker: l, lock: &l.s.lock, strength: l.n}}, nil
	case someSlots:
		return []part{{Locker: l, lock: &l.s.semaphore.lock, strength: l.n}}, nil
	case *NodeLock:
		return []part{{Locker: l, lock: &l.lock}}, nil
	case *MultiLock:
		return l.parts, l.err
	}
	if l == nil {
		return nil, fmt.Errorf("%w: a MultiLock got a nil Locker", zk.ErrBadArguments)
	}
	return nil, fmt.Errorf("%w: a %T cannot be a part of a MultiLock: it takes the locks of package holdfast, which have paths to order them by: wrap the whole MultiLock instead",
		zk.ErrBadArguments, l)
}

// Lock waits for all of the locks. The context bounds the wait as a whole. On an error, Lock releases the locks that
// it has acquired. If a lock is lost while Lock waits for the rest, Lock starts again. The error is ErrDeadlock if
// ctx descends from a Hold of one of the locks, unless the lock can be joined: it is Reentrant, or its read side is
// asked for under the write side. A caller that joins one lock and waits for another with a smaller path can wait for
// ever, as with any nested locks in the wrong order.
//
// The Hold ends when any of the locks is lost. Unlock releases all of them.
func (m *MultiLock) Lock(ctx context.Context) (*Hold, error) {
	h, err := outlive(ctx, func() (*Hold, error) { return m.enter(ctx, true) })
	if err != nil {
		return nil, m.fail("lock", err)
	}
	return h, nil
}

// TryLock is Lock, but fails with ErrLocked if somebody is ahead in one of the locks.
func (m *MultiLock) TryLock(ctx context.Context) (*Hold, error) {
	h, err := despiteRemoval(ctx, func() (*Hold, error) { return m.enter(ctx, false) })
	if err != nil {
		return nil, m.fail("try lock", err)
	}
	return h, nil
}

// fail wraps err, unless it is the error of a part, which says the same.
func (m *MultiLock) fail(op string, err error) error {
	var part *Error
	if errors.As(err, &part) {
		return err
	}
	if m.tree != "" {
		return &Error{Op: op, Path: m.tree, Err: err}
	}
	var paths []string
	for _, p := range m.parts {
		paths = append(paths, p.lock.Path)
	}
	return &Error{Op: op, Path: strings.Join(paths, ", "), Err: err}
}

func (m *MultiLock) enter(ctx context.Context, wait bool) (_ *Hold, err error) {
	if m.err != nil {
		return nil, m.err
	}
	for _, p := range m.parts { // all first: the holder of an earlier lock may wait for ours
		if p.deadlocks(ctx, wait) {
			return nil, ErrDeadlock
		}
	}
	// If an earlier lock is lost, waiting for the next is useless. A try does not wait, and is not
	// interrupted: its next attempt must not find the node of this one.
	waitCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var held []*Hold
	err = errPanic
	defer func() {
		if err != nil {
			for _, h := range slices.Backward(held) {
				h.letGo(ctx)
			}
		}
	}()
	lock := Locker.TryLock
	if wait {
		lock = Locker.Lock
	}
	for _, p := range m.parts {
		partCtx := waitCtx
		if p.lock.detect != nil {
			partCtx = context.WithValue(waitCtx, taken{}, slices.Clip(held))
		}
		h, err := lock(p.Locker, partCtx)
		if err != nil {
			if ctx.Err() == nil && waitCtx.Err() != nil {
				return nil, queue.ErrGone // start again
			}
			return nil, err
		}
		held = append(held, h)
		if wait {
			defer context.AfterFunc(h.Context(), func() { cancel(queue.ErrGone) })()
		}
	}
	if m.tree != "" { // the root fences, see Tree
		held = append(held[len(held)-1:], held[:len(held)-1]...)
	}
	return merge(ctx, held)
}

// merge makes one Hold of several that no caller has seen yet.
func merge(ctx context.Context, held []*Hold) (*Hold, error) {
	var tenures []*tenure.Tenure
	for _, h := range held {
		tenures = append(tenures, h.tenures...)
	}
	all := holdOf(ctx, tenures...)
	all.parts = held
	for _, t := range tenures {
		if !t.Add((*holder)(all)) {
			for _, t := range tenures {
				t.Forget((*holder)(all))
			}
			return nil, queue.ErrGone // lost since it was taken: start again
		}
	}
	for _, h := range held {
		h.supersede()
	}
	return all, nil
}
