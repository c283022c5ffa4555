package chaos_test

import (
	"slices"

	"holdfast/zkproto"
)

// The watches of one server, which belong to its connections (DataTree, WatchManager). There are two
// tables, for data and for children. In each, a connection has one mode per path, the latest it
// asked for. Servers before 3.9 do that (ZOOKEEPER-4466), and clients must cope with it.
type watchManager [2]map[string][]watcher // by watchOn and path

type watcher struct {
	conn *clientConn
	mode watchMode
}

type watchMode byte

const (
	watchOnce watchMode = iota
	watchAlways
	watchAllBelow
)

func (m *watchManager) add(on watchOn, path string, c *clientConn, mode watchMode) {
	if m[on] == nil {
		m[on] = make(map[string][]watcher)
	}
	for i := range m[on][path] {
		if w := &m[on][path][i]; w.conn == c {
			w.mode = mode
			return
		}
	}
	m[on][path] = append(m[on][path], watcher{c, mode})
}

// addPersistent is AddWatch.
func (m *watchManager) addPersistent(path string, c *clientConn, mode watchMode) {
	m.add(watchData, path, c, mode)
	if mode == watchAlways {
		m.add(watchChildren, path, c, mode)
	}
}

func (m *watchManager) remove(on watchOn, path string, c *clientConn) bool {
	before := len(m[on][path])
	left := slices.DeleteFunc(m[on][path], func(w watcher) bool { return w.conn == c })
	if len(left) == 0 {
		delete(m[on], path)
	} else {
		m[on][path] = left
	}
	return len(left) < before
}

// forget drops all watches of a connection.
func (m *watchManager) forget(c *clientConn) {
	for on := range m {
		for path := range m[on] {
			m.remove(watchOn(on), path, c)
		}
	}
}

func (m *watchManager) count() (n int) {
	for on := range m {
		for _, ws := range m[on] {
			n += len(ws)
		}
	}
	return n
}

// fire reports the events of one transaction, in their order. It reports a node's deletion to each
// connection only once.
func (m *watchManager) fire(events []refEvent) {
	type deletion struct {
		conn *clientConn
		path string
	}
	var told map[deletion]bool
	for _, e := range events {
		for _, c := range m.heard(e) {
			if e.event.Type == zkproto.EventNodeDeleted {
				d := deletion{c, e.event.Path}
				if told[d] {
					continue
				}
				if told == nil {
					told = make(map[deletion]bool)
				}
				told[d] = true
			}
			c.notify(e.event)
		}
	}
}

// heard returns the connections that get an event, and removes those of its watches that fire once
// (WatchManager.triggerWatch).
func (m *watchManager) heard(e refEvent) []*clientConn {
	var conns []*clientConn
	for at := e.event.Path; len(m[e.kind]) > 0; at, _ = split(at) {
		for _, w := range slices.Clone(m[e.kind][at]) {
			switch {
			case w.mode == watchAllBelow:
				if e.event.Type != zkproto.EventNodeChildrenChanged {
					conns = append(conns, w.conn)
				}
			case at == e.event.Path:
				conns = append(conns, w.conn)
				if w.mode == watchOnce {
					m.remove(e.kind, at, w.conn)
				}
			}
		}
		if at == "/" {
			break
		}
	}
	slices.SortFunc(conns, func(a, b *clientConn) int { return a.number - b.number })
	return slices.Compact(conns)
}

// watch answers requests about watches.
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
		mode := watchAlways
		if m.Mode == zkproto.ModePersistentRecursive {
			mode = watchAllBelow
		}
		s.watches.addPersistent(m.Path, c, mode)
		p.reply(zkproto.CodeOK, &zkproto.ErrorResponse{})
	case zkproto.OpRemoveWatches:
		var m zkproto.RemoveWatchesRequest
		m.Decode(r)
		removed := false
		if m.Kind != zkproto.WatchChildren {
			removed = s.watches.remove(watchData, m.Path, c)
		}
		if m.Kind != zkproto.WatchData {
			removed = s.watches.remove(watchChildren, m.Path, c) || removed
		}
		if !removed {
			p.reply(zkproto.CodeNoWatcher, nil)
			return
		}
		p.reply(zkproto.CodeOK, nil)
	}
}

// restore arms the watches that a client had on another connection, and reports the events that it has
// missed; for persistent watches, none (DataTree.setWatches).
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
			w.add(watchData, path, c, watchOnce)
		}
	}
	for _, path := range m.Exist {
		if d.nodes[path] != nil {
			tell(zkproto.EventNodeCreated, path)
		} else {
			w.add(watchData, path, c, watchOnce)
		}
	}
	for _, path := range m.Child {
		switch n := d.nodes[path]; {
		case n == nil:
			tell(zkproto.EventNodeDeleted, path)
		case n.stat.Pzxid > m.RelativeZxid:
			tell(zkproto.EventNodeChildrenChanged, path)
		default:
			w.add(watchChildren, path, c, watchOnce)
		}
	}
	for _, path := range m.Persistent {
		w.addPersistent(path, c, watchAlways)
	}
	for _, path := range m.PersistentRecursive {
		w.addPersistent(path, c, watchAllBelow)
	}
}
