package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"holdfast/zk"
)

// A kind is what a lock is: locks of two kinds under one name do not see each other.
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
// names are no strangers to each other.
func (g *grammar) belongs(name string) string {
	for i, k := range knownLayouts {
		if _, ok := knownNodes[i].parse(name); ok && knownGrammars[i].queue != g.queue {
			return kindQueue.in(k.Name)
		}
	}
	if _, several := g.named(); several {
		return ""
	}
	if c, ok := severalLocks.parse(name); ok {
		return kindQueue.in("named:" + strings.TrimSuffix(c.form, namedSeparator))
	}
	return ""
}

// checkKind fails with ErrKind if one of the children of q's path is a node of another kind
// of lock. They must have been listed after our own node was made. Locks of other kinds
// do the same, so of two that come at one time at least one sees the other.
//
// The names tell nearly all of it. Only what may be left of semaphores is looked into.
func (q *queue) checkKind(ctx context.Context, names []string) error {
	var s *semaphoreNodes // that is ours
	if q.kind == kindSemaphore {
		s = &q.grammar.semaphore
	}
	for _, name := range names {
		_, queued := q.grammar.parse(name)
		switch {
		case queued && s == nil:
		case queued:
			return q.otherKind(q.path+"/"+name, kindQueue.in(q.grammar.label))
		default:
			if theirs := q.grammar.belongs(name); theirs != "" {
				return q.otherKind(q.path+"/"+name, theirs)
			}
		}
	}
	node, theirs, err := semaphoreIn(ctx, q.client, q.path, names, s)
	if err == nil && node != "" {
		err = q.otherKind(node, theirs)
	}
	return err
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

// A ForeignNode is a child of a lock's path that looks like a place in a queue, and is none
// in the lock's.
type ForeignNode struct {
	Path string
	// Kind says in words what lock it is of: "a lock with a queue, layout kazoo". It is ""
	// if the name is in no form that this package knows.
	Kind string
}

// Foreign lists what List leaves out of a lock's directory, though it looks like somebody's
// place: nodes of other kinds of lock and of other layouts, beside which Lock fails with
// ErrKind, and ephemeral nodes with a number in no known form, which Lock passes over.
// Whoever made those takes no notice of the lock, perhaps. Of the options, only WithLayout
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
	var numbered []contender
	for _, name := range names {
		if _, ok := g.parse(name); ok {
			continue
		}
		if _, ok := severalLocks.parse(name); ok && several {
			continue // another lock of the directory
		}
		if theirs := g.belongs(name); theirs != "" {
			found = append(found, ForeignNode{Path: path + "/" + name, Kind: theirs})
		} else if c, ok := anyForm.parse(name); ok {
			numbered = append(numbered, c)
		}
	}
	node, theirs, err := semaphoreIn(ctx, c, path, names, &g.semaphore)
	if err != nil {
		return nil, err
	}
	if node != "" {
		found = append(found, ForeignNode{Path: node, Kind: theirs})
	}
	results, err := read(ctx, c, path, numbered)
	if err != nil {
		return nil, err
	}
	for i, r := range results {
		if r.Err == nil && r.Stat.EphemeralOwner != 0 { // else it may be the directory of another lock
			found = append(found, ForeignNode{Path: path + "/" + numbered[i].name})
		}
	}
	return found, nil
}
