package zkserver

import "holdfast/zkproto"

// operate applies one request and stages its answer. Notifications that it causes are
// staged first: a client is to hear of a change before it can see it.
func (s *Server) operate(c *conn, r *request) {
	sess := c.owned.session
	if sess == nil {
		// Its session is over, or has moved to a newer connection. An answer would come
		// from a life that has ended.
		s.stage(c)
		s.answered(c)
		return
	}
	switch {
	case r.op == zkproto.OpAuth:
		s.authenticate(c, r)
		return
	case r.op == zkproto.OpSASL:
		s.sasl(c, r)
		return
	case s.mayNot(c, r):
		s.refuse(c, r, zkproto.CodeSessionClosedRequireSASL)
		return
	}
	sess.touched = s.owner.now
	if r.bad {
		if isWrite(r.op) && r.op != zkproto.OpReconfig { // as Apache's server has it
			s.nextTxn(sess.id)
		}
		s.reply(c, r.xid, s.owner.zxid, zkproto.CodeMarshallingError)
		return
	}
	if s.overLimit(c, r) {
		return
	}
	if looks(r.op) && c.gone.Load() {
		// Nobody will see the answer, and there may be hundreds of large ones behind it: by
		// who asks, reads nothing and comes again.
		s.stage(c)
		s.answered(c)
		return
	}
	if isWrite(r.op) {
		s.write(c, r)
		return
	}
	switch r.op {
	case zkproto.OpPing:
		// With this xid whatever the request had, as Apache's server does.
		s.reply(c, zkproto.XidPing, s.owner.zxid, zkproto.CodeOK)
	case zkproto.OpExists, zkproto.OpGetData, zkproto.OpGetChildren, zkproto.OpGetChildren2:
		s.read(c, r)
	case zkproto.OpGetACL, zkproto.OpGetEphemerals, zkproto.OpGetAllChildrenNumber, zkproto.OpMultiRead, zkproto.OpWhoAmI:
		s.ask(c, r)
	case zkproto.OpSync:
		// One node is never behind; what was written before is waited for by the batch.
		s.replyWith(c, r.xid, zkproto.CodeOK, &r.sync)
	case zkproto.OpSetWatches, zkproto.OpSetWatches2:
		s.owner.tree.SetWatches(c.id, &r.setWatches)
		s.notify()
		if r.more {
			s.stage(c)
			s.answered(c)
		} else {
			s.reply(c, r.xid, s.owner.zxid, zkproto.CodeOK)
		}
	case zkproto.OpAddWatch:
		code := s.owner.tree.AddWatch(c.id, r.addWatch.Path, r.addWatch.Mode)
		s.replyWith(c, r.xid, code, &zkproto.ErrorResponse{})
	case zkproto.OpCheckWatches:
		code := s.owner.tree.CheckWatches(c.id, r.removeWatches.Path, r.removeWatches.Kind)
		s.reply(c, r.xid, s.owner.zxid, code)
	case zkproto.OpRemoveWatches:
		code := s.owner.tree.RemoveWatches(c.id, r.removeWatches.Path, r.removeWatches.Kind)
		s.reply(c, r.xid, s.owner.zxid, code)
	case zkproto.OpCloseSession:
		s.closeSession(c, r.xid)
	default:
		s.reply(c, r.xid, -1, zkproto.CodeUnimplemented)
		s.finish(c)
	}
}

// closeSession ends the session of c, whose own watches fire before the answer.
func (s *Server) closeSession(c *conn, xid int32) {
	sess := c.owned.session
	sess.conn = nil // endSession would end the connection before the answer
	s.cfg.Logger.Debug("zkserver: session closed", "session", hexID(sess.id))
	s.endSession(sess)
	s.reply(c, xid, s.owner.zxid, zkproto.CodeOK)
	s.finish(c)
}

// notify stages the notifications that the tree has for its watchers.
func (s *Server) notify() {
	events := s.owner.tree.TakeEvents()
	s.owner.work += notifyWork * len(events)
	for _, e := range events {
		c := s.owner.watchers[e.Watcher]
		if c == nil {
			continue
		}
		b := s.stage(c)
		start := len(b)
		b = zkproto.BeginFrame(b)
		// The zxid of a notification is -1 before ZooKeeper 3.9; no client reads it.
		b = (&zkproto.ReplyHeader{Xid: zkproto.XidNotification, Zxid: -1}).Append(b)
		b = (&zkproto.WatcherEvent{Type: e.Type, State: zkproto.StateSyncConnected, Path: e.Path}).Append(b)
		c.owned.staged = zkproto.EndFrame(b, start)
		s.owner.notifications++
		c.owned.sent++
		s.weigh(c)
	}
	for _, by := range s.owner.tree.TakeOverrun() {
		if c := s.owner.watchers[by]; c != nil {
			s.refused(LimitNotifications, "remote", c.nc.RemoteAddr())
			s.detach(c)
			c.close()
		}
	}
}

// reply stages a header without a record.
func (s *Server) reply(c *conn, xid int32, zxid int64, code zkproto.Code) {
	b := s.stage(c)
	start := len(b)
	b = (&zkproto.ReplyHeader{Xid: xid, Zxid: zxid, Err: code}).Append(zkproto.BeginFrame(b))
	c.owned.staged = zkproto.EndFrame(b, start)
	s.answered(c)
}

// replyWith stages a header and, if code is CodeOK, a record.
func (s *Server) replyWith(c *conn, xid int32, code zkproto.Code, record interface{ Append([]byte) []byte }) {
	if code != zkproto.CodeOK {
		s.reply(c, xid, s.owner.zxid, code)
		return
	}
	b := s.stage(c)
	start := len(b)
	b = (&zkproto.ReplyHeader{Xid: xid, Zxid: s.owner.zxid}).Append(zkproto.BeginFrame(b))
	c.owned.staged = zkproto.EndFrame(record.Append(b), start)
	if n := len(c.owned.staged) - start; n > zkproto.MaxFrame {
		s.refused(LimitLargeAnswers, "remote", c.nc.RemoteAddr(), "bytes", n)
	}
	s.answered(c)
}

// answered counts a request as done; its slot is free when the batch has been sent.
func (s *Server) answered(c *conn) {
	c.owned.answers++
	c.owned.sent++
	if at := s.owner.arrived; at != 0 {
		s.owner.batch.arrivals = append(s.owner.batch.arrivals, arrival{c, at})
	}
	s.weigh(c)
}
