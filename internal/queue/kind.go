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
	Tree      Kind = "tree"          // as a whole; each of its queues is a Lock
	Shards    Kind = "set of shards" // as a whole; the queues of workers and shards are Locks
)

// in names the kind in a layout, in words.
func (k Kind) in(label string) string { return fmt.Sprintf("a %s, layout %s", k, label) }

// queues reports whether a lock of this kind has its queue at its own path.
func (k Kind) queues() bool { return k == Lock || k == Turnstile }

// describe says in words what the lock is.
func (q *Queue) describe() string {
	switch {
	case q.Kind == Node, q.Kind == Once, q.Kind == Slots, q.Kind == Shards:
		return "a " + string(q.Kind)
	case q.Kind == Tree:
		return "the tree " + q.Path
	case q.Kind == Turnstile && q.Grammar.Semaphore.Slots:
		return "a " + string(Slots)
	case q.Kind == Turnstile:
		return Semaphore.in(q.Grammar.Label)
	}
	return q.Kind.in(q.Grammar.Label)
}

// A Stranger is a node whose name is that of a place in another queue.
type Stranger struct {
	Node string // its path
	Kind string // of its lock, in words; "" if the name is in no known form

	kind  Kind
	label string // of its layout
}

func ofLock(node, label string) Stranger { return Stranger{node, Lock.in(label), Lock, label} }

// ofUnknown is for a place of a program's own layout. Nothing else has such a node where a tree or shards are.
func ofUnknown(node string) Stranger { return Stranger{node, "a lock in an unknown layout", Lock, ""} }

func ofSemaphore(node string, g *names.Grammar) Stranger {
	if g.Semaphore.Slots {
		return Stranger{node, "a " + string(Slots), Slots, g.Label}
	}
	return Stranger{node, Semaphore.in(g.Label), Semaphore, g.Label}
}

func ofNode(node string) Stranger   { return Stranger{node, "a " + string(Node), Node, ""} }
func ofOnce(node string) Stranger   { return Stranger{node, "a " + string(Once), Once, ""} }
func ofShards(node string) Stranger { return Stranger{node, "a " + string(Shards), Shards, ""} }

// ofTree is for a place in the queue of a tree's root.
func ofTree(node string) Stranger {
	root, _, _ := strings.Cut(node, "/"+TreePart)
	return Stranger{node, "the tree " + root, Tree, ""}
}

// otherKind is the error for a node of another kind of lock, at the name of q or around it.
func (q *Queue) otherKind(s Stranger) error {
	return fmt.Errorf("%w: the node %s is of %s, and this is %s: use one kind of lock and one layout for one name: %s",
		ErrKind, s.Node, s.Kind, q.describe(), q.remedy(s))
}

// remedy says what to do about a node of another kind of lock: for a program, and for a command line.
func (q *Queue) remedy(s Stranger) string {
	flags := map[Kind]string{Semaphore: "--of", Turnstile: "--of", Slots: "--slot and --of", Node: "--node"}[q.Kind]
	layout := s.label != "" && s.label != names.Curator.Name
	give := ""
	switch {
	case q.Kind == Tree:
		give = fmt.Sprintf("give --tree (NewTree) for %s and all names below it", q.Path)
	case s.kind == Tree:
		give = fmt.Sprintf("give --tree (NewTree) for %s and all names below it", strings.TrimPrefix(s.Kind, "the tree "))
	case s.kind == Semaphore && layout:
		give = "give --of and --layout " + s.label + " (NewSemaphore)"
	case s.kind == Semaphore:
		give = "give --of (NewSemaphore)"
	case s.kind == Slots:
		give = "give --slot and --of (NewSlots)"
	case s.kind == Node:
		give = "give --node (NewNodeLock)"
	case s.kind == Lock && layout:
		give = "give --layout " + s.label + " (WithLayout)"
		if flags != "" {
			give += ", and leave out " + flags
		}
	case s.kind == Lock && flags != "":
		give = "leave out " + flags + " (NewMutex)"
	case s.kind == Lock && q.Kind == Lock && s.label != q.Grammar.Label:
		give = "leave out --layout (WithLayout)"
	case s.kind == Once:
		return "choose another name, or remove that node if nobody needs its record"
	}
	if give == "" {
		return "choose another name"
	}
	return give + ", or choose another name"
}

// underNode says what is wrong if a node could not be made because the one above it is ephemeral, as
// that of a NodeLock is. Other errors are returned as they are.
func (q *Queue) underNode(path string, err error) error {
	if !errors.Is(err, zk.ErrNoChildrenForEphemerals) {
		return err
	}
	return fmt.Errorf("%w (%w)", q.otherKind(ofNode(path[:strings.LastIndexByte(path, '/')])), err)
}

// HasNodeLock is the error for a NodeLock that has the path of q.
func (q *Queue) HasNodeLock() error { return q.otherKind(ofNode(q.Path)) }

// CheckKind fails with ErrKind if one of the children of q's path is a node of another kind of lock.
// They must have been listed after our own node was made. Locks of other kinds do the same, so of two
// that come at one time at least one sees the other.
//
// The names tell nearly all of it. Strangers are read before the lock is refused, and so is what
// other kinds may have left.
func (q *Queue) CheckKind(ctx context.Context, listed []string) error {
	for {
		changed, err := q.checkStrangers(ctx, q.strangers(listed))
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
	var ours []*names.Semaphore
	if q.Kind == Semaphore || q.Kind == Slots {
		ours = append(ours, &q.Grammar.Semaphore)
	}
	inside, err := insideOf(ctx, q.Client, q.Path, listed, true, q.Kind, ours...)
	if len(inside) > 0 {
		return q.otherKind(inside[0])
	}
	return err
}

// insideOf looks for locks that keep their places in directories of their own below path, and that are in use.
// listed are the children of path. It returns a node of each, or with first only of the first that it finds. It
// leaves out locks of the kind but, and the semaphores of ours.
func insideOf(ctx context.Context, c *zk.Client, path string, listed []string, first bool, but Kind, ours ...*names.Semaphore) (all []Stranger, _ error) {
	for _, look := range []struct {
		kind Kind
		in   func(context.Context, *zk.Client, string, []string) (Stranger, error)
	}{
		{Semaphore, func(ctx context.Context, c *zk.Client, path string, listed []string) (Stranger, error) {
			return semaphoreIn(ctx, c, path, listed, ours...)
		}},
		{Once, onceIn}, {Tree, treeIn}, {Shards, ShardsIn},
	} {
		if look.kind == but && len(ours) == 0 || first && len(all) > 0 {
			continue
		}
		s, err := look.in(ctx, c, path, listed)
		if err != nil {
			return nil, err
		}
		if s.Node != "" {
			all = append(all, s)
		}
	}
	return all, nil
}

// strangers are the nodes of other queues among the children of q's path. To a lock without a queue there, all
// queues are others.
func (q *Queue) strangers(listed []string) (all []Stranger) {
	for _, name := range listed {
		node := q.Path + "/" + name
		_, queued := q.Grammar.Parse(name)
		label := q.Grammar.Belongs(name)
		switch {
		case queued && q.Kind.queues():
		case queued:
			all = append(all, ofLock(node, q.Grammar.Label))
		case label != "":
			all = append(all, ofLock(node, label))
		case (q.Kind == Tree || q.Kind == Shards) && names.Numbered(name):
			all = append(all, ofUnknown(node))
		}
	}
	return all
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
			case isPlace(strings.TrimPrefix(some[i].Node, q.Path+"/"), r.Stat):
				return false, q.otherKind(some[i])
			}
		}
	}
	return changed, nil
}

// isPlace reports whether a node whose name is in a form of a queue is a place in it. Other persistent nodes may be
// anything, above all the directories of other locks.
func isPlace(name string, stat zk.Stat) bool {
	return stat.EphemeralOwner != 0 || names.IsDetached(name)
}

// placeIn returns a child of dir that is a place in a queue of any layout, or "".
func placeIn(ctx context.Context, c pipeliner, dir string) (string, error) {
	for {
		var listed []string
		found, err := pipeline(ctx, c, []zk.Op{zk.ChildrenOp(dir)})
		if err != nil {
			return "", err
		}
		for _, name := range found[0].Children {
			if names.Numbered(name) {
				listed = append(listed, name)
			}
		}
		replaced := false
		for some := range slices.Chunk(listed, readsInFlight) {
			var looks []zk.Op
			for _, name := range some {
				looks = append(looks, zk.ExistsOp(dir+"/"+name))
			}
			if found, err = pipeline(ctx, c, looks); err != nil {
				return "", err
			}
			for i, r := range found {
				switch {
				case r.Err != nil: // another node may have taken its place
					replaced = true
				case isPlace(some[i], r.Stat):
					return dir + "/" + some[i], nil
				}
			}
		}
		if !replaced {
			return "", nil
		}
	}
}

func semaphores() []*names.Grammar { return append(names.Semaphores(), names.Slots) }

// semaphoreIn looks for a semaphore or slots that are in use, other than those given, among the children
// of path. It returns one of their nodes, or none.
func semaphoreIn(ctx context.Context, c *zk.Client, path string, listed []string, but ...*names.Semaphore) (Stranger, error) {
	for _, g := range semaphores() {
		s := &g.Semaphore
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
						return ofSemaphore(path+sub+"/"+name, g), nil
					}
				}
			}
		default:
			name, err := permitIn(ctx, c, path, listed)
			if name != "" || err != nil {
				return ofSemaphore(path+"/"+name, g), err
			}
		}
	}
	return Stranger{}, nil
}

// treeIn looks for a tree that is in use and has the path, among the children of the path.
func treeIn(ctx context.Context, c *zk.Client, path string, listed []string) (Stranger, error) {
	if !slices.Contains(listed, TreeRoot) {
		return Stranger{}, nil
	}
	node, err := placeIn(ctx, c, path+"/"+TreeRoot)
	if errors.Is(err, zk.ErrNoAuth) {
		err = fmt.Errorf("%w: without the right to read that node, holdfast cannot see whether a tree holds %s", err, path)
	}
	if node == "" || err != nil {
		return Stranger{}, err
	}
	return ofTree(node), nil
}

// The directories of shards, below their path.
const (
	ShardWorkers = "workers"
	ShardQueues  = "shards"
)

// planPrefix begins the data of a node that has the plan of shards.
const planPrefix = `{"shards":`

// HasPlan reports whether data are the plan of shards.
func HasPlan(data []byte) bool { return strings.HasPrefix(string(data), planPrefix) }

// ShardsIn looks for shards that are in use and have the path, among the children of the path. Their directories have
// the names of locks that may be anybody's. The plan tells that they are of shards.
func ShardsIn(ctx context.Context, c *zk.Client, path string, listed []string) (Stranger, error) {
	if !slices.Contains(listed, ShardWorkers) && !slices.Contains(listed, ShardQueues) {
		return Stranger{}, nil
	}
	// The workers come first: a worker that leaves keeps its shards for a while.
	found, err := pipeline(ctx, c, []zk.Op{zk.GetOp(path), zk.ChildrenOp(path + "/" + ShardWorkers), zk.ChildrenOp(path + "/" + ShardQueues)})
	if err != nil || !HasPlan(found[0].Data) {
		return Stranger{}, err
	}
	dirs := []string{path + "/" + ShardWorkers}
	for _, shard := range found[2].Children {
		dirs = append(dirs, path+"/"+ShardQueues+"/"+shard)
	}
	for some := range slices.Chunk(dirs, readsInFlight) {
		var looks []zk.Op
		for _, dir := range some {
			looks = append(looks, zk.ChildrenOp(dir))
		}
		found, err := pipeline(ctx, c, looks)
		if err != nil {
			return Stranger{}, err
		}
		for i, r := range found {
			if in := names.Default.InQueue(r.Children); len(in) > 0 {
				return ofShards(some[i] + "/" + in[0].Name), nil
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
		shard := path + "/" + name
		keys, err := Children(ctx, c, shard)
		if err != nil {
			return Stranger{}, err
		}
		for some := range slices.Chunk(keys, readsInFlight) {
			var looks []zk.Op
			for _, key := range some {
				looks = append(looks, zk.ExistsOp(shard+"/"+key))
			}
			found, err := pipeline(ctx, c, looks)
			if err != nil {
				return Stranger{}, err
			}
			for i, r := range found {
				if r.Stat.NumChildren > 0 {
					return ofOnce(shard + "/" + some[i]), nil
				}
			}
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

// isBarePermit reports whether a name is in the form of a permit of kazoo's Semaphore.
func isBarePermit(name string) bool {
	return len(name) == 32 && strings.Trim(name, "0123456789abcdef") == ""
}

// BarePermits returns the children that are permits of kazoo's Semaphore, and reads them. The name of a
// permit is a number and nothing else. Other things may be called so, directories of other locks above
// all; but permits are ephemeral.
func BarePermits(ctx context.Context, c *zk.Client, path string, listed []string) (permits []string, results []zk.Result, err error) {
	var candidates []string
	for _, name := range listed {
		if isBarePermit(name) {
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
// kinds of lock and of other layouts, and ephemeral nodes with a number in no known form. It also lists a place of each
// tree above path.
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
	inside, err := insideOf(ctx, c, path, listed, false, "", &g.Semaphore, &names.Slots.Semaphore)
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
	add(known, results[:len(known)], func(name string) string { return Lock.in(g.Belongs(name)) })
	found = append(found, inside...)
	above := Queue{Client: c, Path: path}
	above.Surround(path, nil)
	for _, tree := range above.trees {
		node, err := placeIn(ctx, c, tree)
		switch {
		case err != nil && !errors.Is(err, zk.ErrNoAuth):
			return nil, err
		case node != "":
			found = append(found, ofTree(node))
		}
	}
	add(numbered, results[len(known):], func(string) string { return "" })
	return found, nil
}
