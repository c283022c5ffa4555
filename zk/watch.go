package zk

import "holdfast/zkproto"

// An Event tells what happened to a watched node.
type Event struct {
	Type EventType
	Path string // as the caller gave it; of a recursive watch, where it happened
	Err  error  // ErrSessionExpired, ErrClosed or ErrAuthFailed if the watch ended without an event; ErrEventsMissed

	// CatchUp: it came while the server of a new connection told what the session had
	// missed, which it does in no order. All other events come in the order in which
	// things happened, those of a catch-up before them; and the answer to a request comes
	// behind the events of all that it may have seen.
	CatchUp bool
}

// A Watch is one one-shot watch. C gets exactly one event, unless Stop comes first, and is
// never closed. The event waits in C for whoever receives it.
type Watch struct {
	C <-chan Event

	c       chan Event // buffered for the one event: delivery never blocks the reader
	node    string     // with the chroot
	session *Session
	chroot  uint32 // its length
	kind    watchKind
	stopped bool // guarded by session.mu
}

// path is as the caller gave it. It is not kept, because there may be many watches.
func (w *Watch) path() string {
	if int(w.chroot) == len(w.node) {
		return "/"
	}
	return w.node[w.chroot:]
}

// Stop gives the watch up. If no other watch of this client needs it, the server is
// told to forget it too. To stop a watch twice, or one that fired, does nothing.
func (w *Watch) Stop() {
	w.session.mu.Lock()
	defer w.session.mu.Unlock()
	w.session.stopWatch(w)
}

// watchKind is the list that a watch must be in to be registered again after a
// reconnect.
type watchKind uint8

const (
	watchData watchKind = iota
	watchExist
	watchChild
)

// watchTable holds the watches that the server is known to have, by kind and path
// with chroot. The session's mutex guards it.
type watchTable struct {
	armed [3]map[string][]*Watch

	// arming counts, per server-side list (data and exist watches share one there)
	// and path, the reads that are on their way to register a watch. While there is
	// one, a watch must not be removed at the server: the removal would overtake
	// nothing, but hit the watch that the read is about to register.
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

// needed reports whether anybody still relies on the server-side watch that w used. A
// persistent watch does: servers before 3.9 would remove it too.
func (t *watchTable) needed(k armKey) bool {
	return t.oneShots(k) || t.persistent[k.node] != nil
}

// oneShots reports whether there are one-shot watches of a kind, or reads on their way
// to register some.
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

// fire takes the watches that an event ends (ZKWatchManager.materialize).
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

// all takes every watch there is.
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

// maxSetWatches bounds the paths in one setWatches request, in bytes, as Apache's
// client does: a request above jute.maxbuffer would make the server drop the
// connection, for ever (ZOOKEEPER-706).
const maxSetWatches = 128 << 10

// registrations are the requests that tell the server of all watches, or of those on
// one node. Their order is that of servers which keep one mode per path, see
// orderWatches: the persistent watches, which do for the others, come last.
func (t *watchTable) registrations(zxid int64, only string) []*request {
	wanted := func(node string) bool { return only == "" || node == only }
	lasting := func(node string) bool {
		set := t.persistent[node]
		return wanted(node) && set != nil && (only != "" || len(set.armed) > 0)
	}
	reqs := t.setWatches(zxid, func(k watchKind, node string) bool {
		// A recursive watch overwrites the child watches of its node: they are sent behind it.
		return wanted(node) && !(k == watchChild && lasting(node) && t.persistent[node].mode == WatchPersistentRecursive)
	})
	return append(reqs, t.persistent.setWatches(zxid, lasting)...)
}

// setWatches restores the one-shot watches for which want is true.
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

// forgetArming takes r off the count of requests that will register a watch. Called
// with mu held.
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

// armed enters r's watch if the answer says that the server has it. It is called by
// the reader before anything that the server sent later is looked at.
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

// stopWatch is called with mu held.
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

// disarm tells the server to forget w's watch if nobody else needs it. Without a
// connection there is nothing to forget. Called with mu held.
func (s *Session) disarm(w *Watch) {
	if s.conn == nil || s.over != nil || s.watches.needed(w.armKey()) {
		return
	}
	kind := zkproto.WatchData
	if w.kind == watchChild {
		kind = zkproto.WatchChildren
	}
	m := &zkproto.RemoveWatchesRequest{Path: w.node, Kind: kind}
	s.queueUpkeep(newRequest(zkproto.OpRemoveWatches, w.path(), m, nil))
}
