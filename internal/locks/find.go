package locks

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"

	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// A found is a lock whose nodes have not been read.
type found struct {
	lock    Lock
	queue   []names.Contender // in the order of the queue
	at      string            // the directory of the queue; of a single node, the one above it
	permits []string          // names
	held    string            // the directory of the permits
	bare    bool              // a place is a place only if it is ephemeral
	idle    bool
	data    string // the node with the limit or the plan

	places []Place // of permits and queue, as they have been read; without a Path if the node is gone
	stats  []zk.Stat
	limit  int
	plan   bool
	denied bool // a place may not be read
}

// size returns how many nodes have to be read.
func (f *found) size() int {
	n := len(f.permits) + len(f.queue)
	if f.data != "" {
		n++
	}
	return n
}

// node returns the path of one of them: the permits come first, and then the queue.
func (f *found) node(i int) string {
	switch {
	case i < len(f.permits):
		return join(f.held, f.permits[i])
	case i < len(f.permits)+len(f.queue):
		return join(f.at, f.queue[i-len(f.permits)].Name)
	}
	return f.data
}

// locks finds the locks in the directories and reads their nodes.
func (r *reader) locks(ctx context.Context, prefix string) ([]Lock, error) {
	var all []*found
	quiet := make(map[string]bool) // directories of free semaphores
	for path := range r.dirs {
		for _, f := range r.semaphores(path) {
			all = append(all, f)
			for _, d := range f.lock.Dirs {
				r.inside[d] = r.inside[d] || d != path && len(f.queue)+len(f.permits) > 0
				quiet[d] = true
			}
			for _, permit := range f.permits {
				r.inside[join(f.held, permit)] = true
			}
		}
	}
	for path := range r.dirs {
		if r.inside[path] {
			continue
		}
		here := r.here(path)
		if len(here) == 0 && !quiet[path] && r.freeAt(path) {
			here = append(here, &found{lock: Lock{Path: path, Kind: Queue, Dirs: []string{path}}})
		}
		all = append(all, here...)
	}
	for _, path := range r.denied {
		if path != r.root && !r.isPlace(path) {
			all = append(all, unreadable(path))
		}
	}
	if err := r.nodes(ctx, all); err != nil {
		return nil, err
	}
	return r.complete(all, prefix), nil
}

// unreadable stands for the locks at a path that may not be read.
func unreadable(path string) *found {
	return &found{lock: Lock{Path: path, Kind: Queue, Dirs: []string{path}, Unreadable: true}}
}

// isPlace reports whether a path is that of a place, by its name and the directory above it.
func (r *reader) isPlace(path string) bool {
	i := strings.LastIndexByte(path, '/')
	return r.place(path[i+1:]) || r.inside[path] || (strings.HasSuffix(path[:i], "/leases") || strings.HasSuffix(path[:i], "/slots")) && names.Permit(path[i+1:])
}

// here returns the locks at a path other than semaphores and slots: queues, a single node, shards, and what is reserved.
func (r *reader) here(path string) []*found {
	all := r.queues(path)
	if r.session(path) != 0 && !Numbered(path) {
		i := strings.LastIndexByte(path, '/')
		all = append(all, &found{
			lock: Lock{Path: path, Kind: Node, Dirs: []string{path}}, at: path[:i], queue: []names.Contender{{Name: path[i+1:]}},
		})
	}
	if s := r.shards(path); s != nil {
		all = append(all, s)
	}
	return all
}

// freeAt reports whether the node at path is a free lock.
func (r *reader) freeAt(path string) bool {
	return r.free != nil && path != r.root && r.dirs[path].left && !hidden(path) && r.free(path)
}

// hidden reports whether a path is one of the directories that holdfast keeps below a lock for what outlasts its holders,
// or of a Once.
func hidden(path string) bool {
	if strings.Contains(path+"/", "/"+ownDirectory+"/") || onceShard(path+"/") {
		return true
	}
	return onceShard(path[:strings.LastIndexByte(path, '/')+1])
}

// queues returns the queues in a directory, one for each layout.
func (r *reader) queues(path string) (all []*found) {
	by := make(map[string][]string) // children by the label of their layout
	grammars := make(map[string]*names.Grammar)
	var strange []ForeignNode
	for _, name := range r.children(path) {
		g := r.grammar
		if g == nil {
			if g = names.Detect(name); g == nil && names.Numbered(name) {
				child := join(path, name)
				if r.session(child) == 0 {
					continue
				}
				if g = r.guessed(path, name); g == nil {
					strange = append(strange, ForeignNode{Path: child})
				}
			}
		}
		if g == nil {
			continue
		}
		by[g.Label] = append(by[g.Label], name)
		grammars[g.Label] = g
	}
	strange = r.alike(strange, by, grammars)
	curator, kazoo := names.Curator.Name, names.Kazoo.Name
	if len(by[curator]) > 0 && len(by[kazoo]) > 0 {
		if g := names.Mixed(by[curator]); g != nil {
			by[g.Label], grammars[g.Label] = slices.Concat(by[curator], by[kazoo]), g
			delete(by, curator)
			delete(by, kazoo)
		}
	}
	for label, listed := range by {
		f := &found{lock: Lock{Path: path, Layout: label, Kind: Queue, Dirs: []string{path}, label: label}, at: path, idle: r.idle(path, label), bare: grammars[label].Bare()}
		if strings.HasPrefix(label, "form:") {
			f.lock.Layout = grammars[label].Name // as the user writes it
		}
		if f.queue = grammars[label].InQueue(listed); len(f.queue) > 0 {
			f.inTree()
			all = append(all, f)
		}
	}
	if len(strange) > 0 && len(all) == 0 && !r.other(path) {
		all = append(all, &found{lock: Lock{Path: path, Kind: Queue, Dirs: []string{path}, Foreign: strange}})
	}
	return all
}

// alike adds strange nodes to the queue in a form of its own in their directory that their names fit. The program of such
// a node has not said who it is. It returns the other nodes.
func (r *reader) alike(strange []ForeignNode, by map[string][]string, grammars map[string]*names.Grammar) []ForeignNode {
	return slices.DeleteFunc(strange, func(n ForeignNode) bool {
		name := n.Path[strings.LastIndexByte(n.Path, '/')+1:]
		for label, g := range grammars {
			if _, ok := g.Parse(name); ok && strings.HasPrefix(label, "form:") {
				by[label] = append(by[label], name)
				r.known[n.Path] = true
				return true
			}
		}
		return false
	})
}

// other reports whether strange nodes at a path are none of our business: nobody asked for what is there.
func (r *reader) other(path string) bool { return r.free != nil && !r.free(path) || path == r.root }

// inTree gives the queue of a tree the name that its users type.
func (f *found) inTree() {
	if root, name, ok := inTree(f.lock.Path); ok {
		f.lock.Kind, f.lock.Path, f.lock.Root = Tree, name, root
	}
}

// Typed returns the path of the lock whose queue is at a path, as its users type it: /repo/src of /repo/%2Fsrc.
func Typed(path string) string {
	if _, name, ok := inTree(path); ok {
		return name
	}
	return path
}

// inTree returns the root of the tree whose queue is at path, and the path of the lock as its users type it.
func inTree(path string) (root, name string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i <= 0 || !strings.HasPrefix(path[i+1:], queue.TreePart) {
		return "", "", false
	}
	below, err := zk.UnescapeName(path[i+1:])
	if err != nil {
		return "", "", false
	}
	return path[:i], strings.TrimSuffix(path[:i]+below, "/"), true
}

// ids finds what programs put into names to tell them apart.
var ids = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}|[0-9]{5,}`)
})

// Pattern returns the pattern that makes the name of a node, as --layout form:PATTERN has it. It is guessed from the
// name, which ends in a number.
func Pattern(name string) string {
	form := name[:max(len(name)-10, 0)]
	return ids().ReplaceAllStringFunc(form, func(id string) string {
		switch len(id) {
		case 36:
			return "{uuid}"
		case 32:
			return "{hex}"
		}
		return "{session}"
	})
}

// guessed returns the layout of a node in a form of its own that holdfast has made, or nil.
func (r *reader) guessed(path, name string) *names.Grammar {
	child := join(path, name)
	if !r.ours(child) {
		return nil
	}
	pattern := Pattern(name)
	l, err := names.Pattern("form:"+pattern, pattern)
	if err != nil {
		return nil
	}
	g := names.Compile(l)
	if _, ok := g.Parse(name); !ok {
		return nil
	}
	r.known[child] = true
	return g
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

// shards returns the set of shards at path, with its workers, or nil.
func (r *reader) shards(path string) *found {
	workers := path + "/" + queue.ShardWorkers
	if !r.exists(workers) || !r.exists(path+"/"+queue.ShardQueues) {
		return nil
	}
	in := names.Default.InQueue(r.children(workers))
	if len(in) == 0 {
		return nil
	}
	return &found{lock: Lock{Path: path, Layout: names.Default.Label, label: names.Default.Label, Kind: Shards, Dirs: []string{path, workers}}, at: workers, queue: in, data: path}
}

// ofSemaphores are the grammars of semaphores that are recognised by the names of the nodes.
var ofSemaphores = []*names.Grammar{names.Default, names.Compile(names.Kazoo), names.Slots}

// semaphores returns the semaphores at path, and its slots. Some may be free.
func (r *reader) semaphores(path string) (all []*found) {
	grammars := ofSemaphores
	if r.grammar != nil {
		grammars = []*names.Grammar{r.grammar, names.Slots}
	}
	for _, g := range grammars {
		s := &g.Semaphore
		turnstile, permits := path+s.Turnstile, path+s.Leases
		var held []names.Contender
		if s.Numbered {
			held = s.Queue.InQueue(r.children(permits))
		}
		// A server removes the turnstile of a semaphore that nobody waits for, and the permits stay.
		if s.Lease == "" || !r.exists(permits) || !r.exists(turnstile) && len(held) == 0 {
			continue
		}
		f := &found{
			lock: Lock{Path: path, Layout: g.Label, label: g.Label, Kind: Semaphore, Dirs: []string{path, turnstile}}, at: turnstile, held: permits, data: path,
		}
		if s.Slots {
			f.lock.Kind = Slots
		}
		f.queue = g.InQueue(r.children(turnstile))
		if s.Numbered {
			f.lock.Dirs = append(f.lock.Dirs, permits)
			for _, c := range held {
				f.permits = append(f.permits, c.Name)
			}
		} else {
			for _, name := range r.children(path) {
				child := join(path, name)
				if len(name) == 32 && strings.Trim(name, "0123456789abcdef") == "" && (r.session(child) != 0 || r.unseen(child)) {
					f.permits = append(f.permits, name)
					f.lock.Dirs = append(f.lock.Dirs, child)
				}
			}
		}
		if len(f.queue)+len(f.permits) > 0 || r.free != nil && path != r.root && r.free(path) {
			all = append(all, f)
		}
	}
	return all
}

// byName returns the locks in order. It sorts pointers: a Lock is large.
func byName(locks []Lock) []Lock {
	order := make([]*Lock, len(locks))
	for i := range locks {
		order[i] = &locks[i]
	}
	slices.SortFunc(order, func(a, b *Lock) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Layout, b.Layout), strings.Compare(string(a.Kind), string(b.Kind)))
	})
	sorted := make([]Lock, len(locks))
	for i, l := range order {
		sorted[i] = *l
	}
	return sorted
}
