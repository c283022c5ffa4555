package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"holdfast"
	"holdfast/internal/budget"
	"holdfast/internal/cli/conn"
	"holdfast/internal/deed"
	"holdfast/internal/survey"
	layouts "holdfast/layout"
	"holdfast/once"
	"holdfast/reserve"
	"holdfast/zk"
)

// located is a lock that ls has found.
type located struct {
	path    string
	queue   []holdfast.Entry
	permits *permits // of a semaphore or slots; nil otherwise
	// unreadable: there is no permission to read the node or a place in its queue. There may be locks below it.
	unreadable bool
	// reserved is what --min-hold keeps; only status reads it.
	reserved *reserve.Reservation
	lastRun  *once.Result // of --once-per; only status reads it
}

func (l located) state() string {
	switch {
	case l.unreadable:
		return unreadableState
	case len(l.queue) == 0:
		return "free"
	}
	return stateInTable(l.queue[0])
}

// holder returns the owner of the first place, and how many other places hold the lock.
func (l located) holder() string {
	if len(l.queue) == 0 {
		return ""
	}
	owner := l.queue[0].Owner
	if more := l.holders() - 1; more > 0 {
		owner += fmt.Sprintf(" +%d", more)
	}
	return owner
}

// holders returns how many places hold the lock.
func (l located) holders() int {
	n := 0
	for _, e := range l.queue {
		if e.Held {
			n++
		}
	}
	return n
}

// permits are those of a semaphore, or the slots of a set.
type permits struct {
	inUse int
	limit int // 0 if it is not known
}

// String returns the permits for a table.
func (p *permits) String() string {
	switch {
	case p == nil:
		return ""
	case p.limit == 0:
		return fmt.Sprintf("%d/?", p.inUse)
	}
	return fmt.Sprintf("%d/%d", p.inUse, p.limit)
}

// readPermits counts the permits in a semaphore's queue, and reads the limit from its node.
func readPermits(ctx context.Context, c *zk.Client, path string, queue []holdfast.Entry) (*permits, error) {
	p := &permits{inUse: located{queue: queue}.holders()}
	data, err := get(ctx, c, path)
	switch {
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth):
		return p, nil
	case err != nil:
		return nil, err
	}
	if limit, err := strconv.Atoi(string(data)); err == nil && limit > 0 {
		p.limit = limit
	}
	return p, nil
}

// get reads the data of a node.
func get(ctx context.Context, c *zk.Client, path string) (data []byte, err error) {
	err = zk.Retry(ctx, func() (err error) {
		data, _, err = c.Get(ctx, path)
		return err
	})
	return data, err
}

// children lists a node.
func children(ctx context.Context, c *zk.Client, path string) (listed []string, err error) {
	err = zk.Retry(ctx, func() (err error) {
		listed, _, err = c.Children(ctx, path)
		return err
	})
	return listed, err
}

// semaphoreDirs are the directories below a semaphore and below slots: of the permits, and of the queue.
var semaphoreDirs = [][]string{{"leases", "locks"}, {"slots", "slot-queue"}}

// kazooTurnstile is the end of the name of the queue of kazoo's semaphore, a sibling of the semaphore's node.
const kazooTurnstile = "-__lock__"

// isSemaphore reports whether a lock is a semaphore or slots, by its children and its queue. In kazoo's layout,
// permits are children without a number.
func isSemaphore(children []string, queue []holdfast.Entry, layout holdfast.Layout) bool {
	for _, dirs := range semaphoreDirs {
		if slices.Contains(children, dirs[0]) && slices.Contains(children, dirs[1]) {
			return true
		}
	}
	return layout.Name == layouts.Kazoo.Name && slices.ContainsFunc(queue, func(e holdfast.Entry) bool {
		return strings.Contains(e.Name, "/") || e.Shared && !layout.Contends(e.Name)
	})
}

// lsParallel is how many nodes ls reads at a time.
const lsParallel = 32

// findLocks walks the tree for the locks whose paths begin with prefix. A lock is a node with a
// queue, or a node without children: a free lock.
func findLocks(ctx context.Context, c *zk.Client, prefix string, layout holdfast.Layout) ([]located, error) {
	w := &walk{client: c, prefix: prefix, layout: layout}
	w.idle.L = &w.mu
	if err := catchUp(ctx, c, conn.Parent(prefix)); err != nil {
		return nil, err
	}
	w.todo = []visit{{path: conn.Parent(prefix), root: true}}
	group, ctx := errgroup.WithContext(ctx)
	for range lsParallel {
		group.Go(func() error { return w.work(ctx) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	slices.SortFunc(w.found, func(a, b located) int { return cmp.Compare(a.path, b.path) })
	return w.found, nil
}

// A walk visits the nodes of a tree. Several goroutines work at it.
type walk struct {
	client *zk.Client
	prefix string
	layout holdfast.Layout

	budget budget.Budget
	long   sync.Mutex // is held by the reader of a long directory

	mu    sync.Mutex // guards the fields below
	idle  sync.Cond  // signals a change of todo, busy or over
	todo  []visit
	busy  int  // visits that have begun
	over  bool // a visit has failed
	found []located
}

// A visit is a node to visit.
type visit struct {
	path      string
	root      bool // no lock unless it has a queue
	semaphore bool // has a turnstile beside it, so it is a semaphore of kazoo
}

// work visits nodes until none is left. The latest comes first, so that few are waiting.
func (w *walk) work(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for len(w.todo) == 0 && w.busy > 0 && !w.over {
			w.idle.Wait()
		}
		if len(w.todo) == 0 || w.over {
			return nil
		}
		v := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		w.busy++
		w.mu.Unlock()
		found, below, err := w.visit(ctx, v)
		w.mu.Lock()
		w.busy--
		w.found = append(w.found, found...)
		w.todo = append(w.todo, below...)
		w.over = w.over || err != nil
		w.idle.Broadcast()
		if err != nil {
			return err
		}
	}
}

// longDirectory is the number of children from which a directory is read alone, since it takes much memory meanwhile.
const longDirectory = 10_000

// inspect is inspect within the budget.
func (w *walk) inspect(ctx context.Context, path string) ([]string, []holdfast.Entry, error) {
	listed, err := list(ctx, w.client, path)
	if err == nil {
		err = w.budget.KeepNames(path, listed)
	}
	if err != nil || listed == nil {
		return nil, nil, err
	}
	if len(listed) > longDirectory {
		w.long.Lock()
		defer w.long.Unlock()
	}
	places, err := readQueue(ctx, w.client, path, w.layout)
	for _, e := range places {
		if err == nil {
			err = w.budget.Keep(0, len(e.Path)+len(e.Name)+len(e.Owner)+len(e.Reason))
		}
	}
	return listed, places, err
}

// visit reads one node. It returns the lock that it is, if it is one, and the nodes below it to visit.
func (w *walk) visit(ctx context.Context, v visit) (found []located, below []visit, err error) {
	children, queue, err := w.inspect(ctx, v.path)
	switch {
	case errors.Is(err, zk.ErrNoAuth) && !v.root:
		if strings.HasPrefix(v.path, w.prefix) {
			found = append(found, located{path: v.path, unreadable: true})
		}
		return found, nil, nil
	case err != nil || children == nil:
		return nil, nil, err
	case len(queue) == 1 && queue[0].Path == v.path && survey.Numbered(v.path):
		return nil, nil, nil // no NodeLock: a place in a queue of another layout
	}
	children = slices.DeleteFunc(children, func(name string) bool { return name == conn.OwnDirectory || strings.HasPrefix(name, conn.ProbePrefix) })
	root := v.root
	if once, key := onceDirectory(v.path); once {
		children = slices.DeleteFunc(children, func(name string) bool { return key && (name == "done" || name == "begun") })
		root = true // without callers it is no lock
	}
	semaphore := v.semaphore || isSemaphore(children, queue, w.layout)
	if strings.HasPrefix(v.path, w.prefix) && (len(queue) > 0 || semaphore || len(children) == 0 && !root) {
		l := located{path: v.path, queue: queue}
		if semaphore {
			if l.permits, err = readPermits(ctx, w.client, v.path, queue); err != nil {
				return nil, nil, err
			}
		}
		found = append(found, l)
	}
	present, places := make(map[string]bool, len(children)), make(map[string]bool, len(queue))
	for _, child := range children {
		present[child] = true
	}
	for _, e := range queue {
		name, _, _ := strings.Cut(e.Name, "/")
		places[name] = true
	}
	for _, dirs := range semaphoreDirs {
		if present[dirs[0]] && present[dirs[1]] {
			places[dirs[0]], places[dirs[1]] = true, true
		}
	}
	kazoo := w.layout.Name == layouts.Kazoo.Name
	for _, child := range children {
		of, turnstile := strings.CutSuffix(child, kazooTurnstile)
		if places[child] || kazoo && turnstile && present[of] {
			continue
		}
		next := strings.TrimSuffix(v.path, "/") + "/" + child
		if next != "/zookeeper" && next != deed.Path && (strings.HasPrefix(next, w.prefix) || strings.HasPrefix(w.prefix, next+"/")) {
			below = append(below, visit{path: next, semaphore: kazoo && present[child+kazooTurnstile]})
		}
	}
	return found, below, nil
}

// onceDirectory reports whether path is a directory of a Once, and whether it is that of a key: the
// queue of the key, and the marks of its runs.
func onceDirectory(path string) (once, key bool) {
	is := func(name string) bool {
		digit, ok := strings.CutPrefix(name, "once-")
		return ok && len(digit) == 1 && strings.Contains("0123456789abcdef", digit)
	}
	parts := strings.Split(path, "/")
	n := len(parts)
	key = n > 1 && is(parts[n-2])
	return key || is(parts[n-1]), key
}

// inspect returns a node's children and the queue among them. The children are nil if the node does
// not exist.
func inspect(ctx context.Context, c *zk.Client, path string, layout holdfast.Layout) ([]string, []holdfast.Entry, error) {
	if err := catchUp(ctx, c, path); err != nil {
		return nil, nil, err
	}
	listed, err := list(ctx, c, path)
	if err != nil || listed == nil {
		return nil, nil, err
	}
	queue, err := readQueue(ctx, c, path, layout)
	return listed, queue, err
}

// catchUp returns when the server shows what was written before. It may be behind the one that granted a lock.
func catchUp(ctx context.Context, c *zk.Client, path string) error {
	return zk.Retry(ctx, func() error { return c.Sync(ctx, path) })
}

// list returns a node's children, nil if the node does not exist.
func list(ctx context.Context, c *zk.Client, path string) ([]string, error) {
	listed, err := children(ctx, c, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil
	case err != nil:
		return nil, err
	case listed == nil:
		listed = []string{}
	}
	return listed, nil
}

// readQueue returns the queue of the lock at path.
func readQueue(ctx context.Context, c *zk.Client, path string, layout holdfast.Layout) ([]holdfast.Entry, error) {
	if path == "/" { // the root is no lock
		return nil, nil
	}
	return holdfast.List(ctx, c, path, layout)
}
