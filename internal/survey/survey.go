// Package survey reads the queues of many locks at once, in all layouts, with few round trips.
package survey

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
	Locks []waitgraph.Lock // those that somebody holds or waits for, by path
	// Strange are ephemeral nodes with a number in their names that are in no known layout. Their owners may
	// hold or wait for a lock.
	Strange []string
	// Denied are nodes that we may not read. There may be locks below them. A lock with such a place is left out, since it is
	// not known who holds it.
	Denied []string
}

// A Layout says how nodes are named; see the type of package holdfast with the same name.
type Layout = names.Layout

// Read reads all locks whose paths begin with prefix. root is a node above all of them. With a layout, it
// finds the locks of that layout only. With nil, the names of the nodes tell the layout. The error is
// zk.ErrNoAuth if root cannot be read.
func Read(ctx context.Context, c *zk.Client, root, prefix string, layout *Layout) (*Survey, error) {
	// The server that we read from may be behind the one that granted a lock.
	if err := zk.Retry(ctx, func() error { return c.Sync(ctx, root) }); err != nil {
		return nil, err
	}
	r := newReader(c, layout)
	for level := []string{root}; len(level) > 0; {
		if err := r.list(ctx, level); err != nil {
			return nil, err
		}
		if slices.Contains(r.denied, root) {
			return nil, fmt.Errorf("%w: the node %s", zk.ErrNoAuth, root)
		}
		var next []string
		for _, path := range level {
			next = append(next, r.below(path, prefix)...)
		}
		level = next
	}
	s := &Survey{}
	locks, err := r.locks(ctx)
	for _, l := range locks {
		if strings.HasPrefix(l.Path, prefix) {
			s.Locks = append(s.Locks, l)
		}
	}
	for path, d := range r.dirs {
		if d.session != 0 && Numbered(path) && !r.inside[path] && strings.HasPrefix(path, prefix) {
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
	if err := r.list(ctx, slices.Compact(paths)); err != nil {
		return nil, err
	}
	return r.locks(ctx)
}

// A dir is a node and its children.
type dir struct {
	children []string
	session  int64 // of an ephemeral node
}

// A reader reads a part of the tree.
type reader struct {
	client  *zk.Client
	grammar *names.Grammar  // nil: find out
	dirs    map[string]dir  // those that exist
	inside  map[string]bool // directories and permits that belong to a semaphore
	denied  []string
	single  atomic.Bool // the server knows no MultiRead
	budget  budget.Budget
	look    func(path string) (Node, bool) // reads a copy of the tree instead, see At
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
	r := &reader{client: c, dirs: make(map[string]dir), inside: make(map[string]bool)}
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

// list reads the children of nodes. A node that is gone is left out.
func (r *reader) list(ctx context.Context, paths []string) error {
	var leaves []string
	err := r.each(ctx, paths, zk.ChildrenOp, func(path string, res zk.Result) error {
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
	return r.each(ctx, leaves, zk.GetOp, func(path string, res zk.Result) error {
		r.dirs[path] = dir{session: res.Stat.EphemeralOwner}
		return nil
	})
}

// below returns the children of a node that may be locks or have locks below them.
func (r *reader) below(path, prefix string) (next []string) {
	base := path[strings.LastIndexByte(path, '/')+1:]
	for _, name := range r.dirs[path].children {
		if r.place(name) || (base == "leases" || base == "slots") && names.Permit(name) || noLock(path, name) {
			continue
		}
		child := join(path, name)
		if child != "/zookeeper" && (strings.HasPrefix(child, prefix) || strings.HasPrefix(prefix, child+"/")) {
			next = append(next, child)
		}
	}
	return next
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

// A found is a lock whose nodes have not been read.
type found struct {
	lock    waitgraph.Lock
	queue   []string // paths
	permits []string
	seqs    []int32 // of the queue
	shared  []bool  // of the queue
	bare    bool    // the permits have no numbers
	idle    bool
	limited string // the node with the limit
}

// locks finds the locks in the directories and reads their nodes.
func (r *reader) locks(ctx context.Context) ([]waitgraph.Lock, error) {
	var all []*found
	for path := range r.dirs {
		for _, f := range r.semaphores(path) {
			all = append(all, f)
			for _, d := range f.lock.Dirs {
				r.inside[d] = r.inside[d] || d != path
			}
			for _, permit := range f.permits {
				r.inside[permit] = true
			}
		}
	}
	for path, d := range r.dirs {
		if r.inside[path] {
			continue
		}
		all = append(all, r.queues(path)...)
		if d.session != 0 && !Numbered(path) {
			all = append(all, &found{
				lock: waitgraph.Lock{Path: path, Kind: "node", Dirs: []string{path}}, queue: []string{path}, seqs: []int32{0}, shared: []bool{false},
			})
		}
	}
	nodes, err := r.nodes(ctx, all)
	if err != nil {
		return nil, err
	}
	denied := make(map[string]bool, len(r.denied))
	for _, path := range r.denied {
		denied[path] = true
	}
	hidden := func(path string) bool { return denied[path] }
	var locks []waitgraph.Lock
	for _, f := range all {
		if slices.ContainsFunc(f.queue, hidden) || slices.ContainsFunc(f.permits, hidden) {
			continue
		}
		if l := f.complete(nodes); len(l.Queue)+len(l.Permits) > 0 {
			locks = append(locks, l)
		}
	}
	slices.SortFunc(locks, func(a, b waitgraph.Lock) int {
		return strings.Compare(a.Path+"\x00"+a.Layout+"\x00"+a.Kind, b.Path+"\x00"+b.Layout+"\x00"+b.Kind)
	})
	return locks, nil
}

// queues returns the queues in a directory, one for each layout.
func (r *reader) queues(path string) (all []*found) {
	by := make(map[string][]string) // children by the label of their layout
	grammars := make(map[string]*names.Grammar)
	for _, name := range r.children(path) {
		g := r.grammar
		if g == nil {
			if g = names.Detect(name); g == nil {
				continue
			}
		}
		by[g.Label] = append(by[g.Label], name)
		grammars[g.Label] = g
	}
	curator, kazoo := names.Curator.Name, names.Kazoo.Name
	if len(by[curator]) > 0 && len(by[kazoo]) > 0 {
		if g := names.Mixed(by[curator]); g != nil {
			by[g.Label], grammars[g.Label] = slices.Concat(by[curator], by[kazoo]), g
			delete(by, curator)
			delete(by, kazoo)
		}
	}
	for label, listed := range by {
		f := &found{lock: waitgraph.Lock{Path: path, Layout: label, Kind: "lock", Dirs: []string{path}}, idle: r.idle(path, label)}
		if f.take(path, grammars[label], listed); len(f.queue) > 0 {
			all = append(all, f)
		}
	}
	return all
}

// idle reports whether the waiters in a directory wait beside their work: the workers of Shards, who queue to
// lead and for shards that move, and the candidates of Curator's LeaderLatch.
func (r *reader) idle(path, label string) bool {
	if label == names.LeaderLatch.Name {
		return true
	}
	if above, ok := strings.CutSuffix(path, "/workers"); ok {
		return r.exists(above + "/shards")
	}
	i := strings.LastIndex(path, "/shards/")
	if i < 0 || strings.Contains(path[i+len("/shards/"):], "/") {
		return false
	}
	return r.exists(path[:i] + "/workers")
}

// take fills in the queue from the names in a directory.
func (f *found) take(path string, g *names.Grammar, listed []string) {
	for _, c := range g.InQueue(listed) {
		if n := len(f.seqs); c.Shared && n > 0 && f.seqs[n-1] == c.Seq && !f.shared[n-1] {
			continue // a writer that has taken the read side, too: it has two nodes with one number
		}
		f.queue, f.seqs, f.shared = append(f.queue, join(path, c.Name)), append(f.seqs, c.Seq), append(f.shared, c.Shared)
	}
}

// ofSemaphores are the grammars of semaphores that are recognised by the names of the nodes.
var ofSemaphores = []*names.Grammar{names.Default, names.Compile(names.Kazoo), names.Slots}

// semaphores returns the semaphores at path, and its slots.
func (r *reader) semaphores(path string) (all []*found) {
	grammars := ofSemaphores
	if r.grammar != nil {
		grammars = []*names.Grammar{r.grammar, names.Slots}
	}
	for _, g := range grammars {
		s := &g.Semaphore
		turnstile, permits := path+s.Turnstile, path+s.Leases
		if s.Lease == "" || !r.exists(turnstile) || !r.exists(permits) {
			continue
		}
		f := &found{
			lock: waitgraph.Lock{Path: path, Layout: g.Label, Kind: "semaphore", Counted: true, Dirs: []string{path, turnstile}}, limited: path, bare: !s.Numbered,
		}
		if s.Slots {
			f.lock.Kind = "slots"
		}
		f.take(turnstile, g, r.children(turnstile))
		if s.Numbered {
			f.lock.Dirs = append(f.lock.Dirs, permits)
			for _, c := range s.Queue.InQueue(r.children(permits)) {
				f.permits = append(f.permits, join(permits, c.Name))
			}
		} else {
			for _, name := range r.children(path) {
				child := join(path, name)
				if len(name) == 32 && strings.Trim(name, "0123456789abcdef") == "" && r.session(child) != 0 {
					f.permits = append(f.permits, child)
					f.lock.Dirs = append(f.lock.Dirs, child)
				}
			}
		}
		if len(f.queue)+len(f.permits) > 0 {
			all = append(all, f)
		}
	}
	return all
}
