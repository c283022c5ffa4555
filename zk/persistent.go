package zk

import (
	"context"
	"errors"
	"fmt"
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
// When the session is over, C gets an event with its error (ErrSessionExpired or
// ErrClosed). Then, and after Stop, C is closed. A slow reader holds up nobody.
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
	if err := c.submit(ctx, r); err != nil {
		return nil, err
	}
	return w, nil
}

// Stop gives the watch up and closes C. If no other watch of this client needs it, the
// server is told to forget it too. To stop a watch twice, or one that has ended, does
// nothing.
func (w *PersistentWatch) Stop() {
	s := w.session
	s.mu.Lock()
	defer s.mu.Unlock()
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

// covers reports whether the server's persistent watch on a node does for a one-shot
// watch there. A recursive one tells nothing of children.
func (t persistentTable) covers(k armKey) bool {
	set := t[k.node]
	return set != nil && (set.mode == WatchPersistent || !k.child)
}

// notify delivers an event to those whom it concerns: the node's own watches, and the
// recursive ones above.
func (t persistentTable) notify(typ EventType, node string) {
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
				w.deliver(Event{Type: typ, Path: path})
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

// setWatches restores all on a new connection.
func (t persistentTable) setWatches(lastZxid int64) []*request {
	var reqs []*request
	var m *zkproto.SetWatches2Request
	var nodes []string
	size := 0
	flush := func() {
		if len(nodes) > 0 {
			r := newRequest(zkproto.OpSetWatches2, "", m, nil)
			r.restores = nodes
			reqs = append(reqs, r)
		}
		m = &zkproto.SetWatches2Request{}
		m.RelativeZxid = lastZxid
		nodes, size = nil, 0
	}
	flush()
	for node, set := range t {
		if len(set.armed) == 0 {
			continue
		}
		if size += len(node) + 4; size > maxSetWatches {
			flush()
			size = len(node) + 4
		}
		nodes = append(nodes, node)
		if set.mode == WatchPersistentRecursive {
			m.PersistentRecursive = append(m.PersistentRecursive, node)
		} else {
			m.Persistent = append(m.Persistent, node)
		}
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
// watches together (ZOOKEEPER-4466). There a read that registers a watch turns the
// node's persistent watch into a one-shot one, and a removal takes both. So: on a node
// with a persistent watch that covers it, a one-shot watch is kept here only and lives
// on the other's events; when those end, it is registered for itself. All that follows
// is for this.

// armedPersistent enters r's watch if the answer says that the server has it. It is
// called by the reader before anything that the server sent later is looked at.
func (s *Session) armedPersistent(r *request, code zkproto.Code) {
	w := r.persistent
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		w.end(s.over)
		return
	}
	t := s.watches.persistent
	if code == zkproto.CodeOK && !w.stopped {
		t[w.node].armed = append(t[w.node].armed, w)
	}
	t.doneArming(w)
	s.disarmPersistent(w.node)
}

// disarmPersistent tells the server to forget the persistent watch on node unless it is
// needed, and to remember the one-shot watches. Called with mu held.
func (s *Session) disarmPersistent(node string) {
	if s.conn == nil || s.over != nil || s.watches.persistent[node] != nil {
		return
	}
	// Any: the types for persistent watches alone are unknown before 3.9.
	m := &zkproto.RemoveWatchesRequest{Path: node, Kind: zkproto.WatchAny}
	s.queue = append(s.queue, newRequest(zkproto.OpRemoveWatches, node, m, nil))
	s.conn.wakeWriter()
	s.rearm(node)
	// The removal also hits what reads in front of it have just registered.
	for _, reqs := range [][]*request{s.conn.pending, s.queue} {
		for _, r := range reqs {
			if r.watch != nil && r.watch.node == node {
				r.rearm = true
			}
		}
	}
}

// rearm registers the one-shot watches on node at the server. Without a connection
// there is no need: the next one restores them. Called with mu held.
func (s *Session) rearm(node string) {
	m := &zkproto.SetWatchesRequest{RelativeZxid: s.lastZxid}
	for kind, list := range map[watchKind]*[]string{watchData: &m.Data, watchExist: &m.Exist, watchChild: &m.Child} {
		if len(s.watches.armed[kind][node]) > 0 {
			*list = []string{node}
		}
	}
	if len(m.Data)+len(m.Exist)+len(m.Child) == 0 || s.conn == nil || s.over != nil {
		return
	}
	s.queue = append(s.queue, newRequest(zkproto.OpSetWatches, "", m, nil))
	s.conn.wakeWriter()
}

// queuePersistent puts r, which adds a persistent watch, into the queue. Called with mu
// held.
func (s *Session) queuePersistent(r *request) {
	w := r.persistent
	w.session = s
	s.watches.persistent.arming(w)
	s.queue = append(s.queue, r)
	if k := (armKey{child: true, node: w.node}); w.mode == WatchPersistentRecursive && s.watches.oneShots(k) {
		// It overwrites the watch for children, which it does not cover.
		m := &zkproto.SetWatchesRequest{RelativeZxid: s.lastZxid, Child: []string{w.node}}
		s.queue = append(s.queue, newRequest(zkproto.OpSetWatches, "", m, nil))
	}
}

// restored tells the persistent watches that r has restored that nobody knows what
// they missed.
func (s *Session) restored(r *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, node := range r.restores {
		if set := s.watches.persistent[node]; set != nil {
			for _, w := range set.armed {
				w.miss()
			}
		}
	}
}
