package holdfast

import (
	"fmt"
	"strings"

	"holdfast/zk"
)

// A Layout is how the nodes of a lock are named, so that programs of other makes can
// stand in the same queue. All who use a lock must use one layout for it. A program's own
// is a Layout with the fields filled in; the Layouts of this package are those of the
// libraries that they are named after.
//
// A child whose name is in none of the forms has no place in the queue. If it is an ephemeral
// node of another layout of this package, or of another kind of lock, Lock fails with ErrKind:
// its maker would not wait for us. Other children are ignored; see Foreign.
type Layout struct {
	// Name says which layout it is, in errors and on the command line.
	Name string

	// Mutex, Write and Read are the names that new nodes get, for a lock without sides
	// and for the two sides of a read-write lock; the server appends the number. "" says
	// that the layout has no such lock. In them, {uuid} stands for a number that is new
	// for every attempt, {hex} for the same without dashes, {session} for the session's
	// id in decimal, and {host} for the name of the machine.
	//
	// With {uuid} or {hex}, a node is known by its name when the answer to its creation
	// was lost. Without, it is known by its data: then an id is added to them, and
	// WithValue is refused. Without, a name also comes back when the queue's directory has
	// been removed and made again: see NodeLock for what a delete can meet then.
	Mutex, Write, Read string

	// Exclusive and Shared are the forms of the names that contend for the lock,
	// without the number, with at most one * for any text. Shared is for readers.
	Exclusive, Shared []string

	// Parent is the mode of the nodes from the lock's path upwards when they have to be
	// made: zk.Container, or zk.Persistent, which is the zero value.
	Parent zk.Mode

	invalid error // what is wrong with it; Lock returns it
}

// The layouts of other libraries.
var (
	// LayoutCurator is the default: the nodes of Apache Curator's InterProcessMutex,
	// InterProcessReadWriteLock, LeaderSelector and InterProcessSemaphoreV2. All of them keep each other out
	// here, though Curator's mutex does not respect its read-write lock. go-zookeeper's
	// Lock stands in the same queue.
	LayoutCurator = Layout{
		Name:  "curator",
		Mutex: "_c_{uuid}-lock-", Write: "_c_{uuid}-__WRIT__", Read: "_c_{uuid}-__READ__",
		Exclusive: []string{"*lock-", "*__WRIT__"}, Shared: []string{"*__READ__"},
		Parent: zk.Container,
	}
	// LayoutLeaderLatch is that of Curator's LeaderLatch.
	LayoutLeaderLatch = Layout{
		Name:  "leaderlatch",
		Mutex: "_c_{uuid}-latch-", Exclusive: []string{"*latch-"},
		Parent: zk.Container,
	}
	// LayoutKazoo is that of kazoo's Lock, ReadLock, WriteLock, Election and Semaphore. The parents
	// are persistent: a kazoo lock makes them once and fails when they are gone later.
	// kazoo's Lock does not wait for readers, its WriteLock does.
	LayoutKazoo = Layout{
		Name:  "kazoo",
		Mutex: "{hex}__lock__", Write: "{hex}__lock__", Read: "{hex}__rlock__",
		Exclusive: []string{"*__lock__"}, Shared: []string{"*__rlock__"},
	}
	// LayoutGoZookeeper is that of go-zookeeper's Lock, which respects nodes of Curator
	// and kazoo too. It fails if there is any other child.
	LayoutGoZookeeper = Layout{
		Name:  "go-zookeeper",
		Mutex: "_c_{hex}-lock-", Exclusive: []string{"*lock-", "*__"},
	}
	// LayoutWriteLock is that of the WriteLock among ZooKeeper's own recipes, for which
	// every name that ends in a dash and a number contends.
	LayoutWriteLock = Layout{
		Name:  "writelock",
		Mutex: "x-{session}-", Exclusive: []string{"*-"},
	}
	// LayoutHostRW has <host>-R-<number> for readers and <host>-W-<number> for writers.
	LayoutHostRW = Layout{
		Name:  "hostrw",
		Mutex: "{host}-W-", Write: "{host}-W-", Read: "{host}-R-",
		Exclusive: []string{"*-W-"}, Shared: []string{"*-R-"},
	}
	// LayoutSessionID has lock-<session id>-<number>. See LayoutArticle.
	LayoutSessionID = Layout{
		Name:  "sessionid",
		Mutex: "lock-{session}-", Exclusive: []string{"lock-*-"},
	}
	// LayoutArticle has lock-<session id><number>, without a dash between the two: the
	// literal form of articles about locks on ZooKeeper, and of programs after them.
	LayoutArticle = Layout{
		Name:  "article",
		Mutex: "lock-{session}", Exclusive: []string{"lock-*"},
	}
)

// A known layout is one of this package's, with its semaphore and its marks.
type knownLayout struct {
	Layout
	semaphore semaphoreNodes
	marks     bool
	// nodes are the forms that this layout itself makes, if it also respects others; nil: all
	// its forms.
	nodes []string
}

// knownLayouts are all of them.
var knownLayouts = []knownLayout{
	{
		Layout: LayoutCurator,
		marks:  true,
		semaphore: semaphoreNodes{
			turnstile: "/locks", leases: "/leases", lease: "_c_{uuid}-lease-", numbered: true,
			queue: (&Layout{Name: "curator", Shared: []string{"*lease-"}}).translate(),
		},
	},
	{Layout: LayoutLeaderLatch},
	{Layout: LayoutKazoo, semaphore: semaphoreNodes{turnstile: "-__lock__", lease: "{hex}"}},
	{Layout: LayoutGoZookeeper, nodes: []string{"_c_*-lock-"}},
	{Layout: LayoutWriteLock, nodes: []string{"x-*-"}},
	{Layout: LayoutHostRW},
	{Layout: LayoutSessionID},
	{Layout: LayoutArticle},
}

// knownGrammars are the grammars of knownLayouts, in their order.
var knownGrammars = func() (all []*grammar) {
	for _, k := range knownLayouts {
		g := k.translate()
		g.label, g.semaphore, g.marks = k.Name, k.semaphore, k.marks
		all = append(all, g)
	}
	return all
}()

// curator is the grammar of the default layout.
var curator = knownGrammars[0]

// knownNodes tell which of knownLayouts a node is of, in their order.
var knownNodes = func() (all []*grammar) {
	for i, k := range knownLayouts {
		g := knownGrammars[i]
		if k.nodes != nil {
			g = (&Layout{Exclusive: k.nodes}).translate()
		}
		all = append(all, g)
	}
	return all
}()

// severalLocks takes the nodes of LayoutNamed, whatever the name, and anyForm all that
// have a number.
var (
	severalLocks = (&Layout{Exclusive: []string{"*" + namedSeparator}}).translate()
	anyForm      = (&Layout{Exclusive: []string{"*"}}).translate()
)

const namedSeparator = "_lock_"

// LayoutNamed has <name>_lock_<number>: several locks, told apart by their names, in one
// directory, whose path is that of them all. A name that contains "_lock_" would be part
// of another's, so Lock refuses it.
func LayoutNamed(name string) Layout {
	l := Layout{Name: "named:" + name, Mutex: name + namedSeparator, Exclusive: []string{name + namedSeparator}}
	if name == "" || strings.Contains(name+"_", namedSeparator) || strings.ContainsAny(name, "/*{}") {
		l.invalid = fmt.Errorf("%w %q: the name of a lock in a directory of several must not be empty nor contain %q, /, *, { or }",
			ErrLayout, name, namedSeparator)
	}
	return l
}

// ParseLayout is the layout of a name: curator, leaderlatch, kazoo, go-zookeeper,
// writelock, hostrw, sessionid, article, named:NAME or form:PATTERN. The error is
// ErrLayout, and says what to write instead.
//
// PATTERN is the name of a node without its number, as in Layout.Mutex, for one's own
// exclusive locks: form:job-{host}-{uuid}- makes job-web1-<uuid>-0000000007, and every name
// that begins with job- and ends with a dash and a number is a place in the queue. Parents are
// persistent.
func ParseLayout(name string) (Layout, error) {
	if n, ok := strings.CutPrefix(name, "named:"); ok {
		l := LayoutNamed(n)
		return l, l.invalid
	}
	if pattern, ok := strings.CutPrefix(name, "form:"); ok {
		l := Layout{Name: name, Mutex: pattern, Exclusive: []string{string(template(pattern).form())}}
		if err := l.translate().checkPattern(); err != nil {
			return Layout{}, fmt.Errorf("%w %q: %w", ErrLayout, name, err)
		}
		return l, nil
	}
	var names []string
	for _, l := range knownLayouts {
		if l.Name == name {
			return l.Layout, nil
		}
		names = append(names, l.Name)
	}
	return Layout{}, fmt.Errorf("%w %q: want one of %s, named:NAME, form:PATTERN", ErrLayout, name, strings.Join(names, ", "))
}

// Contends reports whether a child of this name has a place in the queue.
func (l *Layout) Contends(name string) bool {
	_, ok := (&grammar{exclusive: formsOf(l.Exclusive), shared: formsOf(l.Shared)}).parse(name)
	return ok
}
