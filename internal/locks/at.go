package locks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast"
	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// A Spot is what is at one path.
type Spot struct {
	Path  string
	Locks []Lock // in all layouts and kinds: those in use, and those that are reserved
	// Above are the locks of trees above the path that include it and are held by a writer.
	Above []Lock
	// Doubt says why some of what is at the path may be missing: there is no permission to read it, or it is damaged.
	Doubt error
}

// At reads what is at a path, at some moment after the call. The error is zk.ErrNoAuth if the node cannot be read.
func At(ctx context.Context, c *zk.Client, path string) (s *Spot, err error) {
	if err := zk.ValidatePath(path); err != nil {
		return nil, err
	}
	err = queue.BehindWrite(ctx, c, path, func() error {
		s, err = at(ctx, c, path)
		return err
	})
	return s, err
}

// at is At for what the server shows.
func at(ctx context.Context, c *zk.Client, path string) (*Spot, error) {
	r := newReader(c, nil)
	r.free = func(string) bool { return true } // also a semaphore that nobody uses
	own, above := treeQueues(path)
	near := slices.Concat([]string{path}, own, above)
	for _, g := range ofSemaphores {
		near = append(near, path+g.Semaphore.Turnstile, path+g.Semaphore.Leases)
	}
	near = append(near, path+"/"+queue.ShardWorkers, path+"/"+queue.ShardQueues, path+"/"+ownDirectory)
	slices.Sort(near)
	near = slices.Compact(near)
	if err := r.list(ctx, near); err != nil {
		return nil, err
	}
	if slices.Contains(r.denied, path) {
		return nil, fmt.Errorf("%w: the node %s", zk.ErrNoAuth, path)
	}
	if err := r.list(ctx, r.unknown(near)); err != nil {
		return nil, err
	}
	s := &Spot{Path: path}
	all := r.semaphores(path)
	for _, dir := range append([]string{path}, own...) {
		all = append(all, r.here(dir)...)
	}
	mine := len(all)
	for _, dir := range above {
		all = append(all, r.queues(dir)...)
	}
	if err := r.nodes(ctx, all); err != nil {
		return nil, err
	}
	s.Locks = r.complete(all[:mine], path)
	if s.Doubt = r.damaged; s.Doubt == nil && len(r.denied) > 0 {
		s.Doubt = fmt.Errorf("%w: the node %s", zk.ErrNoAuth, slices.Min(r.denied))
	}
	s.Locks = slices.DeleteFunc(s.Locks, func(l Lock) bool { return l.Path != path })
	for _, f := range all[mine:] {
		if l, ok := f.complete(); ok && slices.ContainsFunc(l.Queue, func(p Place) bool { return !p.Shared }) {
			s.Above = append(s.Above, l)
		}
	}
	return s, nil
}

// treeQueues returns the queues that a lock of the path has in the trees at the path and above, and the queues above them.
func treeQueues(path string) (own, above []string) {
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		root, below := path[:i], path[i:]
		dir := root + "/"
		name := queue.TreeRoot
		for below != "" {
			above = append(above, dir+name)
			end := strings.IndexByte(below[1:], '/') + 1
			if end == 0 {
				end = len(below)
			}
			if name == queue.TreeRoot {
				name = ""
			}
			name += zk.EscapeName(below[:end])
			below = below[end:]
		}
		own = append(own, dir+name)
	}
	return own, above
}

// unknown returns the children of nodes that only a read tells about: kazoo's permits, nodes with a number in no known form,
// the shards and what is reserved.
func (r *reader) unknown(dirs []string) (paths []string) {
	for _, dir := range dirs {
		for _, name := range r.dirs[dir].children {
			own := strings.HasSuffix(dir, "/"+ownDirectory)
			switch {
			case len(name) == 32 && strings.Trim(name, "0123456789abcdef") == "" && r.exists(dir+names.Compile(names.Kazoo).Semaphore.Turnstile):
			case names.Numbered(name) && !r.place(name):
			case own && name == reservation:
			case own && strings.HasPrefix(name, several):
				paths = append(paths, join(dir, name)+"/"+reservation)
				continue
			default:
				continue
			}
			if p := join(dir, name); !r.exists(p) {
				paths = append(paths, p)
			}
		}
	}
	return paths
}

// several begins the names of the layouts of several locks in one directory.
const several = "named:"

// Lock returns the lock at the spot that a view shows: that of the layout, or with nil the one that a client meets first.
// The others, and trees above, are its foreign nodes.
func (s *Spot) Lock(layout *Layout, now time.Time) Lock {
	label := ""
	if layout != nil {
		label = names.Compile(*layout).Label
	}
	var mine, others []Lock
	for _, l := range s.Locks {
		if named := strings.HasPrefix(label, several); named && strings.HasPrefix(l.Layout, several) && l.label != label {
			continue // another lock of the same directory
		} else if named && l.Layout == "" && !l.InUse() && len(l.Foreign) == 0 {
			continue // so is what is reserved there
		}
		if layout == nil || l.label == label || l.label == "" || l.Kind == Slots {
			mine = append(mine, l)
		} else {
			others = append(others, l)
		}
	}
	if len(mine) == 0 {
		mine = []Lock{{Path: s.Path, Kind: Queue, Layout: label, Dirs: []string{s.Path}}}
	}
	i := best(mine, now)
	l := mine[i]
	l.Foreign = slices.Clone(l.Foreign)
	for _, o := range append(slices.Concat(mine[:i], mine[i+1:], others), s.Above...) {
		for _, p := range o.Queue {
			l.Foreign = append(l.Foreign, ForeignNode{p.Path, o.Words()})
		}
		l.Foreign = append(l.Foreign, o.Foreign...)
		if l.Reserved == nil && o.Kind == Queue && !strings.HasPrefix(o.Layout, several) {
			l.Reserved = o.Reserved
		}
	}
	l.Unreadable = l.Unreadable || l.State(now) == Free && s.Doubt != nil
	return l
}

// Words says in words what lock a node is of, as the errors of holdfast.ErrKind do.
func (l *Lock) Words() string {
	switch l.Kind {
	case Semaphore:
		return string(queue.Semaphore) + ", layout " + l.Layout
	case Slots:
		return "a " + string(queue.Slots)
	case Node:
		return "a " + string(queue.Node)
	case Tree:
		return "the tree " + l.Root
	case Shards:
		return "a " + string(queue.Shards)
	}
	return "a " + string(queue.Lock) + ", layout " + l.Layout
}

// Compiled returns the layout of package holdfast as the grammars have it.
func Compiled(l holdfast.Layout) *Layout {
	return &Layout{
		Name: l.Name, Mutex: l.Mutex, Write: l.Write, Read: l.Read, Exclusive: l.Exclusive, Shared: l.Shared, Container: l.Parent == zk.Container,
	}
}

// A Copy is a node in a copy of the tree.
type Copy struct {
	Children func() []string // their names, sorted; nil if there are none
	Data     []byte
	Stat     zk.Stat
	Unknown  bool // only its name can be read
}

// In returns the locks at one path in a copy of the tree, in all layouts, as Read finds them. look returns a node of
// the copy. Slot queues, permits and the like belong to the lock above them: see Owners. The queue of a tree is at its own
// path, and has the name that its users type.
func In(look func(path string) (Copy, bool), path string) []Lock {
	r := newReader(nil, nil)
	r.look = look
	all := r.semaphores(path)
	if !r.belongs(path) {
		own := make(map[string]bool) // kazoo's permits are children of the lock itself
		for _, f := range all {
			for _, p := range f.permits {
				own[join(f.held, p)] = true
			}
		}
		i := strings.LastIndexByte(path, '/')
		if !own[path] && !noLock(path[:i], path[i+1:]) {
			all = append(all, r.here(path)...)
			if len(all) == 0 && r.unseen(path) && !r.isPlace(path) {
				all = append(all, unreadable(path))
			}
		}
	}
	for _, f := range all {
		r.copied(f)
	}
	reserved := r.reservedAt(path)
	var locks []Lock
	for _, f := range all {
		if l, ok := f.complete(); ok {
			l.Reserved = reserved.of(&l)
			locks = append(locks, l)
		}
	}
	locks = append(locks, reserved.rest()...)
	return byName(locks)
}

// reservedAt returns the reservations of the lock at path in a copy of the tree.
func (r *reader) reservedAt(path string) reservations {
	own := path + "/" + ownDirectory
	if !r.exists(own) {
		return nil
	}
	all := make(reservations)
	for _, name := range r.children(own) {
		node := join(own, name)
		if strings.HasPrefix(name, several) {
			node = join(node, reservation)
		} else if name != reservation {
			continue
		}
		if n, ok := r.look(node); ok {
			_ = all.add(node, zk.Result{Data: n.Data, Stat: n.Stat}) // damaged ones are none
		}
	}
	return all
}

// turnstileDirs are the ends of the paths of the directories that belong to a semaphore, to slots or to shards.
var turnstileDirs = func() (ends []string) {
	for _, g := range ofSemaphores {
		for _, end := range []string{g.Semaphore.Turnstile, g.Semaphore.Leases} {
			if end != "" && !slices.Contains(ends, end) {
				ends = append(ends, end)
			}
		}
	}
	return append(ends, "/"+queue.ShardWorkers, "/"+queue.ShardQueues, "/"+ownDirectory)
}()

// Owners returns the paths whose locks a change of the node at path can affect.
func Owners(path string) []string {
	var all []string
	add := func(p string) {
		if p == "" {
			return
		}
		all = append(all, p)
		for _, end := range turnstileDirs {
			if of, ok := strings.CutSuffix(p, end); ok && of != "" {
				all = append(all, of)
			}
		}
	}
	add(path)
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		add(path[:i])
	}
	if i := strings.Index(path, "/"+ownDirectory+"/"+several); i > 0 {
		all = append(all, path[:i])
	}
	return all
}

// belongs reports whether a node is a part of a semaphore above it or beside it.
func (r *reader) belongs(path string) bool {
	for _, of := range Owners(path) {
		if of == path {
			continue
		}
		for _, f := range r.semaphores(of) {
			if f.lock.Path == path || f.lock.Path != of {
				continue
			}
			if slices.Contains(f.lock.Dirs, path) || strings.HasPrefix(path, f.held+"/") && slices.Contains(f.permits, path[len(f.held)+1:]) {
				return true
			}
		}
	}
	return false
}
