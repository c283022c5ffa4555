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

// ErrKind means that the name is that of another kind of lock, or of one in another layout.
var ErrKind = errors.New("another kind of lock has this name")

// A Kind is a kind of lock. Locks of two kinds do not see each other's nodes.
type Kind string

// The kinds.
const (
	Lock      Kind = "lock with a queue"
	Semaphore Kind = "semaphore"
	Turnstile Kind = "semaphore's turnstile" // a queue, too; also that of slots
	Slots     Kind = "set of slots"
	Node      Kind = "NodeLock"
	Once      Kind = "Once"
)

// in names the kind in a layout, in words.
func (k Kind) in(label string) string { return fmt.Sprintf("a %s, layout %s", k, label) }

// describe says in words what the lock is.
func (q *Queue) describe() string {
	if q.Kind == Node || q.Kind == Once || q.Kind == Slots {
		return "a " + string(q.Kind)
	}
	return q.Kind.in(q.Grammar.Label)
}

// otherKind is the error for a node of another kind of lock, under the name of q.
func (q *Queue) otherKind(node, theirs string) error {
	return fmt.Errorf("%w: the node %s is of %s, and this is %s: use one kind of lock and one layout for one name; if nobody uses that node, remove it",
		ErrKind, node, theirs, q.describe())
}

// underNode says what is wrong if a node could not be made because the one above it is ephemeral, as
// that of a NodeLock is. Other errors are returned as they are.
func (q *Queue) underNode(path string, err error) error {
	if !errors.Is(err, zk.ErrNoChildrenForEphemerals) {
		return err
	}
	return fmt.Errorf("%w (%w)", q.otherKind(path[:strings.LastIndexByte(path, '/')], "a "+string(Node)), err)
}

// HasNodeLock is the error for a NodeLock that has the path of q.
func (q *Queue) HasNodeLock() error { return q.otherKind(q.Path, "a "+string(Node)) }

// A Stranger is a node whose name is that of a place in another queue.
type Stranger struct {
	Node string // its path
	Kind string // of its lock, in words; "" if the name is in no known form
}

// CheckKind fails with ErrKind if one of the children of q's path is a node of another kind of lock.
// They must have been listed after our own node was made. Locks of other kinds do the same, so of two
// that come at one time at least one sees the other.
//
// The names tell nearly all of it. Strangers are read before the lock is refused, and so is what
// semaphores may have left.
func (q *Queue) CheckKind(ctx context.Context, listed []string) error {
	var ours []*names.Semaphore
	if q.Kind == Semaphore || q.Kind == Slots {
		ours = append(ours, &q.Grammar.Semaphore)
	}
	for {
		changed, err := q.checkStrangers(ctx, q.strangers(listed, len(ours) > 0 || q.Kind == Once))
		if err != nil {
			return err
		}
		if !changed {
			break
		}
		if listed, err = Children(ctx, q.Client, q.Path); err != nil {
			return err
		}
	}
	s, err := semaphoreIn(ctx, q.Client, q.Path, listed, ours...)
	if err == nil && s.Node == "" && q.Kind != Once {
		s, err = onceIn(ctx, q.Client, q.Path, listed)
	}
	if err == nil && s.Node != "" {
		err = q.otherKind(s.Node, s.Kind)
	}
	return err
}

// strangers are the nodes of other queues among the children of q's path. To a semaphore, all queues
// are others.
func (q *Queue) strangers(listed []string, semaphore bool) (all []Stranger) {
	for _, name := range listed {
		theirs := ""
		if _, queued := q.Grammar.Parse(name); !queued {
			theirs = belongs(q.Grammar, name)
		} else if semaphore {
			theirs = Lock.in(q.Grammar.Label)
		}
		if theirs != "" {
			all = append(all, Stranger{q.Path + "/" + name, theirs})
		}
	}
	return all
}

// belongs names, in words, the lock of a child that is not in g's queue. It returns "" if the name is
// in no form that this package knows.
func belongs(g *names.Grammar, name string) string {
	if label := g.Belongs(name); label != "" {
		return Lock.in(label)
	}
	return ""
}

// checkStrangers fails with ErrKind if one of the nodes is that of a lock. Such a node is ephemeral, or its
// name says that no session owns the lock. Other persistent nodes may be anything. changed: one of them has gone. Then the children have to be listed
// again, since a writer that becomes a reader makes another node before the first one goes.
func (q *Queue) checkStrangers(ctx context.Context, all []Stranger) (changed bool, _ error) {
	for some := range slices.Chunk(all, readsInFlight) { // mostly there are none
		var looks []zk.Op
		for _, s := range some {
			looks = append(looks, zk.ExistsOp(s.Node))
		}
		found, err := pipeline(ctx, q.Client, looks)
		if err != nil {
			return false, err
		}
		for i, r := range found {
			switch {
			case r.Err != nil:
				changed = true
			case r.Stat.EphemeralOwner != 0, names.IsDetached(strings.TrimPrefix(some[i].Node, q.Path+"/")):
				return false, q.otherKind(some[i].Node, some[i].Kind)
			}
		}
	}
	return changed, nil
}

// semaphoreIn looks for a semaphore or slots that are in use, other than those given, among the children
// of path. It returns one of their nodes, or none.
func semaphoreIn(ctx context.Context, c *zk.Client, path string, listed []string, but ...*names.Semaphore) (Stranger, error) {
	for _, g := range append(names.Semaphores(), names.Slots) {
		s := &g.Semaphore
		kind := Semaphore.in(g.Label)
		if s.Slots {
			kind = "a " + string(Slots)
		}
		switch {
		case slices.ContainsFunc(but, func(b *names.Semaphore) bool { return b.Lease == s.Lease }):
			continue
		case s.Numbered:
			present := func(sub string) bool { return slices.Contains(listed, strings.TrimPrefix(sub, "/")) }
			if !present(s.Turnstile) && !present(s.Leases) {
				continue
			}
			// The turnstile comes first: its node goes when the permit is there. The directory of the
			// permits may be younger than the names that we have.
			for _, sub := range []string{s.Turnstile, s.Leases} {
				in, err := Children(ctx, c, path+sub)
				if err != nil {
					return Stranger{}, err
				}
				forms := g
				if sub == s.Leases {
					forms = s.Queue
				}
				for _, name := range in {
					if _, ok := forms.Parse(name); ok {
						return Stranger{path + sub + "/" + name, kind}, nil
					}
				}
			}
		default:
			name, err := permitIn(ctx, c, path, listed)
			if name != "" || err != nil {
				return Stranger{path + "/" + name, kind}, err
			}
		}
	}
	return Stranger{}, nil
}

// Probe begins the names of nodes with which holdfast doctor examines a server. They are no locks.
const Probe = ".holdfast-doctor-"

// OnceShard begins the names of the directories of a Once, which end in a hexadecimal digit.
const OnceShard = "once-"

// onceIn looks for a Once that is in use among the children of path: one with a queue or a mark. It returns
// one of its nodes, or none.
func onceIn(ctx context.Context, c *zk.Client, path string, listed []string) (Stranger, error) {
	for _, name := range listed {
		digit, ok := strings.CutPrefix(name, OnceShard)
		if !ok || len(digit) != 1 || !strings.Contains("0123456789abcdef", digit) {
			continue
		}
		keys, err := Children(ctx, c, path+"/"+name)
		if err != nil {
			return Stranger{}, err
		}
		if len(keys) > 0 {
			return Stranger{path + "/" + name + "/" + keys[0], "a " + string(Once)}, nil
		}
	}
	return Stranger{}, nil
}

// permitIn returns a child that is a permit of kazoo's Semaphore.
func permitIn(ctx context.Context, c *zk.Client, path string, listed []string) (string, error) {
	permits, _, err := BarePermits(ctx, c, path, listed)
	if err != nil || len(permits) == 0 {
		return "", err
	}
	return permits[0], nil
}

// BarePermits returns the children that are permits of kazoo's Semaphore, and reads them. The name of a
// permit is a number and nothing else. Other things may be called so, directories of other locks above
// all; but permits are ephemeral.
func BarePermits(ctx context.Context, c *zk.Client, path string, listed []string) (permits []string, results []zk.Result, err error) {
	var candidates []string
	for _, name := range listed {
		if len(name) == 32 && strings.Trim(name, "0123456789abcdef") == "" {
			candidates = append(candidates, name)
		}
	}
	all, err := Read(ctx, c, path, candidates) // mostly there are none
	if err != nil {
		return nil, nil, err
	}
	for i, r := range all {
		if r.Err == nil && r.Stat.EphemeralOwner != 0 {
			permits, results = append(permits, candidates[i]), append(results, r)
		}
	}
	return permits, results, nil
}

// Pending returns the index of a permit that Curator's semaphore has made and not granted, or -1. Curator makes
// the node of a permit while it is first at the turnstile, and then waits until there are few enough of them.
// limit is 0 if it is not stored.
func Pending(limit int, first zk.Stat, permits []zk.Stat) int {
	pending := -1
	if first.EphemeralOwner == 0 || limit > 0 && len(permits) <= limit {
		return pending
	}
	for i, p := range permits {
		if p.EphemeralOwner == first.EphemeralOwner && p.Czxid > first.Czxid && (pending < 0 || p.Czxid > permits[pending].Czxid) {
			pending = i
		}
	}
	return pending
}

// Strangers lists the children of path that look like places, but are not in g's queue: nodes of other
// kinds of lock and of other layouts, and ephemeral nodes with a number in no known form.
func Strangers(ctx context.Context, c *zk.Client, path string, g *names.Grammar) (found []Stranger, err error) {
	listed, err := Children(ctx, c, path)
	if err != nil {
		return nil, err
	}
	slices.Sort(listed)
	var known, numbered []string
	for _, name := range listed {
		_, ours := g.Parse(name)
		switch {
		case ours || g.Beside(name):
		case g.Belongs(name) != "":
			known = append(known, name)
		case names.Numbered(name):
			numbered = append(numbered, name)
		}
	}
	semaphore, err := semaphoreIn(ctx, c, path, listed, &g.Semaphore, &names.Slots.Semaphore)
	if err != nil {
		return nil, err
	}
	once, err := onceIn(ctx, c, path, listed)
	if err != nil {
		return nil, err
	}
	results, err := Read(ctx, c, path, slices.Concat(known, numbered))
	if err != nil {
		return nil, err
	}
	add := func(all []string, results []zk.Result, kind func(name string) string) {
		for i, r := range results {
			if r.Err == nil && (r.Stat.EphemeralOwner != 0 || names.IsDetached(all[i])) { // else it may be the directory of another lock
				found = append(found, Stranger{Node: path + "/" + all[i], Kind: kind(all[i])})
			}
		}
	}
	add(known, results[:len(known)], func(name string) string { return belongs(g, name) })
	if semaphore.Node != "" {
		found = append(found, semaphore)
	}
	if once.Node != "" {
		found = append(found, once)
	}
	add(numbered, results[len(known):], func(string) string { return "" })
	return found, nil
}
