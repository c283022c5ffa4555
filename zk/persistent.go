package zk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"holdfast/zkproto"
)

// A WatchMode says which changes a [PersistentWatch] reports.
type WatchMode int32

// The modes of persistent watches.
const (
	// WatchPersistent: creation and deletion of the node, changes of its data, and creation and
	// deletion of its children.
	WatchPersistent WatchMode = WatchMode(zkproto.ModePersistent)
	// WatchPersistentRecursive: creation, deletion and changes of data of the node and of
	// everything below it; no EventNodeChildrenChanged.
	WatchPersistentRecursive WatchMode = WatchMode(zkproto.ModePersistentRecursive)
)

// ErrEventsMissed is the Err of an [Event] of a [PersistentWatch] that has missed events. The
// receiver must read again what it watches. The watch goes on.
var ErrEventsMissed = errors.New("events were missed, read again")

// A PersistentWatch delivers the changes of a node, or of a tree, until it is stopped or its
// session is over.
//
// C may skip changes, but always reports the gap. It holds a few hundred events. If its reader
// falls further behind, later events are dropped, and the last event in C has ErrEventsMissed.
// The same event follows every reconnect, because servers do not report the changes in between.
// A reader that keeps a copy of the tree must then read it again. A change may be reported
// twice.
//
// When the session is over, C gets an event with its error (ErrSessionExpired, ErrClosed or
// ErrAuthFailed). If the session moves to a server before 3.6, which cannot restore the watch, the error is
// ErrUnimplemented, and the session goes on. Then, and after Stop, C is closed. A slow reader does not block
// the client.
type PersistentWatch struct {
	C <-chan Event

	c       chan Event // room for persistentBuffer events, ErrEventsMissed, and the end
	path    string     // as the caller gave it
	node    string     // with the chroot
	chroot  string
	mode    WatchMode
	session *Session
	stopped bool // guarded by session.mu
	missed  bool // the latest event put into c has ErrEventsMissed; guarded by session.mu
}

// persistentBuffer is some seconds of a busy tree: a receiver that a loaded machine keeps from running for so long
// misses no event. It takes 100 KB.
const persistentBuffer = 2048

// AddWatch watches a node, which need not exist, or a node and everything below it. A read
// after AddWatch returns data that is not older than the first event. In one session a node has
// one mode at a time; AddWatch refuses another one with ErrBadArguments (servers before 3.9
// would drop the first). One-shot watches on the same node are independent of it.
//
// Needs ZooKeeper 3.6. Older servers answer ErrUnimplemented and close the connection.
func (c *Calls) AddWatch(ctx context.Context, path string, mode WatchMode) (*PersistentWatch, error) {
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

// Stop ends the watch and closes C. If no other watch of this client needs the server's watch,
// the server removes it, too. Stopping a watch twice, or after its end, does nothing.
func (w *PersistentWatch) Stop() {
	w.session.mu.Lock()
	defer w.session.mu.Unlock()
	w.session.stopPersistent(w)
}

// stopPersistent implements PersistentWatch.Stop. mu must be held.
func (s *Session) stopPersistent(w *PersistentWatch) {
	if w.stopped {
		return
	}
	w.stopped = true
	close(w.c)
	s.watches.persistent.remove(w)
	s.disarmPersistent(w.node)
}

// The functions below need session.mu: C has one sender at a time, and is never closed during a
// send. None of them blocks.

// deliver puts ev into C. While an ErrEventsMissed waits in C, it covers ev, too: its receiver
// reads again, and then finds the change.
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

// persistentTable holds the persistent watches, by path with chroot. Those in it are armed at
// the server, or about to be.
type persistentTable map[string]*persistentSet

type persistentSet struct {
	mode   WatchMode
	armed  []*PersistentWatch
	arming int // outstanding requests
}

// conflict returns an error if w cannot be added.
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

// notify delivers an event to the watches that it concerns: those of the node itself, and the
// recursive ones above it.
func (t persistentTable) notify(typ EventType, node string, catchUp bool) {
	if len(t) == 0 {
		return
	}
	for at := node; ; {
		if set := t[at]; set != nil && (at == node || set.mode == WatchPersistentRecursive) &&
			// Servers send the event because of another watch (ZOOKEEPER-4475).
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

// setWatches returns requests that restore the watches on the nodes for which want is true.
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

// end ends all watches that are armed, or were.
func (t persistentTable) end(cause error) {
	for node, set := range t {
		for _, w := range set.armed {
			w.end(cause)
		}
		set.armed = nil
		t.drop(node)
	}
}

// Servers before 3.9 keep one mode per connection and path, for one-shot and persistent watches
// together (ZOOKEEPER-4466): the latest. There a read that registers a watch turns the node's
// persistent watch into a one-shot one, and a removal removes both. So on a node with a
// persistent watch, the client keeps one-shot watches to itself and fires them on the
// persistent watch's events. When the persistent watch ends, the client registers the one-shot
// watches at the server. The rest of this file does this. It does no harm on newer servers.

// orderWatches gets all requests that the writer is about to send, in order. It tracks the
// nodes on which the server will have a persistent watch, and lets reads register their watches
// on the other nodes only. mu must be held.
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

// cover records the persistent watches that r arms. A recursive watch reports nothing about the
// node's children, but overwrites the watch that does. That one must be registered again after
// r. (A later one does no harm: servers keep the watches for children in a table of their own.)
// mu must be held.
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

// armedPersistent adds r's watch to the table if the answer says that the server has it. The
// reader calls it before it reads anything that the server sent later. An error breaks the
// connection.
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
		// Some of those one-shot watches may have relied on this watch, and missed events.
		return fmt.Errorf("the one-shot watches on the node relied on a persistent watch that was refused: %w", code)
	}
	return nil
}

// disarmPersistent removes the persistent watch on node at the server unless it is needed, and
// registers the one-shot watches there. mu must be held.
func (s *Session) disarmPersistent(node string) {
	if s.conn == nil || s.keepsWatches || s.over != nil || s.watches.persistent[node] != nil {
		return
	}
	// The removal also removes the watches that earlier reads have just registered.
	for _, reqs := range [][]*request{s.conn.pending.all(), s.queue} {
		for _, r := range reqs {
			if r.watch != nil && r.watch.node == node {
				r.rearm = true
			}
		}
	}
	// WatchAny, because servers before 3.9 do not know the kinds for persistent watches.
	m := &zkproto.RemoveWatchesRequest{Path: node, Kind: zkproto.WatchAny}
	r := newRequest(zkproto.OpRemoveWatches, node, m, nil)
	r.uncovers = node
	s.queueUpkeep(r)
	s.rearm(node)
}

// rearm registers the one-shot watches on node at the server, and then the persistent one if
// there is one. mu must be held.
func (s *Session) rearm(node string) {
	if s.conn == nil || s.over != nil {
		return // the next connection registers all watches first
	}
	for _, r := range s.watches.registrations(s.watchZxid, node) {
		s.queueUpkeep(r)
	}
}

// queueUpkeep queues a request that no caller waits for. If it is still queued when the next
// connection starts, that connection drops it, because it registers all watches first. There
// must be a connection. mu must be held.
func (s *Session) queueUpkeep(r *request) {
	r.upkeep = true
	if r.op != zkproto.OpRemoveWatches {
		s.registering++
	}
	s.queue = append(s.queue, r)
	s.conn.wakeWriter()
}

// restored reports ErrEventsMissed on the persistent watches that r has restored.
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
