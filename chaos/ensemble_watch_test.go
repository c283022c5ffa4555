package chaos_test

import (
	"slices"

	"holdfast/zkproto"
)

// A watchManager has the watches of one server, which are its connections' (WatchManager,
// DataTree.setWatches).
type watchManager struct {
	once       [2]map[string][]*clientConn // by watchOn and path; they fire once
	persistent map[string][]persistent     // by path
}

type persistent struct {
	conn      *clientConn
	recursive bool
}

func (m *watchManager) add(on watchOn, path string, c *clientConn) {
	if m.once[on] == nil {
		m.once[on] = make(map[string][]*clientConn)
	}
	if !slices.Contains(m.once[on][path], c) {
		m.once[on][path] = append(m.once[on][path], c)
	}
}

func (m *watchManager) remove(on watchOn, path string, c *clientConn) bool {
	i := slices.Index(m.once[on][path], c)
	if i < 0 {
		return false
	}
	m.once[on][path] = slices.Delete(m.once[on][path], i, i+1)
	if len(m.once[on][path]) == 0 {
		delete(m.once[on], path)
	}
	return true
}

func (m *watchManager) addPersistent(path string, c *clientConn, recursive bool) {
	m.removePersistent(path, c)
	if m.persistent == nil {
		m.persistent = make(map[string][]persistent)
	}
	m.persistent[path] = append(m.persistent[path], persistent{c, recursive})
}

func (m *watchManager) removePersistent(path string, c *clientConn) bool {
	before := len(m.persistent[path])
	left := slices.DeleteFunc(m.persistent[path], func(p persistent) bool { return p.conn == c })
	switch {
	case len(left) == 0:
		delete(m.persistent, path)
	default:
		m.persistent[path] = left
	}
	return len(left) < before
}

// forget drops all of a connection's.
func (m *watchManager) forget(c *clientConn) {
	for on := range m.once {
		for path := range m.once[on] {
			m.remove(watchOn(on), path, c)
		}
	}
	for path := range m.persistent {
		m.removePersistent(path, c)
	}
}

func (m *watchManager) count() (n int) {
	for on := range m.once {
		for _, cs := range m.once[on] {
			n += len(cs)
		}
	}
	for _, ps := range m.persistent {
		n += len(ps)
	}
	return n
}

// fire tells of the events of one transaction, in their order. Nobody is told twice of one.
func (m *watchManager) fire(events []refEvent) {
	type told struct {
		conn *clientConn
		ev   zkproto.WatcherEvent
	}
	var before map[told]bool
	for _, e := range events {
		for _, c := range m.heard(e) {
			t := told{c, e.event}
			if before[t] {
				continue
			}
			if before == nil {
				before = make(map[told]bool)
			}
			before[t] = true
			c.notify(e.event)
		}
	}
}

// heard are the connections that hear of an event; its watches that fire once are gone.
func (m *watchManager) heard(e refEvent) []*clientConn {
	path := e.event.Path
	conns := m.once[e.kind][path]
	delete(m.once[e.kind], path)
	conns = slices.Clone(conns)
	for at := path; len(m.persistent) > 0; at, _ = split(at) {
		for _, p := range m.persistent[at] {
			// A recursive watch hears of nodes and not of lists of children.
			if at == path && !p.recursive || p.recursive && e.event.Type != zkproto.EventNodeChildrenChanged {
				conns = append(conns, p.conn)
			}
		}
		if at == "/" {
			break
		}
	}
	slices.SortFunc(conns, func(a, b *clientConn) int { return a.number - b.number })
	return slices.Compact(conns)
}

// watch answers requests that are about watches.
func (p *pending) watch(r *zkproto.Reader) {
	s, c := p.conn.s, p.conn
	switch p.op {
	case zkproto.OpSetWatches, zkproto.OpSetWatches2:
		var m zkproto.SetWatches2Request
		if p.op == zkproto.OpSetWatches {
			m.SetWatchesRequest.Decode(r)
		} else {
			m.Decode(r)
		}
		c.restore(&m)
		p.reply(zkproto.CodeOK, nil)
	case zkproto.OpAddWatch:
		var m zkproto.AddWatchRequest
		m.Decode(r)
		s.watches.addPersistent(m.Path, c, m.Mode == zkproto.ModePersistentRecursive)
		p.reply(zkproto.CodeOK, &zkproto.ErrorResponse{})
	case zkproto.OpRemoveWatches:
		var m zkproto.RemoveWatchesRequest
		m.Decode(r)
		removed := false
		if m.Kind == zkproto.WatchData || m.Kind == zkproto.WatchAny {
			removed = s.watches.remove(watchData, m.Path, c) || removed
		}
		if m.Kind == zkproto.WatchChildren || m.Kind == zkproto.WatchAny {
			removed = s.watches.remove(watchChildren, m.Path, c) || removed
		}
		if m.Kind == zkproto.WatchAny {
			removed = s.watches.removePersistent(m.Path, c) || removed
		}
		if !removed {
			p.reply(zkproto.CodeNoWatcher, nil)
			return
		}
		p.reply(zkproto.CodeOK, nil)
	}
}

// restore arms the watches that a client had on another connection, and tells it what it has
// missed.
func (c *clientConn) restore(m *zkproto.SetWatches2Request) {
	d, w := c.s.data, &c.s.watches
	tell := func(t zkproto.EventType, path string) {
		c.notify(zkproto.WatcherEvent{Type: t, State: zkproto.StateSyncConnected, Path: path})
	}
	for _, path := range m.Data {
		switch n := d.nodes[path]; {
		case n == nil:
			tell(zkproto.EventNodeDeleted, path)
		case n.stat.Mzxid > m.RelativeZxid:
			tell(zkproto.EventNodeDataChanged, path)
		default:
			w.add(watchData, path, c)
		}
	}
	for _, path := range m.Exist {
		if d.nodes[path] != nil {
			tell(zkproto.EventNodeCreated, path)
		} else {
			w.add(watchData, path, c)
		}
	}
	for _, path := range m.Child {
		switch n := d.nodes[path]; {
		case n == nil:
			tell(zkproto.EventNodeDeleted, path)
		case n.stat.Pzxid > m.RelativeZxid:
			tell(zkproto.EventNodeChildrenChanged, path)
		default:
			w.add(watchChildren, path, c)
		}
	}
	for _, path := range m.Persistent {
		w.addPersistent(path, c, false)
	}
	for _, path := range m.PersistentRecursive {
		w.addPersistent(path, c, true)
	}
}
