// Package locks answers who holds what. It finds locks in all layouts and kinds: in many directories at once with few
// round trips ([Read]), at one path ([At]), and in a copy of the tree ([In]). It acquires none.
package locks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"holdfast/internal/budget"
	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/internal/waitgraph"
	"holdfast/zk"
)

// A Survey is what was found.
type Survey struct {
	Locks []Lock // by path
	// Strange are ephemeral nodes with a number in their names that are in no known layout. Their owners may
	// hold or wait for a lock.
	Strange []string
	// Denied are nodes that we may not read. There may be locks below them.
	Denied []string
}

// Graph returns the locks for the wait-for graph.
func (s *Survey) Graph() []waitgraph.Lock { return Graph(s.Locks) }

// A Layout says how nodes are named; see the type of package holdfast with the same name.
type Layout = names.Layout

// A Query says what to read.
type Query struct {
	Prefix string  // of the paths of the nodes; it begins with /
	Layout *Layout // if not nil, of the locks to find. Otherwise the names of the nodes tell the layout
	// Free reports whether the empty node at a path is a free lock. If it is nil, only locks in use are found, and
	// those that are reserved.
	Free func(path string) bool
}

// root is the node above all paths of the query.
func (q Query) root() string {
	if i := strings.LastIndexByte(q.Prefix, '/'); i > 0 {
		return q.Prefix[:i]
	}
	return "/"
}

// Read reads the locks of a query at some moment after the call. The error is zk.ErrNoAuth if the node above all of them
// cannot be read, and budget.ErrTooMuch if there are too many nodes.
func Read(ctx context.Context, c *zk.Client, q Query) (s *Survey, err error) {
	// The server that we read from may be behind the one that granted a lock.
	err = queue.BehindWrite(ctx, c, q.root(), func() error {
		s, err = read(ctx, c, q)
		return err
	})
	return s, err
}

// read is Read for what the server shows.
func read(ctx context.Context, c *zk.Client, q Query) (*Survey, error) {
	return newReader(c, q.Layout).survey(ctx, q)
}

func (r *reader) survey(ctx context.Context, q Query) (*Survey, error) {
	root := q.root()
	r.free, r.root = q.Free, root
	trees, err := r.treesAbove(ctx, q)
	if err != nil {
		return nil, err
	}
	for level := append(trees, root); len(level) > 0; {
		if err := r.list(ctx, level); err != nil {
			return nil, err
		}
		if slices.Contains(r.denied, root) {
			return nil, fmt.Errorf("%w: the node %s", zk.ErrNoAuth, root)
		}
		var next []string
		for _, path := range level {
			next = append(next, r.below(path, q.Prefix)...)
		}
		level = next
	}
	s := &Survey{}
	locks, err := r.locks(ctx, q.Prefix)
	s.Locks = locks
	for path, d := range r.dirs {
		if d.session != 0 && Numbered(path) && !r.inside[path] && strings.HasPrefix(path, q.Prefix) && !r.known[path] {
			s.Strange = append(s.Strange, path)
		}
	}
	slices.Sort(s.Strange)
	slices.Sort(r.denied)
	s.Denied = slices.Compact(r.denied)
	return s, err
}

// Numbered reports whether the name of a node ends in a number as that of a place in a queue does, whatever the layout.
// So an ephemeral node at path is no NodeLock.
func Numbered(path string) bool { return names.Numbered(path[strings.LastIndexByte(path, '/')+1:]) }

// Again reads locks of an earlier Read once more. Locks that are gone are left out.
func Again(ctx context.Context, c *zk.Client, locks []waitgraph.Lock, layout *Layout) ([]waitgraph.Lock, error) {
	if err := zk.Retry(ctx, func() error { return c.Sync(ctx, "/") }); err != nil {
		return nil, err
	}
	r := newReader(c, layout)
	var paths []string
	for _, l := range locks {
		paths = append(paths, l.Dirs...)
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	if err := r.list(ctx, paths); err != nil {
		return nil, err
	}
	if err := r.list(ctx, r.unknown(paths)); err != nil {
		return nil, err
	}
	all, err := r.locks(ctx, "/")
	return Graph(all), err
}

// A dir is a node and its children.
type dir struct {
	children []string
	session  int64  // of an ephemeral node
	left     bool   // an empty node such as a lock leaves behind
	ours     bool   // its data are those of a place of holdfast
	data     []byte // of a reservation
	stat     zk.Stat
}

// A reader reads a part of the tree.
type reader struct {
	client  *zk.Client
	grammar *names.Grammar  // nil: find out
	dirs    map[string]dir  // those that exist
	inside  map[string]bool // directories and permits that belong to a semaphore
	known   map[string]bool // nodes in a form that we have guessed
	denied  []string
	damaged error                  // a node of ours has other data
	root    string                 // no free lock
	free    func(path string) bool // see Query
	single  atomic.Bool            // the server knows no MultiRead
	budget  budget.Budget
	look    func(path string) (Copy, bool) // reads a copy of the tree instead, see In
}

// exists reports whether there is a node at path.
func (r *reader) exists(path string) bool {
	if r.look == nil {
		_, ok := r.dirs[path]
		return ok
	}
	_, ok := r.look(path)
	return ok
}

func newReader(c *zk.Client, layout *Layout) *reader {
	r := &reader{client: c, dirs: make(map[string]dir), inside: make(map[string]bool), known: make(map[string]bool)}
	if layout != nil {
		r.grammar = names.Compile(*layout)
	}
	return r
}

// children returns the sorted names of the children of the node at path.
func (r *reader) children(path string) []string {
	if r.look == nil {
		return r.dirs[path].children
	}
	if n, _ := r.look(path); n.Children != nil {
		return n.Children()
	}
	return nil
}

// session returns the session of an ephemeral node, and 0 for others.
func (r *reader) session(path string) int64 {
	if r.look == nil {
		return r.dirs[path].session
	}
	n, _ := r.look(path)
	return n.Stat.EphemeralOwner
}

// unseen reports whether there is no permission to read a node.
func (r *reader) unseen(path string) bool {
	if r.look == nil {
		return slices.Contains(r.denied, path)
	}
	n, _ := r.look(path)
	return n.Unknown
}

// ours reports whether the data of a node are those of a place of holdfast.
func (r *reader) ours(path string) bool {
	if r.look == nil {
		return r.dirs[path].ours
	}
	n, _ := r.look(path)
	_, ok := queue.ParseNote(n.Data)
	return ok
}

// list reads the children of nodes. A node that is gone is left out.
func (r *reader) list(ctx context.Context, paths []string) error {
	var leaves []string
	err := r.each(ctx, len(paths), func(i int) zk.Op { return zk.ChildrenOp(paths[i]) }, func(i int, res zk.Result) error {
		if res.Err != nil {
			r.denied = append(r.denied, paths[i])
			return nil
		}
		path := paths[i]
		slices.Sort(res.Children)
		r.dirs[path] = dir{children: res.Children}
		if len(res.Children) == 0 {
			leaves = append(leaves, path)
		}
		return r.budget.KeepNames(path, res.Children)
	})
	if err != nil {
		return err
	}
	// Only a node without children can be ephemeral.
	return r.each(ctx, len(leaves), func(i int) zk.Op { return zk.GetOp(leaves[i]) }, func(i int, res zk.Result) error {
		if res.Err != nil {
			r.denied = append(r.denied, leaves[i])
			return nil
		}
		d := dir{session: res.Stat.EphemeralOwner, left: left(res)}
		if d.session != 0 && Numbered(leaves[i]) {
			_, d.ours = queue.ParseNote(res.Data)
		}
		if strings.HasSuffix(leaves[i], "/"+reservation) {
			d.data, d.stat = slices.Clone(res.Data[:min(len(res.Data), budget.MaxData)]), res.Stat
		}
		r.dirs[leaves[i]] = d
		return nil
	})
}

// left reports whether a node without children is one that a lock leaves behind: there was a node below it, and its data
// are none, or the mark or the limit that our locks and kazoo's write.
func left(res zk.Result) bool {
	if res.Stat.EphemeralOwner != 0 || res.Stat.Cversion == 0 {
		return false
	}
	return queue.Unclaimed(res.Data) || limitIn(res.Data) > 0
}

// below returns the children of a node that may be locks or have locks below them.
func (r *reader) below(path, prefix string) (next []string) {
	base := path[strings.LastIndexByte(path, '/')+1:]
	for _, name := range r.dirs[path].children {
		if r.place(name) || (base == "leases" || base == "slots") && names.Permit(name) || noLock(path, name) {
			continue
		}
		child := join(path, name)
		_, typed, _ := inTree(child)
		if child != "/zookeeper" && (strings.HasPrefix(child, prefix) || strings.HasPrefix(prefix, child+"/") || typed != "" && strings.HasPrefix(typed, prefix)) {
			next = append(next, child)
		}
	}
	return next
}

// treesAbove returns the queues of trees whose locks have the prefix of a query, and whose root is above the node where the
// reading begins. Every lock of a tree is in the queue of its root.
func (r *reader) treesAbove(ctx context.Context, q Query) (queues []string, err error) {
	var roots, inUse []string
	for at := q.root(); strings.LastIndexByte(at, '/') > 0; {
		at = at[:strings.LastIndexByte(at, '/')]
		roots = append(roots, at+"/"+queue.TreeRoot)
	}
	if err := r.list(ctx, roots); err != nil {
		return nil, err
	}
	for _, root := range roots {
		if len(r.dirs[root].children) > 0 {
			inUse = append(inUse, strings.TrimSuffix(root, "/"+queue.TreeRoot))
		}
		delete(r.dirs, root)
	}
	if err := r.list(ctx, inUse); err != nil {
		return nil, err
	}
	for _, path := range inUse {
		for _, name := range r.dirs[path].children {
			if _, typed, ok := inTree(path + "/" + name); ok && strings.HasPrefix(typed, q.Prefix) {
				queues = append(queues, path+"/"+name)
			}
		}
		delete(r.dirs, path)
	}
	r.denied = nil // of what is above
	return queues, nil
}

// noLock reports whether a child of path is a node of ours that is no lock: doctor's probe, or one of a Once.
func noLock(path, name string) bool {
	return strings.HasPrefix(name, queue.Probe) || (name == "done" || name == "begun") && onceShard(path[:strings.LastIndexByte(path, '/')+1])
}

// onceShard reports whether a directory is one of those in which a Once has its keys. The path ends with /.
func onceShard(path string) bool {
	i := strings.LastIndex(path, "/"+queue.OnceShard)
	return i >= 0 && len(path) == i+len("/"+queue.OnceShard)+2
}

func join(path, name string) string { return strings.TrimSuffix(path, "/") + "/" + name }

// place reports whether a child of this name has a place in a queue.
func (r *reader) place(name string) bool {
	if r.grammar != nil {
		_, ok := r.grammar.Parse(name)
		return ok
	}
	return names.Detect(name) != nil
}
