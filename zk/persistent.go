package zk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"holdfast/zkproto"
)

// A WatchMode says which changes a [PersistentWatch] tells of.
type WatchMode int32

// The modes of persistent watches.
const (
	// WatchPersistent: the node's creation, changes of its data, its deletion, and
	// children that come or go.
	WatchPersistent WatchMode = WatchMode(zkproto.ModePersistent)
	// WatchPersistentRecursive: creation, changes of data and deletion, of the node
	// and of everything below it; no EventNodeChildrenChanged.
	WatchPersistentRecursive WatchMode = WatchMode(zkproto.ModePersistentRecursive)
)

// ErrEventsMissed is the Err of an [Event] of a [PersistentWatch]: from here on, read
// again what the watch is for. The watch goes on.
var ErrEventsMissed = errors.New("events were missed, read again")

// A PersistentWatch delivers the changes of a node, or of a tree, until it is stopped
// or its session is over.
//
// C may skip changes, but never without saying so. It holds a few hundred events; when
// its reader falls behind further than that, the rest is dropped, and the last thing in
// C is an event with ErrEventsMissed. The same event comes after every reconnect, for
// servers do not tell what happened meanwhile. Who keeps a copy of the tree reads it
// again then. A change may be told twice.
//
// When the session is over, C gets an event with its error (ErrSessionExpired, ErrClosed
// or ErrAuthFailed). Then, and after Stop, C is closed. A slow reader holds up nobody.
type PersistentWatch struct {
	C <-chan Event

	c       chan Event // room for persistentBuffer events, ErrEventsMissed, and the end
	path    string     // as the caller gave it
	node    string     // with the chroot
	chroot  string
	mode    WatchMode
	session *Session
	stopped bool // guarded by session.mu
	missed  bool // the latest thing put into c was ErrEventsMissed; guarded by session.mu
}

const persistentBuffer = 256

// AddWatch watches a node, which need not exist, or everything from a node on
// downwards. What is read after it returned is not older than the first event. In one
// session a node has one mode at a time; another one is refused with ErrBadArguments
// (servers before 3.9 would forget the former). One-shot watches on the same node are
// independent of it.
//
// Needs ZooKeeper 3.6. Older servers answer ErrUnimplemented and close the connection.
func (c calls) AddWatch(ctx context.Context, path string, mode WatchMode) (*PersistentWatch, error) {
	op := zkproto.OpAddWatch
	err := zkproto.ValidatePath(path)
	if err == nil && mode != WatchPersistent && mode != WatchPersistentRecursive {
		err = fmt.Errorf("%w: unknown mode %d", ErrBadArguments, mode)
	}
	if err != nil {
		return nil, &Error{Op: op.String(), Path: path, Err: err}
	}
	ch := make(chan Event, persistentBuffer+2)
	w := &PersistentWatch{C: ch, c: ch, path: path, node: c.node(path), chroot: c.chroot, mode: mode}
	r := newRequest(op, path, &zkproto.AddWatchRequest{Path: w.node, Mode: int32(mode)}, new(zkproto.ErrorResponse))
	r.persistent = w
	r.covers = map[string]WatchMode{w.node: mode}
	if err := c.exchange(ctx, r); err != nil {
		return nil, err
	}
	return w, nil
}

// Stop gives the watch up and closes C. If no other watch of this client needs it, the
// server is told to forget it too. To stop a watch twice, or one that has ended, does
// nothing.
func (w *PersistentWatch) Stop() {
	w.session.mu.Lock()
	defer w.session.mu.Unlock()
	w.session.stopPersistent(w)
}

// stopPersistent is called with mu held.
func (s *Session) stopPersistent(w *PersistentWatch) {
	if w.stopped {
		return
	}
	w.stopped = true
	close(w.c)
	s.watches.persistent.remove(w)
	s.disarmPersistent(w.node)
}

// The functions below are called with session.mu held: C has one sender at a time, and
// is not closed under it. None of them ever waits.

// deliver puts ev into C. While ErrEventsMissed is in C and not received yet, it stands
// for ev too: who receives it reads again, and then finds what ev would have told.
func (w *PersistentWatch) deliver(ev Event) {
	switch {
	case w.missed && len(w.c) > 0:
	case len(w.c) < persistentBuffer:
		w.missed = false
		w.c <- ev
	default:
		w.miss()
	}
}

func (w *PersistentWatch) miss() {
	if w.missed && len(w.c) > 0 {
		return
	}
	w.missed = true
	w.c <- Event{Type: EventNone, Path: w.path, Err: ErrEventsMissed}
}

func (w *PersistentWatch) end(cause error) {
	if w.stopped {
		return
	}
	w.stopped = true
	w.c <- Event{Type: EventNone, Path: w.path, Err: cause}
	close(w.c)
}

// persistentTable holds the persistent watches, by path with chroot. What is there is
// armed at the server, or about to be.
type persistentTable map[string]*persistentSet

type persistentSet struct {
	mode   WatchMode
	armed  []*PersistentWatch
	arming int // requests on their way
}

// conflict says why w cannot be added.
func (t persistentTable) conflict(w *PersistentWatch) error {
	if set := t[w.node]; set != nil && set.mode != w.mode {
		return fmt.Errorf("%w: this session has a persistent watch of another mode on the node", ErrBadArguments)
	}
	return nil
}

func (t persistentTable) arming(w *PersistentWatch) {
	if t[w.node] == nil {
		t[w.node] = &persistentSet{mode: w.mode}
	}
	t[w.node].arming++
}

func (t persistentTable) doneArming(w *PersistentWatch) {
	t[w.node].arming--
	t.drop(w.node)
}

func (t persistentTable) remove(w *PersistentWatch) {
	set := t[w.node]
	if set == nil {
		return
	}
	for i := range set.armed {
		if set.armed[i] == w {
			set.armed = append(set.armed[:i], set.armed[i+1:]...)
			break
		}
	}
	t.drop(w.node)
}

func (t persistentTable) drop(node string) {
	if set := t[node]; len(set.armed) == 0 && set.arming == 0 {
		delete(t, node)
	}
}

// notify delivers an event to those whom it concerns: the node's own watches, and the
// recursive ones above.
func (t persistentTable) notify(typ EventType, node string, catchUp bool) {
	if len(t) == 0 {
		return
	}
	for at := node; ; {
		if set := t[at]; set != nil && (at == node || set.mode == WatchPersistentRecursive) &&
			// Servers send it because of some other watch (ZOOKEEPER-4475).
			(set.mode == WatchPersistent || typ != EventNodeChildrenChanged) {
			for _, w := range set.armed {
				path := strings.TrimPrefix(node, w.chroot)
				if path == "" {
					path = "/"
				}
				w.deliver(Event{Type: typ, Path: path, CatchUp: catchUp})
			}
		}
		if at == "/" || at == "" {
			return
		}
		at = at[:max(strings.LastIndexByte(at, '/'), 0)]
		if at == "" {
			at = "/"
		}
	}
}

// setWatches restores the watches on the nodes for which want is true.
func (t persistentTable) setWatches(zxid int64, want func(node string) bool) []*request {
	var reqs []*request
	covers := make(map[string]WatchMode)
	size := 0
	flush := func() {
		if len(covers) == 0 {
			return
		}
		m := &zkproto.SetWatches2Request{}
		m.RelativeZxid = zxid
		for node, mode := range covers {
			if mode == WatchPersistentRecursive {
				m.PersistentRecursive = append(m.PersistentRecursive, node)
			} else {
				m.Persistent = append(m.Persistent, node)
			}
		}
		r := newRequest(zkproto.OpSetWatches2, "", m, nil)
		r.covers = covers
		reqs = append(reqs, r)
		covers, size = make(map[string]WatchMode), 0
	}
	for node, set := range t {
		if !want(node) {
			continue
		}
		if size+len(node)+4 > maxSetWatches {
			flush()
		}
		size += len(node) + 4
		covers[node] = set.mode
	}
	flush()
	return reqs
}

func (t persistentTable) end(cause error) {
	for _, set := range t {
		for _, w := range set.armed {
			w.end(cause)
		}
	}
}

// Servers before 3.9 keep one mode per connection and path, for one-shot and persistent
// watches together (ZOOKEEPER-4466): the latest. There a read that registers a watch
// turns the node's persistent watch into a one-shot one, and a removal takes both. So, on
// a node with a persistent watch, a one-shot watch is kept here only and lives on the
// other's events; when those end, it is registered for itself. All that follows is for
// this. It does no harm to newer servers.

// orderWatches is called with all that the writer is about to send, in that order. It
// knows which nodes the server has a persistent watch on by then, and lets reads register
// their watches on the others only. Called with mu held.
func (c *conn) orderWatches(queue []*request) []*request {
	batch := queue
	for i, r := range queue {
		if r.watch != nil {
			mode, covered := c.covered[r.watch.node]
			r.registers(!covered || mode == WatchPersistentRecursive && r.watch.kind == watchChild)
		}
		if r.uncovers != "" {
			delete(c.covered, r.uncovers)
		}
		if again := c.cover(r); again != nil {
			behind := len(batch) - len(queue) + i + 1
			batch = slices.Insert(slices.Clip(batch), behind, again)
		}
	}
	return batch
}

// cover notes what r does for the nodes that it covers. A recursive watch tells nothing
// of the node's children, but overwrites the watch that does: it must be registered again
// behind r. (One that comes later does no harm: servers keep the watches for children in
// a table of their own.) Called with mu held.
func (c *conn) cover(r *request) (again *request) {
	var children []string
	for node, mode := range r.covers {
		c.covered[node] = mode
		if mode == WatchPersistentRecursive && c.s.watches.oneShots(armKey{child: true, node: node}) {
			children = append(children, node)
		}
	}
	if len(children) == 0 {
		return nil
	}
	m := &zkproto.SetWatchesRequest{RelativeZxid: c.s.watchZxid, Child: children}
	again = newRequest(zkproto.OpSetWatches, "", m, nil)
	again.upkeep = true
	c.s.registering++
	return again
}

// armedPersistent enters r's watch if the answer says that the server has it. It is
// called by the reader before anything that the server sent later is looked at. An error
// breaks the connection.
func (s *Session) armedPersistent(r *request, code zkproto.Code) error {
	w := r.persistent
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		w.end(s.over)
		return nil
	}
	t := s.watches.persistent
	if code == zkproto.CodeOK && !w.stopped {
		t[w.node].armed = append(t[w.node].armed, w)
	}
	t.doneArming(w)
	s.disarmPersistent(w.node)
	if code != zkproto.CodeOK && (s.watches.oneShots(armKey{node: w.node}) || s.watches.oneShots(armKey{child: true, node: w.node})) {
		// Some of them may have counted on this one, and missed what happened since.
		return fmt.Errorf("no persistent watch for the others on its node: %w", code)
	}
	return nil
}

// disarmPersistent tells the server to forget the persistent watch on node unless it is
// needed, and to remember the one-shot watches. Called with mu held.
func (s *Session) disarmPersistent(node string) {
	if s.conn == nil || s.over != nil || s.watches.persistent[node] != nil {
		return
	}
	// The removal also hits what reads in front of it have just registered.
	for _, reqs := range [][]*request{s.conn.pending.all(), s.queue} {
		for _, r := range reqs {
			if r.watch != nil && r.watch.node == node {
				r.rearm = true
			}
		}
	}
	// Any: the types for persistent watches alone are unknown before 3.9.
	m := &zkproto.RemoveWatchesRequest{Path: node, Kind: zkproto.WatchAny}
	r := newRequest(zkproto.OpRemoveWatches, node, m, nil)
	r.uncovers = node
	s.queueUpkeep(r)
	s.rearm(node)
}

// rearm registers the one-shot watches on node at the server, and the persistent one
// over them if there is one. Called with mu held.
func (s *Session) rearm(node string) {
	if s.conn == nil || s.over != nil {
		return // there is no need: the next connection begins with all the watches
	}
	for _, r := range s.watches.registrations(s.watchZxid, node) {
		s.queueUpkeep(r)
	}
}

// queueUpkeep puts a request for which nobody waits into the queue. The next connection
// drops it if it is still there: that one begins with all the watches that there are.
// Called with mu held, while there is a connection.
func (s *Session) queueUpkeep(r *request) {
	r.upkeep = true
	if r.op != zkproto.OpRemoveWatches {
		s.registering++
	}
	s.queue = append(s.queue, r)
	s.conn.wakeWriter()
}

// restored tells the persistent watches that r has restored that nobody knows what
// they missed.
func (s *Session) restored(r *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for node := range r.covers {
		if set := s.watches.persistent[node]; set != nil {
			for _, w := range set.armed {
				w.miss()
			}
		}
	}
}
