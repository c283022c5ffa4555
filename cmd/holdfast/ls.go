package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"holdfast"
	"holdfast/internal/deed"
	"holdfast/internal/survey"
	"holdfast/zk"
)

func newLs(g *globals) *cobra.Command {
	var p printer
	var filter lsFilter
	var layout layoutFlag
	var watch bool
	cmd := &cobra.Command{
		Use:        "ls [flags] [PREFIX]",
		SuggestFor: []string{"list", "locks"},
		Short:      "List locks, their holders and how many clients wait",
		Long: `ls lists the locks whose names begin with PREFIX, or all locks in the namespace. A free lock is
listed until the server removes its empty node.

HELD-FOR is how long the lock has been held. ≤ marks an upper bound. It counts from when the holder
joined the queue. A holder records the time of its acquire once it has held the lock for a second. Leaders
(elect) and other programs never record it. The state kept means that a program has released the
lock and keeps it for its next use, until somebody else asks. For about a second, a lock in use again is
still shown as kept. The state detached means that no session owns the lock: it ends with holdfast unlock,
or when it expires.

HELD-FOR, the times of waiters, --older-than and -o json count from a time by the server's clock to now, by the
clock of this machine. They are wrong by the difference of the two clocks, which holdfast doctor shows.

If a semaphore or a set of slots is listed, the column PERMITS has the permits in use and their limit.

The flags --held, --waiting, --owner and --older-than choose locks. A lock is listed if all of them choose
it.

The state unreadable means that you have no permission to read the lock, or a place in its queue. There may
be locks below it, which ls does not find.

-o wide adds columns, with the labels if a holder has some (--label). -o json prints one LockList, and -o jsonl one Lock a line: see docs/reference/json.md.
-o name prints the names alone.

With --watch, ls prints the locks again after each change, at most once a second. On a terminal, it
keeps the table up to date in place. ctrl-C ends it. It goes on when the connection breaks. On servers
before ZooKeeper 3.6, it looks for changes once a second. If no server answers, or answers too slowly, the
table on a terminal begins with OLD and says why, and the times in it stop.

Exit codes:
  0   the list is complete; with --watch: INT or TERM ended it
  2   wrong command line
  69  no server answered
  77  no permission
  78  wrong configuration`,
		Example: `  holdfast ls
  holdfast ls -o json db/
  holdfast ls --held --older-than 1h --sort hold      # what is stuck
  holdfast ls --owner 'ci@*' -o name                  # what this user holds or waits for
  holdfast ls --waiting --sort wait --watch`,
		Args: operands("[prefix]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := filter.check(); err != nil {
				return err
			}
			prefix, err := g.lockPrefix(args)
			if err != nil {
				return err
			}
			list := func(ctx context.Context, c *zk.Client) (found []located, now time.Time, err error) {
				found, err = findLocks(ctx, c, prefix, layout.Layout)
				now = time.Now()
				return filter.apply(found, now), now, err
			}
			if watch {
				return g.lsWatch(cmd, &p, prefix, list)
			}
			var found []located
			var now time.Time
			err = g.ask(cmd.Context(), func(ctx context.Context, c *zk.Client) (err error) {
				found, now, err = list(ctx, c)
				return err
			})
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), &p, g.listing(found, now))
		},
	}
	p.register(cmd)
	filter.register(cmd)
	layout.register(cmd)
	cmd.Flags().BoolVar(&watch, "watch", false, "print the locks again after each change")
	return cmd
}

// lockPrefix returns the prefix of the paths of the locks that a command is about. args has at most one
// prefix of names.
func (g *globals) lockPrefix(args []string) (string, error) {
	prefix := ""
	if len(args) > 0 {
		prefix = args[0]
	}
	if !strings.HasPrefix(prefix, "/") {
		if err := g.checkNamespace(); err != nil {
			return "", err
		}
		prefix = strings.TrimSuffix(g.namespace, "/") + "/" + prefix
	}
	if err := zk.ValidatePath(parent(prefix)); err != nil {
		return "", usage("give the beginning of a lock's name, as in db/", "prefix: %s", pathReason(parent(prefix), err))
	}
	return prefix, nil
}

// labelsOf returns the labels of a place, such as the trace that it belongs to.
func labelsOf(e holdfast.Entry) string {
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(e.Labels)) {
		labels = append(labels, key+"="+e.Labels[key])
	}
	return strings.Join(labels, ",")
}

// listing returns the locks that ls has found, for the formats of -o.
func (g *globals) listing(found []located, now time.Time) listing[located] {
	// of returns the text of a cell about the first place in the queue.
	of := func(f func(holdfast.Entry) string) func(located) string {
		return func(l located) string {
			if len(l.queue) == 0 {
				return ""
			}
			return f(l.queue[0])
		}
	}
	columns := []column[located]{
		{head: "NAME", cell: func(l located) string { return g.lockName(l.path) }},
		{head: "STATE", cell: (located).state, ink: func(l located) ink { return inkOf(l.state()) }},
		{head: "HOLDER", cell: (located).holder},
		{head: "HELD-FOR", cell: of(func(e holdfast.Entry) string { return forState(e, now) })},
		{head: "WAITERS", cell: func(l located) string { return strconv.Itoa(len(l.queue) - l.holders()) }},
		{head: "TOKEN", cell: of(func(e holdfast.Entry) string { return strconv.FormatInt(e.Token, 10) })},
		{head: "PERMITS", cell: func(l located) string { return l.permits.String() }},
		{head: "MODE", wide: true, cell: of(modeOf)},
		{head: "SINCE", wide: true, cell: of(func(e holdfast.Entry) string { return e.Since.UTC().Format(time.RFC3339) })},
		{head: "SESSION", wide: true, cell: of(sessionOf)},
		{head: "PATH", wide: true, cell: func(l located) string { return l.path }},
		{head: "LABELS", wide: true, cell: of(labelsOf)},
		{head: "WHY", cell: of(func(e holdfast.Entry) string { return e.Reason })},
	}
	if !slices.ContainsFunc(found, func(l located) bool { return l.permits != nil }) {
		columns = slices.DeleteFunc(columns, func(c column[located]) bool { return c.head == "PERMITS" })
	}
	if !slices.ContainsFunc(found, func(l located) bool { return len(l.queue) > 0 && len(l.queue[0].Labels) > 0 }) {
		columns = slices.DeleteFunc(columns, func(c column[located]) bool { return c.head == "LABELS" })
	}
	return listing[located]{
		items: found, columns: columns,
		name: func(l located) string { return g.lockName(l.path) },
		line: func(l located) any {
			d := g.describe(l, now)
			d.APIVersion, d.AsOf = apiVersion, asOf(now)
			return d
		},
		whole: func() any {
			list := lockList{APIVersion: apiVersion, Kind: "LockList", Items: []lockDocument{}, AsOf: *asOf(now)}
			for _, l := range found {
				list.Items = append(list.Items, g.describe(l, now))
			}
			return list
		},
	}
}

// describe returns the document of a lock in a list.
func (g *globals) describe(l located, now time.Time) lockDocument {
	d := describe(g.lockName(l.path), l.path, l.queue, now)
	d.Permits = l.permits.document()
	if l.unreadable {
		d.State = unreadableState
	}
	return d
}

// unreadableState is the state of a lock that nobody may read.
const unreadableState = "unreadable"

// asOf returns the time of a document.
func asOf(now time.Time) *time.Time {
	t := now.UTC().Truncate(time.Millisecond)
	return &t
}

// sessionText returns the id of a session as all commands print it.
func sessionText(session int64) string { return fmt.Sprintf("0x%x", uint64(session)) }

// modeOf returns how a place shares the lock.
func modeOf(e holdfast.Entry) string {
	if e.Shared {
		return "shared"
	}
	return "exclusive"
}

// inkOf returns the color of a lock's state.
func inkOf(state string) ink {
	switch state {
	case "held", "detached":
		return yellow
	case "kept":
		return faint
	case unreadableState:
		return red
	}
	return green
}

// stateOf returns the state of a lock, by the first place in its queue.
func stateOf(first holdfast.Entry) string {
	switch {
	case !first.Held: // it is about to acquire the lock
		return "free"
	case first.Kept:
		return "kept"
	}
	return "held" // in documents also of a detached lock
}

// forState returns how long a holder has held the lock, or how long a waiter has waited. It is empty if the lock is
// only kept.
func forState(e holdfast.Entry, now time.Time) string {
	if e.Kept {
		return ""
	}
	if e.Held {
		return heldFor(e, now)
	}
	return age(e.Since, now)
}

type lockList struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Items      []lockDocument `json:"items"`
	AsOf       time.Time      `json:"as_of"`
}

// located is a lock that ls has found.
type located struct {
	path    string
	queue   []holdfast.Entry
	permits *permits // of a semaphore or slots; nil otherwise
	// unreadable: there is no permission to read the node or a place in its queue. There may be locks below it.
	unreadable bool
	// reserved is what --min-hold keeps; only status reads it.
	reserved *holdfast.Reservation
	lastRun  *holdfast.Result // of --once-per; only status reads it
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

// pause waits for a short time before another attempt. It returns false if ctx has ended.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(10*time.Millisecond + rand.N(40*time.Millisecond)):
		return true
	}
}

// retry sends a read again while the server throttles, or if the connection broke.
func retry(ctx context.Context, read func() error) error {
	for {
		if err := read(); !zk.SafeToRetry(err) || !pause(ctx) {
			return err
		}
	}
}

// get reads the data of a node.
func get(ctx context.Context, c *zk.Client, path string) (data []byte, err error) {
	err = retry(ctx, func() (err error) {
		data, _, err = c.Get(ctx, path)
		return err
	})
	return data, err
}

// children lists a node.
func children(ctx context.Context, c *zk.Client, path string) (listed []string, err error) {
	err = retry(ctx, func() (err error) {
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
	return layout.Name == holdfast.LayoutKazoo.Name && slices.ContainsFunc(queue, func(e holdfast.Entry) bool {
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
	w.todo = []visit{{path: parent(prefix), root: true}}
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

// visit reads one node. It returns the lock that it is, if it is one, and the nodes below it to visit.
func (w *walk) visit(ctx context.Context, v visit) (found []located, below []visit, err error) {
	children, queue, err := inspect(ctx, w.client, v.path, w.layout)
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
	children = slices.DeleteFunc(children, func(name string) bool { return name == ownDirectory || strings.HasPrefix(name, probePrefix) })
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
	kazoo := w.layout.Name == holdfast.LayoutKazoo.Name
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

// parent returns the node above all paths that begin with prefix.
func parent(prefix string) string {
	if i := strings.LastIndexByte(prefix, '/'); i > 0 {
		return prefix[:i]
	}
	return "/"
}

// inspect returns a node's children and the queue among them. The children are nil if the node does
// not exist.
func inspect(ctx context.Context, c *zk.Client, path string, layout holdfast.Layout) ([]string, []holdfast.Entry, error) {
	var queue []holdfast.Entry
	if path != "/" { // the root is no lock
		var err error
		if queue, err = holdfast.List(ctx, c, path, holdfast.WithLayout(layout)); err != nil {
			return nil, nil, err
		}
	}
	listed, err := children(ctx, c, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	case listed == nil:
		listed = []string{}
	}
	return listed, queue, nil
}
