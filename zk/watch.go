package zk

import "holdfast/zkproto"

// An Event tells what happened to a watched node.
type Event struct {
	Type EventType
	Path string // as the caller gave it; of a recursive watch, where it happened
	Err  error  // ErrSessionExpired, ErrClosed or ErrAuthFailed if the watch ended without an event; ErrEventsMissed

	// CatchUp: the event arrived while the server of a new connection reported the events that
	// the session had missed, which come in no order. All other events arrive in the order of
	// the changes, after those of a catch-up. The answer to a request arrives after the events
	// of all changes that it may show.
	CatchUp bool
}

// A Watch is a one-shot watch. C gets exactly one event, unless Stop comes first, and is never
// closed. The event stays in C until it is received.
type Watch struct {
	C <-chan Event

	c       chan Event // buffered for the one event: delivery never blocks the reader
	node    string     // with the chroot
	session *Session
	chroot  uint32 // length of the chroot
	kind    watchKind
	stopped bool // guarded by session.mu
}

// path returns the path as the caller gave it. It is not stored, because there may be many
// watches.
func (w *Watch) path() string {
	if int(w.chroot) == len(w.node) {
		return "/"
	}
	return w.node[w.chroot:]
}

// Stop ends the watch. If no other watch of this client needs the server's watch, the server
// removes it, too. Stopping a watch twice, or after it fired, does nothing.
func (w *Watch) Stop() {
	w.session.mu.Lock()
	defer w.session.mu.Unlock()
	w.session.stopWatch(w)
}

// watchKind is the list of a setWatches request that restores the watch after a reconnect.
type watchKind uint8

const (
	watchData watchKind = iota
	watchExist
	watchChild
)

// watchTable holds the watches that the server is known to have, by kind and path with chroot.
// The session's mutex guards it.
type watchTable struct {
	armed [3]map[string][]*Watch

	// arming counts the outstanding reads that will register a watch, per server-side list
	// (data and exist watches share one there) and path. While there is one, no watch on that
	// path may be removed at the server: the removal is sent after the read, so it would hit
	// the watch that the read registers.
	arming map[armKey]int

	persistent persistentTable
}

type armKey struct {
	child bool
	node  string
}

func (w *Watch) armKey() armKey { return armKey{child: w.kind == watchChild, node: w.node} }

func newWatchTable() watchTable {
	t := watchTable{arming: make(map[armKey]int), persistent: make(persistentTable)}
	for k := range t.armed {
		t.armed[k] = make(map[string][]*Watch)
	}
	return t
}

func (t *watchTable) add(w *Watch) {
	t.armed[w.kind][w.node] = append(t.armed[w.kind][w.node], w)
}

func (t *watchTable) remove(w *Watch) {
	ws := t.armed[w.kind][w.node]
	for i := range ws {
		if ws[i] == w {
			ws = append(ws[:i], ws[i+1:]...)
			break
		}
	}
	if len(ws) == 0 {
		delete(t.armed[w.kind], w.node)
	} else {
		t.armed[w.kind][w.node] = ws
	}
}

// needed reports whether another watch still relies on the server-side watch at k. A persistent
// watch does: servers before 3.9 would remove it, too.
func (t *watchTable) needed(k armKey) bool {
	return t.oneShots(k) || t.persistent[k.node] != nil
}

// oneShots reports whether there are one-shot watches at k, or outstanding reads that will
// register some.
func (t *watchTable) oneShots(k armKey) bool {
	if t.arming[k] > 0 {
		return true
	}
	if k.child {
		return len(t.armed[watchChild][k.node]) > 0
	}
	return len(t.armed[watchData][k.node]) > 0 || len(t.armed[watchExist][k.node]) > 0
}

func (t *watchTable) doneArming(k armKey) {
	if t.arming[k]--; t.arming[k] == 0 {
		delete(t.arming, k)
	}
}

// fire removes and returns the watches that an event ends (ZKWatchManager.materialize).
func (t *watchTable) fire(typ EventType, node string) []*Watch {
	var kinds []watchKind
	switch typ {
	case EventNodeCreated, EventNodeDataChanged:
		kinds = []watchKind{watchData, watchExist}
	case EventNodeChildrenChanged:
		kinds = []watchKind{watchChild}
	case EventNodeDeleted:
		kinds = []watchKind{watchData, watchExist, watchChild}
	}
	var fired []*Watch
	for _, k := range kinds {
		fired = append(fired, t.armed[k][node]...)
		delete(t.armed[k], node)
	}
	return fired
}

// all removes and returns all one-shot watches.
func (t *watchTable) all() []*Watch {
	var ws []*Watch
	for k := range t.armed {
		for _, list := range t.armed[k] {
			ws = append(ws, list...)
		}
	}
	*t = newWatchTable()
	return ws
}

// maxSetWatches bounds the paths in one setWatches request, in bytes, as Apache's client does.
// For a request above jute.maxbuffer the server would drop the connection, again and again
// (ZOOKEEPER-706).
const maxSetWatches = 128 << 10

// registrations returns the requests that register all watches at the server, or those on one
// node. Their order suits servers that keep one mode per path, see orderWatches: the persistent
// watches, which also serve the others, come last.
func (t *watchTable) registrations(zxid int64, only string) []*request {
	wanted := func(node string) bool { return only == "" || node == only }
	lasting := func(node string) bool {
		set := t.persistent[node]
		return wanted(node) && set != nil && (only != "" || len(set.armed) > 0)
	}
	reqs := t.setWatches(zxid, func(k watchKind, node string) bool {
		// A recursive watch overwrites the child watches of its node, so they are sent after
		// it.
		return wanted(node) && !(k == watchChild && lasting(node) && t.persistent[node].mode == WatchPersistentRecursive)
	})
	return append(reqs, t.persistent.setWatches(zxid, lasting)...)
}

// setWatches returns requests that restore the one-shot watches for which want is true.
func (t *watchTable) setWatches(zxid int64, want func(watchKind, string) bool) []*request {
	var msgs []*zkproto.SetWatchesRequest
	size := maxSetWatches
	for k := range t.armed {
		for node := range t.armed[k] {
			if !want(watchKind(k), node) {
				continue
			}
			if size += len(node) + 4; size > maxSetWatches {
				msgs = append(msgs, &zkproto.SetWatchesRequest{RelativeZxid: zxid})
				size = len(node) + 4
			}
			m := msgs[len(msgs)-1]
			switch watchKind(k) {
			case watchData:
				m.Data = append(m.Data, node)
			case watchExist:
				m.Exist = append(m.Exist, node)
			case watchChild:
				m.Child = append(m.Child, node)
			}
		}
	}
	var reqs []*request
	for _, m := range msgs {
		reqs = append(reqs, newRequest(zkproto.OpSetWatches, "", m, nil))
	}
	return reqs
}

// forgetArming removes r from the count of requests that will register a watch. mu must be
// held.
func (s *Session) forgetArming(r *request) {
	if s.over != nil {
		return
	}
	if r.watch != nil {
		s.watches.doneArming(r.watch.armKey())
	}
	if r.persistent != nil {
		s.watches.persistent.doneArming(r.persistent)
		s.disarmPersistent(r.persistent.node)
	}
}

// armed adds r's watch to the table if the answer says that the server has it. The reader calls
// it before it reads anything that the server sent later.
func (s *Session) armed(r *request, code zkproto.Code) {
	w := r.watch
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetArming(r)
	switch {
	case code == zkproto.CodeOK:
	case code == zkproto.CodeNoNode && r.op == zkproto.OpExists:
		w.kind = watchExist
	default:
		return
	}
	switch {
	case s.over != nil:
		w.c <- Event{Type: EventNone, Path: w.path(), Err: s.over}
	case w.stopped:
		s.disarm(w)
	default:
		s.watches.add(w)
		if r.rearm {
			s.rearm(w.node)
		}
	}
}

// stopWatch implements Watch.Stop. mu must be held.
func (s *Session) stopWatch(w *Watch) {
	if w.stopped {
		return
	}
	w.stopped = true
	before := len(s.watches.armed[w.kind][w.node])
	s.watches.remove(w)
	if len(s.watches.armed[w.kind][w.node]) < before {
		s.disarm(w)
	}
}

// disarm removes w's watch at the server if no other watch needs it. Without a connection there
// is nothing to remove. mu must be held.
func (s *Session) disarm(w *Watch) {
	if s.conn == nil || s.over != nil || s.keepsWatches || s.watches.needed(w.armKey()) {
		return
	}
	kind := zkproto.WatchData
	if w.kind == watchChild {
		kind = zkproto.WatchChildren
	}
	m := &zkproto.RemoveWatchesRequest{Path: w.node, Kind: kind}
	s.queueUpkeep(newRequest(zkproto.OpRemoveWatches, w.path(), m, nil))
}
