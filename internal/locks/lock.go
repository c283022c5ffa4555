package locks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast"
	"holdfast/internal/proc"
	"holdfast/internal/queue/names"
	"holdfast/internal/waitgraph"
	"holdfast/reserve"
)

// A Kind says which nodes a lock has.
type Kind string

// The kinds.
const (
	Queue     Kind = "lock" // a queue at the lock's path
	Semaphore Kind = "semaphore"
	Slots     Kind = "slots"
	Node      Kind = "node"   // one node
	Tree      Kind = "tree"   // one of the queues of a tree
	Shards    Kind = "shards" // a set of shards as a whole: its workers hold it
)

// A State is what a client that wants the lock finds.
type State string

// The states. Free means that no node of any layout or kind is there.
const (
	Free       State = "free"
	Held       State = "held"
	Kept       State = "kept"       // its client has released it, and keeps it until another client queues
	Detached   State = "detached"   // held, and no session owns it
	Reserved   State = "reserved"   // nobody is in the queue, and a reservation of an earlier holder lasts
	Waiting    State = "waiting"    // nobody holds it, and the first waiter is about to acquire it
	Foreign    State = "foreign"    // nobody is in the queue, and nodes of another layout or kind are in the way
	Unreadable State = "unreadable" // there is no permission to read the lock, or a place in its queue
)

// A Lock is one lock: the places of one kind in one layout at one path. It is not changed after it was made.
type Lock struct {
	Path   string // as its users name it: a lock in a tree is /repo/src, and its queue is in /repo/%2Fsrc
	Layout string // of its nodes; "" for a node, and if nothing is there that tells it
	Kind   Kind
	Dirs   []string // the directories of its nodes; the first one has the queue, or has it below
	Root   string   // the path of the tree that it is in; "" for other kinds
	Limit  int      // of a semaphore or slots: how many permits there are; 0: unknown

	// Queue has the places. In a semaphore or slots, the permits come first.
	Queue    []Place
	Reserved *reserve.Reservation // its last reservation, which may be over; or nil
	Foreign  []ForeignNode        // nodes that are in the way, of other locks or of other programs

	// Unreadable means that there is no permission to read the node or a place. There may be locks below the node.
	Unreadable bool

	label string // of the layout, whatever its name
	idle  bool   // its waiters go on with their work
}

// A Place is a node in a queue, or a permit.
type Place struct {
	holdfast.Entry
	Zxid    int64  // of its creation. The token is older if a writer has taken the read side
	Within  int64  // the session whose command runs this session's program; 0: none
	Process []byte // the process of its client, see Gone; nil if it is not noted
	Yields  bool   // its client gives up its wait if it is the victim of a deadlock
	Needs   int    // of a waiter for permits or slots: how many; 0: one, as far as anybody knows
	Revoked bool   // somebody has asked the holder to release it
	Value   bool   // the data are the program's own, as those of a candidate are
	Member  bool   // it does not hold the lock, and its program goes on meanwhile: a candidate, a worker of shards
	Second  bool   // the node of a writer on the read side, beside its first node
	Beyond  bool   // a slot that is not given again, since there are fewer slots now
	Unknown bool   // only the name can be read
}

// ProcessGone reports whether the process of the place's client has ended for certain, although its session lasts, see Gone.
func (p *Place) ProcessGone() bool { return !p.Detached && Gone(p.Process) }

// Gone reports whether a process, a proc.Group as it encodes itself, has ended for certain. It can be known on the machine of
// the process alone. It asks the kernel. All views use it.
func Gone(process []byte) bool {
	if len(process) == 0 {
		return false
	}
	g, err := proc.Decode(process)
	return err == nil && g.Gone()
}

// Slot returns the number of the slot that the place is; ok is false if it is none.
func (p *Place) Slot() (number int, ok bool) {
	cut := strings.LastIndexByte(p.Path, '/')
	if cut < 0 || !strings.HasSuffix(p.Path[:cut], names.Slots.Semaphore.Leases) {
		return 0, false
	}
	return names.SlotOf(p.Path[cut+1:])
}

// Preference is the preference of a candidate; ok is false if it has none, so that it does not hand over either.
func (p *Place) Preference() (n int, ok bool) {
	return names.PreferenceIn(p.Path[strings.LastIndexByte(p.Path, '/')+1:])
}

// SessionText returns the id of a session as people read it.
func SessionText(session int64) string { return fmt.Sprintf("0x%x", uint64(session)) }

// A ForeignNode is a node that is in the way of a lock.
type ForeignNode struct {
	Path string
	Kind string // the lock that it is of, in words; "" if its name is in no known form
}

// Counted reports whether the lock is a number of permits or slots.
func (l *Lock) Counted() bool { return l.Kind == Semaphore || l.Kind == Slots }

// InUse reports whether somebody is in the queue or holds a permit.
func (l *Lock) InUse() bool { return len(l.Queue) > 0 }

// Holders returns how many places hold the lock.
func (l *Lock) Holders() (n int) {
	for i := range l.Queue {
		if l.Queue[i].Held && !l.Queue[i].Second {
			n++
		}
	}
	return n
}

// Tenures returns how many holders there are. The permits or slots that a client has taken at once are one holder.
func (l *Lock) Tenures() int {
	seen := make(map[int64]bool)
	n := 0
	for i := range l.Queue {
		p := &l.Queue[i]
		if p.Held && !p.Second && (p.Token == 0 || !seen[p.Token]) { // 0: not known
			seen[p.Token] = true
			n++
		}
	}
	return n
}

// Waiters returns how many places wait. Members do not.
func (l *Lock) Waiters() (n int) {
	for i := range l.Queue {
		if !l.Queue[i].Held && !l.Queue[i].Member {
			n++
		}
	}
	return n
}

// Members returns how many places are candidates or workers that hold nothing.
func (l *Lock) Members() (n int) {
	for i := range l.Queue {
		if l.Queue[i].Member {
			n++
		}
	}
	return n
}

// Rests returns the reservation that lasts at the time, or nil.
func (l *Lock) Rests(now time.Time) *reserve.Reservation {
	if l.Reserved == nil || !now.Before(l.Reserved.Until) {
		return nil
	}
	return l.Reserved
}

// State returns the state of the lock at the time.
func (l *Lock) State(now time.Time) State {
	switch {
	case l.Unreadable:
		return Unreadable
	case len(l.Queue) == 0 && l.Rests(now) != nil:
		return Reserved
	case len(l.Queue) == 0 && len(l.Foreign) > 0:
		return Foreign
	case len(l.Queue) == 0:
		return Free
	case !l.Queue[0].Held && len(l.Foreign) > 0:
		return Foreign
	case !l.Queue[0].Held:
		return Waiting
	case l.Queue[0].Kept:
		return Kept
	case l.Queue[0].Detached:
		return Detached
	}
	return Held
}

// Use names the kind of the lock as its places tell it: also rwlock and election.
func (l *Lock) Use() string {
	if l.Kind != Queue {
		return string(l.Kind)
	}
	for i := range l.Queue {
		switch {
		case l.Queue[i].Shared:
			return "rwlock"
		case l.election(&l.Queue[i]):
			return "election"
		}
	}
	return string(l.Kind)
}

// election reports whether a place is one of a candidate. The nodes of LeaderLatch are. Curator's locks write an
// address, so other data are those of a candidate. A text in the nodes of other layouts is the owner's name.
func (l *Lock) election(p *Place) bool {
	return l.Layout == names.LeaderLatch.Name || p.Value && l.Layout == names.Curator.Name && !l.idle
}

// Graph returns the lock for the wait-for graph.
func (l *Lock) Graph() waitgraph.Lock {
	w := waitgraph.Lock{Path: l.Path, Layout: l.Layout, Kind: string(l.Kind), Dirs: l.Dirs, Counted: l.Counted(), Limit: l.Limit}
	for i := range l.Queue {
		p := &l.Queue[i]
		place := waitgraph.Place{
			Node: p.Path, Zxid: p.Zxid, Session: p.Session, Within: p.Within, Yields: p.Yields, Needs: p.Needs, Shared: p.Shared && !w.Counted, Idle: p.Member && l.idle, Candidate: p.Member && !l.idle, Kept: p.Kept,
			Since: p.Since, Owner: p.Owner, Reason: p.Reason, Process: string(p.Process),
		}
		switch {
		case p.Second || p.Beyond:
		case w.Counted && p.Held:
			w.Permits = append(w.Permits, place)
		default:
			w.Queue = append(w.Queue, place)
		}
	}
	return w
}

// Graph returns the locks of a reading for the wait-for graph. Shards as a whole are none: their queues are there. A lock
// with a place that cannot be read is none, since it is not known who holds it.
func Graph(all []Lock) (graph []waitgraph.Lock) {
	for i := range all {
		l := &all[i]
		if l.Kind == Shards || l.Unreadable || len(l.Queue) == 0 {
			continue
		}
		if w := l.Graph(); len(w.Queue)+len(w.Permits) > 0 {
			graph = append(graph, w)
		}
	}
	return graph
}

// Best returns the lock that a client at the path meets first: one that is held, then one that is waited for, then any
// other. Of equal ones, it returns the first. all must not be empty.
func best(all []Lock, now time.Time) int {
	rank := func(l *Lock) int {
		return slices.Index([]State{Unreadable, Held, Detached, Kept, Waiting, Reserved, Foreign, Free}, l.State(now))
	}
	first := 0
	for i := range all {
		if rank(&all[i]) < rank(&all[first]) {
			first = i
		}
	}
	return first
}
