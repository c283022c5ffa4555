package chaos_test

import (
	"bytes"
	"io"
	"net"

	"holdfast/zkproto"
)

// A clientConn is one connection of a client to one server.
type clientConn struct {
	s       *server
	nc      net.Conn
	number  int   // counts all connections, in the order of their start
	session int64 // 0 until the client has named it
	timeout int32
	begun   bool // the first frame has arrived
	ready   bool // the session is attached
	leaving bool // the client has closed its session
	short   bool // the client's connect request lacked the last byte, so the answer lacks it too
}

// A pending request waits for a commit, or for another request of its session that does.
type pending struct {
	conn    *clientConn // nil: a connection of another server
	session int64
	xid     int32
	op      zkproto.Op
	body    []byte
}

// accept takes a connection. The goroutine that reads the connection ends with it.
func (e *ensemble) accept(s *server, nc net.Conn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !s.up {
		return false
	}
	e.conns++
	c := &clientConn{s: s, nc: nc, number: e.conns}
	s.clients[c] = struct{}{}
	go c.read()
	return true
}

func (c *clientConn) read() {
	e := c.s.e
	for {
		frame, err := zkproto.ReadFrame(c.nc, nil, zkproto.MaxFrame)
		e.mu.Lock()
		c.s.handle(func() {
			switch _, open := c.s.clients[c]; {
			case !open:
			case err != nil:
				c.close()
			case !c.begun:
				c.begun = true
				c.connect(frame)
			default:
				c.request(frame)
			}
		})
		e.mu.Unlock()
		if err != nil {
			c.nc.Close()
			return
		}
	}
}

// close ends the connection. Its watches end too; writes in flight continue.
func (c *clientConn) close() {
	s := c.s
	delete(s.clients, c)
	if s.attached[c.session] == c {
		delete(s.attached, c.session)
	}
	s.watches.forget(c)
	c.nc.Close()
}

// drop closes the connection of a session that has ended. Queued replies may be lost. Then a
// client that watches its own node sees the end of the connection, but no event of the
// deletion (in half of the runs on 3.8.0).
func (c *clientConn) drop() {
	if nc, ok := c.nc.(*end); ok && !c.leaving && c.s.rng.IntN(2) == 0 {
		nc.out.finish(io.EOF, true)
	}
	c.close()
}

func (c *clientConn) write(frame []byte) { c.nc.Write(zkproto.EndFrame(frame, 0)) }

// connect is the handshake (ZooKeeperServer.processConnectRequest).
func (c *clientConn) connect(frame []byte) {
	s, e := c.s, c.s.e
	var req zkproto.ConnectRequest
	r := zkproto.NewReader(frame)
	req.Decode(r)
	switch {
	case r.Complete() != nil || !s.serving:
		c.close()
		return
	case req.LastZxidSeen > s.data.zxid:
		e.refused++
		c.close()
		return
	}
	tick := int32(e.tick.Milliseconds())
	c.short = !req.HasReadOnly
	c.timeout = min(max(req.Timeout, 2*tick), 20*tick)
	if req.SessionID == 0 {
		c.session = int64(s.id)<<56 | s.rng.Int64N(1<<56)
		passwd := make([]byte, 16)
		for i := range passwd {
			passwd[i] = byte(s.rng.Uint32())
		}
		e.passwds[c.session] = passwd
		s.await(&pending{conn: c, session: c.session, op: opCreateSession})
		return
	}
	c.session = req.SessionID
	if old := s.attached[c.session]; old != nil { // before the password check, as in Apache's server
		old.close()
	}
	if passwd := e.passwds[c.session]; passwd == nil || !bytes.Equal(passwd, req.Passwd) {
		c.attach(false)
		return
	}
	if l := s.leading; l != nil {
		c.attach(l.attach(c.session, c.timeout, s))
		return
	}
	s.asking[c.session] = c
	up, session, timeout := s.toLead, c.session, c.timeout
	up.toLeader(func() { // REVALIDATE
		valid := up.leader.leading.attach(session, timeout, up)
		up.toLearner(func() {
			if c := s.asking[session]; c != nil {
				delete(s.asking, session)
				c.attach(valid)
			}
		})
	})
}

// attach answers the handshake (ZooKeeperServer.finishSessionInit).
func (c *clientConn) attach(valid bool) {
	s := c.s
	if _, open := s.clients[c]; !open {
		return
	}
	resp := zkproto.ConnectResponse{Passwd: make([]byte, 16), HasReadOnly: !c.short}
	if valid {
		resp.Timeout, resp.SessionID, resp.Passwd = c.timeout, c.session, s.e.passwds[c.session]
		c.ready = true
		s.attached[c.session] = c
	}
	c.write(resp.Append(zkproto.BeginFrame(nil)))
	if !valid {
		c.close()
	}
}

// heard records that a session has sent something. The leader knows at once whether the session
// lives. A learner assumes so, and tells the leader in its next answer to a ping.
func (s *server) heard(session int64, timeout int32) bool {
	if l := s.leading; l != nil {
		return l.touch(session, timeout)
	}
	s.touched[session] = timeout
	return true
}

// request handles one frame after the handshake.
func (c *clientConn) request(frame []byte) {
	s := c.s
	r := zkproto.NewReader(frame)
	var h zkproto.RequestHeader
	h.Decode(r)
	if r.Err() != nil || !c.ready {
		c.close()
		return
	}
	p := &pending{conn: c, session: c.session, xid: h.Xid, op: h.Op, body: r.Rest()}
	switch {
	case h.Op == zkproto.OpAuth: // it touches nothing and waits for nothing
		p.reply(zkproto.CodeOK, nil)
	case !s.heard(c.session, c.timeout): // dropped without an answer (submitRequestNow)
	case p.commits():
		s.await(p)
	case len(s.pending[p.session]) > 0:
		s.pending[p.session] = append(s.pending[p.session], p)
	default:
		p.read()
	}
}

// commits reports whether the request waits for the leader. A sync does, unless the server is the
// leader.
func (p *pending) commits() bool {
	switch p.op {
	case zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpCreateTTL, zkproto.OpDelete,
		zkproto.OpSetData, zkproto.OpSetACL, zkproto.OpMulti, zkproto.OpCloseSession:
		return true
	case zkproto.OpSync:
		return p.conn.s.leading == nil
	}
	return false
}

// await forwards a write to the leader, and holds back later requests of its session
// (CommitProcessor).
func (s *server) await(p *pending) {
	p.conn.leaving = p.conn.leaving || p.op == zkproto.OpCloseSession
	t := &txn{session: p.session, xid: p.xid, op: p.op, timeout: p.conn.timeout}
	if p.op != opCreateSession && p.op != zkproto.OpSync && p.op != zkproto.OpCloseSession {
		var err error
		if t.ops, err = p.decodeWrite(); err != nil {
			p.conn.close()
			return
		}
	}
	if l := s.leading; l != nil {
		l.submit(t, s, p)
		return
	}
	s.pending[p.session] = append(s.pending[p.session], p)
	s.writes = append(s.writes, p)
	up := s.toLead
	if p.op != zkproto.OpSync {
		up.toLeader(func() { up.leader.leading.submit(t, up, &pending{op: t.op}) }) // REQUEST
		return
	}
	s.syncs = append(s.syncs, p)
	up.toLeader(func() { // Leader.processSync: once all proposals are committed
		l := up.leader.leading
		answer := func() {
			up.toLearner(func() {
				t.xid, s.syncs = s.syncs[0].xid, s.syncs[1:]
				s.answer(t, nil)
			})
		}
		if up.leader.committed == len(up.leader.log) {
			answer()
			return
		}
		l.waiting[len(up.leader.log)] = append(l.waiting[len(up.leader.log)], answer)
	})
}

// answer releases the requests that wait for this commit. The leader has all writes in its queue,
// in the order of their commits. A learner has the writes of its own clients. It checks whether
// the first of them has the session and number of the commit, as if a session numbered its
// requests over all its connections, even to other servers (CommitProcessor.run).
func (s *server) answer(t *txn, done []refDone) {
	var p *pending
	if l := s.leading; l != nil {
		p = l.asked[t]
		delete(l.asked, t)
	} else if len(s.writes) > 0 && s.writes[0].session == t.session && s.writes[0].xid == t.xid {
		p = s.writes[0]
		s.writes = s.writes[1:]
	}
	if p == nil {
		return
	}
	queue := s.pending[t.session]
	if len(queue) == 0 || queue[0] != p {
		panic("a write that is not the first of its session has committed")
	}
	queue = queue[1:]
	if p.conn != nil {
		p.committed(t, done)
	}
	for len(queue) > 0 && queue[0].conn != nil && !queue[0].commits() {
		p := queue[0]
		queue = queue[1:]
		p.read()
	}
	if len(queue) == 0 {
		delete(s.pending, t.session)
	} else {
		s.pending[t.session] = queue
	}
}

// reply answers p, unless its connection is closed.
func (p *pending) reply(code zkproto.Code, body interface{ Append([]byte) []byte }) {
	if _, open := p.conn.s.clients[p.conn]; !open {
		return
	}
	h := zkproto.ReplyHeader{Xid: p.xid, Zxid: p.conn.s.data.zxid, Err: code}
	if p.op == zkproto.OpAuth {
		h.Zxid = 0
	}
	b := h.Append(zkproto.BeginFrame(nil))
	if code == zkproto.CodeOK && body != nil {
		b = body.Append(b)
	}
	p.conn.write(b)
}

// notify sends an event.
func (c *clientConn) notify(ev zkproto.WatcherEvent) {
	h := zkproto.ReplyHeader{Xid: zkproto.XidNotification, Zxid: -1}
	c.write(ev.Append(h.Append(zkproto.BeginFrame(nil))))
}
