package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"holdfast/zk"
)

// A kind is a kind of lock. Locks of two kinds do not see each other's nodes.
type kind string

const (
	kindQueue     kind = "lock with a queue"
	kindSemaphore kind = "semaphore"
	kindTurnstile kind = "semaphore's turnstile" // a queue, too
	kindNode      kind = "NodeLock"
)

// in is the kind in a layout, in words.
func (k kind) in(label string) string { return fmt.Sprintf("a %s, layout %s", k, label) }

// describe says in words what the lock is.
func (q *queue) describe() string {
	if q.kind == kindNode {
		return "a " + string(kindNode)
	}
	return q.kind.in(q.grammar.label)
}

// otherKind is the error for a node of another kind of lock, under the name of q.
func (q *queue) otherKind(node, theirs string) error {
	return fmt.Errorf("%w: the node %s is of %s, and this is %s: use one kind of lock and one layout for one name; if nobody uses that node, remove it",
		ErrKind, node, theirs, q.describe())
}

// belongs says to which queue a child belongs that is not in g's: "" if its name is in no
// form that this package knows. The locks of one directory that are told apart by their
// names are no strangers to each other, also where such a name fits another layout.
func (g *grammar) belongs(name string) string {
	c, named := severalLocks.parse(name)
	if _, several := g.named(); several && named {
		return ""
	}
	for i, k := range knownLayouts {
		if _, ok := knownNodes[i].parse(name); ok && knownGrammars[i].queue != g.queue {
			return kindQueue.in(k.Name)
		}
	}
	if named {
		return kindQueue.in("named:" + strings.TrimSuffix(c.form, namedSeparator))
	}
	return ""
}

// A stranger is a node whose name is that of a place in another queue, and says of which.
type stranger struct{ node, theirs string }

// checkKind fails with ErrKind if one of the children of q's path is a node of another kind
// of lock. They must have been listed after our own node was made. Locks of other kinds
// do the same, so of two that come at one time at least one sees the other.
//
// The names tell nearly all of it. Strangers are looked at before the lock is refused, and
// so is what may be left of semaphores.
func (q *queue) checkKind(ctx context.Context, names []string) error {
	var s *semaphoreNodes // that is ours
	if q.kind == kindSemaphore {
		s = &q.grammar.semaphore
	}
	for {
		changed, err := q.checkStrangers(ctx, q.strangers(names, s != nil))
		if err != nil {
			return err
		}
		if !changed {
			break
		}
		if names, err = children(ctx, q.client, q.path); err != nil {
			return err
		}
	}
	node, theirs, err := semaphoreIn(ctx, q.client, q.path, names, s)
	if err == nil && node != "" {
		err = q.otherKind(node, theirs)
	}
	return err
}

// strangers are the nodes of other queues among the children of q's path. To a semaphore, all
// queues are others.
func (q *queue) strangers(names []string, semaphore bool) (all []stranger) {
	for _, name := range names {
		theirs := ""
		if _, queued := q.grammar.parse(name); !queued {
			theirs = q.grammar.belongs(name)
		} else if semaphore {
			theirs = kindQueue.in(q.grammar.label)
		}
		if theirs != "" {
			all = append(all, stranger{q.path + "/" + name, theirs})
		}
	}
	return all
}

// checkStrangers fails with ErrKind if one of the nodes is ephemeral. The place of a lock is;
// a persistent node may be anything. changed: one of them has gone. Then the children have to
// be listed again, since a writer that becomes a reader makes another node before the first
// one goes.
func (q *queue) checkStrangers(ctx context.Context, all []stranger) (changed bool, _ error) {
	for some := range slices.Chunk(all, readsInFlight) { // mostly there are none
		var looks []zk.Op
		for _, s := range some {
			looks = append(looks, zk.ExistsOp(s.node))
		}
		var found []zk.Result
		err := retry(ctx, func() (err error) {
			if found, err = q.client.Pipeline(ctx, looks...); found == nil {
				return err
			}
			for _, r := range found {
				if r.Err != nil && !errors.Is(r.Err, zk.ErrNoNode) {
					return r.Err
				}
			}
			return nil
		})
		if err != nil {
			return false, err
		}
		for i, r := range found {
			switch {
			case r.Err != nil:
				changed = true
			case r.Stat.EphemeralOwner != 0:
				return false, q.otherKind(some[i].node, some[i].theirs)
			}
		}
	}
	return changed, nil
}

// semaphoreIn looks for a semaphore that is in use, other than the one given, among the
// children of path. It returns one of its nodes, or "".
func semaphoreIn(ctx context.Context, c *zk.Client, path string, names []string, but *semaphoreNodes) (node, theirs string, err error) {
	for i, k := range knownGrammars {
		s := &knownGrammars[i].semaphore
		switch {
		case s.lease == "" || but != nil && but.lease == s.lease:
			continue
		case s.numbered:
			present := func(sub string) bool { return slices.Contains(names, strings.TrimPrefix(sub, "/")) }
			if !present(s.turnstile) && !present(s.leases) {
				continue
			}
			// The turn comes first: it goes when the permit is there. The directory of the
			// permits may be younger than the names that we have.
			for _, sub := range []string{s.turnstile, s.leases} {
				in, err := children(ctx, c, path+sub)
				if err != nil {
					return "", "", err
				}
				forms := k
				if sub == s.leases {
					forms = s.queue
				}
				for _, name := range in {
					if _, ok := forms.parse(name); ok {
						return path + sub + "/" + name, kindSemaphore.in(k.label), nil
					}
				}
			}
		default:
			name, err := permitIn(ctx, c, path, names)
			if name != "" || err != nil {
				return path + "/" + name, kindSemaphore.in(k.label), err
			}
		}
	}
	return "", "", nil
}

// permitIn is a child that is a permit of kazoo's Semaphore. Its name is a number and
// nothing else, as other things may be called, directories of other locks above all; but
// permits are ephemeral.
func permitIn(ctx context.Context, c *zk.Client, path string, names []string) (string, error) {
	var candidates []contender
	for _, name := range names {
		if len(name) == 32 && strings.Trim(name, "0123456789abcdef") == "" {
			candidates = append(candidates, contender{name: name})
		}
	}
	for some := range slices.Chunk(candidates, readsInFlight) { // mostly there are none
		results, err := read(ctx, c, path, some)
		if err != nil {
			return "", err
		}
		for i, r := range results {
			if r.Err == nil && r.Stat.EphemeralOwner != 0 {
				return some[i].name, nil
			}
		}
	}
	return "", nil
}

// underNode says what is wrong if a node could not be made because the one above it is
// ephemeral, as that of a NodeLock is; other errors come back as they are.
func (q *queue) underNode(path string, err error) error {
	if !errors.Is(err, zk.ErrNoChildrenForEphemerals) {
		return err
	}
	return fmt.Errorf("%w (%w)", q.otherKind(path[:strings.LastIndexByte(path, '/')], "a "+string(kindNode)), err)
}

// A ForeignNode is a child of a lock's path that looks like a place in a queue, but is not in
// this lock's queue.
type ForeignNode struct {
	Path string
	// Kind says in words what lock it is of: "a lock with a queue, layout kazoo". It is ""
	// if the name is in no form that this package knows.
	Kind string
}

// Foreign lists what List leaves out of a lock's directory, though it looks like somebody's
// place: nodes of other kinds of lock and of other layouts, beside which Lock fails with
// ErrKind, and ephemeral nodes with a number in no known form, which Lock passes over.
// The makers of such nodes may not respect the lock. Of the options, only WithLayout
// counts.
func Foreign(ctx context.Context, c *zk.Client, path string, opts ...Option) ([]ForeignNode, error) {
	o := newOptions(opts)
	found, err := foreign(ctx, c, path, o.grammar)
	if err != nil {
		return nil, &Error{Op: "list foreign nodes of", Path: path, Err: err}
	}
	return found, nil
}

func foreign(ctx context.Context, c *zk.Client, path string, g *grammar) (found []ForeignNode, err error) {
	if err := validatePath(path); err != nil {
		return nil, err
	}
	if err := retry(ctx, func() error { return c.Sync(ctx, path) }); err != nil {
		return nil, err
	}
	names, err := children(ctx, c, path)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	_, several := g.named()
	var known, numbered []contender
	for _, name := range names {
		if _, ok := g.parse(name); ok {
			continue
		}
		if _, ok := severalLocks.parse(name); ok && several {
			continue // another lock of the directory
		}
		if g.belongs(name) != "" {
			known = append(known, contender{name: name})
		} else if c, ok := anyForm.parse(name); ok {
			numbered = append(numbered, c)
		}
	}
	node, theirs, err := semaphoreIn(ctx, c, path, names, &g.semaphore)
	if err != nil {
		return nil, err
	}
	results, err := read(ctx, c, path, slices.Concat(known, numbered))
	if err != nil {
		return nil, err
	}
	add := func(all []contender, results []zk.Result, kind func(name string) string) {
		for i, r := range results {
			if r.Err == nil && r.Stat.EphemeralOwner != 0 { // else it may be the directory of another lock
				found = append(found, ForeignNode{Path: path + "/" + all[i].name, Kind: kind(all[i].name)})
			}
		}
	}
	add(known, results[:len(known)], g.belongs)
	if node != "" {
		found = append(found, ForeignNode{Path: node, Kind: theirs})
	}
	add(numbered, results[len(known):], func(string) string { return "" })
	return found, nil
}
