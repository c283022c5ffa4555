package holdfast

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"holdfast/zk"
)

// A Layout is how the nodes of a lock are named, so that programs of other makes can
// stand in the same queue. All who use a lock must use one layout for it. A program's own
// is a Layout with the fields filled in; the Layouts of this package are those of the
// libraries that they are named after.
//
// A child whose name is in none of the forms has no place in the queue and is ignored.
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
	// WithValue is refused.
	Mutex, Write, Read string

	// Exclusive and Shared are the forms of the names that contend for the lock,
	// without the number, with at most one * for any text. Shared is for readers.
	Exclusive, Shared []string

	// Parent is the mode of the nodes from the lock's path upwards when they have to be
	// made: zk.Container, or zk.Persistent, which is the zero value.
	Parent zk.Mode

	semaphore semaphoreNodes
	marks     bool  // the data of a queue's directory are nobody's: see mark
	invalid   error // what is wrong with it, said by Lock
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
		Parent:    zk.Container,
		marks:     true,
		semaphore: semaphoreNodes{turnstile: "/locks", leases: "/leases", lease: "_c_{uuid}-lease-", numbered: true, form: "*lease-"},
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
		semaphore: semaphoreNodes{turnstile: "-__lock__", lease: "{hex}"},
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
	// LayoutSessionID has lock-<session id>-<number>.
	LayoutSessionID = Layout{
		Name:  "sessionid",
		Mutex: "lock-{session}-", Exclusive: []string{"lock-*-"},
	}
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
// writelock, hostrw, sessionid, or named:NAME. The error is ErrLayout.
func ParseLayout(name string) (Layout, error) {
	if n, ok := strings.CutPrefix(name, "named:"); ok {
		l := LayoutNamed(n)
		return l, l.invalid
	}
	known := []Layout{LayoutCurator, LayoutLeaderLatch, LayoutKazoo, LayoutGoZookeeper, LayoutWriteLock, LayoutHostRW, LayoutSessionID}
	var names []string
	for _, l := range known {
		if l.Name == name {
			return l, nil
		}
		names = append(names, l.Name)
	}
	return Layout{}, fmt.Errorf("%w %q: want one of %s, named:NAME", ErrLayout, name, strings.Join(names, ", "))
}

// A side is which of a layout's names a place goes by.
type side int

const (
	sideMutex side = iota
	sideWrite
	sideRead
)

func (s side) String() string { return [...]string{"mutex", "write side", "read side"}[s] }

// An attempt is the name of a node to be made, without the number that the server
// appends.
type attempt struct {
	prefix string
	id     string // new for every attempt
	unique bool   // the id is in the prefix: who does not know whether the node was made can find it by its name
}

// attempt makes a name. It also sees to it that the layout knows its own.
func (l *Layout) attempt(s side, session int64) (attempt, error) {
	if l.invalid != nil {
		return attempt{}, l.invalid
	}
	template := [...]string{l.Mutex, l.Write, l.Read}[s]
	if template == "" {
		return attempt{}, fmt.Errorf("%w %s: it has no %v", ErrLayout, l.Name, s)
	}
	a := newAttempt(template, session)
	c, ok := l.parse(a.prefix + "0000000000")
	if !ok || c.form != a.prefix || c.shared != (s == sideRead) {
		return attempt{}, fmt.Errorf("%w %s: its own name %q for the %v is not among its forms", ErrLayout, l.Name, a.prefix, s)
	}
	return a, nil
}

// unique reports whether the names of a Mutex tell attempts apart.
func (l *Layout) unique() bool {
	return strings.Contains(l.Mutex, "{uuid}") || strings.Contains(l.Mutex, "{hex}")
}

func newAttempt(template string, session int64) attempt {
	id := newUUID()
	plain := strings.ReplaceAll(id, "-", "")
	a := attempt{id: plain, unique: strings.Contains(template, "{uuid}") || strings.Contains(template, "{hex}")}
	a.prefix = template
	for _, f := range [...][2]string{
		{"{uuid}", id}, {"{hex}", plain}, {"{session}", strconv.FormatInt(session, 10)}, {"{host}", host()}, // who knows what that is named
	} {
		a.prefix = strings.ReplaceAll(a.prefix, f[0], f[1])
	}
	return a
}

// host is the name of the machine.
var host = sync.OnceValue(func() string {
	name, err := os.Hostname()
	if err != nil || strings.Contains(name, "/") {
		return "unknown"
	}
	return name
})

// parse reads a child's name; a name that is in none of the layout's forms is not in
// the queue.
func (l *Layout) parse(name string) (contender, bool) {
	// The number is an int32 that wraps, in ten columns: 10 digits, or a sign and 9 or
	// 10. The sign comes first: where -- stands before it, one - belongs to the form.
	for _, width := range [...]int{11, 10} {
		cut := len(name) - width
		if cut < 0 {
			continue
		}
		seq, ok := sequence(name[cut:])
		if !ok {
			continue
		}
		c := contender{name: name, form: name[:cut], seq: seq}
		for _, f := range l.Exclusive {
			if matches(c.form, f) {
				return c, true
			}
		}
		for _, f := range l.Shared {
			if matches(c.form, f) {
				c.shared = true
				return c, true
			}
		}
	}
	return contender{}, false
}

// Contends reports whether a child of this name has a place in the queue.
func (l *Layout) Contends(name string) bool {
	_, ok := l.parse(name)
	return ok
}

// sequence reads a number as the server writes it, and nothing else.
func sequence(s string) (int32, bool) {
	digits := strings.TrimPrefix(s, "-")
	if len(s) == 11 && (len(digits) == 11 || digits[0] == '0') || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 32)
	return int32(n), err == nil && (n != 0 || s[0] != '-')
}

func matches(s, form string) bool {
	head, tail, any := strings.Cut(form, "*")
	if !any {
		return s == form
	}
	return len(s) >= len(head)+len(tail) && strings.HasPrefix(s, head) && strings.HasSuffix(s, tail)
}

// newUUID is a random number in the form of java.util.UUID's.
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	x := hex.EncodeToString(b[:])
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:]
}
